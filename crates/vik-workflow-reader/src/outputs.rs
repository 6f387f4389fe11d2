//! `outputs`: the outputs of a stage, and the commands that carry them out.

use std::collections::{BTreeMap, BTreeSet};

use schemars::{Schema, SchemaGenerator};
use vik_core::ids::AgentName;
use vik_core::outputs::credentials::is_credential;
use vik_core::outputs::{AllowList, MAX_ALLOW, MAX_OUTPUTS, OutputKind, OutputPolicy, OutputRule};
use vik_core::workflow::{AgentProfile, McpServer, Permission, SandboxPolicy, SecretSource, Stage};
use vik_yaml::{Diagnostic, Node, join};

use super::check::Check;
use super::decode::{Cx, Decode, ISSUES};
use super::section::section;
use super::text::quoted;
use super::values::{EnvNames, Text, Whole, globs, globs_schema};

type Max = Whole<u32, 1, { MAX_OUTPUTS as u64 }>;

section! {
    /// The outputs that agents of this stage may request. With this section, agents get no
    /// credentials of a tracker or git remote: they write requests to a file, which Vik checks and
    /// carries out with these commands.
    struct Outputs: strict;
    /// A comment on the issue.
    "comment" comment: optional Plain;
    /// A label for the issue.
    "label" label: optional Choice;
    /// A pull request with the commits in the workspace.
    "pull_request" pull_request: optional Choice;
    /// A new issue.
    "issue" issue: optional Plain;
    /// Another state for the issue. It is carried out after all others.
    "state" state: optional Choice;
    /// Names of secrets that are passed to these commands. Default with `issues.tracker`: those of
    /// `issues.pull`.
    "secrets" secrets: defaults EnvNames = Vec::new();
    instead {
        "comments" => "did you mean `comment`?",
        "labels" => "did you mean `label`?",
        "states" => "did you mean `state`?",
        "pr" | "merge_request" => "did you mean `pull_request`?",
        "issues" => "did you mean `issue`?",
    }
}

section! {
    /// One kind of output.
    struct Plain: strict;
    /// The maximum number in one run, over all of its attempts.
    "max" max: defaults Max = 1;
    /// The shell command that carries out the output; a template in which `output` is also defined.
    /// It runs in the folder of the workflow file. Required without `issues.tracker`.
    "run" run: optional Text;
    /// A shell command that checks whether the output was carried out: exit code 0 if it was, 1 if
    /// not. It runs after `run`, and also before it if an earlier try may have succeeded.
    "check" check: optional Text;
    /// Whether a person must approve the output first.
    "approve" approve: defaults bool = false;
    instead {
        "allow" => "this kind of output has no list of allowed values",
        "command" => "did you mean `run`?",
        "count" | "limit" => "did you mean `max`?",
        "verify" => "did you mean `check`?",
    }
}

section! {
    /// One kind of output with a list of permitted values.
    struct Choice: strict;
    /// The maximum number in one run, over all of its attempts.
    "max" max: defaults Max = 1;
    /// The permitted labels, states or, for a pull request, base branches: globs in order, `!`
    /// excludes. Required for `label` and `state`; without it a pull request cannot name a branch.
    "allow" allow: optional Allowed;
    /// The shell command that carries out the output; a template in which `output` is also defined.
    /// It runs in the folder of the workflow file. Required without `issues.tracker`.
    "run" run: optional Text;
    /// A shell command that checks whether the output was carried out: exit code 0 if it was, 1 if
    /// not. It runs after `run`, and also before it if an earlier try may have succeeded.
    "check" check: optional Text;
    /// Whether a person must approve the output first.
    "approve" approve: defaults bool = false;
    instead {
        "allowed" | "base" => "did you mean `allow`?",
        "command" => "did you mean `run`?",
        "count" | "limit" => "did you mean `max`?",
        "verify" => "did you mean `check`?",
    }
}

/// The globs of an allow-list.
pub(crate) struct Allowed;

