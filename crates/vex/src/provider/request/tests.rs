//! Requests of all three protocols: snapshots, and properties of any conversation.

use proptest::prelude::*;

use super::*;
use crate::conversation::ToolCall;
use crate::provider::Request;
use crate::provider::protocol::{Effort, ModelSettings, Protocol};
use crate::tools::{Need, ToolDefinition};

fn tools() -> Vec<ToolDefinition> {
    vec![ToolDefinition {
        name: "read_file".into(),
        description: "Reads a file.".into(),
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
        need: Need::Read,
        aliases: &[],
        arguments: &[],
    }]
}

fn bytes(protocol: Protocol, settings: &ModelSettings, messages: &[Message]) -> Vec<u8> {
    let tools = tools();
    let request = Request {
        system: "You are vex.",
        messages,
        tools: &tools,
        output_schema: None,
        temperature: None,
    };
    protocol.body(&request, settings)
}

fn body(protocol: Protocol, settings: &ModelSettings, messages: &[Message]) -> Value {
    serde_json::from_slice(&bytes(protocol, settings, messages)).unwrap()
}

fn thought(text: &str, signature: Option<&str>) -> Block {
    Block::Thinking {
        text: text.to_owned(),
        signature: signature.map(str::to_owned),
    }
}

fn native(protocol: Protocol, item: Value) -> Block {
    Block::Native {
        protocol: protocol.as_str().to_owned(),
        item,
    }
}

fn call(id: &str, tool: &str, input: Arguments) -> Block {
    Block::ToolCall(ToolCall::new(id, tool, input))
}

fn broken(raw: &str) -> Arguments {
    Arguments::Broken {
        raw: raw.to_owned(),
        reason: "broken".to_owned(),
    }
}

fn answered(blocks: Vec<Block>) -> Message {
    Message::answer(blocks)
}

fn result(id: &str, output: &str, is_error: bool) -> Message {
    Message::Tool(ToolResult {
        call_id: id.to_owned(),
        is_error,
        output: output.to_owned(),
        ..ToolResult::default()
    })
}

/// One of everything, with everything that may go wrong.
fn conversation() -> Vec<Message> {
    let file = |path: &str| Arguments::Json(json!({ "path": path }));
    vec![
        Message::user("Fix it. Ünïcode ✓, control \u{1} and \"quotes\"."),
        answered(vec![
            thought("I look.", Some("c2ln")),
            native(
                Protocol::Messages,
                json!({"type": "redacted_thinking", "data": "EmwK"}),
            ),
            native(
                Protocol::Responses,
                json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}),
            ),
            thought("Aloud.", None),
            native(Protocol::Chat, json!({"annex": {"field": "reasoning_content"}})),
            Block::text("I read both."),
            native(Protocol::Responses, json!({"annex": {"phase": "commentary"}})),
            native(
                Protocol::Messages,
                json!({"annex": {"citations": [{"type": "char_location"}]}}),
            ),
            Block::text("  \n"),
            call("call_1", "read_file", file("a.rs")),
            native(
                Protocol::Chat,
                json!({"annex": {"extra_content": {"google": {"thought_signature": "Ct"}}}}),
            ),
            call("functions.read_file:1", "read_file", file("b.rs")),
            call("never_answered", "read_file", file("c.rs")),
            call("call_3", "made up, by the model", broken("{\"path\": \"cut")),
            call("call_4", "", Arguments::Json(json!(["a list"]))),
        ]),
        result("functions.read_file:1", "two", false),
        result("call_1", "", true),
        result("call_3", "the arguments are no JSON", true),
        result("call_4", "there is no such tool", true),
        result("nobody_asked", "stray", false),
        result("call_1", "once more", false),
        Message::user("Mind the tests."),
        answered(vec![thought("Nothing comes of it.", Some("c2ln"))]),
        Message::user("Go on."),
        Message::user(""),
        Message::user("Really."),
    ]
}

#[test]
fn request_body_of_each_protocol() {
    let settings = ModelSettings {
        model: "some-model".to_owned(),
        max_output_tokens: Some(8000),
        effort: Some(Effort::High),
        parallel_tool_calls: Some(true),
        cache: true,
        cache_key: Some("session".to_owned()),
        ..ModelSettings::default()
    };
    for protocol in Protocol::ALL {
        let body = body(protocol, &settings, &conversation());
        insta::assert_snapshot!(protocol.as_str(), serde_json::to_string_pretty(&body).unwrap());
    }
}

