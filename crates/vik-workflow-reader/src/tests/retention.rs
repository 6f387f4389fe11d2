//! `retention` and `issue.unlisted`.

use vik_core::duration::Span;
use vik_core::workflow::{KeepTime, RemoveWorkspace, Retention};

use super::*;

fn with_unlisted(unlisted: &str) -> Loaded {
    load(&minimal_with(&[(
        "issue:\n",
        &format!("issue:\n  unlisted: {unlisted}\n"),
    )]))
}

fn with_retention(keys: &str) -> Loaded {
    load(&minimal_with(&[(
        "agents:\n",
        &format!("retention: {keys}\nagents:\n"),
    )]))
}

#[test]
fn unlisted_is_an_action_with_an_age() {
    for (written, keep) in [
        ("keep", KeepTime::Forever),
        ("remove", KeepTime::days(7)),
        ("{action: remove}", KeepTime::days(7)),
        ("{action: remove, after: 90m}", KeepTime::For(Span::mins(90))),
        ("{action: keep, after: 90m}", KeepTime::Forever),
    ] {
        let loaded = with_unlisted(written);
        assert_eq!(loaded.diagnostics, [], "{}", loaded.render("workflow.yml", false));
        let mut workflow = loaded.workflow.unwrap();
        assert_eq!(workflow.issue.unlisted, keep, "{written}");
        assert_eq!(workflow.keep_unlisted(), keep, "{written}");
        workflow.issue.remove_workspace = RemoveWorkspace::Never;
        assert_eq!(workflow.keep_unlisted(), KeepTime::Forever);
    }
}

#[test]
fn unlisted_errors_have_positions() {
    let finding = only(&with_unlisted("always"), "unknown_value");
    assert_eq!(finding.path, "issue.unlisted");
    assert!(finding.hint.unwrap().contains("`remove`"));
    only(&with_unlisted("{after: 3d}"), "missing_key");
    only(&with_unlisted("{action: remove, age: 3d}"), "unknown_key");
    let finding = only(&with_unlisted("{action: remove, after: 0}"), "out_of_range");
    assert_eq!(finding.path, "issue.unlisted.after");
}

#[test]
fn each_kind_of_data_has_its_age() {
    let loaded = with_retention("{ledger: 400d, scratch: 36h, sessions: keep}");
    assert_eq!(loaded.diagnostics, [], "{}", loaded.render("workflow.yml", false));
    let expected = Retention {
        ledger: KeepTime::days(400),
        trace: KeepTime::Forever,
        scratch: KeepTime::For(Span::mins(36 * 60)),
        sessions: KeepTime::Forever,
    };
    assert_eq!(loaded.workflow.unwrap().retention, expected);
}

/// A misspelled key would remove what its author wants to keep.
#[test]
fn retention_refuses_what_it_does_not_know() {
    only(&with_retention("{session: keep}"), "unknown_key");
    let finding = only(&with_retention("{sessions: never}"), "unknown_value");
    assert!(finding.hint.unwrap().contains("`keep`"));
    only(&with_retention("{sessions: soon}"), "bad_duration");
    only(&with_retention("{sessions: 0}"), "out_of_range");
    only(&with_retention("{sessions: [1d]}"), "wrong_type");
}
