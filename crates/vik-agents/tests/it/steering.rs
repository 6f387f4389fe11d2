//! Messages of people to running agents.

use vik_agents::{Adapter, AgentRequest, Exit, InitialInput, driver};
use vik_core::ids::MessageId;
use vik_core::message::Message;
use vik_core::outcome::Usage;
use vik_core::workflow::{ArgValue, Runtime};

use crate::{initial_input, profile, read};

const ID: MessageId = MessageId(uuid::Uuid::from_u128(0x0123_4567_89ab_7def_8123_4567_89ab_cdef));
const CODEX_START: [&str; 3] = [
    r#"{"id":1,"result":{}}"#,
    r#"{"id":2,"result":{"thread":{"id":"t"}}}"#,
    r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u1","status":"inProgress"}}}"#,
];

/// Returns an adapter that takes messages, and its requests before the first line.
fn steerable(runtime: Runtime) -> (Box<dyn Adapter>, Vec<AgentRequest>) {
    let input = InitialInput {
        asks: false,
        ..initial_input()
    };
    let driver = driver(runtime);
    let mut adapter = driver
        .interactive_adapter(&profile(runtime), None, &input)
        .unwrap();
    let requests = adapter.take_requests();
    (adapter, requests)
}

fn message(interrupt: bool) -> Message {
    Message {
        id: ID,
        text: "Say \"blue\".\n".to_owned(),
        by: "a person".to_owned(),
        at: "2026-11-26T12:00:00Z".parse().unwrap(),
        interrupt,
    }
}

#[test]
fn message_of_each_runtime_is_one_line_with_its_id() {
    for runtime in [Runtime::Codex, Runtime::ClaudeCode, Runtime::Vex] {
        let (mut adapter, _) = steerable(runtime);
        if runtime == Runtime::Codex {
            assert_eq!(adapter.message_lines(&message(false)), None, "no thread yet");
            read(&mut *adapter, &CODEX_START);
        }
        let lines = adapter.message_lines(&message(false)).unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(&ID.to_string()) && !lines[0].contains('\n'));
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        let text = match runtime {
            Runtime::Codex => &line["params"]["input"][0]["text"],
            Runtime::ClaudeCode => &line["message"]["content"],
            _ => &line["message"]["text"],
        };
        assert_eq!(text, "Say \"blue\".\n");
        let lines = adapter.message_lines(&message(true)).unwrap();
        assert!(lines.concat().contains("interrupt"), "{lines:?}");
        assert!(lines.last().unwrap().contains(&ID.to_string()));
    }
}

#[test]
fn claude_code_gets_its_prompt_at_once_and_repeats_what_it_takes() {
    let (mut adapter, start) = steerable(Runtime::ClaudeCode);
    let [AgentRequest::Send(prompt)] = &start[..] else {
        panic!("{start:?}")
    };
    assert!(prompt.contains(r#""type":"user""#) && prompt.contains("Do it"));
    let taken = format!(
        r#"{{"type":"user","message":{{"role":"user","content":"x"}},"uuid":"{ID}","isReplay":true}}"#
    );
    let lines = [
        r#"{"type":"command_lifecycle","command_uuid":"c","state":"queued"}"#,
        &taken,
        r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}"#,
    ];
    let (events, requests) = read(&mut *adapter, &lines);
    assert_eq!(requests, [AgentRequest::MessageTaken { id: ID }]);
    // A call without a request for approval is no fault here.
    assert!(
        events.len() == 1 && events[0].contains("tool_result"),
        "{events:?}"
    );
}

fn claude_result(tokens: u64, more: &str) -> String {
    format!(
        r#"{{"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"s","total_cost_usd":0.5,"usage":{{"input_tokens":1000,"output_tokens":20}},"modelUsage":{{"m":{{"inputTokens":{tokens},"outputTokens":40}}}}{more}}}"#
    )
}

#[test]
fn claude_code_may_end_several_turns_and_counts_each_token_once() {
    let (mut adapter, _) = steerable(Runtime::ClaudeCode);
    let request = |id: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","content":[{{"type":"text","text":"a"}}],"usage":{{"input_tokens":1000,"output_tokens":1}}}}}}"#
        )
    };
    let (_, requests) = read(&mut *adapter, &[&request("1"), &claude_result(1000, "")]);
    assert_eq!(requests, [AgentRequest::TurnEnded { succeeded: true }]);
    let input = |usage: (Usage, Option<f64>)| usage.0.input_tokens;
    assert_eq!(input(adapter.usage()), 1000);
    read(&mut *adapter, &[&request("2")]);
    assert_eq!(
        input(adapter.usage()),
        2000,
        "the second turn counts while it runs"
    );
    let (_, requests) = read(&mut *adapter, &[&claude_result(2000, "")]);
    assert_eq!(requests, [AgentRequest::TurnEnded { succeeded: true }]);
    assert_eq!(input(adapter.usage()), 2000);
    let conclusion = adapter.conclude(Exit::Code(0), "");
    assert!(
        conclusion.ok && conclusion.cost_usd == Some(0.5),
        "{conclusion:?}"
    );
}