#[test]
fn settings_of_each_protocol() {
    let strict = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": false});
    let open = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let tools = tools();
    let mut shown = String::new();
    for protocol in Protocol::ALL {
        for (name, settings, schema) in [
            ("plain", ModelSettings::new("m"), None),
            (
                "a strict schema, a budget, calls one by one",
                ModelSettings {
                    structured_output: true,
                    thinking_budget: Some(40_000),
                    parallel_tool_calls: Some(false),
                    ..ModelSettings::new("m")
                },
                Some(&strict),
            ),
            (
                "an open schema",
                ModelSettings {
                    structured_output: true,
                    ..ModelSettings::new("m")
                },
                Some(&open),
            ),
            (
                "configured fields",
                ModelSettings {
                    extra: json!({"temperature": 0, "store": null, "messages": [], "max_tokens": 5})
                        .as_object()
                        .cloned()
                        .unwrap(),
                    ..ModelSettings::new("m")
                },
                Some(&strict),
            ),
        ] {
            let request = Request {
                tools: &tools,
                output_schema: schema,
                ..Request::default()
            };
            let mut body: Value = serde_json::from_slice(&protocol.body(&request, &settings)).unwrap();
            body["tools"] = json!("…");
            shown += &format!("{} · {name}\n{body}\n\n", protocol.as_str());
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn request_addresses_of_each_protocol() {
    let shown = Protocol::ALL.map(|protocol| {
        let (name, value) = protocol.auth("KEY");
        format!("{} {:?} {name}: {value}", protocol.path(), protocol.headers())
    });
    insta::assert_snapshot!(shown.join("\n"));
    for protocol in Protocol::ALL {
        assert_eq!(protocol.as_str().parse(), Ok(protocol));
    }
    assert!("anthropic".parse::<Protocol>().is_err());
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        "[ \\n\\t]{0,3}",
        any::<String>().prop_map(|text| text.chars().take(8).collect())
    ]
}

/// Parts of an answer; ids and results are added later.
fn block() -> impl Strategy<Value = Block> {
    let protocol = prop::sample::select(Protocol::ALL.to_vec());
    let item = prop_oneof![
        Just(json!({"type": "redacted_thinking", "data": "x"})),
        Just(json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"})),
        Just(json!({"type": "web_search_call", "id": "ws"})),
        Just(json!({"annex": {"field": "reasoning", "phase": "final_answer", "citations": []}})),
    ];
    let input = prop_oneof![
        text().prop_map(|text| Arguments::Json(json!({ "path": text }))),
        text().prop_map(|text| Arguments::Json(json!(text))),
        text().prop_map(|text| broken(&text)),
    ];
    prop_oneof![
        text().prop_map(|text| Block::text(&text)),
        (text(), prop::option::of("[a-z]{1,8}")).prop_map(|(text, sign)| thought(&text, sign.as_deref())),
        (protocol, item).prop_map(|(protocol, item)| native(protocol, item)),
        (text(), input.clone()).prop_map(|(tool, input)| call("", &tool, input)),
        input.prop_map(|input| call("", "read_file", input)),
    ]
}

/// A conversation as the loop builds it: each call gets its result, except for those that `lost`
/// selects.
fn any_conversation() -> impl Strategy<Value = Vec<Message>> {
    let answer = (
        prop::collection::vec(block(), 0..5),
        prop::collection::vec(text(), 0..3),
        any::<u8>(),
    );
    (text(), prop::collection::vec(answer, 0..5)).prop_map(|(task, answers)| {
        let mut messages = vec![Message::user(&task)];
        let mut number = 0;
        for (mut blocks, corrections, lost) in answers {
            let mut results = Vec::new();
            for block in &mut blocks {
                if let Block::ToolCall(call) = block {
                    number += 1;
                    // The ids of some providers.
                    call.call_id = format!("functions.{}:{number}", if number % 2 == 0 { "a" } else { "ä" });
                    if lost % 4 != 0 || number % 3 != 0 {
                        results.push(result(&call.call_id, &call.tool, lost % 2 == 0));
                    }
                }
            }
            messages.push(answered(blocks));
            messages.append(&mut results);
            messages.extend(corrections.iter().map(Message::user));
        }
        messages
    })
}

/// Checks that every id of a call has one result after it, and no result is without its call.
fn check_messages(body: &Value) {
    let messages = body["messages"].as_array().unwrap();
    let mut open = Vec::new();
    let mut asked = false;
    for message in messages {
        // Two answers in a row are one that paused; two questions never are.
        let asks = message["role"] == "user";
        assert!(!(asks && asked));
        asked = asks;
        let content = message["content"].as_array().unwrap();
        assert!(!content.is_empty());
        let mut text = false;
        for block in content {
            match block["type"].as_str().unwrap() {
                "tool_use" => {
                    let id = block["id"].as_str().unwrap();
                    assert!(
                        id.bytes()
                            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
                    );
                    assert!(block["input"].is_object());
                    open.push(id.to_owned());
                }
                "tool_result" => {
                    assert!(!text, "results stand before words");
                    let id = block["tool_use_id"].as_str().unwrap();
                    open.remove(open.iter().position(|open| open == id).unwrap());
                }
                "text" => {
                    assert!(!block["text"].as_str().unwrap().trim().is_empty());
                    text = true;
                }
                _ => {}
            }
        }
        if message["role"] == "user" {
            assert!(open.is_empty(), "a call without a result was sent");
        } else {
            let last = content.last().unwrap()["type"].as_str().unwrap();
            assert!(!last.ends_with("thinking"), "an answer ends with a thought");
        }
    }
    assert!(open.is_empty());
}

fn check_chat(body: &Value) {
    let mut open: Vec<String> = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        match message["role"].as_str().unwrap() {
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap();
                open.remove(open.iter().position(|open| open == id).unwrap());
            }
            "assistant" => {
                assert!(open.is_empty(), "a call without a result was sent");
                assert!(message["content"].is_string() || message["tool_calls"].is_array());
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    open.push(call["id"].as_str().unwrap().to_owned());
                    let arguments = call["function"]["arguments"].as_str().unwrap();
                    assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                    assert!(!call["function"]["name"].as_str().unwrap().is_empty());
                }
            }
            _ => {
                assert!(open.is_empty(), "a call without a result was sent");
                assert!(!message["content"].as_str().unwrap().trim().is_empty());
            }
        }
    }
    assert!(open.is_empty());
}

