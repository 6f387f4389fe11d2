//! One case for each code: the file, and what is found where.

use super::*;

pub(super) fn found(text: &str) -> Vec<(&'static str, u32, u32)> {
    load(text)
        .diagnostics
        .iter()
        .map(|finding| (finding.code, finding.line, finding.column))
        .collect()
}

#[track_caller]
pub(super) fn one(replacements: &[(&str, &str)], code: &'static str, line: u32, column: u32) -> Diagnostic {
    let loaded = load(&minimal_with(replacements));
    assert_eq!(
        loaded.diagnostics.len(),
        1,
        "{}",
        loaded.render("workflow.yml", false)
    );
    let finding = loaded.diagnostics[0].clone();
    assert_eq!(
        (finding.code, finding.line, finding.column),
        (code, line, column),
        "{finding:?}"
    );
    finding
}

/// A slip must not leave a wall, a rule or a limit out.
#[test]
fn unknown_keys_of_protecting_sections_are_errors() {
    for (text, hint) in [
        (
            "sandbox: {netwrok: off}\n    model:",
            Some("did you mean `network`?"),
        ),
        (
            "sandbox: {processes: 3}\n    model:",
            Some("did you mean `pids`?"),
        ),
        ("sandbox: {zzzz: 3}\n    model:", None),
        ("sandbx: off\n    model:", Some("did you mean `sandbox`?")),
    ] {
        let loaded = load(&minimal_with(&[("model:", text)]));
        let finding = only(&loaded, "unknown_key");
        assert_eq!(
            (finding.severity, finding.hint.as_deref()),
            (Severity::Error, hint),
            "{text}"
        );
    }
    for text in [
        "aprove: {before: true}",
        "limit: {usd: 3}",
        "limits: {dollars: 3}",
        "output: {comment: {run: a}}",
        "intents: {owned_scope: [a]}",
    ] {
        let loaded = load(&minimal_with(&[(
            "agent: codex\n",
            &format!("agent: codex\n      {text}\n"),
        )]));
        assert_eq!(only(&loaded, "unknown_key").severity, Severity::Error, "{text}");
    }
}

#[test]
fn unknown_keys_are_warnings_with_a_suggestion() {
    let finding = one(&[("model:", "modl: x\n    model:")], "unknown_key", 4, 5);
    assert_eq!(finding.hint.as_deref(), Some("did you mean `model`?"));
    assert_eq!(finding.path, "agents.codex.modl");
    assert_eq!((finding.severity, finding.end_column), (Severity::Warning, 9));
    let finding = one(
        &[("agents:\n", "loop: {wait_ms: 5}\nagents:\n")],
        "unknown_key",
        1,
        8,
    );
    assert_eq!(
        finding.hint.as_deref(),
        Some("set the wait between two pulls in `issues.pull.idle_sec`")
    );
    assert_eq!(
        one(&[("agents:\n", "zzzz: 1\nagents:\n")], "unknown_key", 1, 1).hint,
        None
    );
}

#[test]
fn missing_keys_are_shown_where_they_should_be() {
    let finding = one(&[("    command: ./issues-json\n", "")], "missing_key", 6, 3);
    assert_eq!(finding.message, "`issues.pull.command` is missing");
    assert_eq!(finding.path, "issues.pull.command");
    one(&[("command: ./issues-json", "command:")], "missing_key", 7, 5);
    one(
        &[("      when:\n        state: todo\n", "")],
        "missing_key",
        10,
        5,
    );
    one(&[("    model: gpt-5.5\n", "")], "missing_key", 2, 3);
    one(&[("runtime: codex", "runtime: command")], "missing_key", 2, 3);
    one(
        &[("runtime: codex", "runtime: command\n    command: []")],
        "missing_key",
        4,
        5,
    );
    assert_eq!(found("x-a: 1\n"), [("missing_key", 1, 1); 3]);
}

#[test]
fn types_are_checked_and_nothing_is_coerced_silently() {
    assert_eq!(
        one(&[("state: todo", "state: 7")], "wrong_type", 12, 16)
            .hint
            .as_deref(),
        Some("quote the value: \"7\"")
    );
    one(&[("state: todo", "state: true")], "wrong_type", 12, 16);
    one(&[("state: todo", "state: {a: b}")], "wrong_type", 12, 9);
    one(
        &[("when:\n        state: todo", "when: todo")],
        "wrong_type",
        11,
        13,
    );
    one(
        &[("agents:\n", "loop: {max_iterations: 1.5}\nagents:\n")],
        "wrong_type",
        1,
        24,
    );
    one(&[("agent:", "parallel: yes\n      agent:")], "wrong_type", 13, 17);
    one(
        &[("  stages:", "  terminal_states: [7]\n  stages:")],
        "wrong_type",
        9,
        21,
    );
    one(&[("agents:\n", "loop: [1]\nagents:\n")], "wrong_type", 1, 1);
    one(&[("model:", "args: [a]\n    model:")], "wrong_type", 4, 5);
    one(
        &[("model:", "command: my-agent --flag\n    model:")],
        "wrong_type",
        4,
        14,
    );
    one(
        &[("model:", "price: {input: x}\n    model:")],
        "wrong_type",
        4,
        20,
    );
    assert_eq!(found("just text\n"), [("wrong_type", 1, 1)]);
    assert_eq!(found("- a\n")[0].0, "wrong_type");
}

