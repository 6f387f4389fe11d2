//! Waits, deadlines and interrupts.

use std::sync::mpsc;

use serde_json::{Value, json};
use vex::conversation::Message;
use vex::interrupt::Interrupt;
use vex::provider::http::HttpProvider;
use vex::provider::protocol::Protocol;
use vex::provider::{Progress, Provider, ProviderError, Request};
use vik_testkit::eventually;
use vik_testkit::server::ModelServer;

use super::support::{ask, ask_with, settings};

#[test]
fn retry_hint_is_obeyed_in_each_form() {
    let hints = [
        (json!({"headers": {"retry-after": "0.3"}}), 300),
        (json!({"headers": {"retry-after-ms": "40"}}), 40),
        (json!({"headers": {"x-ratelimit-reset-requests": "50ms"}}), 50),
        (
            json!({"headers": {"anthropic-ratelimit-tokens-reset": "2020-01-01T00:00:00Z"}}),
            0,
        ),
        (
            json!({"headers": {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}}),
            0,
        ),
        (
            json!({"error": "Rate limit reached. Please try again in 60ms."}),
            60,
        ),
    ];
    for (hint, millis) in hints {
        let mut bad = hint.clone();
        bad["status"] = json!(429);
        let asked = ask(Protocol::Responses, json!([bad, {"text": "whole"}]));
        assert_eq!(asked.turn().text(), "whole", "{hint}");
        let delay = asked.observed.delays[0];
        assert!((millis..millis + 250).contains(&delay), "{hint}: {delay}");
    }
}

#[test]
fn overlong_wait_is_returned_to_the_caller() {
    let asked = ask(Protocol::Messages, json!([{"status": 429, "retry_after": 3600}]));
    let Err(ProviderError::Reported {
        class,
        retry_after_ms,
        http_status,
        ..
    }) = &asked.result
    else {
        panic!("{:?}", asked.result);
    };
    assert_eq!((class.as_deref(), *http_status), (Some("rate_limit"), Some(429)));
    assert_eq!(*retry_after_ms, Some(3_600_000));
    assert_eq!(asked.requests(), 1);
}

#[test]
fn stalled_answer_is_ended_and_retried() {
    for protocol in Protocol::ALL {
        for place in ["headers", "start", "mid", "tool"] {
            let bad = json!({"text": "never", "run": "echo never", "stall": place});
            let asked = ask_with(protocol, json!([bad, {"text": "whole"}]), |settings| {
                settings.deadlines.first_byte_ms = 400;
                settings.deadlines.stall_ms = 400;
                settings.retry.max_tries = 100;
            });
            assert_eq!(asked.turn().text(), "whole", "{protocol:?} {place}");
            assert!(
                asked.observed.reasons[0].contains("400ms"),
                "{:?}",
                asked.observed.reasons
            );
        }
    }
}

#[test]
fn signs_of_life_alone_do_not_keep_an_answer_alive() {
    for protocol in Protocol::ALL {
        let bad = json!({"text": "never", "stall": "mid", "ping": true});
        let asked = ask_with(protocol, json!([bad]), |settings| {
            settings.deadlines.silence_ms = 700;
            settings.retry.max_tries = 1;
        });
        let (message, class) = asked.error();
        assert_eq!(class.as_deref(), Some("network"));
        assert!(message.contains("700ms"), "{message}");
        // Nor are they reported: at most the text before the stall is.
        assert!(
            asked.observed.received.len() <= 1,
            "{:?}",
            asked.observed.received
        );
    }
}

#[test]
fn answer_pieces_are_reported_as_they_arrive() {
    for protocol in Protocol::ALL {
        for turn in [
            json!({"text": "many words that come one after another", "chunk_chars": 4, "chunk_ms": 20}),
            json!({"thinking": "many thoughts that come one after another", "text": "x", "chunk_chars": 4, "chunk_ms": 20}),
            json!({"run": "echo many words that come one after another", "chunk_chars": 4, "chunk_ms": 20}),
        ] {
            let asked = ask(protocol, json!([turn]));
            asked.turn();
            // Two chunks may arrive in one read on a busy machine, but not most of them.
            let received = &asked.observed.received;
            assert!(received.len() >= 4, "{protocol:?} {turn}: {received:?}");
            assert!(received.is_sorted(), "{received:?}");
        }
    }
}

#[test]
fn whole_answer_has_a_deadline() {
    let asked = ask_with(
        Protocol::Chat,
        json!([{"text": "never", "stall": "mid"}]),
        |settings| {
            settings.deadlines.total_ms = 500;
        },
    );
    assert!(
        asked.error().0.contains("no complete answer within 500ms"),
        "{}",
        asked.error().0
    );
    assert_eq!(asked.requests(), 1);
}

/// Interrupts after the request or, if `after_text` is set, after the first text; the answer must
/// end at once.
fn is_interrupted(protocol: Protocol, turn: Value, after_text: bool) {
    let server = ModelServer::start_json(json!([turn])).unwrap();
    let mut provider = HttpProvider::new(settings(protocol, &server.url())).unwrap();
    let interrupt = Interrupt::new();
    let (sender, receiver) = mpsc::channel();
    let result = std::thread::scope(|scope| {
        let setter = interrupt.clone();
        let server = &server;
        scope.spawn(move || {
            eventually("the server is asked", || !server.turns().is_empty());
            if after_text {
                receiver.recv().unwrap();
            }
            setter.set();
        });
        let messages = [Message::user("go")];
        let request = Request {
            messages: &messages,
            ..Request::default()
        };
        let mut on_progress = |progress: Progress<'_>| {
            if matches!(progress, Progress::Text { .. } | Progress::Retry { .. }) {
                let _ = sender.send(());
            }
        };
        provider.turn(request, &mut on_progress, &interrupt)
    });
    assert!(
        matches!(result, Err(ProviderError::Interrupted)),
        "{protocol:?} {result:?}"
    );
}

#[test]
fn interrupt_ends_every_wait() {
    for protocol in Protocol::ALL {
        is_interrupted(protocol, json!({"stall": "headers"}), false);
        is_interrupted(
            protocol,
            json!({"text": "some words to be told in pieces", "stall": "mid"}),
            true,
        );
        is_interrupted(protocol, json!({"status": 429, "retry_after": 59}), true);
    }
}

#[test]
fn earlier_interrupt_ends_the_request() {
    let server = ModelServer::start_json(json!([])).unwrap();
    let mut provider = HttpProvider::new(settings(Protocol::Chat, &server.url())).unwrap();
    let interrupt = Interrupt::new();
    interrupt.set();
    let request = Request::default();
    let result = provider.turn(request, &mut |_| (), &interrupt);
    assert!(matches!(result, Err(ProviderError::Interrupted)));
    assert!(server.requests().is_empty());
}
