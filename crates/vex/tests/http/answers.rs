//! Successful answers.

use serde_json::json;
use vex::conversation::{Arguments, Block, StopReason, Usage};
use vex::interrupt::Interrupt;
use vex::provider::http::{list_models, probe};
use vex::provider::prices::ModelConfig;
use vex::provider::protocol::{Protocol, ToolCalls};
use vik_testkit::server::ModelServer;

use super::support::{ask, ask_with, endpoint, settings};

#[test]
fn answer_with_thinking_text_and_calls_is_assembled() {
    for protocol in Protocol::ALL {
        let asked = ask(
            protocol,
            json!([{"thinking": "I think so.", "text": "Let me look.",
                "tools": [{"run": "ls"}, {"read": "a.txt"}],
                "usage": {"input": 10_000, "cached": 7_000, "output": 500}}]),
        );
        let turn = asked.turn();
        assert_eq!(turn.text(), "Let me look.", "{protocol:?}");
        assert_eq!(turn.thinking(), "I think so.", "{protocol:?}");
        assert_eq!(asked.observed.text, "Let me look.", "{protocol:?}");
        assert_eq!(asked.observed.thinking, "I think so.", "{protocol:?}");
        let calls: Vec<_> = turn.tool_calls().map(|call| call.tool.as_str()).collect();
        assert_eq!(calls, ["run_command", "read_file"], "{protocol:?}");
        assert_eq!(turn.stop, StopReason::ToolUse, "{protocol:?}");
        assert!(turn.counted, "{protocol:?}");
        let usage = Usage {
            input_tokens: 10_000,
            cached_input_tokens: 7_000,
            cache_write_input_tokens: 0,
            output_tokens: 500,
        };
        assert_eq!(turn.usage, usage, "{protocol:?}");
        // 3000 at 3, 7000 at 0.30, 500 at 15.
        assert_eq!(turn.cost_usd, Some(0.0186), "{protocol:?}");
        if protocol == Protocol::Messages {
            assert!(
                turn.blocks.iter().any(
                    |block| matches!(block, Block::Thinking { signature: Some(signature), .. } if !signature.is_empty())
                )
            );
        }
    }
}

#[test]
fn endless_repetition_ends_the_answer_of_a_model_that_writes_fences() {
    let passage = "The files, whole:\n\na.py\n\nNow the task is this: change what is wrong in a.py.\n\n";
    for protocol in Protocol::ALL {
        for (form, stop) in [
            (ToolCalls::Files, StopReason::MaxTokens),
            (ToolCalls::Native, StopReason::End),
        ] {
            let asked = ask_with(
                protocol,
                json!([{"text": format!("I start.\n{}", passage.repeat(200))}]),
                |settings| settings.model.tool_calls = form,
            );
            let turn = asked.turn();
            assert_eq!(turn.stop, stop, "{protocol:?} {form:?}");
            assert!(turn.text().starts_with("I start.") && turn.usage.output_tokens > 0);
        }
    }
}

#[test]
fn text_tools_are_described_in_the_prompt() {
    for protocol in Protocol::ALL {
        let script =
            json!([{"text": "I look.\n{\"name\": \"run_command\", \"arguments\": {\"command\": \"ls\"}}"}]);
        let asked = ask_with(protocol, script, |settings| {
            settings.model.tool_calls = ToolCalls::Text;
        });
        let turn = asked.turn();
        let call = turn.tool_calls().next().unwrap();
        assert_eq!(
            call.input,
            Arguments::Json(json!({"command": "ls"})),
            "{protocol:?}"
        );
        assert_eq!(
            (turn.text().trim(), asked.observed.text.trim()),
            ("I look.", "I look.")
        );
        let request = asked.server.turns()[0].body.to_string();
        assert!(request.contains("run_command {\\\"command\\\"}"), "{request}");
        assert!(
            !request.contains("input_schema") && !request.contains("\"tools\""),
            "{request}"
        );
    }
}

#[test]
fn api_key_is_sent_only_in_its_header() {
    for (protocol, header) in [
        (Protocol::Messages, "x-api-key"),
        (Protocol::Chat, "authorization"),
        (Protocol::Responses, "authorization"),
    ] {
        let asked = ask(protocol, json!([{"text": "yes"}]));
        asked.turn();
        let request = &asked.server.turns()[0];
        assert_eq!(request.headers.get(header).map(String::as_str), Some("[secret]"));
        assert!(request.headers["user-agent"].starts_with("vex/"));
        assert!(!format!("{request:?}").contains(super::support::KEY));
    }
}

