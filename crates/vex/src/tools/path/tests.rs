use serde_json::json;

use super::*;
use crate::tools::testing::Bench;
use crate::tools::{Hook, HookEvent, Permission, Policy};

fn hook(event: HookEvent, tools: &[&str], command: &str) -> Hook {
    Hook {
        event,
        tools: tools.iter().map(|name| name.parse().unwrap()).collect(),
        command: command.to_owned(),
        timeout_ms: 20_000,
    }
}

fn asked(hooks: impl IntoIterator<Item = Hook>) -> Bench {
    Bench::with(Policy {
        hooks: hooks.into_iter().collect(),
        ..Policy::default()
    })
}

fn code(result: &ToolResult) -> String {
    assert!(result.denied && result.is_error, "{result:?}");
    let refusal: Value = serde_json::from_str(&result.output).unwrap();
    assert!(refusal["message"].is_string());
    refusal["code"].as_str().unwrap().to_owned()
}

#[test]
fn bounded_text_keeps_both_ends() {
    let text = format!("start{}end", "ä".repeat(MAX_OUTPUT_BYTES));
    let short = bounded(text, MAX_OUTPUT_BYTES);
    assert!(short.starts_with("start") && short.ends_with("end"));
    assert!(short.len() < MAX_OUTPUT_BYTES + 100);
}

#[test]
fn unknown_plugin_tool_is_never_run() {
    let bench = Bench::with(Permission::Full);
    bench.put("a", "x");
    for name in [
        "mcp.files.read_file",
        "plugin_read",
        "read_file.",
        "mcp__files__read_file",
        "",
        "READ FILE",
    ] {
        let result = bench.call(name, json!({"path": "a"}));
        assert!(
            result.is_error && result.output.starts_with("there is no tool"),
            "{name}: {}",
            result.output
        );
    }
}

#[test]
fn toolbox_contains_only_the_named_tools() {
    let bench = Bench::with(Policy {
        permission: Permission::Full,
        tools: ["read_file", "edit"].map(|name| name.parse().unwrap()).into(),
        ..Policy::default()
    });
    let names: Vec<_> = bench
        .tools
        .definitions()
        .iter()
        .map(|tool| tool.name.as_ref())
        .collect();
    assert_eq!(names, ["read_file", "edit_file"]);
    let shown = bench.fails("run_command", json!({"command": "touch out"}));
    assert_eq!(
        shown,
        "there is no tool \"run_command\"; there are read_file, edit_file"
    );
    assert!(!bench.path("out").exists());
}

#[test]
fn aliases_and_forms_are_put_right_before_the_schema_judges() {
    let bench = Bench::new();
    bench.ok(
        "create_file",
        json!({"file_path": "./a/b.txt", "contents": "one\n", "explanation": "for you"}),
    );
    bench.ok(
        "Str-Replace",
        json!({"file": "a//b.txt", "oldString": "one", "new_str": "two", "replaceAll": "false"}),
    );
    let absolute = bench.path("a/b.txt").canonicalize().unwrap();
    for input in [
        json!({"path": absolute, "offset": "1", "limit": 5.0}),
        json!({"filename": "`a/b.txt`", "limit": null}),
        json!({"Path": " 'a/b.txt' "}),
        json!({"path": format!("file://{}", absolute.display())}),
        json!("{\"path\": \"a/b.txt\"}"),
    ] {
        assert_eq!(bench.ok("functions.ReadFile", input.clone()), "two\n", "{input}");
    }
    assert_eq!(
        bench
            .ok(
                "shell",
                json!({"cmd": ["sh", "-c", "cat b.txt | wc -l"], "workdir": "a"})
            )
            .trim(),
        "1"
    );
    assert_eq!(
        bench.ok(
            "bash",
            json!({"command": "echo hi", "timeout": "5000", "description": "Say hi"})
        ),
        "hi\n"
    );
    assert_eq!(bench.ok("list_dir", Value::Null), "a/\n");
}