fn check_responses(body: &Value) {
    let mut open: Vec<String> = Vec::new();
    let mut reasoned = false;
    for item in body["input"].as_array().unwrap() {
        match item["type"].as_str().unwrap() {
            "function_call" => open.push(item["call_id"].as_str().unwrap().to_owned()),
            "function_call_output" => {
                let id = item["call_id"].as_str().unwrap();
                open.remove(open.iter().position(|open| open == id).unwrap());
                assert!(!reasoned, "reasoning that led to nothing");
            }
            "message" if item["role"] == "user" => {
                assert!(open.is_empty(), "a call without a result was sent");
                assert!(!reasoned, "reasoning that led to nothing");
            }
            _ => {}
        }
        reasoned = item["type"] == "reasoning";
    }
    assert!(open.is_empty() && !reasoned);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Every cache of a provider requires that a request starts with all bytes of the previous one.
    #[test]
    fn request_extends_the_one_before_it(messages in any_conversation(), cache in any::<bool>()) {
        let settings = ModelSettings { cache, ..ModelSettings::new("m") };
        for protocol in Protocol::ALL {
            let asked = messages.iter().enumerate().filter(|(_, message)| matches!(message, Message::Assistant(_)));
            let mut before: Option<Vec<u8>> = None;
            for end in asked.map(|(at, _)| at).chain([messages.len()]) {
                let request = bytes(protocol, &settings, &messages[..end]);
                let open = request.strip_suffix(b"]}").unwrap();
                if let Some(before) = before {
                    prop_assert!(open.starts_with(&before), "{}", protocol.as_str());
                }
                before = Some(open.to_owned());
                prop_assert_eq!(bytes(protocol, &settings, &messages[..end]), request.clone());
            }
        }
    }

    #[test]
    fn request_is_legal_for_any_conversation(messages in any_conversation()) {
        let settings = ModelSettings::new("m");
        check_messages(&body(Protocol::Messages, &settings, &messages));
        check_chat(&body(Protocol::Chat, &settings, &messages));
        check_responses(&body(Protocol::Responses, &settings, &messages));
    }

    #[test]
    fn ids_for_the_wire_are_legal_and_their_own(ids in prop::collection::hash_set("\\PC{0,80}", 0..20)) {
        let mut wire = WireIds::default();
        let legal: Vec<String> = ids.iter().map(|id| wire.get(id).to_owned()).collect();
        let again: Vec<String> = ids.iter().map(|id| wire.get(id).to_owned()).collect();
        prop_assert_eq!(&again, &legal);
        let different: HashSet<&String> = legal.iter().collect();
        prop_assert_eq!(different.len(), ids.len());
        prop_assert!(legal.iter().all(|id| (1..=64).contains(&id.len()) && named(id, 64) == *id));
    }
}
