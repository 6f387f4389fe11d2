//! Failed answers.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::{Value, json};
use vex::interrupt::Interrupt;
use vex::provider::http::HttpProvider;
use vex::provider::protocol::{Protocol, ToolCalls};
use vex::provider::{Provider, ProviderError, Request};
use vik_testkit::server::ModelServer;

use super::support::{KEY, ask, ask_with, settings};

/// A failed answer, then a good one: only the good one is used, as a whole.
#[track_caller]
fn is_mended(protocol: Protocol, mut bad: Value) {
    let shown = format!("{protocol:?} {bad}");
    if bad.get("status").is_none() && bad.get("text").is_none() {
        bad["text"] = json!("this must never be seen in a turn");
        bad["run"] = json!("echo never");
    }
    let asked = ask(protocol, json!([bad, {"text": "whole"}]));
    let turn = asked
        .result
        .as_ref()
        .unwrap_or_else(|error| panic!("{shown}: {error}"));
    assert_eq!(turn.text(), "whole", "{shown}");
    assert_eq!(turn.tool_calls().count(), 0, "{shown}");
    assert_eq!(asked.observed.delays.len(), 1, "{shown}");
    assert_eq!(asked.requests(), 2, "{shown}");
}

#[test]
fn transient_faults_are_retried() {
    for protocol in Protocol::ALL {
        for status in [429, 500, 502, 503, 504, 529] {
            is_mended(protocol, json!({"status": status}));
        }
        for place in ["headers", "start", "mid", "tool", "before_done"] {
            is_mended(protocol, json!({"drop": place}));
        }
        for place in ["start", "mid", "tool"] {
            is_mended(protocol, json!({"end": place}));
        }
        // Chat Completions sends its stop reason before its last line, which some servers omit.
        if protocol != Protocol::Chat {
            is_mended(protocol, json!({"end": "before_done"}));
        }
        for bytes in (0..400).step_by(37) {
            is_mended(protocol, json!({"drop_bytes": bytes}));
        }
        for kind in ["html", "empty", "sse"] {
            is_mended(protocol, json!({"malformed": kind}));
        }
        for code in ["overloaded_error", "server_error", "rate_limit_exceeded"] {
            is_mended(protocol, json!({"sse_error": code}));
        }
        // An answer without text.
        is_mended(protocol, json!({"text": ""}));
        is_mended(protocol, json!({"headers": {"content-encoding": "gzip"}}));
    }
}

#[test]
fn repeatedly_broken_answer_ends_the_retries() {
    for protocol in Protocol::ALL {
        for bad in [
            json!({"text": "some words that are never seen", "drop": "mid", "times": "forever"}),
            json!({"text": "", "times": "forever"}),
            json!({"malformed": "sse", "times": "forever"}),
            json!({"malformed": "html", "times": "forever"}),
        ] {
            let asked = ask(protocol, json!([bad]));
            let (message, class) = asked.error();
            assert_eq!(class.as_deref(), Some("network"), "{message}");
            assert_eq!(asked.requests(), 3, "{protocol:?} {bad}");
            assert!(message.ends_with("(after 3 tries)"), "{message}");
        }
    }
}

#[test]
fn empty_answers_are_reported_with_their_usage_and_repeated_only_for_large_models() {
    for (tool_calls, requests) in [(ToolCalls::Native, 3), (ToolCalls::Files, 1)] {
        let script = json!([{"text": "", "times": "forever"}]);
        let asked = ask_with(Protocol::Chat, script, |settings| {
            settings.model.tool_calls = tool_calls;
        });
        assert!(matches!(asked.result, Err(ProviderError::Empty(_))));
        assert_eq!(asked.requests(), requests);
        assert_eq!(asked.observed.empty.len(), requests);
        for empty in &asked.observed.empty {
            assert!(empty.counted && empty.usage.input_tokens == 1000, "{empty:?}");
            assert!(empty.cost_usd > Some(0.0));
        }
    }
}

#[test]
fn retries_end_after_the_last_try() {
    let asked = ask(Protocol::Messages, json!([{"status": 529, "times": "forever"}]));
    let (message, class) = asked.error();
    assert_eq!(class.as_deref(), Some("overloaded"));
    assert_eq!(asked.requests(), 4);
    assert!(
        message.contains("scripted answered 529") && message.ends_with("(after 4 tries)"),
        "{message}"
    );
    assert!(matches!(
        asked.result,
        Err(ProviderError::Reported {
            http_status: Some(529),
            ..
        })
    ));
    assert!(asked.observed.reasons.iter().all(|reason| reason.contains("529")));
}

#[test]
fn fallback_model_answers_when_the_first_fails() {
    for bad in [
        json!({"status": 529, "times": 2}),
        json!({"status": 404, "error": {"code": "model_not_found", "message": "no such model"}}),
    ] {
        let asked = ask_with(Protocol::Responses, json!([bad, {"text": "here"}]), |settings| {
            settings.fallback_model = Some("gpt-5".to_owned());
            settings.retry.max_tries = 2;
        });
        assert_eq!(asked.turn().text(), "here");
        assert_eq!(asked.observed.fallback.as_deref(), Some("gpt-5"));
        let models: Vec<_> = asked
            .server
            .turns()
            .iter()
            .map(|request| request.body["model"].clone())
            .collect();
        assert_eq!(
            (models.first(), models.last()),
            (Some(&json!("claude-sonnet-4-5")), Some(&json!("gpt-5")))
        );
        // At the price of the model that answered: 1000 at 1.25, 20 at 10.
        assert_eq!(asked.turn().cost_usd, Some(0.00145));
    }
}

