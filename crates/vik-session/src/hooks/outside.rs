//! Finds hooks that run git, or a program of the workspace, outside of the sandbox after an agent
//! has worked there.
//!
//! The scripts are parsed roughly like a shell does: a part that is not understood counts as a
//! command in the workspace. A program in a variable, or one of the author's own programs that runs
//! git, is not found.

mod shell_commands;

use vik_core::workflow::{PromptSource, Workflow};

use shell_commands::{ScriptPart, commands};

/// Programs that run code of a repository, or programs that its settings name.
const RUNNERS: &[&str] = &[
    "ansible-playbook",
    "bazel",
    "bun",
    "bundle",
    "bunx",
    "cabal",
    "cargo",
    "cmake",
    "composer",
    "ctest",
    "deno",
    "direnv",
    "docker",
    "docker-compose",
    "dotnet",
    "dune",
    "git-lfs",
    "go",
    "gradle",
    "gradlew",
    "husky",
    "jest",
    "jj",
    "just",
    "lazygit",
    "lefthook",
    "make",
    "gmake",
    "meson",
    "mise",
    "mix",
    "mvn",
    "mvnw",
    "ninja",
    "nox",
    "npm",
    "npx",
    "nx",
    "phpunit",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "pre-commit",
    "pytest",
    "rake",
    "rspec",
    "sbt",
    "stack",
    "swift",
    "task",
    "terraform",
    "tig",
    "tox",
    "tsc",
    "turbo",
    "uv",
    "uvx",
    "vitest",
    "yarn",
    "zig",
];

/// Programs that run git in the current folder, unless an option names the repository.
const FORGES: &[&str] = &["gh", "glab", "hub", "tea"];

const INTERPRETERS: &[&str] = &[
    "ash", "bash", "bun", "dash", "deno", "fish", "ksh", "lua", "node", "nodejs", "perl", "php", "python",
    "ruby", "sh", "tsx", "ts-node", "zsh",
];

/// Programs that run the command in their arguments, and their options that take a value.
const PREFIXES: &[(&str, &[&str])] = &[
    ("builtin", &[]),
    ("command", &[]),
    ("doas", &["-u", "-C"]),
    ("env", &["-u", "--unset"]),
    ("exec", &["-a"]),
    ("ionice", &["-c", "-n"]),
    ("nice", &["-n"]),
    ("nohup", &[]),
    ("setsid", &[]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("sudo", &["-u", "-g", "-h", "-p", "-C", "-D"]),
    ("time", &[]),
    ("timeout", &["-s", "-k", "--signal", "--kill-after"]),
    ("flock", &["-w", "-E"]),
    ("xargs", &["-I", "-n", "-P", "-d", "-E", "-L", "-s", "-a"]),
];

/// Options that name another folder than the current one.
const FOLDER_OPTIONS: &[&str] = &[
    "-C",
    "--directory",
    "--prefix",
    "--cwd",
    "--chdir",
    "--manifest-path",
];

/// The verbs of `vik git`, which are safe replacements.
const SAFE_VERBS: &[&str] = &[
    "clean",
    "diff",
    "fetch",
    "log",
    "push",
    "reset",
    "rev-parse",
    "show",
    "status",
    "submodule",
];

/// A command of a hook that runs code which an agent may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsandboxedCommand {
    /// The key of the hook, such as `issue.stages.review.hooks.after_run`.
    pub key: String,
    /// The line of the script, from 1.
    pub line: usize,
    /// The command, such as `git push`.
    pub command: String,
}

impl UnsandboxedCommand {
    /// Returns the message for people.
    pub fn message(&self) -> String {
        let risk = if self.command.starts_with("git ") || FORGES.contains(&&*self.command) {
            "git settings and hooks that an agent left in the workspace can run programs there"
        } else {
            "it runs code that an agent wrote"
        };
        format!(
            "`{}`, line {}, runs `{}` outside of the sandbox: {risk}",
            self.key, self.line, self.command
        )
    }

    /// Returns the fix for people.
    pub fn hint(&self) -> String {
        match self.command.strip_prefix("git ") {
            Some(verb) if SAFE_VERBS.contains(&verb) => {
                format!(
                    "use `vik git {verb}`, which ignores the workspace's git settings (docs/usage/git.md)"
                )
            }
            Some(_) => {
                "`vik git` has no such verb (docs/usage/git.md): set `sandbox: true` for the hook".to_owned()
            }
            None if FORGES.contains(&&*self.command) => {
                "change to another folder first (`cd {{ workflow_dir }}`), or name the repository with --repo"
                    .to_owned()
            }
            None => "set `sandbox: true` for the hook, or move the command to `verify`".to_owned(),
        }
    }
}

