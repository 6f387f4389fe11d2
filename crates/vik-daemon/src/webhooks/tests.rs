//! Tests of signatures as the senders document them, of forged calls, and of the pace of pulls.

mod calls;

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use base64::Engine as _;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use proptest::prelude::*;
use sha2::Sha256;
use vik_core::workflow::{Hook, HookKind, Workflow};
use vik_workflow_reader::load;

use super::listener::{MAX_BODY, answer};
use super::pace::{Bucket, Pacer};
use super::recent_deliveries::RecentDeliveries;
use super::verifier::WebhookVerifier;
use super::verify::{Delivery, Refused, is_signed, verify};

fn hook(kind: HookKind) -> Hook {
    let own = (kind == HookKind::Hmac).then(|| "X-Signature".to_owned());
    Hook {
        kind,
        secret_env: "NOBODY_SETS_THIS".to_owned(),
        id_header: own.as_ref().map(|_| "X-Delivery".to_owned()),
        header: own,
    }
}

/// Verifies a call to a hook of this kind, in 1970.
fn verified(kind: HookKind, secret: &str, headers: &HeaderMap, body: &[u8]) -> Result<Delivery, Refused> {
    verify(&hook(kind), secret, headers, body, Timestamp::UNIX_EPOCH)
}

const KINDS: [HookKind; 4] = [
    HookKind::Github,
    HookKind::Gitlab,
    HookKind::Linear,
    HookKind::Hmac,
];

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        })
        .collect()
}

