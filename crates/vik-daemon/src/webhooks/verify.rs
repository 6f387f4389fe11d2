//! Verifies that a call comes from its sender: a function of the raw bytes, the secret and the
//! time.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use vik_control::http::{constant_time_eq, unhex};
use vik_core::workflow::{Hook, HookKind};

/// How far the time of a call of Linear may differ from ours, as its documentation recommends.
const LINEAR_WITHIN_MS: i64 = 60_000;

/// The same for Standard Webhooks, by which GitLab signs, as in their libraries.
const STANDARD_WITHIN_S: i64 = 300;

/// The prefix of a signing token of Standard Webhooks.
const SIGNING_TOKEN: &str = "whsec_";

/// The maximum length of the id of a delivery. Longer ids are ignored.
const LONGEST_ID: usize = 200;

#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The sender's id of the delivery, if there is one.
    pub id: Option<String>,
    /// The name of the event, for the log.
    pub event: String,
    /// Whether the call is only a test of the connection.
    pub is_ping: bool,
    /// What identifies the delivery when it is repeated: its id and its signature.
    pub marks: Vec<Mark>,
}

/// The digest of a unique part of a delivery.
pub type Mark = [u8; 32];

/// Why a call was not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The variable of the secret is not set, or holds no valid secret for this kind of hook.
    #[error("the variable of the secret is not set or not usable")]
    NoSecret,
    /// The call has no proof, or several.
    #[error("missing signature")]
    Unsigned,
    #[error("invalid signature")]
    Forged,
    /// The call was made too long ago, or in the future.
    #[error("its timestamp differs too much from the local time")]
    Stale,
}

/// Returns the secret of a hook, or `None` if there is no valid one, so that every call is refused.
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

/// Returns the name of the header with the proof.
fn proof_header<'h>(hook: &'h Hook, secret: &str) -> &'h str {
    match hook.kind {
        HookKind::Github => "x-hub-signature-256",
        HookKind::Gitlab if is_signing_token(hook, secret) => "webhook-signature",
        HookKind::Gitlab => "x-gitlab-token",
        HookKind::Linear => "linear-signature",
        HookKind::Hmac => hook.header.as_deref().unwrap_or_default(),
    }
}

/// Returns the only header of this name. With two headers, another program on the way might have
/// used the other one, so that none counts.
fn single_header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Returns whether a call has a proof. The body of a call without one is not read.
pub(super) fn is_signed(hook: &Hook, secret: &str, headers: &HeaderMap) -> bool {
    single_header(headers, proof_header(hook, secret)).is_some()
}

