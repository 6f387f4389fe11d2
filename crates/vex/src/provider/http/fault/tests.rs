use super::*;

fn fault(status: u16, body: &str) -> Fault {
    fault_of(Some(status), &ErrorBody::read(body.as_bytes()))
}

fn in_stream(kind: &str, message: &str) -> Fault {
    fault_of(
        None,
        &ErrorBody {
            message: message.to_owned(),
            names: vec![kind.to_owned()],
            structured: true,
        },
    )
}

#[test]
fn fault_of_recognises_recorded_provider_errors() {
    let cases = [
        (
            429,
            r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#,
            Fault::RateLimit,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Fault::Quota,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
            Fault::Quota,
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Fault::Overloaded,
        ),
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#,
            Fault::Server,
        ),
        (502, "<html>Bad gateway</html>", Fault::Server),
        (
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            Fault::Auth,
        ),
        (
            403,
            r#"{"error":{"message":"no access to model gpt-x","code":"permission_denied"}}"#,
            Fault::Auth,
        ),
        (
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}"#,
            Fault::Model,
        ),
        (
            404,
            r#"{"error":{"message":"The model `gpt-x` does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}"#,
            Fault::Model,
        ),
        (404, r#"{"error":"model 'x' not found"}"#, Fault::Model),
        (
            400,
            r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","code":404}"#,
            Fault::Model,
        ),
        (
            404,
            r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#,
            Fault::Address,
        ),
        (404, "<html>404</html>", Fault::Address),
        (308, "", Fault::Address),
        (413, "", Fault::Overflow),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
            Fault::Overflow,
        ),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            Fault::Overflow,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_ctx":4096}}"#,
            Fault::Overflow,
        ),
        (
            400,
            r#"{"error":{"message":"tools.0.name: too long","type":"invalid_request_error"}}"#,
            Fault::Request,
        ),
        (422, r#"{"detail":"bad field"}"#, Fault::Request),
    ];
    for (status, body, expected) in cases {
        assert_eq!(fault(status, body), expected, "{status} {body}");
    }
    assert_eq!(in_stream("overloaded_error", "Overloaded"), Fault::Overloaded);
    assert_eq!(in_stream("rate_limit_exceeded", ""), Fault::RateLimit);
    assert_eq!(in_stream("context_length_exceeded", "too long"), Fault::Overflow);
    assert_eq!(in_stream("server_error", "oops"), Fault::Server);
    assert_eq!(in_stream("invalid_request_error", "bad"), Fault::Request);
}

#[test]
fn context_size_is_learned_from_a_refusal() {
    let window = |text: &str| context_window_in(text);
    assert_eq!(
        window("prompt is too long: 210000 tokens > 200000 maximum"),
        Some(200_000)
    );
    assert_eq!(
        window("This model's maximum context length is 128000 tokens. However"),
        Some(128_000)
    );
    assert_eq!(
        window(r#"{"error":{"n_prompt_tokens":9,"n_ctx":4096}}"#),
        Some(4096)
    );
    assert_eq!(window("too long"), None);
    assert_eq!(window(r#""n_ctx": 0"#), None);
}

#[test]
fn error_message_is_found_and_bounded() {
    let message = |body: &str| ErrorBody::read(body.as_bytes()).message;
    assert_eq!(message(r#"{"error":{"message":"a"}}"#), "a");
    assert_eq!(message(r#"{"error":"a"}"#), "a");
    assert_eq!(message(r#"{"detail":"a"}"#), "a");
    assert_eq!(message(r#"[{"error":{"message":"a"}}]"#), "a");
    assert_eq!(message(r#"{"x":1}"#), r#"{"x":1}"#);
    assert_eq!(message("  plain \n"), "plain");
    assert_eq!(message("<!doctype html><p>no</p>"), "");
    assert_eq!(message(&"ä".repeat(5000)).chars().count(), 1000);
    assert_eq!(message("\u{fffd}\u{0}"), "\u{fffd}\u{0}");
}