#[test]
fn yaml_1_1_booleans_are_text() {
    let loaded = load(&minimal_with(&[
        ("state: todo", "state: on"),
        ("model: gpt-5.5", "model: no"),
    ]));
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(loaded.workflow.unwrap().issue.stages[0].when.first_state(), "on");
    let finding = one(
        &[("model:", "args: {search: yes}\n    model:")],
        "bool_word",
        4,
        20,
    );
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        load(&minimal_with(&[(
            "model:",
            "args: {search: \"yes\"}\n    model:"
        )]))
        .diagnostics,
        []
    );
}

#[test]
fn durations_are_checked() {
    one(
        &[("agent:", "timeout: 5 parsecs\n      agent:")],
        "bad_duration",
        13,
        16,
    );
    one(
        &[("agent:", "timeout: 1e300\n      agent:")],
        "bad_duration",
        13,
        16,
    );
    one(
        &[("agent:", "timeout: .nan\n      agent:")],
        "bad_duration",
        13,
        16,
    );
    one(&[("agent:", "timeout: true\n      agent:")], "wrong_type", 13, 16);
    one(&[("agent:", "timeout: -5\n      agent:")], "out_of_range", 13, 16);
    one(
        &[("agent:", "timeout: 99999d\n      agent:")],
        "out_of_range",
        13,
        16,
    );
    for key in ["timeout", "stall_timeout", "tool_timeout"] {
        let finding = one(
            &[("agent:", &format!("{key}: 0s\n      agent:"))],
            "out_of_range",
            13,
            9 + key.len() as u32,
        );
        assert!(finding.hint.unwrap().contains("30d"));
    }
    one(
        &[("command: ./issues-json", "command: x\n    idle_sec: 0")],
        "out_of_range",
        8,
        15,
    );
    one(
        &[("agent:", "hooks: {timeout: 0}\n      agent:")],
        "out_of_range",
        13,
        24,
    );
}

#[test]
fn number_bounds_are_checked() {
    one(
        &[("agents:\n", "loop: {max_issue_concurrency: 0}\nagents:\n")],
        "out_of_range",
        1,
        31,
    );
    one(
        &[(
            "agents:\n",
            "loop: {max_issue_concurrency: 4294967296}\nagents:\n",
        )],
        "out_of_range",
        1,
        31,
    );
    one(
        &[("agents:\n", "loop: {max_iterations: 0}\nagents:\n")],
        "out_of_range",
        1,
        24,
    );
    one(
        &[("agents:\n", "logging: {retention_days: 0}\nagents:\n")],
        "out_of_range",
        1,
        27,
    );
    one(
        &[("agent:", "retry: {max_attempts: 0}\n      agent:")],
        "out_of_range",
        13,
        29,
    );
    one(
        &[("agent:", "retry: {initial_backoff: 10m}\n      agent:")],
        "out_of_range",
        13,
        32,
    );
    one(
        &[("agent:", "retry: {max_backoff: 1s}\n      agent:")],
        "out_of_range",
        13,
        28,
    );
    one(
        &[("agent:", "hand_over: {max_tries: 0}\n      agent:")],
        "out_of_range",
        13,
        30,
    );
    one(
        &[("agent:", "hand_over: {initial_backoff: 1h}\n      agent:")],
        "out_of_range",
        13,
        36,
    );
    for price in ["-1", ".inf", ".nan", "-.inf"] {
        one(
            &[("model:", &format!("price: {{input: {price}}}\n    model:"))],
            "out_of_range",
            4,
            20,
        );
    }
}

#[test]
fn references_to_agents() {
    let finding = one(&[("agent: codex", "agent: codec")], "unknown_agent", 13, 14);
    assert_eq!(finding.hint.as_deref(), Some("did you mean `codex`?"));
    let finding = one(&[("agent: codex", "agent: zz")], "unknown_agent", 13, 14);
    assert_eq!(finding.hint.as_deref(), Some("available: `codex`"));
    let finding = one(
        &[("agents:\n", "agents:\n  x: {runtime: vex, model: m}\n")],
        "unused_agent",
        2,
        3,
    );
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        found("agents: {}\nissues: {pull: {command: x}}\nissue: {stages: {}}\n"),
        [("no_agents", 1, 1), ("no_stages", 3, 9)]
    );
}