/// Returns all such commands in a workflow. `prompt` returns the text of a prompt.
pub fn find(
    workflow: &Workflow,
    prompt: impl Fn(&PromptSource) -> Option<String>,
) -> Vec<UnsandboxedCommand> {
    let mut found = Vec::new();
    let mut add = |key: String, script: Option<&str>, starts_in_workspace: bool| {
        let commands = script
            .map(|script| scan(script, starts_in_workspace))
            .unwrap_or_default();
        found.extend(commands.into_iter().map(|(line, command)| UnsandboxedCommand {
            key: key.clone(),
            line,
            command,
        }));
    };
    for stage in &workflow.issue.stages {
        let key = |name: &str| format!("issue.stages.{}.{name}", stage.name);
        if !stage.hooks_in_sandbox {
            // `before_run` of a second attempt runs after an agent.
            add(key("hooks.before_run"), stage.before_run.as_deref(), true);
            add(key("hooks.after_run"), stage.after_run.as_deref(), true);
            let prompts = [
                ("prompt", prompt(&stage.prompt)),
                ("resume_prompt", stage.resume_prompt.clone()),
            ];
            for (name, text) in prompts {
                for command in text.iter().flat_map(|text| prompt_commands(text)) {
                    add(key(name), Some(&command), true);
                }
            }
        }
        for (kind, rule) in stage.outputs.iter().flat_map(|outputs| &outputs.rules) {
            let kind = kind.as_str();
            let run = rule.push.iter().chain([&rule.run]);
            run.for_each(|run| add(key(&format!("outputs.{kind}.run")), Some(run), false));
            add(
                key(&format!("outputs.{kind}.check")),
                rule.check.as_deref(),
                false,
            );
        }
    }
    if !workflow.issue.hooks_in_sandbox {
        add(
            "issue.hooks.before_remove".to_owned(),
            workflow.issue.before_remove.as_deref(),
            true,
        );
    }
    found
}

/// Returns the commands of a prompt, each with one empty line in front for every line before it in
/// the prompt.
fn prompt_commands(text: &str) -> Vec<String> {
    text.match_indices("`exec(")
        .filter_map(|(at, mark)| {
            let start = at + mark.len();
            let end = start + text[start..].find(")`")?;
            let lines = text[..at].matches('\n').count();
            Some("\n".repeat(lines) + &text[start..end])
        })
        .collect()
}

/// Returns the commands of a script that run code of the workspace, with their lines.
fn scan(script: &str, starts_in_workspace: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // One entry for each open `(`.
    let mut in_workspace = vec![starts_in_workspace];
    for command in commands(script) {
        match command {
            ScriptPart::Open => in_workspace.push(in_workspace.last().copied().unwrap_or(true)),
            ScriptPart::Close => {
                if in_workspace.len() > 1 {
                    in_workspace.pop();
                }
            }
            ScriptPart::Words(line, words) => {
                let here = in_workspace.last_mut();
                let mut fallback = starts_in_workspace;
                let here = here.unwrap_or(&mut fallback);
                for command in workspace_commands(&words, here) {
                    found.push((line, command));
                }
            }
        }
    }
    found.dedup();
    found
}

