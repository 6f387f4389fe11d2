//! Checks that no delivery is accepted without the secret, whatever its headers and its body are.
#![no_main]

use std::sync::LazyLock;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use vik_core::workflow::Hook;
use vik_workflow_reader::load;
use vik_daemon::webhooks::verify;

static HOOKS: LazyLock<Vec<Hook>> = LazyLock::new(|| {
    let text = "issues: {pull: {command: x}}
agents: {a: {runtime: command, command: [x]}}
webhooks:
  listen: 127.0.0.1:1
  hooks:
    a: {kind: github, secret_env: S}
    b: {kind: gitlab, secret_env: S}
    c: {kind: linear, secret_env: S}
    d: {kind: hmac, secret_env: S, header: x-sig}
issue: {stages: {s: {when: {state: t}, agent: a, prompt: p}}}
";
    load(text).workflow.expect("a workflow").webhooks.hooks.into_values().collect()
});

const NAMES: [&str; 10] = [
    "x-hub-signature-256",
    "x-github-event",
    "x-github-delivery",
    "x-gitlab-token",
    "webhook-signature",
    "webhook-id",
    "webhook-timestamp",
    "linear-signature",
    "linear-timestamp",
    "x-sig",
];

fuzz_target!(|input: (u8, Vec<(u8, &[u8])>, &[u8])| {
    let (selector, pairs, body) = input;
    let mut headers = http::HeaderMap::new();
    for (name, value) in pairs {
        if let Ok(value) = http::HeaderValue::from_bytes(value) {
            headers.append(NAMES[usize::from(name) % NAMES.len()], value);
        }
    }
    let hook = &HOOKS[usize::from(selector) % HOOKS.len()];
    for secret in ["3f9d7c1be05a4d6f8a2b90c7d4e1f605", "whsec_PeAvn9mLwk3iQ2uJq0Zb3TtT0e4yD1xK"] {
        assert!(verify(hook, secret, &headers, body, Timestamp::UNIX_EPOCH).is_err());
    }
    assert!(verify(hook, "", &headers, body, Timestamp::UNIX_EPOCH).is_err());
});
