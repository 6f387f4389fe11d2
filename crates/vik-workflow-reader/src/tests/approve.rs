//! `approve`.

use vik_core::approval::{Call, OnTimeout};
use vik_core::duration::Span;

use super::*;

fn with_approve(approve: &str) -> Loaded {
    load(&minimal_with(&[(
        "      agent:",
        &format!("      approve: {approve}\n      agent:"),
    )]))
}

#[test]
fn approve_section_is_read() {
    let loaded = with_approve("{calls: [{command: [git push]}]}");
    assert_eq!(loaded.diagnostics, [], "{}", loaded.render("workflow.yml", false));
    let policy = loaded.workflow.unwrap().issue.stages[0].approve.clone().unwrap();
    assert_eq!(
        (policy.timeout, policy.on_timeout),
        (Span::mins(24 * 60), OnTimeout::Deny)
    );
    assert!(!policy.before && !policy.after);
    let push = Call {
        tool: "Bash".to_owned(),
        command: Some("git push".to_owned()),
        paths: Vec::new(),
    };
    assert_eq!(policy.rule_for(&push).unwrap().message(), "command git push");
    assert_eq!(policy.rule_for(&Call::default()), None);
}

#[test]
fn approve_errors_have_positions() {
    let finding = only(&with_approve("{calls: [{}]}"), "empty_value");
    assert_eq!(finding.path, "issue.stages.plan.approve.calls");
    only(&with_approve("{calls: [{path: [../x]}]}"), "bad_glob");
    only(&with_approve("{calls: [{tools: [Bash]}]}"), "unknown_key");
    only(&with_approve("{before: true, timeout: 0s}"), "out_of_range");
    only(
        &with_approve("{before: true, on_timeout: maybe}"),
        "unknown_value",
    );
    let finding = only(&with_approve("{timeout: 1h}"), "unused_key");
    assert_eq!(finding.severity, Severity::Warning);
    let asked = load(&minimal_with(&[
        ("runtime: codex", "runtime: command\n    command: [agent]"),
        (
            "      agent:",
            "      approve: {calls: [{tool: [x]}]}\n      agent:",
        ),
    ]));
    let finding = only(&asked, "cannot_ask");
    assert_eq!(finding.path, "issue.stages.plan.approve.calls");
}
