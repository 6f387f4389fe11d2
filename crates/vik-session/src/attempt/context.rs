//! The values that templates can use.

use std::path::Path;

use serde_json::{Map, Value, json};
use vik_core::attempt::Start;
use vik_core::issue::Issue;
use vik_core::outcome::Usage;
use vik_core::outputs::{Output, Pursuit};
use vik_store::AttemptFiles;
use vik_workspace::fs as private;

use crate::host::Host;
use crate::outputs;

/// Returns `issue.*`: all fields of the item, and `workdir`.
pub fn issue_value(issue: &Issue, workdir: &Path) -> Map<String, Value> {
    let mut fields = issue.fields();
    fields.insert("workdir".to_owned(), workdir.to_string_lossy().into());
    fields
}

/// Returns the context of the hooks and prompts of a stage. In `after_create`, `issue.stage` is
/// missing.
pub fn stage_context(host: &Host, start: &Start, workdir: &Path) -> Map<String, Value> {
    let mut issue = issue_value(&start.issue, workdir);
    issue.insert("stage".to_owned(), start.stage.name.as_str().into());
    let mut context = base_context(host, issue);
    context.insert("attempt".to_owned(), attempt_value(start));
    context.insert(
        "approval".to_owned(),
        json!({ "message": start.message.as_deref().unwrap_or("") }),
    );
    context.insert("intent".to_owned(), super::intent::value(&start.intent));
    context.insert("activity".to_owned(), super::activity::value(start));
    let files = host.attempt_files(start);
    let policy = start.stage.outputs.as_ref();
    let state = policy
        .and_then(|_| requested_state(&files, start))
        .unwrap_or_default();
    let file = files.outputs_dir().join(outputs::FILE_NAME);
    context.insert("outputs".to_owned(), outputs::value(policy, &file, &state));
    context
}

/// Returns `session.*` of `after_run` as after a success of an agent that reported nothing.
pub fn sample_session(log: &Path) -> Value {
    let log = log.to_string_lossy();
    json!({
        "id": uuid::Uuid::nil(),
        "outcome": "succeeded",
        "failure_class": "",
        "reason": "",
        "exit_code": 0,
        "last_message": "",
        "usage": Usage::default(),
        "cost": null,
        "cost_usd": null,
        "log": log,
        "log_path": log,
        "result": null,
    })
}

/// Returns the state for which the agent asked; `None` if it did not, or is not done.
fn requested_state(files: &AttemptFiles, start: &Start) -> Option<String> {
    let lines = vik_core::outputs::read(&private::read(&files.outputs()).ok()?, &pursuit(start)).ok()?;
    lines.into_iter().find_map(|line| match line.output {
        Output::State { state } => Some(state),
        _ => None,
    })
}

/// Returns the run whose outputs are requested.
pub(crate) fn pursuit(start: &Start) -> Pursuit<'_> {
    Pursuit {
        issue: &start.issue.id,
        stage: &start.stage.name,
        run: start.run,
    }
}

/// Returns the context of `after_create` and `before_remove`.
pub fn issue_context(host: &Host, issue: &Issue, workdir: &Path) -> Map<String, Value> {
    base_context(host, issue_value(issue, workdir))
}

fn base_context(host: &Host, issue: Map<String, Value>) -> Map<String, Value> {
    let path = |path: &Path| Value::from(path.to_string_lossy());
    let mut context = Map::new();
    context.insert("issue".to_owned(), issue.into());
    context.insert("workflow_path".to_owned(), path(&host.workflow_path));
    context.insert("workflow_dir".to_owned(), path(&host.workflow_dir));
    context.insert("workspace_root".to_owned(), path(host.layout.root()));
    context.insert("env".to_owned(), json!(host.environment.shared()));
    context
}

fn attempt_value(start: &Start) -> Value {
    let previous = start.previous.as_ref();
    json!({
        "number": start.attempt,
        "previous_outcome": previous.map_or("", |report| report.outcome.as_str()),
        "feedback": previous.and_then(|report| report.feedback.as_deref()).unwrap_or(""),
        "resumed": start.resume.is_some(),
    })
}
