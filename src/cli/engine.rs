//! The engine of a workflow on several machines, which a build can lack, and the roles of its
//! processes.

use std::io;
use std::path::Path;

use vik_base::report::{ErrorCode, Exit, Failure, colored};
use vik_core::workflow::Workflow;
use vik_daemon::engine::Engine;
use vik_workflow::{LoadedWorkflow, WorkflowFile};
use vik_workflow_reader::{Diagnostic, Loaded, render};

const MISSING: &str = "this build of vik has no engine `temporal`";

/// How to get a build with the engine.
pub const HINT: &str =
    "build vik with the cargo feature `temporal`; without `engine`, all work is done on this machine";

/// What a process does for a workflow on several machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Pulls issues, decides, and carries out what needs the tracker; one hub at a time leads
    Hub,
}

/// Returns whether this build lacks the engine of the workflow.
fn is_missing(workflow: &Workflow) -> bool {
    workflow.engine.is_some() && !cfg!(feature = "temporal")
}

/// Returns the error of a build that lacks the engine of the workflow, at its key; `None` if the
/// build can run the workflow.
pub fn finding(workflow: &Workflow, loaded: &Loaded) -> Option<Diagnostic> {
    let error = || Diagnostic::error("bad_engine", "engine.temporal", MISSING).at(loaded.document());
    is_missing(workflow).then(error)
}

/// Checks that this build has the engine of the workflow, which was read from `path`.
///
/// # Errors
/// If the workflow has an engine that this build lacks (exit 3).
pub fn check(path: &Path, workflow: &Workflow) -> Result<(), Failure> {
    if !is_missing(workflow) {
        return Ok(());
    }
    let failure = Failure::new(Exit::Workflow, ErrorCode::NoEngine, MISSING).hint(HINT);
    // The file is read again, as a workflow does not know its places.
    let found = WorkflowFile::read(path)
        .ok()
        .and_then(|file| Some((finding(workflow, &file.loaded)?, file)));
    Err(match found {
        Some((finding, file)) => failure.rendered(render(
            &[finding],
            &file.path.to_string_lossy(),
            &file.text,
            colored(&io::stderr()),
        )),
        None => failure,
    })
}

/// Checks that `vik run` has the role that the workflow needs.
///
/// # Errors
/// If it has another one (exit 2).
pub fn check_role(workflow: &Workflow, role: Option<Role>) -> Result<(), Failure> {
    let (message, hint) = match (&workflow.engine, role) {
        (None, None) | (Some(_), Some(Role::Hub)) => return Ok(()),
        (None, Some(Role::Hub)) => (
            "`--role hub` needs a workflow for several machines",
            "add `engine.temporal` to the workflow, or run without `--role`",
        ),
        (Some(_), None) => (
            "the workflow has an `engine`, so `vik run` needs a role",
            "start a hub with `vik run --role hub`, and workers with `vik worker`",
        ),
    };
    Err(Failure::new(Exit::Usage, ErrorCode::Usage, message).hint(hint))
}

/// Returns the engine with which a hub runs the workflow; `None` if it runs on this machine alone.
///
/// # Errors
/// If the engine cannot be used.
#[cfg(feature = "temporal")]
pub fn of_hub(loaded: &LoadedWorkflow, patience: Patience) -> Result<Option<Box<dyn Engine>>, Failure> {
    use vik_core::workflow;
    match &loaded.workflow.engine {
        Some(workflow::Engine::Temporal(temporal)) => {
            let identity = vik_temporal::names::hub_identity(&super::worker::host_name(), std::process::id());
            let engine = vik_temporal::engine::TemporalEngine::new(temporal.clone(), identity)?;
            Ok(Some(Box::new(match patience {
                Patience::Start => engine,
                Patience::Unlimited => engine.wait_for_server(),
            })))
        }
        None => Ok(None),
    }
}

/// Returns `None`: this build runs workflows on this machine alone.
///
/// # Errors
/// None.
#[cfg(not(feature = "temporal"))]
pub fn of_hub(_: &LoadedWorkflow, _: Patience) -> Result<Option<Box<dyn Engine>>, Failure> {
    Ok(None)
}

/// How long a hub waits for a server that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as a start may take.
    Start,
    /// For ever: it has been connected before.
    Unlimited,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKFLOW: &str = "
issues: { pull: { command: list } }
agents: { a: { runtime: command, command: [agent] } }
issue: { stages: { work: { when: { state: todo }, agent: a, prompt: p } } }
";
    const ENGINE: &str = "engine:\n  temporal: { address: \"host:7233\", task_queue: q }\n";

    #[test]
    #[cfg(not(feature = "temporal"))]
    fn missing_engine_is_an_error_at_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workflow.yml");
        let check = |text: &str| {
            std::fs::write(&path, text).unwrap();
            check(&path, &vik_workflow_reader::load(text).workflow.unwrap())
        };
        assert!(check(WORKFLOW).is_ok());
        let failure = check(&format!("{WORKFLOW}{ENGINE}")).unwrap_err();
        assert_eq!(failure.code(), "no_engine");
        let text = failure.text(false);
        for part in ["workflow.yml:6:3", MISSING, HINT] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn role_is_that_of_the_workflow() {
        let workflow = |text: &str| vik_workflow_reader::load(text).workflow.unwrap();
        let alone = workflow(WORKFLOW);
        let several = workflow(&format!("{WORKFLOW}{ENGINE}"));
        assert!(check_role(&alone, None).is_ok());
        assert!(check_role(&several, Some(Role::Hub)).is_ok());
        for (workflow, role, hint) in [
            (&alone, Some(Role::Hub), "engine.temporal"),
            (&several, None, "vik worker"),
        ] {
            let failure = check_role(workflow, role).unwrap_err();
            assert_eq!(failure.code(), "usage");
            assert!(failure.text(false).contains(hint), "{}", failure.text(false));
        }
    }
}