fn mac(key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(body);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The example from GitHub's documentation.
#[test]
fn github_signature_matches_its_documentation() {
    let signed = |signature: &str| {
        headers(&[
            ("User-Agent", "GitHub-Hookshot/044aadd"),
            ("Content-Type", "application/json"),
            ("X-GitHub-Event", "issues"),
            ("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
            ("X-GitHub-Hook-ID", "292430182"),
            ("X-Hub-Signature", "sha1=7d38cdd689735b008b3c702edd92eea23791c5f6"),
            ("X-Hub-Signature-256", signature),
        ])
    };
    let secret = "It's a Secret to Everybody";
    let check = |signature: &str, body: &[u8]| verified(HookKind::Github, secret, &signed(signature), body);
    let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let delivery = check(good, b"Hello, World!").unwrap();
    assert_eq!(
        delivery.id.as_deref(),
        Some("72d3162e-cc78-11e3-81ab-4c9367dc0958")
    );
    assert_eq!((delivery.event.as_str(), delivery.is_ping), ("issues", false));
    assert_eq!(check(good, b"Hello, World?"), Err(Refused::Forged));
    // SHA-1, no algorithm, a truncated value, no hexadecimal digits, nothing.
    for bad in [
        "sha1=7d38cdd689735b008b3c702edd92eea23791c5f6",
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "sha256=757107ea",
        "sha256=zz7107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "sha256=",
        "",
    ] {
        assert_eq!(check(bad, b"Hello, World!"), Err(Refused::Forged), "{bad}");
    }
}

#[test]
fn two_signature_headers_count_as_unsigned() {
    let mut twice = headers(&[("X-Hub-Signature-256", "sha256=00")]);
    let good = format!("sha256={}", hex(&mac(b"secret", b"x")));
    twice.append("X-Hub-Signature-256", good.parse().unwrap());
    assert!(!is_signed(&hook(HookKind::Github), "secret", &twice));
    let found = verified(HookKind::Github, "secret", &twice, b"x");
    assert_eq!(found, Err(Refused::Unsigned));
}

#[test]
fn github_ping_is_recognised() {
    let body = br#"{"zen":"Keep it logically awesome.","hook_id":1}"#;
    let signature = format!("sha256={}", hex(&mac(b"secret", body)));
    let ping = headers(&[("X-GitHub-Event", "ping"), ("X-Hub-Signature-256", &signature)]);
    let delivery = verified(HookKind::Github, "secret", &ping, body);
    assert!(delivery.unwrap().is_ping);
}

#[test]
fn gitlab_token_must_match_the_secret() {
    let call = |token: &str| {
        headers(&[
            ("X-Gitlab-Token", token),
            ("X-Gitlab-Event", "Issue Hook"),
            ("X-Gitlab-Instance", "https://gitlab.com"),
            ("X-Gitlab-Webhook-UUID", "02affd2d-2cba-4033-917d-ec22d5dc4b38"),
            ("X-Gitlab-Event-UUID", "13792a34-cac6-4fda-95a8-c58e00a3954e"),
            ("Idempotency-Key", "f5e5f430-f57b-4e6e-9fac-d9128cd7232f"),
        ])
    };
    let check = |token: &str| verified(HookKind::Gitlab, "correct horse", &call(token), b"{}");
    let delivery = check("correct horse").unwrap();
    assert_eq!(
        delivery.id.as_deref(),
        Some("f5e5f430-f57b-4e6e-9fac-d9128cd7232f")
    );
    assert_eq!(delivery.event, "Issue Hook");
    for bad in ["", "correct hors", "correct horse2", "CORRECT HORSE"] {
        assert_eq!(check(bad), Err(Refused::Forged), "{bad}");
    }
}

/// The test vector of the Standard Webhooks libraries, in the form that GitLab sends.
#[test]
fn gitlab_signing_token_is_verified() {
    let (secret, now) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1_614_265_330_i64);
    let body = br#"{"test": 2432232314}"#;
    let call = |signature: &str, at: &str| {
        headers(&[
            ("X-Gitlab-Event", "Issue Hook"),
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", at),
            ("webhook-signature", signature),
            // The plain token does not bypass the signature.
            ("X-Gitlab-Token", secret),
        ])
    };
    let check = |signature: &str, at: &str, now: i64| {
        let now = Timestamp::from_second(now).unwrap();
        verify(&hook(HookKind::Gitlab), secret, &call(signature, at), body, now)
    };
    let good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let delivery = check(good, "1614265330", now + 299).unwrap();
    assert_eq!(delivery.id.as_deref(), Some("msg_p5jXN8AQM9LWM0D4loKWxJek"));
    assert!(check(&format!("v1,AAAA v2,x {good}"), "1614265330", now).is_ok());
    assert_eq!(check(good, "1614265330", now + 301), Err(Refused::Stale));
    assert_eq!(check(good, "1614265330", now - 301), Err(Refused::Stale));
    assert_eq!(check(good, "1614265331", now), Err(Refused::Forged));
    for bad in [
        "",
        "v1,",
        "v1,AAAA",
        "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ] {
        assert_eq!(check(bad, "1614265330", now), Err(Refused::Forged), "{bad}");
    }
    let plain = headers(&[("X-Gitlab-Token", secret)]);
    assert!(!is_signed(&hook(HookKind::Gitlab), secret, &plain));
}

#[test]
fn linear_signature_needs_a_fresh_timestamp() {
    let sent = 1_676_056_940_508_i64;
    let body = format!(
        r#"{{"action":"create","type":"Issue","createdAt":"2023-02-10T19:22:20.000Z","data":{{"id":"2174add1","title":"x"}},"webhookTimestamp":{sent},"webhookId":"000042e3"}}"#
    );
    let check = |body: &str, signed: &str, now: i64| {
        let call = headers(&[
            ("Linear-Delivery", "234d1a4e-b617-4388-90fe-adc3633d6b72"),
            ("Linear-Event", "Issue"),
            ("Linear-Signature", signed),
        ]);
        let now = Timestamp::from_millisecond(now).unwrap();
        let (hook, body) = (hook(HookKind::Linear), body.as_bytes());
        verify(&hook, "lin_wh_secret", &call, body, now)
    };
    let sign = |body: &str| hex(&mac(b"lin_wh_secret", body.as_bytes()));
    let delivery = check(&body, &sign(&body), sent + 59_000).unwrap();
    assert_eq!(
        delivery.id.as_deref(),
        Some("234d1a4e-b617-4388-90fe-adc3633d6b72")
    );
    assert_eq!(delivery.event, "Issue");
    assert_eq!(check(&body, &sign(&body), sent + 60_001), Err(Refused::Stale));
    assert_eq!(check(&body, &sign(&body), sent - 60_001), Err(Refused::Stale));
    assert_eq!(check(&body, &sign("x"), sent), Err(Refused::Forged));
    // Signed, but without a time, so that it could be of any age.
    for body in ["{}", "[]", "no json", r#"{"webhookTimestamp":"x"}"#] {
        assert_eq!(check(body, &sign(body), sent), Err(Refused::Stale), "{body}");
    }
}

#[test]
fn custom_hook_uses_the_configured_header() {
    let check = |signature: &str, id: &str| {
        let call = headers(&[("x-signature", signature), ("x-delivery", id)]);
        verified(HookKind::Hmac, "secret", &call, b"body")
    };
    let good = hex(&mac(b"secret", b"body"));
    assert_eq!(check(&good, "1").unwrap().id.as_deref(), Some("1"));
    assert_eq!(
        check(&format!("sha256={}", good.to_uppercase()), "").unwrap().id,
        None
    );
    assert_eq!(check(&good[2..], "1"), Err(Refused::Forged));
    let no_header = Hook {
        header: None,
        ..hook(HookKind::Hmac)
    };
    let none = HeaderMap::new();
    let found = verify(&no_header, "secret", &none, b"", Timestamp::UNIX_EPOCH);
    assert_eq!(found, Err(Refused::Unsigned));
}

const NAMES: [&str; 11] = [
    "x-hub-signature-256",
    "x-hub-signature",
    "x-gitlab-token",
    "webhook-signature",
    "webhook-id",
    "webhook-timestamp",
    "linear-signature",
    "linear-delivery",
    "x-signature",
    "x-delivery",
    "x-github-event",
];

/// No generated call contains this secret.
const SECRET: &str = "7c1f-a-secret-that-nobody-guesses-2b9e";
const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn forged_value() -> impl Strategy<Value = Vec<u8>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..80);
    let proof = (any::<[u8; 32]>(), 0..5_usize).prop_map(|(mac, form)| {
        let base64 = base64::engine::general_purpose::STANDARD.encode(mac);
        match form {
            0 => format!("sha256={}", hex(&mac)),
            1 => hex(&mac),
            2 => format!("v1,{base64}"),
            3 => format!("v1,{base64} v1,{base64}"),
            _ => "1614265330".to_owned(),
        }
        .into_bytes()
    });
    prop_oneof![bytes, proof]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn forged_calls_are_never_accepted(
        kind in 0..KINDS.len(),
        signing in any::<bool>(),
        lines in proptest::collection::vec((0..NAMES.len(), forged_value()), 0..6),
        body in proptest::collection::vec(any::<u8>(), 0..200),
        now in -377_705_000_000_i64..253_402_000_000,
    ) {
        let mut call = HeaderMap::new();
        for (name, value) in lines {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                call.append(NAMES[name], value);
            }
        }
        let secret = if signing { SIGNING } else { SECRET };
        let now = Timestamp::from_second(now).unwrap();
        prop_assert!(verify(&hook(KINDS[kind]), secret, &call, &body, now).is_err());
        prop_assert_eq!(verify(&hook(KINDS[kind]), "", &call, &body, now), Err(Refused::NoSecret));
    }

    #[test]
    fn changed_body_fails_the_signature(
        body in proptest::collection::vec(any::<u8>(), 1..200),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let signature = format!("sha256={}", hex(&mac(SECRET.as_bytes(), &body)));
        let call = headers(&[("x-hub-signature-256", &signature)]);
        prop_assert!(verified(HookKind::Github, SECRET, &call, &body).is_ok());
        let mut other = body.clone();
        other[at.index(body.len())] ^= 1 << bit;
        prop_assert_eq!(verified(HookKind::Github, SECRET, &call, &other), Err(Refused::Forged));
    }

    #[test]
    fn pacer_limits_pulls_and_forgets_no_call(
        steps in proptest::collection::vec((0..3_000_u64, any::<bool>()), 1..80),
        gap in 0..5_000_u64,
    ) {
        let gap = Duration::from_millis(gap);
        let (mut pacer, mut now) = (Pacer::default(), Duration::ZERO);
        let (mut pulls, mut wants, mut last_want) = (Vec::new(), 0_usize, None);
        for (passed, wants_one) in steps {
            now += Duration::from_millis(passed);
            if wants_one {
                pacer.want();
                wants += 1;
                last_want = Some(now);
            }
            if pacer.wait(now, gap) == Some(Duration::ZERO) {
                pacer.ask(now);
                pulls.push(now);
            }
        }
        while let Some(wait) = pacer.wait(now, gap) {
            prop_assert!(wait <= gap);
            now += wait;
            pacer.ask(now);
            pulls.push(now);
        }
        prop_assert!(pulls.windows(2).all(|pair| pair[1] - pair[0] >= gap));
        prop_assert!(pulls.len() <= wants);
        prop_assert!(last_want.is_none_or(|want| pulls.last().is_some_and(|ask| *ask >= want)));
    }

    #[test]
    fn recent_deliveries_recognise_repeated_marks(ids in proptest::collection::vec(0..200_u8, 0..300)) {
        let (mut seen, mut known) = (RecentDeliveries::default(), std::collections::HashSet::new());
        for (second, id) in ids.into_iter().enumerate() {
            let is_new = seen.note(&[[id; 32]], Duration::from_secs(second as u64));
            prop_assert_eq!(is_new, known.insert(id));
        }
        prop_assert_eq!(seen.len(), known.len());
    }
}

