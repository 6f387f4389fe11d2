//! Checks whether the sandbox can be set up, and which hooks run agent output outside of it.

use vik_base::report::count;
use vik_core::workflow::{PromptSource, SandboxBackend, SandboxPolicy, Stage, Workflow};
use vik_session::hooks::outside;
use vik_session::sandbox;

use super::check::{Check, Group};

/// Returns the checks of the sandbox. `prompt` returns the text of a prompt.
pub(super) fn check(workflow: &Workflow, prompt: impl Fn(&PromptSource) -> Option<String>) -> Vec<Check> {
    let mut checks = Vec::new();
    match sandbox::check(workflow) {
        Err(failure) => checks.push(Check::failure(Group::System, "sandbox", &failure)),
        Ok(weakness) => {
            let unconfined: Vec<&str> = workflow
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
            let in_bubblewrap = policies
                .filter(|policy| policy.backend == SandboxBackend::Bubblewrap)
                .count();
            let message = if unconfined.is_empty() && in_bubblewrap > 0 {
                format!(
                    "all agents are sandboxed; those of {} also run in bubblewrap namespaces",
                    count(in_bubblewrap, "stage")
                )
            } else if unconfined.is_empty() {
                "all agents are sandboxed".to_owned()
            } else {
                format!(
                    "agents run without a sandbox, with all rights of this user, in: {}",
                    unconfined.join(", ")
                )
            };
            checks.push(Check::ok(Group::System, "sandbox", message));
            let gaps = vik_proc::unenforced_limits();
            if unconfined.len() < workflow.issue.stages.len() && !gaps.is_empty() {
                let message = format!("not enforced on this system: {}", gaps.join("; "));
                checks.push(Check::ok(Group::System, "sandbox.limits", message));
            }
            checks.extend(weakness.map(|weakness| {
                let check = Check::warning(Group::System, "sandbox", "sandbox_weak", weakness.description());
                check.hint(weakness.hint())
            }));
        }
    }
    let found = outside::find(workflow, prompt);
    checks.extend(found.iter().map(|found| {
        Check::warning(
            Group::Templates,
            found.key.as_str(),
            "hook_outside",
            found.message(),
        )
        .hint(found.hint())
    }));
    checks
}

fn policy(workflow: &Workflow, stage: &Stage) -> Option<SandboxPolicy> {
    SandboxPolicy::of(workflow.agents.get(&stage.agent)?, stage)
}