#[test]
fn unknown_values_have_suggestions() {
    let finding = one(&[("runtime: codex", "runtime: claude")], "unknown_runtime", 3, 14);
    assert!(finding.hint.unwrap().starts_with("did you mean `claude_code`?"));
    let finding = one(&[("runtime: codex", "runtime: Codex")], "unknown_runtime", 3, 14);
    assert!(finding.hint.unwrap().starts_with("did you mean `codex`?"));
    let finding = one(
        &[("model:", "permission: read_only\n    model:")],
        "unknown_value",
        4,
        17,
    );
    assert_eq!(
        finding.hint.as_deref(),
        Some("did you mean `read-only`? Expected `read-only`, `workspace-write` or `full`")
    );
}

#[test]
fn names_become_parts_of_file_names() {
    let long = "x".repeat(65);
    for name in [
        ".hidden",
        "a/b",
        "..",
        "\"\"",
        "a b",
        "é",
        "\"a\\0\"",
        long.as_str(),
    ] {
        one(&[("    plan:", &format!("    {name}:"))], "bad_name", 10, 5);
    }
    one(
        &[("  codex:\n", "  co/dex:\n"), ("agent: codex", "agent: co/dex")],
        "bad_name",
        2,
        3,
    );
    for name in ["a", "2", "-a", "A.b_c-d", &"x".repeat(64)] {
        assert_eq!(
            load(&minimal_with(&[("    plan:", &format!("    {name}:"))])).diagnostics,
            [],
            "{name}"
        );
    }
}

#[test]
fn prompt_has_one_source() {
    one(&[("      prompt: Do it.\n", "")], "prompt_source", 10, 5);
    one(&[("prompt: Do it.", "prompt:")], "prompt_source", 10, 5);
    one(
        &[("prompt: Do it.", "prompt: Do it.\n      prompt_file: a.md")],
        "prompt_source",
        14,
        7,
    );
    one(&[("prompt: Do it.", "prompt: ' '")], "empty_value", 14, 15);
    one(&[("prompt: Do it.", "prompt: \"a\\0\"")], "bad_text", 14, 15);
}

#[test]
fn keys_without_effect_are_reported() {
    for key in ["provider: replay", "output: jsonl"] {
        assert_eq!(
            one(&[("model:", &format!("{key}\n    model:"))], "unused_key", 4, 5).severity,
            Severity::Warning
        );
    }
    let command = "runtime: command\n    command: [x]\n    base_url: x";
    one(&[("runtime: codex", command)], "unused_key", 5, 5);
    let runtime = ("runtime: codex", command.trim_end_matches("\n    base_url: x"));
    for key in ["resume: true", "resume_prompt: x"] {
        one(
            &[runtime, ("agent:", &format!("{key}\n      agent:"))],
            "unused_key",
            14,
            7,
        );
    }
    let off = ("agent:", "resume: false\n      agent:");
    assert_eq!(load(&minimal_with(&[runtime, off])).diagnostics, []);
    let twice = ("agent:", "resume: false\n      resume_prompt: x\n      agent:");
    one(&[twice], "unused_key", 14, 7);
    one(
        &[("  pull:", "  show: {timeout: 1s}\n  pull:")],
        "unused_key",
        6,
        10,
    );
    let loaded = load(&MINIMAL.replace("model:", "base_url: http://localhost:1\n    model:"));
    assert_eq!(loaded.diagnostics, []);
}

#[test]
fn agent_flags_are_checked() {
    let arg = |arg: &str| [("model:".to_owned(), format!("args: {{{arg}}}\n    model:"))];
    let check = |text: &str, code, column| {
        let pair = arg(text);
        one(&[(&pair[0].0, &pair[0].1)], code, 4, column)
    };
    check("a: ~", "bad_arg", 15);
    check("a: {b: 1}", "bad_arg", 12);
    check("a: [1, ~]", "bad_arg", 19);
    check("a=b: 1", "bad_arg", 12);
    check("--: 1", "bad_arg", 12);
    check("a: \"\\0\"", "bad_text", 15);
    assert_eq!(
        check("--effort: high", "dashed_arg", 12).hint.as_deref(),
        Some("write `effort`: Vik adds the dashes")
    );
    let text = minimal_with(&[("model:", "args: {-effort: high, effort: low}\n    model:")]);
    assert_eq!(found(&text), [("dashed_arg", 4, 12), ("duplicate_key", 4, 27)]);
}

