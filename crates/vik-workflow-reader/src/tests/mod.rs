//! Tests of loading as a whole.

mod across;
mod approve;
mod codes;
mod defaults;
mod durable;
mod engine;
mod generated;
mod hostile;
mod http;
mod intent;
mod mcp;
mod notify;
mod outputs;
mod places;
mod retention;
mod sandbox;
mod secrets;
mod slips;
mod tracker;
use vik_core::workflow::{ArgValue, WorkspaceRoot};
use vik_yaml::Diagnostic;

use super::*;

const FULL: &str = include_str!("full.yml");
const MINIMAL: &str = include_str!("minimal.yml");

/// Returns the minimal workflow with one more key, by its dotted path; the parents must exist in
/// it.
fn minimal_with(replacements: &[(&str, &str)]) -> String {
    replacements.iter().fold(MINIMAL.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

/// Returns the first line of the full file with this text.
pub(super) fn line(text: &str) -> u32 {
    let at = FULL.lines().position(|line| line.contains(text)).unwrap();
    u32::try_from(at).unwrap() + 1
}

#[test]
fn many_mistakes_are_shown_at_once() {
    let loaded = load(include_str!("mistakes.yml"));
    assert!(loaded.workflow.is_none());
    insta::assert_snapshot!(loaded.render("workflow.yml", false));
}

#[test]
fn colour_marks_severity_and_place() {
    let loaded = load(&minimal_with(&[("agent: codex", "agent: codec")]));
    insta::assert_snapshot!(loaded.render("workflow.yml", true).replace('\u{1b}', "ESC"));
}

#[test]
fn predecessor_workflow_loads() {
    let loaded = load(include_str!("predecessor.yml"));
    let codes: Vec<_> = loaded.diagnostics.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["dashed_arg", "dashed_arg"]);
    assert!(loaded.is_ok(false) && !loaded.is_ok(true));
    let workflow = loaded.workflow.unwrap();
    assert_eq!(workflow.workspace_root, WorkspaceRoot::Path(".vik".to_owned()));
    assert_eq!(workflow.pull.idle, vik_core::duration::Span::secs(60));
    assert!(
        workflow
            .pull
            .command
            .starts_with("gh issue list --state \"open\" --limit 50 --json")
    );
    assert_eq!(
        workflow.agents["codex"].args,
        [(
            "config".to_owned(),
            ArgValue::List(vec!["model_reasoning_effort=xhigh".to_owned()])
        )]
    );
    assert_eq!(
        workflow.agents["claude"].args,
        [("effort".to_owned(), ArgValue::Text("high".to_owned()))]
    );
}

#[test]
fn findings_can_be_added() {
    let mut loaded = load(FULL);
    assert!(loaded.is_ok(true));
    let finding = Diagnostic::warning(
        "bad_template",
        "issue.stages.plan.hooks.before_run",
        "no such name",
    )
    .at_line(loaded.document(), 3, Some(3));
    assert_eq!(
        (finding.line, finding.column, finding.end_column),
        (line("echo two"), 13, 14)
    );
    loaded.add([finding]);
    assert!(loaded.is_ok(false) && !loaded.is_ok(true));
    loaded.add([
        Diagnostic::error("prompt_file", "issue.stages.plan.prompt_file", "not found").at(loaded.document()),
    ]);
    assert!(loaded.workflow.is_none());
    assert_eq!(loaded.diagnostics[0].line, line("prompt_file: prompts/plan.md"));
}

/// Returns the only finding, which has this code.
#[track_caller]
fn only(loaded: &Loaded, code: &str) -> Diagnostic {
    let text = loaded.render("workflow.yml", false);
    assert_eq!(loaded.diagnostics.len(), 1, "{text}");
    assert_eq!(loaded.diagnostics[0].code, code, "{text}");
    loaded.diagnostics[0].clone()
}

/// Returns the only finding of the minimal workflow with these changes, which has this code and is
/// at the `^` in them.
#[track_caller]
fn one(replacements: &[(&str, &str)], code: &str) -> Diagnostic {
    let text = minimal_with(replacements);
    let (before, after) = text.split_once('^').unwrap();
    let finding = only(&load(&format!("{before}{after}")), code);
    let start = before.rsplit('\n').next().unwrap();
    assert_eq!(
        (finding.line as usize, finding.column as usize),
        (before.split('\n').count(), start.chars().count() + 1),
        "{finding:?}"
    );
    finding
}

/// The same with keys at the top of the file.
#[track_caller]
fn top(keys: &str, code: &str) -> Diagnostic {
    one(&[("agents:\n", &format!("{keys}\nagents:\n"))], code)
}

/// The same with keys of the agent.
#[track_caller]
fn agent(keys: &str, code: &str) -> Diagnostic {
    one(&[("model:", &format!("{keys}\n    model:"))], code)
}

/// The same with keys of `issue`.
#[track_caller]
fn issue(keys: &str, code: &str) -> Diagnostic {
    one(&[("  stages:", &format!("  {keys}\n  stages:"))], code)
}

/// The same with keys of the stage.
#[track_caller]
fn stage(keys: &str, code: &str) -> Diagnostic {
    one(&[("agent:", &format!("{keys}\n      agent:"))], code)
}
