//! One case for each code: the file, and what is found where.

use super::*;

pub(super) fn found(text: &str) -> Vec<(&'static str, u32, u32)> {
    load(text)
        .diagnostics
        .iter()
        .map(|finding| (finding.code, finding.line, finding.column))
        .collect()
}

/// A slip must not leave a wall, a rule or a limit out.
#[test]
fn unknown_keys_of_protecting_sections_are_errors() {
    for (text, hint) in [
        ("sandbox: {^netwrok: off}", Some("did you mean `network`?")),
        ("sandbox: {^processes: 3}", Some("did you mean `pids`?")),
        ("sandbox: {^zzzz: 3}", None),
        ("^sandbx: off", Some("did you mean `sandbox`?")),
    ] {
        let finding = agent(text, "unknown_key");
        assert_eq!(
            (finding.severity, finding.hint.as_deref()),
            (Severity::Error, hint),
            "{text}"
        );
    }
    for text in [
        "^aprove: {before: true}",
        "^limit: {usd: 3}",
        "limits: {^dollars: 3}",
        "^output: {comment: {run: a}}",
        "^intents: {owned_scope: [a]}",
    ] {
        assert_eq!(stage(text, "unknown_key").severity, Severity::Error, "{text}");
    }
}

#[test]
fn unknown_keys_are_warnings_with_a_suggestion() {
    let finding = agent("^modl: x", "unknown_key");
    assert_eq!(finding.hint.as_deref(), Some("did you mean `model`?"));
    assert_eq!(finding.path, "agents.codex.modl");
    assert_eq!((finding.severity, finding.end_column), (Severity::Warning, 9));
    let finding = top("loop: {^wait_ms: 5}", "unknown_key");
    assert_eq!(
        finding.hint.as_deref(),
        Some("set the wait between two pulls in `issues.pull.idle_sec`")
    );
    assert_eq!(top("^zzzz: 1", "unknown_key").hint, None);
}

#[test]
fn missing_keys_are_shown_where_they_should_be() {
    let pull = ("pull:\n    command: ./issues-json\n", "^pull:\n");
    let finding = one(&[pull], "missing_key");
    assert_eq!(finding.message, "`issues.pull.command` is missing");
    assert_eq!(finding.path, "issues.pull.command");
    one(&[("command: ./issues-json", "^command:")], "missing_key");
    let when = ("plan:\n      when:\n        state: todo\n", "^plan:\n");
    one(&[when], "missing_key");
    let codex = ("codex:", "^codex:");
    one(&[codex, ("    model: gpt-5.5\n", "")], "missing_key");
    one(&[codex, ("runtime: codex", "runtime: command")], "missing_key");
    let empty = "runtime: command\n    ^command: []";
    one(&[("runtime: codex", empty)], "missing_key");
    assert_eq!(found("x-a: 1\n"), [("missing_key", 1, 1); 3]);
}

#[test]
fn types_are_checked_and_nothing_is_coerced_silently() {
    let finding = one(&[("state: todo", "state: ^7")], "wrong_type");
    assert_eq!(finding.hint.as_deref(), Some("quote the value: \"7\""));
    one(&[("state: todo", "state: ^true")], "wrong_type");
    one(&[("state: todo", "^state: {a: b}")], "wrong_type");
    one(&[("when:\n        state: todo", "when: ^todo")], "wrong_type");
    top("loop: {max_iterations: ^1.5}", "wrong_type");
    top("^loop: [1]", "wrong_type");
    issue("terminal_states: [^7]", "wrong_type");
    stage("parallel: ^yes", "wrong_type");
    agent("^args: [a]", "wrong_type");
    agent("command: ^my-agent --flag", "wrong_type");
    agent("price: {input: ^x}", "wrong_type");
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
    let finding = agent("args: {search: ^yes}", "bool_word");
    assert_eq!(finding.severity, Severity::Warning);
    let quoted = ("model:", "args: {search: \"yes\"}\n    model:");
    assert_eq!(load(&minimal_with(&[quoted])).diagnostics, []);
}

#[test]
fn durations_are_checked() {
    for (timeout, code) in [
        ("5 parsecs", "bad_duration"),
        ("1e300", "bad_duration"),
        (".nan", "bad_duration"),
        ("true", "wrong_type"),
        ("-5", "out_of_range"),
        ("99999d", "out_of_range"),
    ] {
        stage(&format!("timeout: ^{timeout}"), code);
    }
    for key in ["timeout", "stall_timeout", "tool_timeout"] {
        let finding = stage(&format!("{key}: ^0s"), "out_of_range");
        assert!(finding.hint.unwrap().contains("30d"));
    }
    let idle = "command: x\n    idle_sec: ^0";
    one(&[("command: ./issues-json", idle)], "out_of_range");
    stage("hooks: {timeout: ^0}", "out_of_range");
}

#[test]
fn number_bounds_are_checked() {
    for text in [
        "loop: {max_issue_concurrency: ^0}",
        "loop: {max_issue_concurrency: ^4294967296}",
        "loop: {max_iterations: ^0}",
        "logging: {retention_days: ^0}",
    ] {
        top(text, "out_of_range");
    }
    for text in [
        "retry: {max_attempts: ^0}",
        "retry: {initial_backoff: ^10m}",
        "retry: {max_backoff: ^1s}",
        "hand_over: {max_tries: ^0}",
        "hand_over: {initial_backoff: ^1h}",
    ] {
        stage(text, "out_of_range");
    }
    for price in ["-1", ".inf", ".nan", "-.inf"] {
        agent(&format!("price: {{input: ^{price}}}"), "out_of_range");
    }
}