#[test]
fn environment_names_are_checked() {
    one(
        &[("model:", "env: {\"A=B\": x}\n    model:")],
        "bad_env_name",
        4,
        11,
    );
    one(&[("model:", "env: {\"\": x}\n    model:")], "bad_env_name", 4, 11);
    one(
        &[("model:", "env_pass: [\"A=B\"]\n    model:")],
        "bad_env_name",
        4,
        16,
    );
    one(&[("model:", "env: {A: }\n    model:")], "empty_value", 4, 11);
}

#[test]
fn yaml_keys_aliases_and_tags_are_checked() {
    let finding = one(&[("model:", "model: a\n    model:")], "duplicate_key", 5, 5);
    assert_eq!((finding.related[0].line, finding.related[0].column), (4, 5));
    let with = |text: &str| found(&format!("{MINIMAL}{text}"));
    assert_eq!(with("? [a]\n: b\n"), [("bad_key", 15, 3)]);
    assert_eq!(with("<<: 5\n"), [("bad_merge", 15, 1)]);
    assert_eq!(with("x-a: &a [*a]\n"), [("bad_alias", 15, 10)]);
    assert_eq!(with("x-a: !foo 1\n"), [("bad_tag", 15, 6)]);
}

#[test]
fn files_that_are_no_workflow() {
    for text in ["", "\n", "# only a comment\n", "---\n", "~", "\u{feff}"] {
        assert_eq!(found(text).len(), 1, "{text:?}");
        assert_eq!(found(text)[0].0, "empty", "{text:?}");
    }
    assert_eq!(
        found(&format!("{MINIMAL}---\na: 1\n")),
        [("multiple_documents", 15, 1)]
    );
    assert_eq!(found("a: [1\n"), [("syntax", 2, 1)]);
    assert_eq!(found(&"[".repeat(40)), [("too_deep", 1, 33)]);
    assert_eq!(found(&" ".repeat(MAX_BYTES + 1)), [("too_large", 1, 1)]);
    assert_eq!(
        found(&format!("{MINIMAL}x-a: \u{0}\n")),
        [("bad_character", 15, 6)]
    );
    assert_eq!(
        found(&(0..200).map(|n| format!("k{n}: 1\n")).collect::<String>())
            .last()
            .unwrap()
            .0,
        "too_many"
    );
}

#[test]
fn tab_indentation_has_a_hint() {
    let loaded = load("agents:\n\tcodex: 1\n");
    let finding = &loaded.diagnostics[0];
    assert_eq!((finding.code, finding.line), ("syntax", 2));
    assert_eq!(
        finding.hint.as_deref(),
        Some("indent with spaces; YAML does not allow tabs")
    );
}

#[test]
fn codes_are_documented_and_tested() {
    let tests = [
        include_str!("codes.rs"),
        include_str!("across.rs"),
        include_str!("approve.rs"),
        include_str!("intent.rs"),
        include_str!("notify.rs"),
        include_str!("outputs.rs"),
        include_str!("sandbox.rs"),
        include_str!("secrets.rs"),
        include_str!("tracker.rs"),
        include_str!("../triggers/tests.rs"),
    ]
    .concat();
    for (code, _) in CODES {
        assert!(tests.contains(&format!("\"{code}\"")), "{code}");
    }
    let mut sorted: Vec<_> = CODES.to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, CODES);
}

#[test]
fn path_with_a_variable_or_foreign_home_is_an_error() {
    let file = |key: &str| {
        let (root, prompt, secret) = match key.split_once(": ").unwrap() {
            ("root", value) => (value, "p.md", "s"),
            ("prompt", value) => ("r", value, "s"),
            (_, value) => ("r", "p.md", value),
        };
        format!(
            "workspace: {{root: {root}}}\nsecrets: {{S: {{file: {secret}}}}}\nagents: {{a: {{runtime: codex, model: m}}}}\n\
             issues: {{pull: {{command: x, secrets: [S]}}}}\nissue: {{stages: {{s: {{when: {{state: t}}, agent: a, prompt_file: {prompt}}}}}}}\n"
        )
    };
    for key in ["root", "prompt", "secret"] {
        for value in ["$X", "'${X}/y'", "a/$X", "~root/x", "/x/$_y"] {
            let text = file(&format!("{key}: {value}"));
            let codes: Vec<_> = found(&text).iter().map(|(code, ..)| *code).collect();
            assert_eq!(codes, ["bad_path"], "{text}");
        }
        for value in ["'~'", "~/x", "/x/y", "x y", "'a$'", "a$1"] {
            let text = file(&format!("{key}: {value}"));
            assert!(found(&text).is_empty(), "{text}");
        }
    }
}