impl Decode for Allowed {
    type Value = AllowList;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<AllowList> {
        let example = "[needs-review, area/*]";
        let globs = globs(node, cx, example, |glob| {
            let problem = |error| format!("invalid glob {}: {error}", quoted(glob));
            let checked = AllowList::new(vec![glob.to_owned()]).map(drop);
            checked.map_err(|error| (problem(error), format!("write it as in `{example}`")))
        })?;
        match AllowList::new(globs) {
            Ok(list) => Some(list),
            Err(error) => cx.refuse(
                cx.error("empty_value", node, error.to_string())
                    .hint("omit this kind of output to forbid it"),
            ),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        globs_schema(MAX_ALLOW)
    }
}

impl From<Plain> for Choice {
    fn from(keys: Plain) -> Self {
        Self {
            max: keys.max,
            allow: None,
            run: keys.run,
            check: keys.check,
            approve: keys.approve,
        }
    }
}

impl Check<'_> {
    /// Builds the outputs of a stage with these states; `path` is their path. Missing parts are
    /// reported.
    pub(super) fn outputs(
        &mut self,
        path: &str,
        outputs: Option<Outputs>,
        states: &[String],
    ) -> Option<OutputPolicy> {
        let outputs = outputs?;
        let kinds: [(OutputKind, Option<Choice>); 5] = [
            (OutputKind::Comment, outputs.comment.map(Into::into)),
            (OutputKind::Label, outputs.label),
            (OutputKind::PullRequest, outputs.pull_request),
            (OutputKind::Issue, outputs.issue.map(Into::into)),
            (OutputKind::State, outputs.state),
        ];
        let mut rules = BTreeMap::new();
        for (kind, keys) in kinds {
            let Some(keys) = keys else { continue };
            let at = join(path, kind.as_str());
            let must_choose = matches!(kind, OutputKind::Label | OutputKind::State);
            if must_choose && keys.allow.is_none() && self.places.is_absent(&join(&at, "allow")) {
                let message = format!("`{kind}` needs `allow`, the list of permitted values");
                self.report_at_key(
                    Diagnostic::error("missing_key", join(&at, "allow"), message)
                        .hint("add globs, such as `allow: [needs-review, area/*]`"),
                );
            }
            rules.extend(self.output_rule(kind, &at, keys, states).map(|rule| (kind, rule)));
        }
        let mut secrets = outputs.secrets;
        if let Some(tracker) = &self.tracker
            && self.places.is_absent(&join(path, "secrets"))
        {
            secrets.clone_from(&tracker.secrets);
        }
        Some(OutputPolicy { rules, secrets })
    }

    /// Builds one kind of output, with the command of the tracker unless it has its own.
    fn output_rule(
        &mut self,
        kind: OutputKind,
        at: &str,
        keys: Choice,
        states: &[String],
    ) -> Option<OutputRule> {
        let is_keyed = keys.run.is_none();
        let (push, run) = match (keys.run, &self.tracker) {
            (Some(run), _) => (None, run),
            (None, Some(tracker)) => {
                let commands = (tracker.push(kind), tracker.output(states));
                if keys.check.is_some() {
                    let message =
                        "`check` needs `run`: the tracker carries out the output, and needs no check";
                    let diagnostic = Diagnostic::error("tracker_command", join(at, "check"), message);
                    self.report_at_key(diagnostic.hint("remove it, or add `run`"));
                }
                commands
            }
            // The tracker that carries it out is in `issues`, under another name.
            (None, None) if self.sink.has_misspelled(ISSUES) => return None,
            (None, None) => {
                let hint = "set it, or name a tracker that carries out outputs: `issues: {tracker: github}`";
                self.missing(&join(at, "run"), hint);
                return None;
            }
        };
        Some(OutputRule {
            max: keys.max,
            allow: keys.allow,
            push,
            run,
            check: keys.check,
            is_keyed,
            approve: keys.approve,
        })
    }

