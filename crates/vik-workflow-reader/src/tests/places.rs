//! Tests of the positions of values.

use super::*;

#[test]
fn values_are_found_by_their_path() {
    let loaded = load(FULL);
    for (path, position) in [
        ("loop.max_iterations", Some((6, 19))),
        ("agents.planner.runtime", Some((15, 14))),
        (
            "agents.planner.command.0",
            Some((line("command: [/opt/codex]"), 15)),
        ),
        ("issue.stages.plan.hooks.before_run", Some((line("echo one"), 11))),
        (
            "issue.stages.plan.hooks.after_run",
            Some((line("after_run: \"echo three"), 20)),
        ),
        ("issue.stages.build.2.agent", Some((line("agent: tool"), 14))),
        (
            "issue.stages.last.prompt",
            Some((line("Hello {{ issue.title }}"), 9)),
        ),
        ("issue.stages.nothing", None),
    ] {
        assert_eq!(loaded.document().position(path), position, "{path}");
    }
}

#[test]
fn lines_of_blocks_are_lines_of_the_file() {
    let loaded = load(FULL);
    let hook = "issue.stages.plan.hooks.before_run";
    let block = line("before_run: |") + 1;
    assert_eq!(loaded.document().block_line(hook, 1), Some((block, 11)));
    assert_eq!(loaded.document().block_line(hook, 2), Some((block + 1, 11)));
    assert_eq!(loaded.document().block_line(hook, 3), Some((block + 2, 11)));
    assert_eq!(
        loaded.document().block_line(hook, 99),
        Some((block + 2, 11)),
        "an engine may report the line behind the last"
    );
    assert_eq!(
        loaded.document().block_line("issue.stages.last.prompt", 1),
        Some((line("Hello {{ issue.title }}"), 9))
    );
    assert_eq!(
        loaded.document().block_line("issue.stages.build.2.prompt", 1),
        Some((line("prompt: do it"), 15))
    );
    assert_eq!(
        loaded
            .document()
            .block_line("issue.stages.plan.hooks.after_run", 1),
        None
    );
    assert_eq!(loaded.document().block_line("issue", 1), None);
}

#[test]
fn block_with_its_own_indentation_is_mapped() {
    let loaded = load("a: |2\n     x\n    y\n");
    assert_eq!(loaded.document().block_line("a", 1), Some((2, 3)));
    assert_eq!(loaded.document().block_line("a", 2), Some((3, 3)));
}

#[test]
fn missing_values_are_shown_at_the_key_above() {
    let loaded = load(FULL);
    let finding = Diagnostic::warning("x", "issue.stages.last.hooks.before_run", "").at(loaded.document());
    assert_eq!(
        (finding.line, finding.column, finding.end_column),
        (line("    last:"), 5, 9)
    );
    let finding = Diagnostic::warning("x", "no.such.path", "").at(loaded.document());
    assert_eq!((finding.line, finding.column), (2, 1));
    let finding = Diagnostic::warning("x", "issue.stages.plan.hooks.after_run", "").at_line(
        loaded.document(),
        1,
        Some(6),
    );
    assert_eq!(
        (finding.line, finding.column, finding.end_column),
        (line("after_run: \"echo three"), 20, 32),
        "a quoted text as a whole"
    );
    let finding = Diagnostic::warning("x", "issue.stages.plan.hooks.before_run", "").at_line(
        loaded.document(),
        2,
        None,
    );
    assert_eq!(
        (finding.line, finding.column, finding.end_column),
        (line("echo one"), 11, 19),
        "the whole line"
    );
}
