//! `secrets`: sources of secret values, and who uses them.

use std::collections::{BTreeMap, BTreeSet};

use vik_core::workflow::SecretSource;
use vik_yaml::{Diagnostic, join};

use super::check::Check;
use super::engine;
use super::file;
use super::section::section;
use super::text::{known_names, quoted};
use super::values::{EnvName, PathText, Text};

section! {
    /// The source of one secret. Exactly one of `env`, `file` and `command`.
    struct Secret: strict;
    /// The environment variable of the daemon that contains the secret. Vik removes the variable
    /// from the environment of every process that does not list the secret.
    "env" env: optional EnvName;
    /// The file that contains the secret, relative to the workflow file. One trailing line break is
    /// removed.
    "file" file: optional PathText;
    /// A shell command that prints the secret. It runs in the folder of the workflow file for at
    /// most 30 seconds. One trailing line break is removed.
    "command" command: optional Text;
    instead {
        "value" => "a workflow file never contains secrets: use `env`, `file` or `command`",
        "var" | "variable" => "did you mean `env`?",
        "path" => "did you mean `file`?",
        "cmd" | "run" | "exec" => "did you mean `command`?",
    }
}

/// Variables that no secret may set, beside those with the prefix `VIK_`.
const TAKEN: [&str; 4] = ["PATH", "HOME", "PWD", "IFS"];

impl Check<'_> {
    /// Builds the secrets; `None` if one is invalid, which was reported.
    pub(super) fn secrets(
        &mut self,
        secrets: Option<Vec<(String, Secret)>>,
        listed: &Listed,
    ) -> Option<BTreeMap<String, SecretSource>> {
        let secrets = secrets.unwrap_or_default();
        let names: Vec<String> = secrets.iter().map(|(name, _)| name.clone()).collect();
        self.known(&names, listed);
        let lowered: Vec<_> = secrets
            .into_iter()
            .map(|(name, secret)| self.secret(&name, secret).map(|source| (name, source)))
            .collect();
        lowered.into_iter().collect()
    }

    fn secret(&mut self, name: &str, secret: Secret) -> Option<SecretSource> {
        let path = join("secrets", name);
        let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name = name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
        if !is_name || TAKEN.contains(&name) || name.starts_with("VIK_") {
            let message = format!("invalid secret name {}", quoted(name));
            self.report_at_key(Diagnostic::error("bad_secret", path.clone(), message).hint(
                "the name is also the name of its environment variable: use letters, digits and `_`, no digit at the \
                 start, and no variable that a shell or Vik needs",
            ));
        }
        let written = ["env", "file", "command"]
            .into_iter()
            .filter(|key| !self.places.is_absent(&join(&path, key)))
            .count();
        if written != 1 {
            if self.places.is_map(&path) {
                let message = "a secret needs exactly one of `env`, `file` and `command`";
                self.report_at_key(Diagnostic::error("bad_secret", path, message).hint(
                    "write `env: VARIABLE`, `file: PATH`, or `command: …` with a command that prints it",
                ));
            }
            return None;
        }
        let env = secret.env.map(SecretSource::Env);
        let file = secret.file.map(SecretSource::File);
        let command = secret.command.map(SecretSource::Command);
        env.or(file).or(command)
    }

    /// Checks that listed secrets are defined, and that each secret is listed somewhere.
    fn known(&mut self, names: &[String], listed: &Listed) {
        for (path, name) in listed.0.iter().filter(|(_, name)| !names.contains(name)) {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            let hint = known_names(name, &known).unwrap_or_else(|| "define secrets in `secrets`".to_owned());
            let message = format!("unknown secret {}", quoted(name));
            self.report(Diagnostic::error("unknown_secret", path.clone(), message).hint(hint));
        }
        let used: BTreeSet<&String> = listed.0.iter().map(|(_, name)| name).collect();
        for name in names.iter().filter(|name| !used.contains(name)) {
            self.report_at_key(
                Diagnostic::warning(
                    "unused_secret",
                    join("secrets", name),
                    format!("the secret {} is not used", quoted(name)),
                )
                .hint(format!(
                    "add `secrets: [{name}]` to an agent, `hooks`, `outputs`, `issues.pull`, \
                     `issues.show` or a server in `mcp`"
                )),
            );
        }
    }
}

/// The uses of secrets: the path of each, and the name of the secret.
pub(super) struct Listed(Vec<(String, String)>);

impl Listed {
    pub(super) fn of(file: &file::File) -> Self {
        let mut listed = vec![
            ("issues.pull.secrets".to_owned(), &file.issues.pull.secrets),
            ("issues.show.secrets".to_owned(), &file.issues.show.secrets),
            ("issue.hooks.secrets".to_owned(), &file.issue.hooks.secrets),
        ];
        let agents = file.agents.iter().flatten();
        listed.extend(agents.map(|(name, agent)| (join(&join("agents", name), "secrets"), &agent.secrets)));
        let servers = file.mcp.iter().flatten();
        listed.extend(servers.map(|(name, server)| (join(&join("mcp", name), "secrets"), &server.secrets)));
        let stages = file.issue.stages.iter().flatten();
        listed.extend(stages.map(|(name, stage)| {
            (
                join(&join("issue.stages", name), "hooks.secrets"),
                &stage.hooks.secrets,
            )
        }));
        let stages = file.issue.stages.iter().flatten();
        listed.extend(stages.filter_map(|(name, stage)| {
            let path = join(&join("issue.stages", name), "outputs.secrets");
            Some((path, &stage.outputs.as_ref()?.secrets))
        }));
        let in_lists = listed.into_iter().flat_map(|(path, names)| {
            let names = names.iter().enumerate();
            names.map(move |(index, name)| (format!("{path}.{index}"), name.clone()))
        });
        Self(in_lists.chain(engine::secrets(file)).collect())
    }
}