#[test]
fn wrong_key_error_omits_the_key() {
    for protocol in Protocol::ALL {
        let error = format!("Incorrect API key provided: {KEY}.");
        let asked = ask(protocol, json!([{"status": 401, "error": error}]));
        let (message, class) = asked.error();
        assert_eq!(class.as_deref(), Some("auth"));
        assert!(
            message.contains("does not accept the key in SCRIPTED_KEY (401)"),
            "{message}"
        );
        assert_eq!(asked.requests(), 1);
    }
    let none = ask_with(Protocol::Chat, json!([{"status": 401}]), |settings| {
        settings.endpoint.key = None;
    });
    assert!(
        none.error().0.contains("requires an API key: set SCRIPTED_KEY"),
        "{}",
        none.error().0
    );
}

#[test]
fn unknown_model_error_lists_available_models() {
    for protocol in Protocol::ALL {
        let error = json!({"code": "model_not_found", "message": "model: claude-sonnet-4-5 does not exist"});
        let asked = ask(protocol, json!([{"status": 404, "error": error}]));
        let (message, class) = asked.error();
        assert_eq!(class.as_deref(), Some("model"));
        assert!(
            message.contains("has no model \"claude-sonnet-4-5\""),
            "{message}"
        );
        assert!(message.contains("available: claude-sonnet-4-5, "), "{message}");
        assert_eq!(asked.requests(), 1);
    }
}

#[test]
fn wrong_address_is_a_config_error() {
    let body = json!({"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}});
    let asked = ask(Protocol::Chat, json!([{"status": 404, "error": body}]));
    let (message, class) = asked.error();
    assert_eq!(class.as_deref(), Some("usage"));
    assert!(
        message.contains("/v1/chat/completions does not exist (404)"),
        "{message}"
    );
    assert!(message.contains("--base-url"), "{message}");
}

#[test]
fn redirect_receives_no_key() {
    let other = ModelServer::start_json(json!([{"text": "give me your key"}])).unwrap();
    let to = format!("{}/chat/completions", other.v1());
    let asked = ask(
        Protocol::Chat,
        json!([{"status": 307, "headers": {"location": to}}]),
    );
    let (message, class) = asked.error();
    assert_eq!(class.as_deref(), Some("usage"));
    assert!(
        message.contains(&to) && message.contains("no key is sent there"),
        "{message}"
    );
    assert!(other.requests().is_empty());
}

#[test]
fn overlong_request_is_an_overflow() {
    for protocol in Protocol::ALL {
        for bad in [
            json!({"status": 413}),
            json!({"status": 400, "error": "prompt is too long: 210000 tokens > 200000 maximum"}),
            json!({"status": 400, "error": {"code": "context_length_exceeded", "message": "too much"}}),
            json!({"text": "a", "sse_error": {"code": "context_length_exceeded", "message": "too much"}}),
        ] {
            let asked = ask(protocol, json!([bad]));
            assert!(
                matches!(asked.result, Err(ProviderError::Overflow(_))),
                "{protocol:?} {bad}: {:?}",
                asked.result
            );
            assert_eq!(asked.requests(), 1);
        }
    }
}

#[test]
fn context_size_is_learned_from_a_refusal() {
    let server = ModelServer::start_json(json!([
        {"status": 400, "error": {"error": {"message": "the request exceeds the available context size",
            "type": "exceed_context_size_error", "n_ctx": 4096}}}
    ]))
    .unwrap();
    let mut provider = HttpProvider::new(settings(Protocol::Chat, &server.url())).unwrap();
    assert_eq!(provider.model().context_window, Some(200_000));
    let request = Request::default();
    let result = provider.turn(request, &mut |_| (), &Interrupt::new());
    assert!(matches!(result, Err(ProviderError::Overflow(_))), "{result:?}");
    assert_eq!(provider.model().context_window, Some(4096));
}

#[test]
fn exhausted_quota_is_not_retried() {
    let error = json!({"code": "insufficient_quota", "message": "You exceeded your current quota"});
    let asked = ask(Protocol::Responses, json!([{"status": 429, "error": error}]));
    assert_eq!(asked.error().1.as_deref(), Some("rate_limit"));
    assert_eq!(asked.requests(), 1);
}

#[test]
fn unreachable_server_is_reported() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let asked = ask_with(Protocol::Chat, json!([]), |settings| {
        settings.endpoint.base_url = format!("{url}/v1");
    });
    let (message, class) = asked.error();
    assert_eq!(class.as_deref(), Some("network"));
    let expected = format!(
        "no server is listening at {url}/v1: start the server of scripted, or set --base-url (after 3 tries)"
    );
    assert_eq!(message, expected);
}
