//! Whether a call comes from who it should: a function of the raw bytes, the secret and the time.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use vik_core::workflow::{Hook, HookKind};

use crate::control::http::{same, unhex};

/// How far the time of a call of Linear may be from ours: what its documentation says.
const LINEAR_WITHIN_MS: i64 = 60_000;

/// The same for Standard Webhooks, by which GitLab signs: what their libraries take.
const STANDARD_WITHIN_S: i64 = 300;

/// A signing token of Standard Webhooks begins so.
const SIGNING_TOKEN: &str = "whsec_";

/// The longest id of a delivery that is looked at.
const LONGEST_ID: usize = 200;

/// A call that is believed.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its id, where the sender gives one.
    pub id: Option<String>,
    /// What it is called, for the log.
    pub event: String,
    /// It only tries whether somebody is here.
    pub is_ping: bool,
    /// By which it is known when it comes again: its id, and what its sender signed.
    pub marks: Vec<Mark>,
}

/// The digest of something that a delivery has for itself.
pub type Mark = [u8; 32];

/// Why a call is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The variable of the secret is not set, or holds no secret of that kind.
    #[error("the variable of the secret is not set, or cannot be used")]
    NoSecret,
    /// It has no proof, or several.
    #[error("it is not signed")]
    Unsigned,
    /// Its proof is wrong.
    #[error("its signature is wrong")]
    Forged,
    /// It was made too long ago, or in the future.
    #[error("its time is too far from ours")]
    Stale,
}

/// The secret of a hook; `None` where there is none, and so nobody is believed.
pub fn secret(hook: &Hook) -> Option<String> {
    let secret = std::env::var(&hook.secret_env).ok()?;
    let secret = secret.trim();
    let is_usable = !secret.is_empty() && (!is_signing_token(hook, secret) || signing_key(secret).is_some());
    is_usable.then(|| secret.to_owned())
}

fn is_signing_token(hook: &Hook, secret: &str) -> bool {
    hook.kind == HookKind::Gitlab && secret.starts_with(SIGNING_TOKEN)
}

fn signing_key(secret: &str) -> Option<Vec<u8>> {
    let key = BASE64.decode(secret.strip_prefix(SIGNING_TOKEN)?).ok()?;
    (!key.is_empty()).then_some(key)
}

/// The header in which the proof of this hook stands.
fn proof_header<'h>(hook: &'h Hook, secret: &str) -> &'h str {
    match hook.kind {
        HookKind::Github => "x-hub-signature-256",
        HookKind::Gitlab if is_signing_token(hook, secret) => "webhook-signature",
        HookKind::Gitlab => "x-gitlab-token",
        HookKind::Linear => "linear-signature",
        HookKind::Hmac => hook.header.as_deref().unwrap_or_default(),
    }
}

/// The one header of this name. Two of them are none: which one would another program on the way have taken?
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Whether a call could be believed at all: the body of one that cannot is not read.
pub(super) fn is_signed(hook: &Hook, secret: &str, headers: &HeaderMap) -> bool {
    one(headers, proof_header(hook, secret)).is_some()
}

/// Whether a call comes from who has the secret.
///
/// # Errors
/// When it does not.
pub fn verify(
    hook: &Hook,
    secret: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<Delivery, Refused> {
    if secret.is_empty() {
        return Err(Refused::NoSecret);
    }
    let proof = one(headers, proof_header(hook, secret)).ok_or(Refused::Unsigned)?;
    let id = |name: &str| {
        one(headers, name)
            .filter(|id| !id.is_empty() && id.len() <= LONGEST_ID)
            .map(str::to_owned)
    };
    let event = |name: &str| crate::report::one_line(one(headers, name).unwrap_or("-"), 60);
    let mut delivery = match hook.kind {
        HookKind::Github => {
            let signature = proof.strip_prefix("sha256=").ok_or(Refused::Forged)?;
            let signature = unhex(signature);
            is_hmac(secret.as_bytes(), &[body], &signature)?;
            let event = event("x-github-event");
            Delivery {
                id: id("x-github-delivery"),
                is_ping: event == "ping",
                event,
                marks: marks("signature", &signature),
            }
        }
        HookKind::Linear => {
            let signature = unhex(proof);
            is_hmac(secret.as_bytes(), &[body], &signature)?;
            // What is signed may be read.
            let sent = serde_json::from_slice::<LinearTime>(body).map_err(|_| Refused::Stale)?;
            if now.as_millisecond().abs_diff(sent.webhook_timestamp) > LINEAR_WITHIN_MS.unsigned_abs() {
                return Err(Refused::Stale);
            }
            Delivery {
                id: id("linear-delivery"),
                event: event("linear-event"),
                is_ping: false,
                marks: marks("signature", &signature),
            }
        }
        HookKind::Gitlab if is_signing_token(hook, secret) => {
            let key = signing_key(secret).ok_or(Refused::NoSecret)?;
            let message_id = one(headers, "webhook-id").ok_or(Refused::Unsigned)?;
            let sent = one(headers, "webhook-timestamp").ok_or(Refused::Unsigned)?;
            let signed = [message_id.as_bytes(), b".", sent.as_bytes(), b".", body];
            // While a token is being changed there are several.
            let good = proof
                .split(' ')
                .filter_map(|signature| signature.strip_prefix("v1,"))
                .any(|signature| is_hmac(&key, &signed, &BASE64.decode(signature).ok()).is_ok());
            if !good {
                return Err(Refused::Forged);
            }
            let sent: i64 = sent.parse().map_err(|_| Refused::Stale)?;
            if now.as_second().abs_diff(sent) > STANDARD_WITHIN_S.unsigned_abs() {
                return Err(Refused::Stale);
            }
            Delivery {
                id: id("webhook-id"),
                event: event("x-gitlab-event"),
                is_ping: false,
                marks: Vec::new(),
            }
        }
        HookKind::Gitlab => {
            if !same(proof, secret) {
                return Err(Refused::Forged);
            }
            Delivery {
                // The other one is the same for events that follow from each other.
                id: id("idempotency-key").or_else(|| id("x-gitlab-event-uuid")),
                event: event("x-gitlab-event"),
                is_ping: false,
                marks: Vec::new(),
            }
        }
        HookKind::Hmac => {
            let signature = proof.strip_prefix("sha256=").unwrap_or(proof);
            is_hmac(secret.as_bytes(), &[body], &unhex(signature))?;
            Delivery {
                id: hook.id_header.as_deref().and_then(id),
                event: "-".to_owned(),
                is_ping: false,
                // Such a sender may well say the same twice and mean it.
                marks: Vec::new(),
            }
        }
    };
    delivery.marks.extend(marks("id", &delivery.id));
    Ok(delivery)
}

#[derive(Deserialize)]
struct LinearTime {
    #[serde(rename = "webhookTimestamp")]
    webhook_timestamp: i64,
}

/// Compares in a time that tells nothing of where they differ.
fn is_hmac(key: &[u8], signed: &[&[u8]], signature: &Option<Vec<u8>>) -> Result<(), Refused> {
    let signature = signature.as_deref().ok_or(Refused::Forged)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| Refused::NoSecret)?;
    for part in signed {
        mac.update(part);
    }
    mac.verify_slice(signature).map_err(|_| Refused::Forged)
}

fn marks<T: AsRef<[u8]>>(what: &str, known: &Option<T>) -> Vec<Mark> {
    let known = known.iter();
    known
        .map(|known| {
            let digest = Sha256::new_with_prefix(what.as_bytes());
            digest
                .chain_update([0])
                .chain_update(known.as_ref())
                .finalize()
                .into()
        })
        .collect()
}