#[test]
fn references_to_agents() {
    let finding = one(&[("agent: codex", "agent: ^codec")], "unknown_agent");
    assert_eq!(finding.hint.as_deref(), Some("did you mean `codex`?"));
    let finding = one(&[("agent: codex", "agent: ^zz")], "unknown_agent");
    assert_eq!(finding.hint.as_deref(), Some("available: `codex`"));
    let unused = "agents:\n  ^x: {runtime: vex, model: m}\n";
    let finding = one(&[("agents:\n", unused)], "unused_agent");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        found("agents: {}\nissues: {pull: {command: x}}\nissue: {stages: {}}\n"),
        [("no_agents", 1, 1), ("no_stages", 3, 9)]
    );
}

#[test]
fn unknown_values_have_suggestions() {
    for (runtime, meant) in [("claude", "claude_code"), ("Codex", "codex")] {
        let runtime = format!("runtime: ^{runtime}");
        let finding = one(&[("runtime: codex", &runtime)], "unknown_runtime");
        let hint = format!("did you mean `{meant}`?");
        assert!(finding.hint.unwrap().starts_with(&hint), "{runtime}");
    }
    let finding = agent("permission: ^read_only", "unknown_value");
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
        one(&[("    plan:", &format!("    ^{name}:"))], "bad_name");
    }
    let agent = ("agent: codex", "agent: co/dex");
    one(&[("  codex:\n", "  ^co/dex:\n"), agent], "bad_name");
    for name in ["a", "2", "-a", "A.b_c-d", &"x".repeat(64)] {
        let text = minimal_with(&[("    plan:", &format!("    {name}:"))]);
        assert_eq!(load(&text).diagnostics, [], "{name}");
    }
}

#[test]
fn prompt_has_one_source() {
    let plan = ("plan:", "^plan:");
    one(&[plan, ("      prompt: Do it.\n", "")], "prompt_source");
    one(&[plan, ("prompt: Do it.", "prompt:")], "prompt_source");
    let both = "^prompt: Do it.\n      prompt_file: a.md";
    one(&[("prompt: Do it.", both)], "prompt_source");
    one(&[("prompt: Do it.", "prompt: ^' '")], "empty_value");
    one(&[("prompt: Do it.", "prompt: ^\"a\\0\"")], "bad_text");
}

#[test]
fn keys_without_effect_are_reported() {
    for key in ["^provider: replay", "^output: jsonl"] {
        assert_eq!(agent(key, "unused_key").severity, Severity::Warning);
    }
    let command = "runtime: command\n    command: [x]";
    let with_url = format!("{command}\n    ^base_url: x");
    one(&[("runtime: codex", &with_url)], "unused_key");
    let runtime = ("runtime: codex", command);
    for key in ["^resume: true", "^resume_prompt: x"] {
        let stage = ("agent:", &*format!("{key}\n      agent:"));
        one(&[runtime, stage], "unused_key");
    }
    let off = ("agent:", "resume: false\n      agent:");
    assert_eq!(load(&minimal_with(&[runtime, off])).diagnostics, []);
    stage("resume: false\n      ^resume_prompt: x", "unused_key");
    for on in ["true", "run", "issue"] {
        let on = ("agent:", &*format!("resume: {on}\n      agent:"));
        assert_eq!(load(&minimal_with(&[on])).diagnostics, []);
    }
    stage("resume: ^always", "unknown_value");
    let show = "  show: {^timeout: 1s}\n  pull:";
    one(&[("  pull:", show)], "unused_key");
    let loaded = load(&MINIMAL.replace("model:", "base_url: http://localhost:1\n    model:"));
    assert_eq!(loaded.diagnostics, []);
}

#[test]
fn agent_flags_are_checked() {
    let arg = |arg: &str, code| agent(&format!("args: {{{arg}}}"), code);
    arg("a: ^~", "bad_arg");
    arg("^a: {b: 1}", "bad_arg");
    arg("a: [1, ^~]", "bad_arg");
    arg("^a=b: 1", "bad_arg");
    arg("^--: 1", "bad_arg");
    arg("a: ^\"\\0\"", "bad_text");
    assert_eq!(
        arg("^--effort: high", "dashed_arg").hint.as_deref(),
        Some("write `effort`: Vik adds the dashes")
    );
    let text = minimal_with(&[("model:", "args: {-effort: high, effort: low}\n    model:")]);
    assert_eq!(found(&text), [("dashed_arg", 4, 12), ("duplicate_key", 4, 27)]);
}

#[test]
fn environment_names_are_checked() {
    agent("env: {^\"A=B\": x}", "bad_env_name");
    agent("env: {^\"\": x}", "bad_env_name");
    agent("env_pass: [^\"A=B\"]", "bad_env_name");
    agent("env: {^A: }", "empty_value");
}

#[test]
fn yaml_keys_aliases_and_tags_are_checked() {
    let finding = one(&[("model:", "model: a\n    ^model:")], "duplicate_key");
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
    let many: String = (0..200).map(|n| format!("k{n}: 1\n")).collect();
    assert_eq!(found(&many).last().unwrap().0, "too_many");
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
        include_str!("durable.rs"),
        include_str!("engine.rs"),
        include_str!("intent.rs"),
        include_str!("mcp.rs"),
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