    /// Checks that stages with outputs keep credentials of trackers and git remotes from their
    /// agents.
    pub(super) fn output_isolation<'w>(
        &mut self,
        agents: impl Fn(&AgentName) -> Option<&'w AgentProfile>,
        stages: impl Iterator<Item = &'w Stage>,
        (secrets, mcp): (&BTreeMap<String, SecretSource>, &BTreeMap<String, McpServer>),
        of_tracker: &[&[String]],
    ) {
        let mut reported = BTreeSet::new();
        for stage in stages {
            let (Some(outputs), Some(profile)) = (&stage.outputs, agents(&stage.agent)) else {
                continue;
            };
            self.output_sandbox(stage, profile);
            self.output_tools(stage, profile);
            let of_commands: BTreeSet<&String> = of_tracker
                .iter()
                .copied()
                .flatten()
                .chain(&outputs.secrets)
                .collect();
            let named = |name: &String| is_credential(name).then(|| "is the name of a credential".to_owned());
            let secret = |name: &String| match secrets.get(name) {
                Some(SecretSource::Env(variable)) if is_credential(variable) => {
                    Some(format!("comes from {}, a credential", quoted(variable)))
                }
                _ if of_commands.contains(name) => Some("gives access to the tracker".to_owned()),
                _ => named(name),
            };
            let agent = join("agents", stage.agent.as_str());
            let of_servers = stage
                .mcp_names(profile)
                .iter()
                .filter_map(|name| mcp.get_key_value(name));
            // The agent gets no secret of a server with a sandbox of its own.
            let of_servers = of_servers.filter(|(_, settings)| !settings.has_own_sandbox());
            let of_servers = of_servers.flat_map(|(server, settings)| {
                let listed = settings.secrets.iter().enumerate();
                listed.map(move |(at, name)| (format!("mcp.{server}.secrets.{at}"), name))
            });
            let found: Vec<_> =
                (profile.env.keys())
                    .filter_map(|name| Some((join(&agent, &join("env", name)), name, named(name)?)))
                    .chain((profile.env_pass.iter().enumerate()).filter_map(|(at, name)| {
                        Some((
                            format!("{agent}.env_pass.{at}"),
                            name,
                            named(name).or_else(|| secret(name))?,
                        ))
                    }))
                    .chain((profile.secrets.iter().enumerate()).filter_map(|(at, name)| {
                        Some((format!("{agent}.secrets.{at}"), name, secret(name)?))
                    }))
                    .chain(of_servers.filter_map(|(path, name)| Some((path, name, secret(name)?))))
                    .collect();
            for (path, name, why) in found {
                if reported.insert(path.clone()) {
                    let message = format!(
                        "the agent of the stage {} with `outputs` cannot have {}: it {why}",
                        quoted(stage.name.as_str()),
                        quoted(name)
                    );
                    self.report(
                        Diagnostic::error("output_credential", path, message)
                            .hint("pass secrets to the commands of `outputs` with `outputs.secrets`, or use another agent in this stage"),
                    );
                }
            }
        }
    }

    /// Warns if the profile leaves the agent without a tool that writes files.
    fn output_tools(&mut self, stage: &Stage, profile: &AgentProfile) {
        if !profile.runtime.can_write_when_read_only() && profile.permission == Permission::ReadOnly {
            let message = format!(
                "the agent {} cannot write outputs: `permission: read-only` gives it no tool that writes",
                quoted(stage.agent.as_str())
            );
            let path = format!("issue.stages.{}.outputs", stage.name);
            self.report_at_key(Diagnostic::warning("output_permission", path, message).hint(
                "remove `permission` and set `sandbox: {files: read-only}` in the stage, which also protects the workspace",
            ));
        }
    }

    /// Checks the sandbox: without one an agent can read the user's credentials.
    fn output_sandbox(&mut self, stage: &Stage, profile: &AgentProfile) {
        let message = match SandboxPolicy::of(profile, stage) {
            None => {
                "`outputs` require a sandbox: with `sandbox: off` the agent can read the credentials of this user"
            }
            Some(policy) if policy.unix_sockets => {
                "`outputs` do not permit `unix_sockets`: they give access to ssh-agent and Docker"
            }
            Some(_) => return,
        };
        let path = format!("issue.stages.{}.outputs", stage.name);
        self.report_at_key(
            Diagnostic::error("output_sandbox", path, message)
                .hint("set `sandbox: on` in the stage, or `sandbox: {unix_sockets: false}`"),
        );
    }
}
