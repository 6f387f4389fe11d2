//! What trackers that are reached over HTTP have in common.

mod refusal;
mod server;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::protocol::CallError;
pub(crate) use refusal::{DEFAULT_WAIT, low_limit, refusal, requested_wait};
pub use server::Access;
pub(crate) use server::{Names, Server};

/// How long `list` has issues that were closed.
pub(crate) const LISTED_FOR: SignedDuration = SignedDuration::from_hours(14 * 24);
/// How long the key of a created issue is known.
pub(crate) const KEYS_KNOWN_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Returns a text for a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    let encode = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(encode).collect()
}

/// Returns a text of an object; empty if it has none.
pub(crate) fn string(object: &Value, name: &str) -> String {
    object[name].as_str().unwrap_or_default().to_owned()
}

/// Returns the items of a list; none for any other value.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the time that long ago.
pub(crate) fn before(duration: SignedDuration) -> String {
    let since = Timestamp::now().saturating_sub(duration).unwrap_or_default();
    since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns an id that is a number. No other one becomes a part of a path.
pub(crate) fn number(tracker: &str, id: &str) -> Result<u64, CallError> {
    let is_number = !id.starts_with('0') && id.len() <= 18 && id.bytes().all(|byte| byte.is_ascii_digit());
    id.parse().ok().filter(|_| is_number).ok_or_else(|| {
        CallError::NotFound(format!(
            "there is no issue {id:?}: the ids of {tracker} are numbers"
        ))
    })
}

/// Returns the error of a request that names no issue: the project itself is missing.
pub(crate) fn missing_project(error: CallError) -> CallError {
    match error {
        CallError::NotFound(reason) => CallError::Failed(format!("cannot find the project: {reason}")),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_change_a_path() {
        assert_eq!(
            encoded("a/../b?c#d {repo} :branch é"),
            "a%2F..%2Fb%3Fc%23d%20%7Brepo%7D%20%3Abranch%20%C3%A9"
        );
        for id in ["", "0", "07", "-1", "1/2", "a", "1 ", "9999999999999999999"] {
            assert_eq!(number("x", id).unwrap_err().exit_code(), 66, "{id}");
        }
        assert_eq!(number("x", "42").unwrap(), 42);
    }
}
