//! The values that templates can use.

use std::path::Path;

use serde_json::{Map, Value, json};
use vik_core::attempt::Start;
use vik_core::issue::Issue;

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
    let file = host.attempt_files(start).outputs_dir().join(outputs::FILE_NAME);
    let policy = start.stage.outputs.as_ref();
    context.insert("outputs".to_owned(), outputs::value(policy, &file));
    context
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
