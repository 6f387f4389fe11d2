//! The engine of a workflow on several machines, which a build can lack.

use std::io;
use std::path::Path;

use vik_base::report::{ErrorCode, Exit, Failure, colored};
use vik_core::workflow::{Engine, Workflow};
use vik_workflow::WorkflowFile;
use vik_workflow_reader::{Diagnostic, Loaded, render};

const MISSING: &str = "this build of vik has no engine `temporal`";

/// How to get a build with the engine.
pub const HINT: &str = "the engine comes with the cargo feature `temporal`, which this version of vik does not have \
                    yet; without `engine`, all work is done on this machine";

/// Returns whether this build lacks the engine of the workflow. No build has one yet.
fn is_missing(workflow: &Workflow) -> bool {
    match workflow.engine {
        None => false,
        Some(Engine::Temporal(_)) => true,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const WORKFLOW: &str = "
issues: { pull: { command: list } }
agents: { a: { runtime: command, command: [agent] } }
issue: { stages: { work: { when: { state: todo }, agent: a, prompt: p } } }
";

    #[test]
    fn missing_engine_is_an_error_at_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workflow.yml");
        let check = |text: &str| {
            std::fs::write(&path, text).unwrap();
            check(&path, &vik_workflow_reader::load(text).workflow.unwrap())
        };
        assert!(check(WORKFLOW).is_ok());
        let engine = "engine:\n  temporal: { address: \"host:7233\", task_queue: q }\n";
        let failure = check(&format!("{WORKFLOW}{engine}")).unwrap_err();
        assert_eq!(failure.code(), "no_engine");
        let text = failure.text(false);
        for part in ["workflow.yml:6:3", MISSING, HINT] {
            assert!(text.contains(part), "{text}");
        }
    }
}
