//! The sandbox: whether it can be put up, and which hooks run what agents wrote outside of it.

use vik_core::workflow::{SandboxBackend, SandboxPolicy, Stage, Workflow};

use super::check::{Check, Group};
use crate::report::count;
use crate::sandbox;

/// Programs that run what stands in a repository, or what its settings name. With git these are the verbs that run hooks.
const RUNNERS: &[&str] = &[
    "cargo",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "bun",
    "make",
    "just",
    "pytest",
    "tox",
    "nox",
    "pip",
    "uv",
    "poetry",
    "bundle",
    "rake",
    "mvn",
    "gradle",
    "./gradlew",
    "./mvnw",
    "go",
    "cmake",
    "bazel",
    "tsc",
    "pre-commit",
    "git commit",
    "git push",
    "git checkout",
    "git switch",
    "git merge",
    "git rebase",
    "git pull",
    "git am",
    "git gc",
];

/// The checks of the sandbox.
pub(super) fn check(workflow: &Workflow) -> Vec<Check> {
    let mut checks = Vec::new();
    match sandbox::check(workflow) {
        Err(failure) => checks.push(Check::failure(Group::System, "sandbox", &failure)),
        Ok(weakness) => {
            let free: Vec<&str> = workflow
                .issue
                .stages
                .iter()
                .filter(|stage| policy(workflow, stage).is_none())
                .map(|stage| stage.name.as_str())
                .collect();
            let policies = workflow
                .issue
                .stages
                .iter()
                .filter_map(|stage| policy(workflow, stage));
            let within = policies
                .filter(|policy| policy.backend == SandboxBackend::Bubblewrap)
                .count();
            let message = if free.is_empty() && within > 0 {
                format!(
                    "every agent is confined; namespaces of bubblewrap are around those of {}",
                    count(within as u64, "stage")
                )
            } else if free.is_empty() {
                "every agent is confined".to_owned()
            } else {
                format!(
                    "agents run with all the rights of this user in: {}",
                    free.join(", ")
                )
            };
            checks.push(Check::ok(Group::System, "sandbox", message));
            let gaps = vik_proc::unenforced_limits();
            if free.len() < workflow.issue.stages.len() && !gaps.is_empty() {
                let message = format!("not enforced on this system: {}", gaps.join("; "));
                checks.push(Check::ok(Group::System, "sandbox.limits", message));
            }
            checks.extend(weakness.map(|weakness| {
                let check = Check::warning(Group::System, "sandbox", "sandbox_weak", weakness.words());
                check.hint(weakness.hint())
            }));
        }
    }
    for stage in &workflow.issue.stages {
        // Before an agent has worked, the repository is what it was; `before_run` of a second attempt comes after one.
        let hooks = [("before_run", &stage.before_run), ("after_run", &stage.after_run)];
        for (name, hook) in hooks.into_iter().filter(|_| !stage.hooks_in_sandbox) {
            let path = format!("issue.stages.{}.hooks.{name}", stage.name);
            checks.extend(hook.as_deref().and_then(|script| outside(&path, script)));
        }
    }
    if let Some(script) = workflow
        .issue
        .before_remove
        .as_deref()
        .filter(|_| !workflow.issue.hooks_in_sandbox)
    {
        checks.extend(outside("issue.hooks.before_remove", script));
    }
    checks
}

fn policy(workflow: &Workflow, stage: &Stage) -> Option<SandboxPolicy> {
    SandboxPolicy::of(workflow.agents.get(&stage.agent)?, stage)
}

/// What a hook runs that an agent may have written.
fn outside(path: &str, script: &str) -> Option<Check> {
    let found = RUNNERS.iter().find(|runner| runs(script, runner))?;
    let message =
        format!("`{path}` runs `{found}` outside of the sandbox, and with it what agents have written");
    let hint = if found.starts_with("git ") {
        "write `git -c core.hooksPath=/dev/null …`, or `sandbox: true` beside the hook"
    } else {
        "write `sandbox: true` beside the hook, or do it in `verify`"
    };
    Some(Check::warning(Group::Templates, path, "hook_outside", message).hint(hint))
}

/// Whether a line of the script begins a command with these words.
fn runs(script: &str, command: &str) -> bool {
    let starts = script.split(['\n', ';', '&', '|', '(']).map(str::trim_start);
    starts.into_iter().any(|start| {
        let words: Vec<&str> = start.split_ascii_whitespace().take(2).collect();
        match command.split_once(' ') {
            Some((first, second)) => words == [first, second],
            None => words.first() == Some(&command),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_runs_code_of_the_repository_is_told() {
        for (script, told) in [
            ("npm ci && npm test", true),
            ("cd x; git commit -am y", true),
            ("git -c core.hooksPath=/dev/null commit -am y", false),
            ("git status --short", false),
            ("vik issue move 1 done", false),
            ("echo make", false),
            ("make", true),
        ] {
            assert_eq!(
                outside("issue.stages.a.hooks.after_run", script).is_some(),
                told,
                "{script}"
            );
        }
    }
}
