//! Calls of the listener.

use std::sync::Arc;

use axum::body::Body;
use tokio::sync::watch;
use vik_control::http::Metrics;

use super::*;

/// A variable that is set in every test, used as a secret.
const VARIABLE: &str = "CARGO_MANIFEST_DIR";

struct Scene {
    verifier: WebhookVerifier,
    _workflow_updates: watch::Sender<Arc<Workflow>>,
    runtime: tokio::runtime::Runtime,
}

impl Scene {
    fn new() -> Self {
        let text = format!(
            "webhooks: {{listen: 127.0.0.1:0, hooks: {{gh: {{kind: github, secret_env: {VARIABLE}}}, \
             un: {{kind: github, secret_env: NOBODY_SETS_THIS}}}}}}\n\
             agents: {{a: {{runtime: codex, model: m}}}}\nissues: {{pull: {{command: x}}}}\n\
             issue: {{stages: {{s: {{when: {{state: t}}, agent: a, prompt: p}}}}}}\n"
        );
        let (workflow_updates, workflows) = watch::channel(Arc::new(load(&text).workflow.unwrap()));
        Self {
            verifier: WebhookVerifier::new(workflows, Metrics::default()),
            _workflow_updates: workflow_updates,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        }
    }

    fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> StatusCode {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).unwrap();
        let answer = self.runtime.block_on(answer(&self.verifier, request, "test"));
        answer.status()
    }

    fn github(&self, event: &str, id: &str, body: &str) -> StatusCode {
        let secret = std::env::var(VARIABLE).unwrap();
        let signature = format!("sha256={}", hex(&mac(secret.as_bytes(), body.as_bytes())));
        let headers = [
            ("x-github-event", event),
            ("x-github-delivery", id),
            ("x-hub-signature-256", &signature),
        ];
        self.call("POST", "/hooks/gh", &headers, body.into())
    }
}

#[test]
fn requests_other_than_hook_posts_get_404() {
    let scene = Scene::new();
    for (method, path) in [
        ("GET", "/hooks/gh"),
        ("PUT", "/hooks/gh"),
        ("OPTIONS", "*"),
        ("POST", "/hooks/other"),
        ("POST", "/hooks/"),
        ("POST", "/hooks/gh/"),
        ("POST", "/hooks/%67h"),
        ("POST", "/"),
        ("GET", "/api/v1/state"),
        ("POST", "/api/v1/stop"),
    ] {
        assert_eq!(scene.call(method, path, &[], Vec::new()), 404, "{method} {path}");
    }
}

#[test]
fn verified_delivery_is_accepted_once() {
    let scene = Scene::new();
    assert_eq!(scene.github("ping", "p", r#"{"zen":"x"}"#), 200);
    assert_eq!(scene.github("issues", "1", "{}"), 202);
    assert_eq!(scene.github("issues", "1", "{}"), 200);
    // A call with a known signature is a duplicate, even with another id or event.
    assert_eq!(scene.github("push", "2", "{}"), 200);
    assert_eq!(scene.github("issues", "1", "{ }"), 200, "the same id");
    assert_eq!(scene.github("issues", "3", "{}  "), 202);
}

#[test]
fn hook_without_a_secret_refuses_calls() {
    let scene = Scene::new();
    for secret in ["", "NOBODY_SETS_THIS"] {
        let signature = format!("sha256={}", hex(&mac(secret.as_bytes(), b"{}")));
        let headers = [("x-hub-signature-256", signature.as_str())];
        assert_eq!(scene.call("POST", "/hooks/un", &headers, b"{}".to_vec()), 401);
    }
}

#[test]
fn oversized_body_is_refused() {
    let scene = Scene::new();
    let signed = [("x-hub-signature-256", "sha256=00")];
    let post = |size: usize| scene.call("POST", "/hooks/gh", &signed, vec![b'x'; size]);
    assert_eq!(post(MAX_BODY), 401);
    assert_eq!(post(MAX_BODY + 1), 413);
    assert_eq!(post(40 * MAX_BODY), 413);
}

#[test]
fn flood_of_unsigned_calls_does_not_block_the_sender() {
    let scene = Scene::new();
    let mut found: Vec<_> = (0..100)
        .map(|_| scene.call("POST", "/hooks/gh", &[], Vec::new()).as_u16())
        .collect();
    found.dedup();
    assert_eq!(found[..2], [401, 429]);
    assert_eq!(scene.github("issues", "1", "{}"), 202);
}
