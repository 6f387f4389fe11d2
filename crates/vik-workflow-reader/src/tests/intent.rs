//! Intents and trust: what is refused, and what arrives.

use vik_core::workflow::Untrusted;

use super::*;

fn with_intent(intent: &str) -> Loaded {
    load(&minimal_with(&[(
        "      when:\n",
        &format!("      intent: {intent}\n      when:\n"),
    )]))
}

#[test]
fn intent_errors_have_positions() {
    let finding = only(&with_intent("{owned_scope: [src, ../x]}"), "bad_glob");
    assert_eq!(finding.message, "`../x` contains `..`");
    assert_eq!(finding.path, "issue.stages.plan.intent.owned_scope");
    only(&with_intent("{owned_scope: [\"a**\"]}"), "bad_glob");
    only(&with_intent("{owned_scope: [.git/hooks]}"), "bad_glob");
    only(&with_intent("{owned_scope: []}"), "empty_value");
    only(&with_intent("{owned_scope: src}"), "wrong_type");
    only(&with_intent("{constraints: be good}"), "wrong_type");
    only(&with_intent("{acceptance: [\"\"]}"), "empty_value");
    let finding = only(&with_intent("{on_violation: undo}"), "unknown_value");
    assert!(finding.hint.unwrap().contains("`revert`"));
    let finding = only(&with_intent("{scope: [src]}"), "unknown_key");
    assert_eq!(finding.hint.as_deref(), Some("did you mean `owned_scope`?"));
    let conflicts = [("issue:\n", "issue:\n  scope_conflicts: wait\n")];
    only(&load(&minimal_with(&conflicts)), "unknown_value");
}

#[test]
fn trust_without_any_rule_is_refused() {
    let with = |trust: &str| load(&format!("{MINIMAL}trust: {trust}\n"));
    assert_eq!(
        only(&with("{}"), "missing_key").message,
        "no author and no label is trusted, so no issue can start"
    );
    only(&with("{untrusted: hold}"), "missing_key");
    only(&with("{authors: [a], untrusted: quote}"), "unknown_value");
    only(&with("{authors: me}"), "wrong_type");
    let trust = |text: &str| with(text).workflow.unwrap().trust.unwrap();
    assert_eq!(trust("{untrusted: fence}").untrusted, Untrusted::Fence);
    assert_eq!(
        trust("{authors: [me]}").untrusted,
        Untrusted::Hold,
        "safe by default"
    );
    assert_eq!(load(MINIMAL).workflow.unwrap().trust, None, "no rule");
}