#[test]
fn invalid_arguments_name_their_place() {
    let bench = Bench::new();
    let shown: Vec<String> = [
        ("read_file", json!({})),
        ("read_file", json!({"path": "a", "offset": "first", "limit": 0})),
        ("read_file", json!({"path": "a", "file_path": "b"})),
        ("write_file", json!({"path": ["a"], "content": {"x": 1}})),
        ("list_dir", json!({"depth": 3})),
        ("run_command", json!([1])),
        (
            "update_plan",
            json!({"steps": [{"step": "x", "status": "somehow"}]}),
        ),
    ]
    .into_iter()
    .map(|(tool, input)| bench.fails(tool, input))
    .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn schema_in_place_of_arguments_is_explained() {
    let bench = Bench::new();
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    assert_eq!(
        bench.fails("write_file", schema),
        "the arguments of write_file are their own schema, so it was not run: give values in its place, such as \
         {\"path\":\"…\",\"content\":\"…\"}"
    );
}

#[test]
fn truncated_arguments_are_not_run_as_if_there_were_none() {
    let bench = Bench::new();
    let mut call = ToolCall::new("c", "list_dir", json!({}));
    call.input = Arguments::Broken {
        raw: "{\"pa".to_owned(),
        reason: "it breaks off".to_owned(),
    };
    let result = bench.tools.call(&call, &bench.journal, &bench.interrupt);
    assert!(result.is_error && !result.denied);
    assert_eq!(
        result.output,
        "the arguments of list_dir cannot be read, so it was not run: it breaks off"
    );
}

#[test]
fn secrets_in_results_are_redacted() {
    let bench = Bench::new();
    let key = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    bench.put("env", format!("TOKEN={key}\n"));
    for (tool, input) in [
        ("read_file", json!({"path": "env"})),
        ("run_command", json!({"command": "cat env; exit 1"})),
        ("run_command", json!({"command": "cat env >&2"})),
    ] {
        let result = bench.call(tool, input);
        assert!(
            !result.output.contains(&key) && result.output.contains("[REDACTED"),
            "{}",
            result.output
        );
    }
}

#[test]
fn permissions_and_rules_hold_for_every_call() {
    let policy = |permission, allow: &[&str], deny: &[&str]| {
        let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Policy {
            permission,
            rules: crate::tools::Rules {
                allow: rules(allow),
                deny: rules(deny),
            },
            ..Policy::default()
        }
    };
    let run = |line: &str| json!({"command": line});
    let write = json!({"path": "a", "content": "x"});

    let bench = Bench::with(policy(
        Permission::ReadOnly,
        &["run_command(cat *)", "write_file(notes/**)"],
        &[],
    ));
    bench.put("in", "text");
    assert_eq!(code(&bench.call("write_file", write.clone())), "permission");
    assert_eq!(
        code(&bench.call("run_command", run("cat in; touch a"))),
        "permission"
    );
    assert_eq!(code(&bench.call("bash", run("cat $(ls)"))), "permission");
    assert_eq!(bench.ok("run_command", run("cat in")), "text");
    bench.ok("write_file", json!({"path": "notes/a", "content": "x"}));

    let bench = Bench::with(policy(
        Permission::Full,
        &["write_file"],
        &["write_file(a)", "bash(rm *)"],
    ));
    assert_eq!(code(&bench.call("create", write)), "rule");
    assert_eq!(code(&bench.call("run_command", run("true; rm -r x"))), "rule");
    assert_eq!(
        code(&bench.call("run_command", run("case x in x) true;; esac"))),
        "rule"
    );
    assert!(!bench.path("a").exists());
    bench.ok("run_command", run("true"));
}

#[test]
fn hook_that_hangs_crashes_or_prints_garbage_denies() {
    for (command, timeout_ms) in [
        ("sleep 1000", 100),
        ("trap '' TERM; sleep 1000 & wait", 100),
        ("exit 3", 20_000),
        ("echo '{\"decision\":\"allow\"}'; exit 1", 20_000),
        ("kill -9 $$", 20_000),
        ("true", 20_000),
        ("echo allow", 20_000),
        ("echo '{\"decision\":\"perhaps\"}'", 20_000),
        ("echo '{\"decision\":\"allow\",\"unknown\":1}'", 20_000),
        ("echo '{\"decision\":\"replace\"}'", 20_000),
        ("echo '{\"decision\":\"allow\"}{}'", 20_000),
        ("yes", 300),
        ("/no/such/hook", 20_000),
    ] {
        for event in [HookEvent::PreTool, HookEvent::PostTool] {
            let bench = asked([Hook {
                timeout_ms,
                ..hook(event, &[], command)
            }]);
            let result = bench.call("write_file", json!({"path": "a", "content": "x"}));
            assert_eq!(code(&result), "hook_failed", "{command}");
            // Before the run it prevents the call, after the run it withholds the result.
            assert_eq!(
                bench.path("a").exists(),
                event == HookEvent::PostTool,
                "{command}"
            );
        }
    }
}

#[test]
fn hook_receives_the_call_and_may_allow_deny_or_replace() {
    let bench = asked([
        hook(HookEvent::PreTool, &["Edit"], "exit 9"),
        hook(
            HookEvent::PreTool,
            &["write_file"],
            "cat > asked; echo noise >&2; echo '{\"decision\":\"allow\"}'",
        ),
        hook(
            HookEvent::PreTool,
            &["write_file"],
            "echo '{\"decision\":\"replace\",\"input\":{\"file_path\":\"./b\",\"content\":\"better\"}}'",
        ),
        hook(
            HookEvent::PostTool,
            &["write_file"],
            "cat > received; echo '{\"decision\":\"replace\",\"output\":\"kept ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8\"}'",
        ),
        hook(
            HookEvent::PreTool,
            &["list_dir"],
            "echo '{\"decision\":\"deny\",\"code\":\"no_lists\",\"message\":\"ask me\"}'",
        ),
    ]);
    let output = bench.ok("write_file", json!({"path": "a", "content": "x"}));
    assert!(output.starts_with("kept [REDACTED"), "{output}");
    assert!(!bench.path("a").exists());
    assert_eq!(bench.get("b"), "better");
    let before: Value = serde_json::from_str(&bench.get("asked")).unwrap();
    assert_eq!(before["event"], "pre_tool");
    assert_eq!(before["tool"], "write_file");
    assert_eq!(before["input"], json!({"path": "a", "content": "x"}));
    let after: Value = serde_json::from_str(&bench.get("received")).unwrap();
    assert_eq!(
        (&after["input"]["path"], &after["is_error"]),
        (&json!("b"), &json!(false))
    );
    let denied = bench.call("list_dir", json!({}));
    assert_eq!(denied.output, "{\"code\":\"no_lists\",\"message\":\"ask me\"}");
}

#[test]
fn hook_replacement_is_checked_again() {
    let replace = |input: &str| {
        let answer = format!("echo '{{\"decision\":\"replace\",\"input\":{input}}}'");
        let mut policy = Policy {
            hooks: vec![hook(HookEvent::PreTool, &[], &answer)],
            ..Policy::default()
        };
        policy.rules.deny.push("write_file(secret/**)".parse().unwrap());
        Bench::with(policy).call("write_file", json!({"path": "a", "content": "x"}))
    };
    assert_eq!(code(&replace("{\"path\":\"secret/x\",\"content\":\"\"}")), "rule");
    assert_eq!(
        code(&replace("{\"path\":\"../x\",\"content\":\"\"}")),
        "outside_workspace"
    );
    let unfit = replace("{\"content\":1}");
    assert!(
        unfit.is_error && unfit.output.contains("missing properties 'path'"),
        "{}",
        unfit.output
    );
}

#[test]
fn reads_run_side_by_side_and_everything_keeps_its_order() {
    // Each of the two reads waits for the other.
    let meet = "in=$(cat); me=b; other=a; case \"$in\" in *'\"call_id\":\"r1\"'*) me=a; other=b;; esac; touch $me; \
                while ! test -e $other; do sleep 0.01; done; echo '{\"decision\":\"allow\"}'";
    let bench = asked([hook(HookEvent::PreTool, &["read_file"], meet)]);
    bench.put("f", "old\n");
    let calls = [
        ToolCall::new("r1", "read_file", json!({"path": "f"})),
        ToolCall::new("r2", "read_file", json!({"path": "f"})),
        ToolCall::new("w1", "run_command", json!({"command": "echo 1 >> log; cat log"})),
        ToolCall::new("w2", "run_command", json!({"command": "echo 2 >> log; cat log"})),
        ToolCall::new("u", "no_such", json!({})),
        ToolCall::new("r3", "read_file", json!({"path": "log"})),
    ];
    let mut seen = Vec::new();
    let results = bench
        .tools
        .call_all(&calls, &bench.journal, &bench.interrupt, &mut |result| {
            seen.push(result.call_id.clone());
        });
    let shown: Vec<(&str, &str)> = results
        .iter()
        .map(|result| (result.call_id.as_str(), result.output.lines().last().unwrap()))
        .collect();
    assert_eq!(
        &shown[..4],
        [("r1", "old"), ("r2", "old"), ("w1", "1"), ("w2", "2")]
    );
    assert_eq!(shown[5], ("r3", "2"));
    assert_eq!(seen, ["r1", "r2", "w1", "w2", "u", "r3"]);
}

#[test]
fn many_reads_get_each_its_own_result() {
    let bench = Bench::new();
    let calls: Vec<ToolCall> = (0..40)
        .map(|i| {
            bench.put(&format!("f{i}"), format!("text {i}\n"));
            ToolCall::new(format!("c{i}"), "read_file", json!({"path": format!("f{i}")}))
        })
        .collect();
    let results = bench
        .tools
        .call_all(&calls, &bench.journal, &bench.interrupt, &mut |_| ());
    for (i, result) in results.iter().enumerate() {
        assert_eq!(
            (result.call_id.clone(), result.output.clone()),
            (format!("c{i}"), format!("text {i}\n"))
        );
    }
}

#[test]
fn interrupt_leaves_no_call_without_its_result() {
    let bench = Bench::new();
    bench.interrupt.set();
    let calls = [
        ToolCall::new("a", "read_file", json!({"path": "f"})),
        ToolCall::new("b", "read_file", json!({"path": "f"})),
        ToolCall::new("c", "run_command", json!({"command": "touch x"})),
        ToolCall::new("d", "write_file", json!({"path": "y", "content": "y"})),
    ];
    let results = bench
        .tools
        .call_all(&calls, &bench.journal, &bench.interrupt, &mut |_| ());
    assert_eq!(results.len(), 4);
    assert!(
        results
            .iter()
            .all(|result| result.is_error && result.output == "interrupted: it was not run")
    );
    assert!(!bench.path("x").exists() && !bench.path("y").exists());
}

#[test]
fn background_command_output_is_read_and_stopped() {
    let bench = Bench::new();
    let line = "echo hello; while :; do sleep 0.01; done";
    let started = bench.ok(
        "run_command",
        json!({"command": line, "run_in_background": "true"}),
    );
    assert!(started.contains("bg1"), "{started}");
    let mut all = String::new();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !all.contains("hello") {
        assert!(std::time::Instant::now() < deadline, "{all}");
        all += &bench.ok("command_output", json!({"id": "bg1"}));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(all.ends_with("s]\n"), "{all}");
    let last = bench.ok("command_output", json!({"id": "bg1", "kill": true}));
    assert!(last.ends_with("[bg1 was stopped]\n"), "{last}");
    assert_eq!(
        bench.ok("command_output", json!({"id": "bg1"})),
        "[bg1 was stopped]\n"
    );
    insta::assert_snapshot!(bench.fails("command_output", json!({"id": "bg7"})), @r#"there is no background command "bg7": there are bg1"#);
    let short = bench.ok("run_command", json!({"command": "exit 4", "background": true}));
    assert!(short.contains("bg2"));
    let mut shown = String::new();
    while !shown.contains("ended") {
        assert!(std::time::Instant::now() < deadline, "{shown}");
        shown = bench.ok("command_output", json!({"id": "bg2"}));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(shown, "[bg2 ended with exit code 4]\n");
}
