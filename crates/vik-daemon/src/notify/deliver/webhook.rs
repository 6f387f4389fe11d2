//! Delivers by an HTTP POST.

use hmac::{Hmac, KeyInit, Mac};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use sha2::Sha256;
use vik_base::clock;
use vik_core::workflow::NotifyAddress;

use super::{DeliverError, Delivery};

/// The maximum number of bytes read of an unsuccessful response.
const MAX_ANSWER: usize = 4096;

/// Posts the notification. The signature covers the time, a dot and the body, so that nobody can
/// replay the request later.
pub(super) async fn post(
    delivery: &Delivery,
    address: &NotifyAddress,
    secret_env: Option<&str>,
    body: Vec<u8>,
) -> Result<(), DeliverError> {
    let variable = |name: &str| {
        let value = delivery.host.environment.get(name);
        let value = value.filter(|value| !value.is_empty());
        value
            .map(str::to_owned)
            .ok_or_else(|| DeliverError::Unset(name.to_owned()))
    };
    let (address_text, from) = match address {
        NotifyAddress::Url(url) => (url.clone(), "`url`".to_owned()),
        NotifyAddress::Env(name) => (variable(name)?.trim().to_owned(), format!("the variable {name}")),
    };
    let url = Url::parse(&address_text)
        .ok()
        .filter(|_| NotifyAddress::is_valid(&address_text));
    let (url, host) = url
        .and_then(|url| {
            let host = host_of(&url)?;
            Some((url, host))
        })
        .ok_or(DeliverError::Address(from))?;
    let path = url.path().to_owned();
    let secret = secret_env.map(variable).transpose()?;
    let notification = &delivery.notification;
    let timestamp = clock::now().as_second().to_string();
    let mut request = vik_http::client(&url)
        .map_err(DeliverError::Client)?
        .post(url)
        .timeout(delivery.notifier.timeout.0)
        .header(CONTENT_TYPE, "application/json")
        .header("X-Vik-Event", &notification.event)
        .header("X-Vik-Delivery", &notification.delivery_id)
        .header("X-Vik-Timestamp", &timestamp);
    if let Some(secret) = &secret {
        request = request.header("X-Vik-Signature", signature(secret, &timestamp, &body));
    }
    // The response may repeat what was sent.
    let mask = |text: String| {
        let hidden = secret
            .iter()
            .map(String::as_str)
            .chain([address_text.as_str(), path.as_str()]);
        hidden
            .filter(|hidden| hidden.len() > 1)
            .fold(text, |text, hidden| text.replace(hidden, "[REDACTED]"))
    };
    let mut response = request
        .body(body)
        .send()
        .await
        .map_err(|error| DeliverError::Send {
            host: host.clone(),
            why: mask(vik_http::failure_message(&error.without_url())),
        })?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let mut answer = Vec::new();
    while answer.len() < MAX_ANSWER {
        match response.chunk().await {
            Ok(Some(chunk)) => answer.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    answer.truncate(MAX_ANSWER);
    let shown = if status.is_redirection() {
        format!("{status}; redirects are not followed")
    } else {
        status.to_string()
    };
    Err(DeliverError::Answer {
        host,
        status: shown,
        body: mask(String::from_utf8_lossy(&answer).into_owned()),
    })
}

/// Returns `sha256=` and the HMAC of the time, a dot and the body.
fn signature(secret: &str, timestamp: &str, body: &[u8]) -> String {
    use std::fmt::Write as _;

    // HMAC accepts a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    let mut text = "sha256=".to_owned();
    for byte in mac.finalize().into_bytes() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the host and port, which are safe to show. Other parts of an address may be secret.
fn host_of(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_covers_the_time_and_the_body() {
        // The output of `printf '1700000000.{}' | openssl dgst -sha256 -hmac key`.
        assert_eq!(
            signature("key", "1700000000", b"{}"),
            "sha256=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae"
        );
    }

    #[test]
    fn loopback_is_detected_and_only_the_host_is_shown() {
        for (url, loopback, shown) in [
            ("http://localhost/x", true, "localhost"),
            ("http://127.0.0.9:81/x", true, "127.0.0.9:81"),
            ("http://[::1]:5/x?token=a", true, "[::1]:5"),
            ("https://user:pass@hooks.example/secret", false, "hooks.example"),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(
                (vik_http::is_loopback(&url), host_of(&url).unwrap().as_str()),
                (loopback, shown)
            );
        }
    }
}