/// Returns the programs of the workspace that a command runs. Updates `in_workspace` for a `cd`.
fn workspace_commands(words: &[String], in_workspace: &mut bool) -> Vec<String> {
    let words = without_prefixes(words);
    let Some((program, args)) = words.split_first() else {
        return Vec::new();
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    let names_workspace = |args: &[String]| args.iter().any(|arg| is_workspace(arg));
    match name {
        "cd" | "pushd" => {
            if let Some(folder) = args.iter().find(|arg| !arg.starts_with('-')) {
                *in_workspace = is_workspace(folder) || (*in_workspace && !is_elsewhere(folder));
            }
            Vec::new()
        }
        "git" => git(args, *in_workspace),
        "vik" => Vec::new(),
        "eval" => scan_nested(&args.join(" "), *in_workspace),
        "." | "source" if *in_workspace => {
            let file = args.first().filter(|file| !is_elsewhere(file));
            file.map(|file| format!("{name} {file}")).into_iter().collect()
        }
        "find" => {
            let exec = args
                .iter()
                .position(|arg| matches!(&**arg, "-exec" | "-execdir" | "-ok"));
            let mut here = *in_workspace || names_workspace(args);
            exec.map(|at| workspace_commands(&args[at + 1..], &mut here))
                .unwrap_or_default()
        }
        _ if FORGES.contains(&name) => {
            let has_repository = args.iter().any(|arg| {
                matches!(&**arg, "-R" | "--repo") || arg.starts_with("--repo=") || arg.starts_with("-R")
            });
            let enters = *in_workspace && !has_repository;
            enters.then(|| name.to_owned()).into_iter().collect()
        }
        _ if is_workspace(program) || (*in_workspace && program.contains('/') && !is_elsewhere(program)) => {
            vec![program.clone()]
        }
        _ if is_interpreter(name) => interpreted(name, args, *in_workspace),
        _ if RUNNERS.contains(&name) && (*in_workspace || names_workspace(args)) => {
            let folder = option(args, FOLDER_OPTIONS);
            let elsewhere = folder.is_some_and(|folder| is_elsewhere(&folder) && !is_workspace(&folder));
            (!elsewhere).then(|| name.to_owned()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn git(args: &[String], in_workspace: bool) -> Vec<String> {
    let mut verb = None;
    let mut args_left = args.iter();
    let mut here = in_workspace;
    while let Some(arg) = args_left.next() {
        match &**arg {
            "-C" | "--git-dir" | "--work-tree" => {
                if let Some(folder) = args_left.next() {
                    here = is_workspace(folder) || (here && !is_elsewhere(folder));
                }
            }
            "-c" | "--namespace" | "--exec-path" | "--config-env" => drop(args_left.next()),
            "--version" | "--help" => return Vec::new(),
            option if option.starts_with('-') => {}
            found => {
                verb = Some(found);
                break;
            }
        }
    }
    let verb = verb.unwrap_or_default();
    let harmless = matches!(verb, "version" | "help" | "check-ref-format");
    let mentions = args.iter().any(|arg| is_workspace(arg));
    ((here || mentions) && !harmless)
        .then(|| format!("git {verb}"))
        .into_iter()
        .collect()
}

fn interpreted(name: &str, args: &[String], in_workspace: bool) -> Vec<String> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if matches!(name, "deno" | "bun") && matches!(&**arg, "run" | "test" | "x" | "install") {
            continue;
        }
        match &**arg {
            option if option.starts_with("-") && !option.starts_with("--") && option.ends_with('c') => {
                return args
                    .next()
                    .map(|script| scan_nested(script, in_workspace))
                    .unwrap_or_default();
            }
            "-m" if in_workspace => {
                let module = args.next().map_or("", String::as_str);
                return vec![format!("{name} -m {module}")];
            }
            "-e" | "-p" | "--eval" | "-r" => return Vec::new(),
            option if option.starts_with('-') => {}
            file => {
                let enters = is_workspace(file) || (in_workspace && !is_elsewhere(file));
                return enters.then(|| format!("{name} {file}")).into_iter().collect();
            }
        }
    }
    Vec::new()
}

fn scan_nested(script: &str, in_workspace: bool) -> Vec<String> {
    scan(script, in_workspace)
        .into_iter()
        .map(|(_, command)| command)
        .collect()
}

/// Returns the words of a command without assignments, reserved words, and programs that only run
/// another one.
fn without_prefixes(words: &[String]) -> &[String] {
    const RESERVED: &[&str] = &[
        "if", "then", "else", "elif", "while", "until", "do", "!", "{", "case", "in",
    ];
    let mut words = words;
    while let Some((first, remaining)) = words.split_first() {
        let is_assignment = first.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        let name = first.rsplit('/').next().unwrap_or(first);
        let prefix = PREFIXES.iter().find(|(prefix, _)| *prefix == name);
        if is_assignment || RESERVED.contains(&&**first) {
            words = remaining;
        } else if let Some((prefix, with_value)) = prefix {
            let mut at = 0;
            while let Some(option) = remaining.get(at).filter(|word| word.starts_with('-')) {
                at += if with_value.contains(&&**option) { 2 } else { 1 };
            }
            // Skip the duration or the lock.
            at += usize::from(matches!(*prefix, "timeout" | "flock"));
            words = remaining.get(at..).unwrap_or_default();
        } else {
            break;
        }
    }
    words
}

fn is_interpreter(name: &str) -> bool {
    let plain = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    INTERPRETERS.contains(&plain)
}

/// Returns the value of the first of these options.
fn option(args: &[String], names: &[&str]) -> Option<String> {
    args.iter()
        .enumerate()
        .find_map(|(at, arg)| match arg.split_once('=') {
            Some((name, value)) if names.contains(&name) => Some(value.to_owned()),
            _ if names.contains(&&**arg) => args.get(at + 1).cloned(),
            _ => None,
        })
}

/// Returns whether a word names the workspace.
fn is_workspace(word: &str) -> bool {
    word.contains("{{issue.workdir}}") || word.starts_with("$PWD") || word.starts_with("${PWD")
}

/// Returns whether a path leads out of the workspace.
fn is_elsewhere(word: &str) -> bool {
    !is_workspace(word)
        && (word.starts_with(['/', '~'])
            || word.starts_with("{{")
            || word.starts_with("$HOME")
            || word.starts_with("${HOME"))
}

#[cfg(test)]
mod tests;
