//! Regression tests for mistakes of other agents and peculiarities of providers.

use super::*;
use crate::conversation::Arguments;
use crate::provider::http::fault::{Fault, fault_of};
use crate::tools::{Need, ToolDefinition};

fn chat(chunks: &[&str]) -> String {
    let events = chunks
        .iter()
        .map(|chunk| format!("data: {{\"choices\":[{chunk}]}}\n\n"));
    events.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn finish(reason: &str) -> String {
    format!(r#"{{"delta":{{}},"finish_reason":"{reason}"}}"#)
}

fn call(index: u64, id: &str, name: &str, arguments: &str) -> String {
    let arguments = serde_json::to_string(arguments).unwrap();
    format!(
        r#"{{"delta":{{"tool_calls":[{{"index":{index},"id":"{id}","function":{{"name":"{name}","arguments":{arguments}}}}}]}}}}"#
    )
}

fn fault(outcome: &Outcome) -> Fault {
    match &outcome.turn {
        Err(StreamError::Reported { body, status }) => fault_of(*status, body),
        other => panic!("no error was reported: {other:?}"),
    }
}

#[test]
fn error_event_is_never_an_empty_or_finished_answer() {
    let cases = [
        (Protocol::Messages, "overloaded-in-the-middle", Fault::Overloaded),
        (Protocol::Chat, "an-error-in-the-middle", Fault::RateLimit),
        (Protocol::Responses, "rate-limited", Fault::RateLimit),
        (Protocol::Responses, "an-error-event", Fault::Server),
        (Protocol::Responses, "too-long", Fault::Overflow),
    ];
    for (protocol, name, expected) in cases {
        let outcome = read(protocol, [named(protocol, name).as_bytes()]);
        assert_eq!(fault(&outcome), expected, "{name}");
    }
    // Also as the first event, in the form of each protocol, and after a stop reason.
    let first = [
        (
            Protocol::Messages,
            "event: error\ndata: {\"error\":{\"type\":\"overloaded_error\"}}\n\n",
        ),
        (
            Protocol::Chat,
            "data: {\"error\":{\"message\":\"busy\",\"type\":\"overloaded\"}}\n\n",
        ),
        (
            Protocol::Chat,
            "event: error\ndata: {\"message\":\"busy\",\"code\":529}\n\n",
        ),
        (
            Protocol::Responses,
            "data: {\"type\":\"error\",\"code\":\"server_is_overloaded\",\"message\":\"busy\"}\n\n",
        ),
    ];
    for (protocol, stream) in first {
        assert_eq!(
            fault(&read(protocol, [stream.as_bytes()])),
            Fault::Overloaded,
            "{stream}"
        );
    }
    let late = chat(&[r#"{"delta":{"content":"a"},"finish_reason":"error"}"#]);
    assert_eq!(fault(&read(Protocol::Chat, [late.as_bytes()])), Fault::Server);
}

#[test]
fn answer_without_content_is_an_error() {
    let messages = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
        data: {\"type\":\"message_stop\"}\n\n";
    let responses = "data: {\"type\":\"response.completed\",\"response\":{\"output\":[]}}\n\n";
    for (protocol, stream) in [
        (Protocol::Messages, messages),
        (Protocol::Responses, responses),
        (Protocol::Chat, &chat(&[&finish("stop")])),
        (Protocol::Chat, &chat(&[&finish("tool_calls")])),
        (Protocol::Chat, &named(Protocol::Chat, "empty")),
    ] {
        let turn = read(protocol, [stream.as_bytes()]).turn;
        assert!(matches!(turn, Err(StreamError::Empty(_))), "{stream}: {turn:?}");
    }
    // No stream at all, another content type, and the end of an invalid stream are no answers
    // either.
    for protocol in Protocol::ALL {
        assert_eq!(read(protocol, [b"".as_slice()]).turn, Err(StreamError::Cut));
        assert_eq!(
            read(protocol, [b"<html>502</html>".as_slice()]).turn,
            Err(StreamError::Cut)
        );
    }
    let end_only = read(Protocol::Chat, [b"data: [DONE]\n\n".as_slice()]);
    assert_eq!(end_only.turn, Err(StreamError::Cut));
    let stop_only = read(
        Protocol::Messages,
        [b"data: {\"type\":\"message_stop\"}\n\n".as_slice()],
    );
    assert_eq!(stop_only.turn, Err(StreamError::Cut));
}

#[test]
fn answer_cut_off_before_any_text_is_no_network_fault() {
    let cut = turn(Protocol::Chat, &chat(&[&finish("length")]));
    assert_eq!((cut.stop, cut.blocks.len()), (StopReason::MaxTokens, 0));
    let refused = turn(Protocol::Chat, &chat(&[&finish("content_filter")]));
    assert_eq!(refused.stop, StopReason::Refusal);
}

#[test]
fn malformed_events_are_errors() {
    let malformed = |protocol, data: &str| {
        let stream = format!("data: {data}\n\n");
        let outcome = read(protocol, [stream.as_bytes()]);
        assert!(
            matches!(outcome.turn, Err(StreamError::Malformed { .. })),
            "{data} {outcome:?}"
        );
    };
    for protocol in Protocol::ALL {
        for data in ["{\"type\": \"oops", "null", "7", "words"] {
            malformed(protocol, data);
        }
    }
    malformed(Protocol::Messages, r#"{"type":7}"#);
    malformed(
        Protocol::Messages,
        r#"{"type":"content_block_delta","index":"x"}"#,
    );
    malformed(Protocol::Chat, r#"{"choices":7}"#);
    malformed(
        Protocol::Responses,
        r#"{"type":"response.output_text.delta","delta":7}"#,
    );
    malformed(Protocol::Responses, r#"{"type":"response.completed"}"#);
}

#[test]
fn truncated_arguments_are_never_run() {
    let cases = [
        (Protocol::Messages, "cut-off-by-its-length"),
        (Protocol::Chat, "cut-off-by-its-length"),
        (Protocol::Chat, "cut-off-before-any-argument"),
        (Protocol::Responses, "cut-off-by-its-length"),
    ];
    for (protocol, name) in cases {
        let turn = turn(protocol, &named(protocol, name));
        assert_eq!(turn.stop, StopReason::MaxTokens, "{name}");
        let last = calls(&turn).last().copied().cloned().unwrap();
        assert!(matches!(last.input, Arguments::Broken { .. }), "{name}: {last:?}");
        assert!(!last.repaired);
    }
    // Content that was complete before the cut is kept.
    let turn = turn(Protocol::Chat, &named(Protocol::Chat, "cut-off-by-its-length"));
    assert_eq!(calls(&turn)[0].input.json().unwrap()["path"], "a");
    // A call without an end event is incomplete, whatever the stop reason.
    let open = "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"t\"}}\n\n\
        data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    let turn = super::turn(Protocol::Messages, open);
    assert!(matches!(calls(&turn)[0].input, Arguments::Broken { .. }));
}

#[test]
fn call_without_arguments_has_an_empty_object() {
    let turn = turn(
        Protocol::Messages,
        &named(Protocol::Messages, "redacted-thinking-and-no-arguments"),
    );
    assert_eq!(calls(&turn)[0].input, Arguments::Json(serde_json::json!({})));
    assert!(!calls(&turn)[0].repaired);
}

#[test]
fn call_ids_are_unique_in_a_conversation() {
    let before = |id: &str| {
        let call = ToolCall::new(id, "t", serde_json::json!({}));
        Message::answer(vec![Block::ToolCall(call)])
    };
    let long = "x".repeat(65);
    let stream = chat(&[
        &call(0, "call_0", "a", "{}"),
        &call(1, "", "b", "{}"),
        &call(2, "twice", "c", "{}"),
        &call(3, "twice", "d", "{}"),
        &call(4, &long, "e", "{}"),
        &call(5, "with space", "f", "{}"),
        &finish("tool_calls"),
    ]);
    let messages = [before("call_0"), before("call_4")];
    let turn = answer(Protocol::Chat, &messages, [stream.as_bytes()])
        .turn
        .unwrap();
    let ids: Vec<&str> = calls(&turn).iter().map(|call| call.call_id.as_str()).collect();
    assert_eq!(ids, ["call_3", "call_5", "twice", "call_6", "call_7", "call_8"]);
}

#[test]
fn call_name_may_arrive_late_or_never() {
    let stream = chat(&[
        r#"{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}}]}}"#,
        r#"{"delta":{"tool_calls":[{"index":0,"function":{"name":"late","arguments":"}"}}]}}"#,
        &call(1, "b", "", "{}"),
        &finish("tool_calls"),
    ]);
    let turn = turn(Protocol::Chat, &stream);
    let names: Vec<&str> = calls(&turn).iter().map(|call| call.tool.as_str()).collect();
    assert_eq!(names, ["late", ""]);
}

#[test]
fn call_with_id_and_name_in_every_chunk_is_one_call() {
    let stream = chat(&[
        &call(0, "a", "t", "{\"x\":"),
        &call(0, "a", "t", "1}"),
        &finish("stop"),
    ]);
    let turn = turn(Protocol::Chat, &stream);
    assert_eq!(calls(&turn).len(), 1);
    assert_eq!(calls(&turn)[0].input.json().unwrap()["x"], 1);
    // Whatever reason a server gives, an answer with calls waits for their results.
    assert_eq!(turn.stop, StopReason::ToolUse);
}

#[test]
fn answer_without_streaming_is_read() {
    let whole = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hi\",\
        \"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"t\",\"arguments\":\"{}\"}}]},\
        \"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n";
    let turn = turn(Protocol::Chat, whole);
    assert_eq!(
        (turn.text().as_str(), calls(&turn).len(), turn.usage.input_tokens),
        ("Hi", 1, 3)
    );
}

#[test]
fn split_surrogate_pair_does_not_break_the_answer() {
    let stream = chat(&[
        r#"{"delta":{"content":"a\ud83d"}}"#,
        r#"{"delta":{"content":"\ude00b"}}"#,
        &finish("stop"),
    ]);
    assert_eq!(turn(Protocol::Chat, &stream).text(), "a\u{fffd}\u{fffd}b");
}

#[test]
fn calls_are_distinguished_by_id_alone() {
    let piece = |id: &str, name: &str, json: &str| {
        let json = serde_json::to_string(json).unwrap();
        format!(
            r#"{{"delta":{{"tool_calls":[{{"id":"{id}","function":{{"name":"{name}","arguments":{json}}}}}]}}}}"#
        )
    };
    let stream = chat(&[
        &piece("a", "x", "{"),
        &piece("b", "y", "{\"n\":"),
        &piece("a", "", "}"),
        &piece("b", "", "2}"),
        &finish("tool_calls"),
    ]);
    let turn = turn(Protocol::Chat, &stream);
    let shown: Vec<String> = calls(&turn)
        .iter()
        .map(|call| format!("{} {} {}", call.call_id, call.tool, call.input.json().unwrap()))
        .collect();
    assert_eq!(shown, ["a x {}", r#"b y {"n":2}"#]);
}

#[test]
fn choices_are_not_mixed() {
    let stream = chat(&[
        r#"{"index":1,"delta":{"content":"other"},"finish_reason":"stop"}"#,
        r#"{"index":0,"delta":{"content":"this"}}"#,
        &finish("stop"),
    ]);
    assert_eq!(turn(Protocol::Chat, &stream).text(), "this");
}

#[test]
fn stream_events_after_the_end_are_ignored() {
    for (protocol, name) in [
        (Protocol::Messages, "refused"),
        (Protocol::Chat, "refused"),
        (Protocol::Responses, "refused"),
    ] {
        let stream = named(protocol, name);
        let more = format!("{stream}event: error\ndata: {{\"type\":\"error\"}}\n\ndata: no json\n\n");
        assert_eq!(
            read(protocol, [more.as_bytes()]),
            read(protocol, [stream.as_bytes()])
        );
    }
}

#[test]
fn items_are_matched_with_or_without_index_and_id() {
    let event = |text: &str| format!("data: {text}\n\n");
    let completed = event(r#"{"type":"response.completed","response":{"output":[]}}"#);
    let call = |id: &str, name: &str| {
        format!(r#"{{"type":"function_call","call_id":"{id}","name":"{name}","arguments":""}}"#)
    };
    // The same index for all; ids that change; neither.
    let always_zero: String = ["a", "b"]
        .iter()
        .flat_map(|id| {
            [
                event(&format!(r#"{{"type":"response.output_item.added","output_index":0,"item":{}}}"#, call(id, id))),
                event(&format!(
                    r#"{{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"{id}9","delta":"{{}}"}}"#
                )),
                event(&format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{}}}"#, call(id, id))),
            ]
        })
        .collect();
    let turn = turn(Protocol::Responses, &(always_zero + &completed));
    let shown: Vec<_> = calls(&turn)
        .iter()
        .map(|call| (call.call_id.clone(), call.input.clone()))
        .collect();
    let empty = || Arguments::Json(serde_json::json!({}));
    assert_eq!(shown, [("a".to_owned(), empty()), ("b".to_owned(), empty())]);

    let nothing = event(r#"{"type":"response.output_text.delta","delta":"a"}"#)
        + &event(r#"{"type":"response.output_text.delta","delta":"b"}"#)
        + &completed;
    assert_eq!(super::turn(Protocol::Responses, &nothing).text(), "ab");
}

#[test]
fn usage_is_estimated_only_when_it_is_not_counted() {
    let estimated = turn(Protocol::Chat, &named(Protocol::Chat, "same-id-twice-no-usage"));
    assert!(!estimated.counted);
    assert_eq!(
        (estimated.usage.input_tokens, estimated.usage.output_tokens),
        (100, 11)
    );
    let counted = turn(
        Protocol::Messages,
        &named(Protocol::Messages, "thinking-and-parallel-calls"),
    );
    assert!(counted.counted);
    // The input of the messages protocol excludes cached tokens; ours includes them.
    assert_eq!(
        counted.usage,
        Usage {
            input_tokens: 2400,
            cached_input_tokens: 2048,
            cache_write_input_tokens: 340,
            output_tokens: 89,
        }
    );
    let hidden = turn(
        Protocol::Chat,
        &named(Protocol::Chat, "gemini-no-ids-and-signatures"),
    );
    assert_eq!(
        hidden.usage.output_tokens, 50,
        "reasoning that is only in the total"
    );
}

#[test]
fn text_call_beside_a_native_call_is_dropped() {
    let tool = ToolDefinition {
        name: "look".into(),
        description: "".into(),
        input_schema: serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        need: Need::Read,
        aliases: &[],
        arguments: &[],
    };
    let request = Request {
        tools: &[tool],
        ..Request::default()
    };
    let text_call = r#"{"delta":{"content":"I look.\n{\"name\":\"look\",\"arguments\":{\"path\":\"a\"}}"}}"#;
    let real = call(0, "c1", "look", r#"{"path":"b"}"#);
    let paths = |chunks: &[&str]| {
        let mut reader = AnswerReader::new(Protocol::Chat, &request, 0);
        reader.push(chat(chunks).as_bytes(), &mut |_| ()).unwrap();
        let turn = reader.finish(&mut |_| ()).unwrap();
        let inputs = turn
            .tool_calls()
            .map(|call| call.input.json().unwrap()["path"].clone());
        (turn.text(), inputs.collect::<Vec<_>>())
    };
    assert_eq!(
        paths(&[text_call, &finish("stop")]),
        ("I look.".to_owned(), vec!["a".into()])
    );
    assert_eq!(
        paths(&[text_call, &real, &finish("tool_calls")]),
        ("I look.".to_owned(), vec!["b".into()])
    );
}

#[test]
fn text_call_may_use_other_names_of_tool_and_arguments() {
    let tool = ToolDefinition {
        name: "run_command".into(),
        description: "".into(),
        input_schema: serde_json::json!({
            "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"],
        }),
        need: Need::Execute,
        aliases: &["bash"],
        arguments: &[("cmd", "command")],
    };
    let request = Request {
        tools: &[tool],
        ..Request::default()
    };
    let text_call = r#"{"delta":{"content":"{\"tool\":\"bash\",\"cmd\":\"ls\"}"}}"#;
    let mut reader = AnswerReader::new(Protocol::Chat, &request, 0);
    let events = chat(&[text_call, &finish("stop")]);
    reader.push(events.as_bytes(), &mut |_| ()).unwrap();
    let turn = reader.finish(&mut |_| ()).unwrap();
    assert_eq!(calls(&turn)[0].tool, "bash");
    assert_eq!(
        calls(&turn)[0].input,
        Arguments::Json(serde_json::json!({"cmd": "ls"}))
    );
}