#[test]
fn step_that_is_stopped_for_a_message_is_no_failure_of_the_attempt() {
    let stopped = format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"vik-interrupt-{ID}"}}}}"#
    );
    let aborted = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"s","terminal_reason":"aborted_tools"}"#;
    let (mut adapter, _) = steerable(Runtime::ClaudeCode);
    let (events, _) = read(&mut *adapter, &[&stopped, aborted]);
    assert!(!events.concat().contains(r#""fatal":true"#), "{events:?}");
    read(&mut *adapter, &[&claude_result(2000, "")]);
    assert!(adapter.conclude(Exit::Code(0), "").ok);
    // Without another turn it is one.
    let (mut adapter, _) = steerable(Runtime::ClaudeCode);
    read(&mut *adapter, &[&stopped, aborted]);
    assert!(!adapter.conclude(Exit::Code(1), "").ok);

    let (mut adapter, _) = steerable(Runtime::Codex);
    read(&mut *adapter, &CODEX_START);
    let lines = adapter.message_lines(&message(true)).unwrap();
    assert!(lines[0].contains(r#""turnId":"u1""#), "{lines:?}");
    let stopped = format!(r#"{{"id":"vik-interrupt-{ID}","result":{{}}}}"#);
    let end = |turn: &str, status: &str| {
        format!(
            r#"{{"method":"turn/completed","params":{{"threadId":"t","turn":{{"id":"{turn}","status":"{status}"}}}}}}"#
        )
    };
    let (events, requests) = read(&mut *adapter, &[&stopped, &end("u1", "interrupted")]);
    assert!(!events.concat().contains(r#""fatal":true"#), "{events:?}");
    assert_eq!(requests, [AgentRequest::TurnEnded { succeeded: false }]);
    let second = CODEX_START[2].replace("u1", "u2");
    read(&mut *adapter, &[&second]);
    assert!(!adapter.conclude(Exit::Code(0), "").ok, "the second turn is open");
    read(&mut *adapter, &[&end("u2", "completed")]);
    assert!(adapter.conclude(Exit::Code(0), "").ok);
}

#[test]
fn codex_reports_taken_and_rejected_messages() {
    let (mut adapter, start) = steerable(Runtime::Codex);
    assert_eq!(start.len(), 1);
    let (_, requests) = read(&mut *adapter, &CODEX_START);
    let thread = requests.iter().find_map(|request| match request {
        AgentRequest::Send(line) if line.contains("thread/start") => Some(line),
        _ => None,
    });
    assert!(thread.unwrap().contains(r#""approvalPolicy":"never""#));
    let item = |thread: &str| {
        format!(
            r#"{{"method":"item/started","params":{{"threadId":"{thread}","item":{{"type":"userMessage","id":"i","clientId":"{ID}"}}}}}}"#
        )
    };
    let (events, requests) = read(&mut *adapter, &[&item("t"), &item("other")]);
    assert_eq!(requests, [AgentRequest::MessageTaken { id: ID }]);
    assert!(events.is_empty(), "{events:?}");
    let rejected = format!(r#"{{"id":"vik-message-{ID}","error":{{"code":-32600,"message":"no"}}}}"#);
    let (_, requests) = read(&mut *adapter, &[&rejected]);
    let why = "no".to_owned();
    assert_eq!(requests, [AgentRequest::MessageRejected { id: ID, why }]);
}

#[test]
fn vex_reports_taken_messages() {
    let (mut adapter, _) = steerable(Runtime::Vex);
    let line = format!(r#"{{"v":1,"seq":3,"type":"message_taken","id":"{ID}"}}"#);
    let (events, requests) = read(&mut *adapter, &[&line]);
    assert_eq!(requests, [AgentRequest::MessageTaken { id: ID }]);
    assert!(events.is_empty(), "{events:?}");
}

#[test]
fn steering_names_the_flag_that_prevents_it() {
    let with = |runtime, flag: &str, value| {
        let mut profile = profile(runtime);
        profile.args.push((flag.to_owned(), value));
        driver(runtime).steering(&profile)
    };
    let text = || ArgValue::Text("x".to_owned());
    assert!(
        with(Runtime::Codex, "output-schema", text())
            .unwrap_err()
            .contains("args")
    );
    assert!(with(Runtime::Codex, "c", text()).is_ok());
    let format = ArgValue::Text("text".to_owned());
    assert!(
        with(Runtime::ClaudeCode, "input-format", format)
            .unwrap_err()
            .contains("args")
    );
    assert!(
        driver(Runtime::Command)
            .steering(&profile(Runtime::Command))
            .is_err()
    );
}

fn unanswered(adapter: &dyn Adapter) -> Option<&'static str> {
    Some(adapter.unanswered_request()?.method)
}

#[test]
fn request_of_codex_is_unanswered_until_its_response() {
    let (mut adapter, _) = steerable(Runtime::Codex);
    assert_eq!(unanswered(&*adapter), Some("initialize"));
    let progress = r#"{"method":"mcpServer/startupStatus/updated","params":{}}"#;
    read(&mut *adapter, &[progress]);
    assert_eq!(unanswered(&*adapter), Some("initialize"));
    read(&mut *adapter, &CODEX_START[..1]);
    assert_eq!(unanswered(&*adapter), Some("thread/start"));
    read(&mut *adapter, &CODEX_START[1..2]);
    assert_eq!(unanswered(&*adapter), Some("turn/start"));
    read(&mut *adapter, &CODEX_START[2..]);
    assert_eq!(unanswered(&*adapter), Some("turn/start"), "a notification");
    read(&mut *adapter, &[r#"{"id":3,"result":{}}"#]);
    assert_eq!(unanswered(&*adapter), None);
    let (claude, _) = steerable(Runtime::ClaudeCode);
    assert_eq!(unanswered(&*claude), None);
}

#[test]
fn requests_for_a_message_are_unanswered_until_their_responses() {
    let (mut adapter, _) = steerable(Runtime::Codex);
    read(&mut *adapter, &CODEX_START);
    read(&mut *adapter, &[r#"{"id":3,"result":{}}"#]);
    let lines = adapter.message_lines(&message(true)).unwrap();
    assert_eq!(unanswered(&*adapter), None, "nothing is sent");
    adapter.on_message_sent(ID, &lines);
    let response = |kind: &str| format!(r#"{{"id":"vik-{kind}-{ID}","result":{{}}}}"#);
    read(&mut *adapter, &[&response("interrupt")]);
    assert_eq!(unanswered(&*adapter), Some("turn/start"));
    read(&mut *adapter, &[&response("message")]);
    assert_eq!(unanswered(&*adapter), None);
    // An error is a response, too.
    adapter.on_message_sent(ID, &lines[1..]);
    let error = format!(r#"{{"id":"vik-message-{ID}","error":{{"message":"no"}}}}"#);
    read(&mut *adapter, &[&error]);
    assert_eq!(unanswered(&*adapter), None);
}
