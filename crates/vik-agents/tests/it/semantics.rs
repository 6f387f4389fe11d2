//! The meaning of a session, line by line, for cases that the recordings do not cover.

use vik_agents::{Adapter, AgentLive, Arriving, Conclusion, Exit};
use vik_core::outcome::{FailureClass, Usage};
use vik_core::workflow::{ArgValue, Runtime};

use crate::{adapter, profile, read};

fn feed(adapter: &mut dyn Adapter, lines: &[&str]) -> Vec<String> {
    read(adapter, lines).0
}

fn conclude(runtime: Runtime, lines: &[&str], exit: Exit) -> Conclusion {
    let mut adapter = adapter(&profile(runtime));
    feed(adapter.as_mut(), lines);
    adapter.conclude(exit, "")
}

const DONE: &str = r#"{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}"#;

#[test]
fn codex_events_are_read() {
    let mut codex = adapter(&profile(Runtime::Codex));
    let events = feed(
        codex.as_mut(),
        &[
            r#"{"type":"thread.started","thread_id":"t1"}"#,
            r#"{"type":"turn.started"}"#,
            r#"{"type":"error","message":"Reconnecting... 2/5 (stream disconnected before completion)"}"#,
            r#"{"type":"item.started","item":{"id":"i1","type":"mcp_tool_call","server":"s","tool":"echo","arguments":{"a":1},"result":null,"error":null,"status":"in_progress"}}"#,
            r#"{"type":"item.completed","item":{"id":"i1","type":"mcp_tool_call","server":"s","tool":"echo","arguments":{"a":1},"result":null,"error":{"message":"no"},"status":"failed"}}"#,
            r#"{"type":"item.completed","item":{"id":"i2","type":"file_change","changes":[{"path":"/a","kind":"add"}],"status":"completed"}}"#,
            r#"{"type":"item.updated","item":{"id":"i3","type":"todo_list","items":[]}}"#,
            r#"{"type":"item.completed","item":{"id":"i4","type":"agent_message","text":"done\n"}}"#,
            "not json",
            DONE,
        ],
    );
    insta::assert_snapshot!(events.join("\n"), @r#"
    {"kind":"session_started","provider_session_id":"t1"}
    {"kind":"error","message":"Reconnecting... 2/5 (stream disconnected before completion)","fatal":false,"failure_class":"network"}
    {"kind":"tool_call","call_id":"i1","tool":"mcp__s__echo","input":{"a":1}}
    {"kind":"tool_result","call_id":"i1","is_error":true,"output":{"message":"no"}}
    {"kind":"tool_call","call_id":"i2","tool":"file_change","input":[{"path":"/a","kind":"add"}]}
    {"kind":"tool_result","call_id":"i2","is_error":false,"output":[{"path":"/a","kind":"add"}]}
    {"kind":"unknown","raw":{"type":"item.updated","item":{"id":"i3","type":"todo_list","items":[]}}}
    {"kind":"message","text":"done\n"}
    {"kind":"malformed","line":"not json"}
    {"kind":"token_usage","usage":{"input_tokens":10,"cached_input_tokens":0,"cache_write_input_tokens":0,"output_tokens":2}}
    {"kind":"completed","ok":true,"message":"done\n","reason":"turn.completed"}
    "#);
    assert!(codex.conclude(Exit::Code(0), "").ok);
}

#[test]
fn codex_needs_the_turn_and_the_exit_code() {
    assert!(conclude(Runtime::Codex, &[DONE], Exit::Code(0)).ok);
    assert!(!conclude(Runtime::Codex, &[DONE], Exit::Code(1)).ok);
    assert!(!conclude(Runtime::Codex, &[DONE], Exit::Signal(15)).ok);
    assert!(!conclude(Runtime::Codex, &[], Exit::Code(0)).ok);
    let again = [DONE, r#"{"type":"turn.started"}"#];
    assert!(
        !conclude(Runtime::Codex, &again, Exit::Code(0)).ok,
        "a second turn was left open"
    );
    let failed = r#"{"type":"turn.failed","error":{"message":"unexpected status 503 Service Unavailable"}}"#;
    let seen = conclude(Runtime::Codex, &[failed], Exit::Code(0));
    assert_eq!(
        (seen.ok, seen.failure_class),
        (false, Some(FailureClass::Overloaded))
    );
    // Unexpected shapes of unimportant fields must not lose the end of the turn.
    for odd in [
        r#"{"type":"turn.completed","usage":{"input_tokens":null,"output_tokens":"2"}}"#,
        r#"{"type":"turn.completed","usage":7}"#,
        r#"{"type":"turn.completed"}"#,
    ] {
        assert!(conclude(Runtime::Codex, &[odd], Exit::Code(0)).ok, "{odd}");
    }
    assert!(!conclude(Runtime::Codex, &[r#"["turn.completed"]"#], Exit::Code(0)).ok);
}

#[test]
fn codex_tools_are_open_until_they_or_their_turn_end() {
    let mut codex = adapter(&profile(Runtime::Codex));
    let start = |id: &str| {
        format!(
            r#"{{"type":"item.started","item":{{"id":"{id}","type":"command_execution","command":"sleep 9","status":"in_progress"}}}}"#
        )
    };
    feed(codex.as_mut(), &[&start("a"), &start("b")]);
    assert_eq!(
        (codex.open_tools(), codex.activity()),
        (2, Some("command_execution sleep 9"))
    );
    feed(
        codex.as_mut(),
        &[
            r#"{"type":"item.completed","item":{"id":"a","type":"command_execution","exit_code":0,"status":"completed"}}"#,
        ],
    );
    assert_eq!(codex.open_tools(), 1);
    feed(
        codex.as_mut(),
        &[r#"{"type":"item.started","item":{"id":"t","type":"todo_list","items":[]}}"#],
    );
    assert_eq!(codex.open_tools(), 1, "a plan is no tool call");
    feed(codex.as_mut(), &[DONE]);
    assert_eq!(codex.open_tools(), 0);
}

#[test]
fn error_before_progress_is_not_the_failure_reason() {
    let lines = [
        r#"{"type":"error","message":"Reconnecting... 1/5 (rate limit)"}"#,
        r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"on it"}}"#,
    ];
    let seen = conclude(Runtime::Codex, &lines, Exit::Code(1));
    assert_eq!(seen.failure_class, Some(FailureClass::Agent));
    let seen = conclude(Runtime::Codex, &lines[..1], Exit::Code(1));
    assert_eq!(seen.failure_class, Some(FailureClass::RateLimit));
}

#[test]
fn output_schema_needs_a_structured_answer() {
    let mut codex = profile(Runtime::Codex);
    codex.args = vec![("output-schema".to_owned(), ArgValue::Text("s.json".to_owned()))];
    for (text, ok) in [(r#"{\"a\": 1}"#, true), ("no json", false)] {
        let mut adapter = adapter(&codex);
        let message = format!(
            r#"{{"type":"item.completed","item":{{"id":"i","type":"agent_message","text":"{text}"}}}}"#
        );
        feed(adapter.as_mut(), &[&message, DONE]);
        let seen = adapter.conclude(Exit::Code(0), "");
        assert_eq!((seen.ok, seen.result.is_some()), (ok, ok), "{text}");
    }
    let mut claude = profile(Runtime::ClaudeCode);
    claude.args = vec![("json-schema".to_owned(), ArgValue::Text("{}".to_owned()))];
    for (field, ok) in [(r#","structured_output":{"a":1}"#, true), ("", false)] {
        let mut adapter = adapter(&claude);
        let result =
            format!(r#"{{"type":"result","subtype":"success","is_error":false,"result":"x"{field}}}"#);
        feed(adapter.as_mut(), &[&result]);
        assert_eq!(adapter.conclude(Exit::Code(0), "").ok, ok, "{field}");
    }
}

#[test]
fn claude_code_needs_a_good_result_and_exit_code() {
    let result = |fields: &str| format!(r#"{{"type":"result",{fields}}}"#);
    for (fields, ok) in [
        (r#""subtype":"success","is_error":false,"result":"x""#, true),
        (
            r#""subtype":"success","is_error":true,"result":"API Error""#,
            false,
        ),
        (
            r#""subtype":"success","is_error":false,"api_error_status":500"#,
            false,
        ),
        (
            r#""subtype":"success","is_error":false,"terminal_reason":"aborted_streaming""#,
            false,
        ),
        (r#""subtype":"error_during_execution","is_error":false"#, false),
        (r#""subtype":"success""#, false),
        (r#""is_error":false"#, false),
        (
            r#""subtype":"success","is_error":false,"message":7,"usage":"new","total_cost_usd":"new","errors":{}"#,
            true,
        ),
    ] {
        let seen = conclude(Runtime::ClaudeCode, &[&result(fields)], Exit::Code(0));
        assert_eq!(seen.ok, ok, "{fields}: {:?}", seen.reason);
        assert!(
            !conclude(Runtime::ClaudeCode, &[&result(fields)], Exit::Code(143)).ok,
            "{fields}"
        );
    }
}

#[test]
fn claude_code_failures_are_classed() {
    use FailureClass::*;
    for (class, status, text, expected) in [
        (
            "rate_limit",
            "429",
            "API Error: Request rejected (429)",
            RateLimit,
        ),
        ("server_error", "503", "API Error: 503 no", Overloaded),
        ("overloaded", "529", "Overloaded", Overloaded),
        ("authentication_failed", "401", "API Error: 401 bad key", Auth),
        ("authentication_failed", "403", "API Error: 403", Auth),
        (
            "authentication_failed",
            "null",
            "Not logged in · Please run /login",
            Auth,
        ),
        (
            "model_not_found",
            "404",
            "There's an issue with the selected model",
            Model,
        ),
        ("invalid_request", "400", "Prompt is too long", Context),
        ("unknown", "400", "API Error: 400 invalid request", Agent),
        ("billing_error", "400", "Credit balance is too low", RateLimit),
        (
            "server_error",
            "null",
            "API Error: Unable to connect to API (ECONNREFUSED)",
            Network,
        ),
        (
            "server_error",
            "null",
            "API Error: Connection closed mid-response",
            Network,
        ),
        ("server_error", "null", "API Error: it broke", Overloaded),
        ("unknown", "null", "API Error: Request timed out", Network),
        ("unknown", "null", "API Error: JSON Parse error", Agent),
    ] {
        let synthetic = format!(
            r#"{{"type":"assistant","message":{{"id":"s","model":"<synthetic>","content":[{{"type":"text","text":"{text}"}}]}},"error":"{class}"}}"#
        );
        let result = format!(
            r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":{status},"result":"{text}"}}"#
        );
        let seen = conclude(Runtime::ClaudeCode, &[&synthetic, &result], Exit::Code(1));
        assert_eq!(seen.failure_class, Some(expected), "{class} {status} {text}");
        assert_eq!(seen.reason.as_deref(), Some(text));
        // Killed before the result.
        let seen = conclude(Runtime::ClaudeCode, &[&synthetic], Exit::Signal(9));
        assert!(!seen.ok && seen.reason.as_deref() == Some(text));
    }
}

#[test]
fn claude_code_results_add_up() {
    let result = |cost: f64, input: u64| {
        format!(
            r#"{{"type":"result","subtype":"success","is_error":false,"result":"x","total_cost_usd":{cost},"usage":{{"input_tokens":{input},"cache_read_input_tokens":1,"cache_creation_input_tokens":2,"output_tokens":3}}}}"#
        )
    };
    let seen = conclude(
        Runtime::ClaudeCode,
        &[&result(0.5, 10), &result(0.75, 20)],
        Exit::Code(0),
    );
    let expected = Usage {
        input_tokens: 36,
        cached_input_tokens: 2,
        cache_write_input_tokens: 4,
        output_tokens: 6,
    };
    assert_eq!((seen.usage, seen.cost_usd), (expected, Some(0.75)));
}

#[test]
fn claude_code_events_are_read() {
    let mut claude = adapter(&profile(Runtime::ClaudeCode));
    let events = feed(
        claude.as_mut(),
        &[
            r#"{"type":"system","subtype":"init","session_id":"s1","model":"m1","claude_code_version":"2.1","tools":[]}"#,
            r#"{"type":"assistant","message":{"id":"a","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"hi"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":4,"cache_read_input_tokens":6,"output_tokens":1}},"parent_tool_use_id":null}"#,
            r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"Exit code 3\nno","is_error":true,"tool_use_id":"t1"}]}}"#,
            r#"{"type":"assistant","message":{"id":"b","content":[{"type":"text","text":"from below"}]},"parent_tool_use_id":"t9"}"#,
            r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1795400000,"utilization":0.92}}"#,
            r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"rm"}}}"#,
            r#"{"type":"assistant","message":{"id":"c","content":[{"type":"hologram","id":"h"}]}}"#,
        ],
    );
    insta::assert_snapshot!(events.join("\n"), @r#"
    {"kind":"session_started","provider_session_id":"s1","agent_version":"2.1","model":"m1"}
    {"kind":"token_usage","usage":{"input_tokens":10,"cached_input_tokens":6,"cache_write_input_tokens":0,"output_tokens":1}}
    {"kind":"reasoning","text":"hm"}
    {"kind":"message","text":"hi"}
    {"kind":"tool_call","call_id":"t1","tool":"Bash","input":{"command":"ls"}}
    {"kind":"tool_result","call_id":"t1","is_error":true,"exit_code":3,"output":"Exit code 3\nno"}
    {"kind":"message","text":"from below"}
    {"kind":"rate_limit","status":"allowed_warning","resets_at_unix":1795400000,"utilization":0.92}
    {"kind":"approval","tool":"Bash","decision":"requested","detail":"{\"command\":\"rm\"}"}
    {"kind":"unknown","raw":{"type":"assistant","message":{"id":"c","content":[{"type":"hologram","id":"h"}]}}}
    "#);
    let seen = claude.conclude(Exit::Signal(9), "");
    assert_eq!(
        seen.last_message.as_deref(),
        Some("hi"),
        "a sub-agent's words are not the agent's"
    );
    assert_eq!(seen.usage.input_tokens, 10, "a killed run has what was seen");
}

#[test]
fn vex_end_event_and_exit_code_must_agree() {
    let lines = [
        r#"{"v":1,"seq":1,"type":"session_start","session_id":"x","model":"m","version":"0.2.0"}"#,
        r#"{"v":1,"seq":2,"type":"tool_call","call_id":"c1","tool":"run_command","input":{"command":"ls"}}"#,
        r#"{"v":1,"seq":3,"type":"tool_result","call_id":"c1","is_error":false,"exit_code":0,"output":"a"}"#,
        r#"{"v":1,"seq":4,"type":"usage","input_tokens":5,"cached_input_tokens":1,"cache_write_input_tokens":0,"output_tokens":2,"cost_usd":0.25}"#,
        r#"{"v":1,"seq":5,"type":"message","text":"done"}"#,
    ];
    let end = |ok: bool, code: i32| {
        format!(
            r#"{{"v":1,"seq":6,"type":"end","ok":{ok},"reason":"r","message":"m","exit_code":{code},"usage":{{"input_tokens":7,"cached_input_tokens":1,"cache_write_input_tokens":0,"output_tokens":3}},"cost_usd":0.5,"evidence":{{"files_changed":1}}}}"#
        )
    };
    let run = |last: &str, exit: Exit| conclude(Runtime::Vex, &[lines.as_slice(), &[last]].concat(), exit);
    let seen = run(&end(true, 0), Exit::Code(0));
    assert!(seen.ok);
    assert_eq!(
        (
            seen.usage.input_tokens,
            seen.cost_usd,
            seen.last_message.as_deref()
        ),
        (7, Some(0.5), Some("m"))
    );
    assert_eq!(seen.result.unwrap().get(), r#"{"files_changed":1}"#);
    assert!(!run(&end(true, 0), Exit::Code(1)).ok);
    for (code, over_budget, class) in [
        (1, false, FailureClass::Agent),
        (2, false, FailureClass::Usage),
        (3, false, FailureClass::Usage),
        (4, false, FailureClass::Auth),
        (5, true, FailureClass::Agent),
        (6, false, FailureClass::Agent),
        (7, false, FailureClass::Agent),
        (130, false, FailureClass::Agent),
    ] {
        for seen in [
            run(&end(false, code), Exit::Code(code)),
            conclude(Runtime::Vex, &lines, Exit::Code(code)),
        ] {
            assert_eq!(
                (seen.ok, seen.over_budget, seen.failure_class),
                (false, over_budget, Some(class)),
                "{code}"
            );
        }
    }
    let error = r#"{"v":1,"seq":6,"type":"error","message":"nope","fatal":true,"class":"context"}"#;
    assert_eq!(
        run(error, Exit::Code(1)).failure_class,
        Some(FailureClass::Context)
    );
}

/// A test of vex has a snapshot with one of each of its events: a new event must be known here.
#[test]
fn vex_events_are_all_known() {
    let snapshot = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../vex/src/events/snapshots/vex__events__tests__events_fit_the_schema_and_contain_no_secret.snap"
    );
    let snapshot = std::fs::read_to_string(snapshot).unwrap();
    let lines: Vec<&str> = snapshot.lines().filter(|line| line.starts_with('{')).collect();
    let mut vex = adapter(&profile(Runtime::Vex));
    let mut events = feed(vex.as_mut(), &lines);
    let limited = r#"{"v":1,"seq":1,"type":"retry","attempt":3,"delay_ms":9,"reason":"openai answered 429 Too Many Requests"}"#;
    events.extend(feed(vex.as_mut(), &[limited]));
    insta::assert_snapshot!(events.join("\n"));
    assert!(lines.len() > 15);
    assert!(
        !events
            .iter()
            .any(|event| event.contains("\"unknown\"") || event.contains("\"malformed\""))
    );
    let unknown = r#"{"v":1,"seq":2,"type":"new_in_a_later_version","x":1}"#;
    assert!(feed(vex.as_mut(), &[unknown])[0].contains("\"unknown\""));
}

#[test]
fn generic_json_lines_are_read() {
    let mut any = adapter(&profile(Runtime::Command));
    let events = feed(
        any.as_mut(),
        &[
            r#"{"event":"start","session_id":"s"}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"hello"}]}"#,
            r#"{"type":"tool_call","id":"1","name":"sh","arguments":{"x":1}}"#,
            r#"{"type":"tool_result","id":"1","exit_code":2,"output":"bad"}"#,
            r#"{"type":"usage","usage":{"prompt_tokens":5,"completion_tokens":6}}"#,
            r#"{"text":"bye"}"#,
            r#"{"whatever":1}"#,
            r#"{"type":"done","status":"success","cost_usd":0.1}"#,
        ],
    );
    insta::assert_snapshot!(events.join("\n"), @r#"
    {"kind":"session_started","provider_session_id":"s"}
    {"kind":"message","text":"hello"}
    {"kind":"tool_call","call_id":"1","tool":"sh","input":{"x":1}}
    {"kind":"tool_result","call_id":"1","is_error":true,"exit_code":2,"output":"bad"}
    {"kind":"token_usage","usage":{"input_tokens":5,"cached_input_tokens":0,"cache_write_input_tokens":0,"output_tokens":6}}
    {"kind":"message","text":"bye"}
    {"kind":"unknown","raw":{"whatever":1}}
    {"kind":"token_usage","usage":{"input_tokens":5,"cached_input_tokens":0,"cache_write_input_tokens":0,"output_tokens":6},"cost_usd":0.1}
    {"kind":"completed","ok":true,"reason":"success"}
    "#);
    let seen = any.conclude(Exit::Code(0), "");
    assert!(seen.ok);
    assert_eq!(seen.last_message.as_deref(), Some("bye"));
}

#[test]
fn generic_json_lines_fail_on_a_final_error() {
    for (lines, ok) in [
        (vec![], true),
        (vec![r#"{"text":"hi"}"#], true),
        (vec![r#"{"error":"boom"}"#], false),
        (vec![r#"{"error":"boom"}"#, r#"{"text":"went on"}"#], true),
        (vec![r#"{"type":"result","ok":false}"#], false),
        (vec![r#"{"type":"result","success":true,"error":null}"#], true),
        (
            vec![r#"{"type":"done","is_error":true,"status":"success"}"#],
            false,
        ),
        (vec![r#"{"type":"end","exit_code":3}"#], false),
        (vec![r#"{"type":"run_failed"}"#], false),
    ] {
        assert_eq!(
            conclude(Runtime::Command, &lines, Exit::Code(0)).ok,
            ok,
            "{lines:?}"
        );
        assert!(!conclude(Runtime::Command, &lines, Exit::Code(1)).ok, "{lines:?}");
    }
}

/// Feeds lines that give no event, and returns what the agent is doing then.
fn live(adapter: &mut dyn Adapter, lines: &[&str]) -> AgentLive {
    assert_eq!(feed(adapter, lines), [""; 0]);
    adapter.live()
}

#[test]
fn parts_of_answers_are_counted_and_give_no_event() {
    let mut vex = adapter(&profile(Runtime::Vex));
    let delta = r#"{"v":1,"seq":4,"at":"2026-01-01T00:00:00Z","type":"delta","kind":"thinking","block":0,"text":"h\u00e4, so"}"#;
    let seen = live(vex.as_mut(), &[delta]);
    assert_eq!((seen.arriving, seen.arrived_chars), (Some(Arriving::Thinking), 6));
    assert_eq!((seen.heartbeats, vex.activity()), (0, Some("thinking")));
    assert!(vex.is_partial(delta));
    assert_eq!(seen.partial_bytes, delta.len() as u64 + 1);
    feed(
        vex.as_mut(),
        &[
            r#"{"v":1,"seq":5,"type":"usage","input_tokens":9,"output_tokens":1,"context_used":10,"context_window":100}"#,
            r#"{"v":1,"seq":6,"type":"message","text":"x"}"#,
        ],
    );
    let seen = vex.live();
    assert_eq!((seen.context_used, seen.context_window), (Some(10), Some(100)));
    assert_eq!(seen.arriving, None, "the message is whole");

    let mut claude = adapter(&profile(Runtime::ClaudeCode));
    let of = |event: &str| {
        format!(r#"{{"type":"stream_event","event":{event},"session_id":"s","parent_tool_use_id":null}}"#)
    };
    let input = of(
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}"#,
    );
    let text =
        of(r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word word "}}"#);
    let ping = of(r#"{"type":"ping"}"#);
    let seen = live(
        claude.as_mut(),
        &[&ping, &text, &input, r#"{"type":"keep_alive"}"#],
    );
    assert_eq!(
        (seen.arriving, seen.arrived_chars),
        (Some(Arriving::ToolInput), 14)
    );
    assert_eq!(seen.heartbeats, 2);
    let subagent = text.replace("null", "\"toolu_1\"");
    assert_eq!(live(claude.as_mut(), &[&subagent]).arrived_chars, 14);
    assert!([&input, &text, &ping].iter().all(|line| claude.is_partial(line)));
    assert!(!claude.is_partial(r#"{"type":"result","result":"a stream_event"}"#));
}

#[test]
fn claude_code_limits_and_context_are_live_facts() {
    let mut claude = adapter(&profile(Runtime::ClaudeCode));
    feed(
        claude.as_mut(),
        &[
            r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1795400000,"utilization":0.92}}"#,
            r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":5,"cache_read_input_tokens":90,"output_tokens":5}},"parent_tool_use_id":null}"#,
            r#"{"type":"result","subtype":"success","is_error":false,"result":"a","usage":{"input_tokens":5},"modelUsage":{"small":{"inputTokens":1,"contextWindow":7},"main":{"inputTokens":95,"contextWindow":200000}}}"#,
        ],
    );
    let seen = claude.live();
    let limit = seen.rate_limit.unwrap();
    assert_eq!((limit.used_percent, limit.resets_at), (92.0, Some(1_795_400_000)));
    assert_eq!(
        (seen.context_used, seen.context_window),
        (Some(100), Some(200_000))
    );
}

#[test]
fn codex_server_reports_context_limits_and_parts() {
    let mut codex = crate::interactive(Runtime::Codex);
    let partial = r#"{"method":"item/agentMessage/delta","params":{"threadId":"t1","turnId":"u","itemId":"i","delta":"Fini"}}"#;
    feed(
        codex.as_mut(),
        &[
            r#"{"id":2,"result":{"thread":{"id":"t1"}}}"#,
            r#"{"method":"thread/tokenUsage/updated","params":{"threadId":"t1","tokenUsage":{"total":{"inputTokens":10,"outputTokens":2},"last":{"inputTokens":4,"outputTokens":1},"modelContextWindow":258400}}}"#,
            r#"{"method":"account/rateLimits/updated","params":{"rateLimits":{"primary":{"usedPercent":12.5,"resetsAt":1795400000},"secondary":null}}}"#,
        ],
    );
    let seen = live(
        codex.as_mut(),
        &[
            partial,
            r#"{"method":"item/agentMessage/delta","params":{"threadId":"other","itemId":"i","delta":"of a sub-agent"}}"#,
            r#"{"method":"mcpServer/startupStatus/updated","params":{}}"#,
        ],
    );
    assert_eq!((seen.arriving, seen.arrived_chars), (Some(Arriving::Text), 4));
    assert_eq!((seen.context_used, seen.context_window), (Some(5), Some(258_400)));
    assert_eq!(seen.rate_limit.map(|limit| limit.used_percent), Some(12.5));
    assert_eq!(seen.heartbeats, 1);
    for adapter in [codex, adapter(&profile(Runtime::Codex))] {
        assert!(adapter.is_partial(partial));
        assert!(!adapter.is_partial(DONE));
    }
}