#[test]
fn recent_deliveries_forget_old_and_excess_marks() {
    let mut seen = RecentDeliveries::default();
    let mark = |number: u32| {
        let mut mark = [0; 32];
        mark[..4].copy_from_slice(&number.to_le_bytes());
        mark
    };
    for number in 0..30_000 {
        assert!(seen.note(&[mark(number), mark(number + 1_000_000)], Duration::ZERO));
        assert!(seen.len() <= 10_002, "{}", seen.len());
    }
    assert!(!seen.note(&[mark(29_999)], Duration::ZERO));
    assert!(seen.note(&[mark(1)], Duration::ZERO));
    assert!(seen.note(&[mark(29_998)], Duration::from_secs(24 * 3600 + 1)));
    // A delivery without marks is always new.
    assert!(seen.note(&[], Duration::ZERO) && seen.note(&[], Duration::ZERO));
}

#[test]
fn rate_limit_bucket_refills_over_time() {
    let mut bucket = Bucket::new(Duration::ZERO);
    assert_eq!((0..100).filter(|_| bucket.take(Duration::ZERO)).count(), 60);
    assert!(bucket.take(Duration::from_millis(1001)));
    assert!(!bucket.take(Duration::from_millis(1500)));
    // A clock that goes back adds no tokens.
    assert!(!bucket.take(Duration::ZERO));
}