/// Verifies that a call comes from a sender that has the secret.
///
/// # Errors
/// When the call is not verified.
///
/// # Examples
///
/// ```
/// use axum::http::{HeaderMap, HeaderValue};
/// use jiff::Timestamp;
/// use vik_core::workflow::{Hook, HookKind};
/// use vik_daemon::webhooks::{Refused, verify};
///
/// let hook = Hook {
///     kind: HookKind::Github,
///     secret_env: "GITHUB_HOOK".to_owned(),
///     header: None,
///     id_header: None,
/// };
/// // The example of the documentation of GitHub.
/// let proof = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
/// let mut headers = HeaderMap::new();
/// headers.insert("x-hub-signature-256", HeaderValue::from_static(proof));
/// let check = |body: &[u8]| {
///     verify(&hook, "It's a Secret to Everybody", &headers, body, Timestamp::UNIX_EPOCH)
/// };
/// assert!(check(b"Hello, World!").is_ok());
/// assert_eq!(check(b"Hello, World?"), Err(Refused::Forged));
/// ```
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
    let proof = single_header(headers, proof_header(hook, secret)).ok_or(Refused::Unsigned)?;
    let id = |name: &str| {
        single_header(headers, name)
            .filter(|id| !id.is_empty() && id.len() <= LONGEST_ID)
            .map(str::to_owned)
    };
    let event = |name: &str| vik_base::report::one_line(single_header(headers, name).unwrap_or("-"), 60);
    let (id, event, signature) = match hook.kind {
        HookKind::Github => {
            let signature = proof.strip_prefix("sha256=").ok_or(Refused::Forged)?;
            let signature = unhex(signature);
            is_hmac(secret.as_bytes(), &[body], &signature)?;
            (id("x-github-delivery"), event("x-github-event"), signature)
        }
        HookKind::Linear => {
            let signature = unhex(proof);
            is_hmac(secret.as_bytes(), &[body], &signature)?;
            // The body is signed, so it may be parsed.
            let sent = serde_json::from_slice::<LinearTime>(body).map_err(|_| Refused::Stale)?;
            if now.as_millisecond().abs_diff(sent.webhook_timestamp) > LINEAR_WITHIN_MS.unsigned_abs() {
                return Err(Refused::Stale);
            }
            (id("linear-delivery"), event("linear-event"), signature)
        }
        HookKind::Gitlab if is_signing_token(hook, secret) => {
            let key = signing_key(secret).ok_or(Refused::NoSecret)?;
            let message_id = single_header(headers, "webhook-id").ok_or(Refused::Unsigned)?;
            let sent = single_header(headers, "webhook-timestamp").ok_or(Refused::Unsigned)?;
            let signed = [message_id.as_bytes(), b".", sent.as_bytes(), b".", body];
            // While a token is being changed, there are several signatures.
            let is_valid = proof
                .split(' ')
                .filter_map(|signature| signature.strip_prefix("v1,"))
                .any(|signature| is_hmac(&key, &signed, &BASE64.decode(signature).ok()).is_ok());
            if !is_valid {
                return Err(Refused::Forged);
            }
            let sent: i64 = sent.parse().map_err(|_| Refused::Stale)?;
            if now.as_second().abs_diff(sent) > STANDARD_WITHIN_S.unsigned_abs() {
                return Err(Refused::Stale);
            }
            (id("webhook-id"), event("x-gitlab-event"), None)
        }
        HookKind::Gitlab => {
            if !constant_time_eq(proof, secret) {
                return Err(Refused::Forged);
            }
            // The other id is shared by events that follow from each other.
            let id = id("idempotency-key").or_else(|| id("x-gitlab-event-uuid"));
            (id, event("x-gitlab-event"), None)
        }
        HookKind::Hmac => {
            let signature = proof.strip_prefix("sha256=").unwrap_or(proof);
            is_hmac(secret.as_bytes(), &[body], &unhex(signature))?;
            // Such a sender may send the same body twice on purpose, so the signature is no mark.
            (hook.id_header.as_deref().and_then(id), "-".to_owned(), None)
        }
    };
    let mut marks = marks("signature", &signature);
    marks.extend(self::marks("id", &id));
    Ok(Delivery {
        is_ping: hook.kind == HookKind::Github && event == "ping",
        id,
        event,
        marks,
    })
}

#[derive(Deserialize)]
struct LinearTime {
    #[serde(rename = "webhookTimestamp")]
    webhook_timestamp: i64,
}

/// Compares in a time that does not reveal where the values differ.
fn is_hmac(key: &[u8], signed: &[&[u8]], signature: &Option<Vec<u8>>) -> Result<(), Refused> {
    let signature = signature.as_deref().ok_or(Refused::Forged)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| Refused::NoSecret)?;
    for part in signed {
        mac.update(part);
    }
    mac.verify_slice(signature).map_err(|_| Refused::Forged)
}

fn marks<T: AsRef<[u8]>>(kind: &str, value: &Option<T>) -> Vec<Mark> {
    let value = value.iter();
    value
        .map(|value| {
            let digest = Sha256::new_with_prefix(kind.as_bytes());
            digest
                .chain_update([0])
                .chain_update(value.as_ref())
                .finalize()
                .into()
        })
        .collect()
}