#[test]
fn own_price_counts_and_no_price_is_no_cost() {
    let script = json!([{"text": "yes", "usage": {"input": 1_000_000, "output": 1_000_000}}]);
    let priced = ask_with(Protocol::Chat, script.clone(), |settings| {
        settings.model.model = "mine".to_owned();
        let own = ModelConfig {
            input: Some(0.175),
            output: Some(1.25),
            ..ModelConfig::default()
        };
        settings.models.insert("mine".to_owned(), own);
    });
    assert_eq!(priced.turn().cost_usd, Some(1.425));
    let free = ask_with(Protocol::Chat, script, |settings| {
        settings.model.model = "nobody-knows".to_owned();
    });
    assert_eq!(free.turn().cost_usd, None);
}

#[test]
fn tokens_are_estimated_where_the_provider_counts_none() {
    for protocol in Protocol::ALL {
        let asked = ask(
            protocol,
            json!([{"text": "one two three four", "no_usage": true}]),
        );
        let turn = asked.turn();
        assert!(!turn.counted, "{protocol:?}");
        assert!(
            turn.usage.input_tokens > 0 && turn.usage.output_tokens > 0,
            "{protocol:?}"
        );
    }
}

#[test]
fn refusal_and_cut_answer_are_reported() {
    for (protocol, refusal) in [
        (Protocol::Messages, "refusal"),
        (Protocol::Chat, "content_filter"),
        (Protocol::Responses, "content_filter"),
    ] {
        let refused = ask(protocol, json!([{"text": "I can't", "stop": refusal}]));
        assert_eq!(refused.turn().stop, StopReason::Refusal, "{protocol:?}");
        let cut = ask(protocol, json!([{"text": "and then", "stop": "max_tokens"}]));
        assert_eq!(cut.turn().stop, StopReason::MaxTokens, "{protocol:?}");
    }
}

#[test]
fn invalid_json_arguments_are_never_run() {
    for protocol in Protocol::ALL {
        let asked = ask(protocol, json!([{"run": "ls", "malformed": "args"}]));
        let turn = asked.turn();
        let call = turn.tool_calls().next().unwrap();
        match &call.input {
            Arguments::Json(input) => assert!(call.repaired && input["command"] == "ls", "{protocol:?}"),
            Arguments::Broken { .. } => {}
        }
    }
}

#[test]
fn long_answer_in_tiny_pieces_is_complete() {
    for (protocol, wire, length) in [
        (Protocol::Messages, json!(null), 20_000),
        (Protocol::Chat, json!(4096), 2000),
        (Protocol::Responses, json!(1000), 2000),
    ] {
        let text: String = (0..length).map(|n| format!("{n:09} ")).collect();
        let script = json!([{"text": text, "chunk_chars": 5, "wire_bytes": wire}]);
        let asked = ask(protocol, script);
        assert!(asked.turn().text() == text, "{protocol:?}");
        assert!(asked.observed.text == text, "{protocol:?}");
    }
    let small = json!([{"text": "Grüße, 世界", "thinking": "ä", "run": "echo ö", "wire_bytes": 1}]);
    for protocol in Protocol::ALL {
        assert_eq!(ask(protocol, small.clone()).turn().text(), "Grüße, 世界");
    }
}

#[test]
fn models_are_listed_and_one_is_probed() {
    let server = ModelServer::start_json(json!([{"text": "ok"}, {"status": 500}])).unwrap();
    let interrupt = Interrupt::new();
    for protocol in Protocol::ALL {
        let listed = list_models(endpoint(protocol, &server.url()), None, &interrupt).unwrap();
        let names: Vec<_> = listed.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["claude-sonnet-4-5", "gpt-5.5", "scripted"]);
    }
    let settings = settings(Protocol::Chat, &server.url());
    let probed = probe(settings.clone(), &interrupt).unwrap();
    assert_eq!(
        (probed.model.as_str(), probed.turn.text().as_str()),
        ("claude-sonnet-4-5", "ok")
    );
    let failed = probe(settings, &interrupt).unwrap_err().to_string();
    assert!(failed.contains("500"), "{failed}");
    assert_eq!(server.turns().len(), 2, "a probe is one request");
}
