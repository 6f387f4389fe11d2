//! The scripts of the model. The agents do the work: `expect` checks that the output of their tools
//! came back to the model.

use std::collections::HashMap;

use serde_json::{Value, json};
use vik_testkit::server::Script;

use crate::repo::{Context as _, TaskResult};

/// The issues: title and description.
pub const ISSUES: [(&str, &str); 3] = [
    (
        "Put the exit codes on a page of their own",
        "Scripts need them, and `vik --help` has them in one line. Make docs/usage/exit-codes.md from it.",
    ),
    (
        "Give editors the width of our lines",
        "rustfmt.toml has it; editors read .editorconfig. Add one that agrees with it.",
    ),
    (
        "Test that a back-off never shrinks",
        "crates/vik-core/src/backoff.rs: hold that a later attempt waits as long as the one before, or longer.",
    ),
];

/// Returns a conversation for each stage of each issue, by the name in the prompt.
pub fn scripts() -> TaskResult<HashMap<String, Script>> {
    let conversations = [
        (
            "plan-1",
            plan(
                "vik --help | grep -A 9 'Exit codes'",
                "Exit codes",
                "docs/usage/exit-codes.md: one row a code, from `vik --help`.",
            ),
        ),
        (
            "plan-2",
            plan(
                "cat rustfmt.toml",
                "max_width",
                ".editorconfig: the width of rustfmt.toml, spaces, LF.",
            ),
        ),
        (
            "plan-3",
            plan(
                "grep -n 'pub fn' crates/vik-core/src/backoff.rs",
                "pub fn",
                "An integration test next to the others of vik-core.",
            ),
        ),
        (
            "implement-1",
            implement(
                &[
                    json!({"thinking": "The table comes from the help itself.", "run": EXIT_CODES}),
                    json!({"run": "cat docs/usage/exit-codes.md", "expect": "130"}),
                ],
                "interrupted",
                "Exit codes have a page: docs/usage/exit-codes.md",
            ),
        ),
        (
            "implement-2",
            implement(
                &[
                    json!({"tools": [{"write": {"path": ".editorconfig", "content": EDITORCONFIG}}, {"run": "cat rustfmt.toml"}]}),
                    json!({"text": "The width is 110 there.", "tools": [{"edit": {
                "path": ".editorconfig", "old": "max_line_length = 100", "new": "max_line_length = 110"
            }}], "expect": "max_width = 110"}),
                ],
                "",
                "Editors now know the width of our lines",
            ),
        ),
        (
            "implement-3",
            implement(
                &[
                    json!({"tools": [{"write": {"path": "crates/vik-core/tests/backoff.rs", "content": BACKOFF_TEST}}]}),
                    json!({"run": "rustfmt --edition 2024 --check crates/vik-core/tests/backoff.rs && cargo test --quiet --package vik-core --test backoff"}),
                ],
                "test result: ok. 1 passed",
                "The back-off is held: it never shrinks",
            ),
        ),
    ];
    conversations
        .into_iter()
        .map(|(name, turns)| {
            let script = Script::from_value(turns).context(format!("script {name}"))?;
            Ok((name.to_owned(), script))
        })
        .collect()
}

/// Creates a conversation that inspects the repository, writes PLAN.md, and commits it.
fn plan(inspect: &str, seen: &str, plan: &str) -> Value {
    json!([
        {"thinking": "First see what is there.", "text": "I look at what is there.", "run": inspect,
            "usage": {"input": 4200, "cached": 3000, "output": 60, "reasoning": 20}},
        {"tools": [{"write": {"path": "PLAN.md", "content": format!("# Plan\n\n{plan}\n")}}], "expect": seen,
            "usage": {"input": 4600, "cached": 4200, "output": 140}},
        {"run": "git add PLAN.md && git commit --quiet -m 'Plan the work' && git log --oneline -1",
            "usage": {"input": 5000, "cached": 4600, "output": 50}},
        {"text": format!("Planned: {plan}"), "expect": "Plan the work",
            "usage": {"input": 5200, "cached": 5000, "output": 40}},
    ])
}

/// Creates a conversation that reads the plan, does `work`, removes the plan and commits; the
/// output of the last step must contain `seen`.
fn implement(work: &[Value], seen: &str, done: &str) -> Value {
    let mut turns = vec![json!({"text": "I read the plan.", "run": "cat PLAN.md"})];
    turns.extend_from_slice(work);
    let commit = format!(
        "git rm --quiet PLAN.md && git add -A && git commit --quiet -m '{done}' && git show --stat --format=%s"
    );
    turns.push(json!({"run": commit, "expect": seen}));
    turns.push(json!({"text": format!("{done}."), "expect": "changed"}));
    for (at, turn) in turns.iter_mut().enumerate() {
        let input = 9000 + 700 * at;
        turn["usage"] = json!({"input": input, "cached": input - 900, "output": 80 + 10 * at});
    }
    Value::Array(turns)
}

const EXIT_CODES: &str = r#"{
  printf '# Exit codes\n\n| code | |\n| --- | --- |\n'
  vik --help | tr '\n' ' ' | sed 's/.*Exit codes: //; s/\. *$//; s/, /\n/g' | sed 's/\([0-9]*\)  *\(.*\)/| \1 | \2 |/'
  printf '\n'
} > docs/usage/exit-codes.md && tail -n 3 docs/usage/exit-codes.md"#;

const EDITORCONFIG: &str = "root = true\n\n[*]\nend_of_line = lf\ninsert_final_newline = true\ntrim_trailing_whitespace = true\n\n\
    [*.rs]\nindent_style = space\nindent_size = 4\nmax_line_length = 100\n";

const BACKOFF_TEST: &str = r#"//! A later attempt waits as long as the one before, or longer.

#![allow(missing_docs, reason = "a test")]

use vik_core::backoff::wait_after;
use vik_core::duration::Span;
use vik_core::workflow::Retry;

#[test]
fn backoff_never_shrinks() {
    let retry = Retry {
        max_attempts: 9,
        initial_backoff: Span::secs(10),
        max_backoff: Span::mins(5),
    };
    let waits: Vec<_> = (1..40).map(|failed| wait_after(failed, &retry)).collect();
    assert!(waits.is_sorted(), "{waits:?}");
}
"#;
