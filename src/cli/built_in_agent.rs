//! `vik vex`: the built-in agent, which a build can leave out.

use std::ffi::OsString;
use std::process::ExitCode;

use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::workflow::{AgentProfile, Workflow};

/// What is wrong with a build without the built-in agent.
pub const MISSING: &str = "this build of vik does not include the built-in agent `vex`";

/// How to get a build with the built-in agent.
pub const HINT: &str = "build vik with the cargo feature `vex`, which is on by default, or set \
                        `agents.NAME.runtime` to another agent";

/// Runs vex. Its exit codes are its own contract, not Vik's.
#[cfg(feature = "vex")]
pub fn main(args: Vec<OsString>) -> ExitCode {
    // The first argument is the name in its help.
    vex::main(std::iter::once("vik vex".into()).chain(args))
}

/// Reports that this build has no vex.
#[cfg(not(feature = "vex"))]
pub fn main(_: Vec<OsString>) -> ExitCode {
    super::print_failure(&missing(), false);
    Exit::Usage.into()
}

/// Returns the error of a build without the built-in agent.
pub fn missing() -> Failure {
    Failure::new(Exit::Usage, ErrorCode::NoBuiltInAgent, MISSING).hint(HINT)
}

/// Returns whether an agent profile needs the built-in agent, and this build has none.
pub fn is_missing(profile: &AgentProfile) -> bool {
    !cfg!(feature = "vex") && vik_agents::driver(profile.runtime).program(profile).is_none()
}

/// Checks that this build has the agents of the stages.
///
/// # Errors
/// If a stage uses the built-in agent, and this build has none.
pub fn check(workflow: &Workflow) -> Result<(), Failure> {
    let stages = &workflow.issue.stages;
    let is_used = |(name, profile): (&_, &AgentProfile)| {
        is_missing(profile) && stages.iter().any(|stage| stage.agent == *name)
    };
    if workflow.agents.iter().any(is_used) {
        Err(missing())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKFLOW: &str = "
issues: { pull: { command: list } }
agents: { a: { runtime: vex, provider: replay, model: m } }
issue: { stages: { work: { when: { state: todo }, agent: a, prompt: p } } }
";

    #[test]
    fn build_without_vex_refuses_a_workflow_that_uses_it() {
        let workflow = vik_workflow_reader::load(WORKFLOW).workflow.unwrap();
        assert_eq!(check(&workflow).is_ok(), cfg!(feature = "vex"));
        let other = WORKFLOW.replace(
            "runtime: vex, provider: replay, model: m",
            "runtime: codex, model: m",
        );
        let other = vik_workflow_reader::load(&other).workflow.unwrap();
        assert!(check(&other).is_ok());
    }

    #[cfg(feature = "vex")]
    #[test]
    fn vex_reads_the_variables_that_an_attempt_sets() {
        assert_eq!(vik_session::outputs::FILE, vex::tools::OUTPUTS);
        assert_eq!(vik_session::attempt::SERVERS, vex::tools::SERVERS);
        assert_eq!(vik_session::sandbox::CACHE, vex::tools::CACHE);
        assert_eq!(vik_session::secrets::NAMES, vex::redact::SECRET_NAMES);
    }
}
