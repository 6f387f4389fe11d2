//! Classifies a failed try: pure, by status, headers and text.

use std::time::Duration;

use serde_json::Value;

use crate::provider::ProviderError;

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Too many requests or tokens for now.
    RateLimit,
    /// The quota is used up; waiting does not help.
    Quota,
    /// The server is overloaded.
    Overloaded,
    /// The server is broken.
    Server,
    /// The key is wrong or lacks a permission.
    Auth,
    /// The model does not exist.
    Model,
    /// The request is larger than the context of the model.
    Overflow,
    /// The request is invalid in another way.
    Request,
    /// The address does not belong to a model's API.
    Address,
    /// The server is unreachable, or the connection broke before the answer started.
    Network,
    /// Nothing listens at the address.
    NothingListens,
    /// The server was silent for too long.
    Stalled,
    /// The answer broke off.
    Cut,
    /// The answer is empty.
    Empty,
    /// The answer is malformed.
    Malformed,
}

impl Fault {
    /// Returns Vik's failure class.
    fn class(self) -> Option<&'static str> {
        match self {
            Self::RateLimit | Self::Quota => Some("rate_limit"),
            Self::Overloaded | Self::Server => Some("overloaded"),
            Self::Auth => Some("auth"),
            Self::Model => Some("model"),
            Self::Overflow => Some("context"),
            Self::Network
            | Self::NothingListens
            | Self::Stalled
            | Self::Cut
            | Self::Empty
            | Self::Malformed => Some("network"),
            Self::Request | Self::Address => None,
        }
    }

    /// Returns whether an answer had started and was incomplete.
    pub fn is_broken_answer(self) -> bool {
        matches!(self, Self::Cut | Self::Empty | Self::Malformed)
    }
}

/// Why one try gave no turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub fault: Fault,
    /// A message for people, without keys.
    pub message: String,
    /// The HTTP status, if one was received.
    pub status: Option<u16>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// The size of the model's context in tokens, if an overflow reports it.
    pub context_window: Option<u64>,
}

impl Failure {
    /// Creates a failure without further facts.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
            status: None,
            retry_after: None,
            context_window: None,
        }
    }
}

impl From<Failure> for ProviderError {
    fn from(failure: Failure) -> Self {
        match failure.fault {
            Fault::Overflow => Self::Overflow(failure.message),
            Fault::Address => Self::Config(failure.message),
            Fault::Empty => Self::Empty(failure.message),
            fault => Self::Reported {
                message: failure.message,
                class: fault.class().map(str::to_owned),
                http_status: failure.status,
                retry_after_ms: failure
                    .retry_after
                    .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            },
        }
    }
}

/// The error in a provider's response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorBody {
    pub message: String,
    /// The names of the error: `type` and `code`.
    pub names: Vec<String>,
    /// Whether the error had the form of an API.
    pub structured: bool,
}

impl ErrorBody {
    /// Reads the body of an error, in any of the common forms.
    pub fn read(body: &[u8]) -> Self {
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            let text = String::from_utf8_lossy(body);
            let text = text.trim();
            let page = text.starts_with('<');
            return Self {
                message: if page { String::new() } else { cut(text).to_owned() },
                ..Self::default()
            };
        };
        // Google wraps it in a list.
        let json = json.get(0).unwrap_or(&json);
        let error = json.get("error").filter(|error| !error.is_null()).unwrap_or(json);
        let text = |key: &str| error.get(key).and_then(Value::as_str);
        let message = error
            .as_str()
            .or_else(|| text("message"))
            .or_else(|| text("detail"))
            .or_else(|| text("error_description"));
        let names = ["type", "code", "status"].iter().filter_map(|key| text(key));
        Self {
            message: message.map_or_else(|| cut(&error.to_string()).to_owned(), |text| cut(text).to_owned()),
            names: names.map(str::to_owned).collect(),
            structured: json.is_object(),
        }
    }

    fn is_named(&self, names: &[&str]) -> bool {
        self.names.iter().any(|name| names.contains(&name.as_str()))
    }
}

/// Shortens the message of an error.
fn cut(text: &str) -> &str {
    text.char_indices().nth(1000).map_or(text, |(at, _)| &text[..at])
}

const OVERFLOW_NAMES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "request_too_large",
    "model_context_window_exceeded",
];
/// Messages of providers that have no name for an overflow.
const OVERFLOW_PHRASES: &[&str] = &[
    "prompt is too long",
    "maximum context length",
    "exceeds the context window",
    "exceed context limit",
    "exceeds the available context size",
    "context length exceeded",
    "input is too long",
    "reduce the length of the messages",
];
/// Returns the size of the model's context in tokens, if the error of a request that is too long
/// contains it: `"n_ctx": 4096`, `maximum context length is 128000 tokens`, `210000 tokens > 200000
/// maximum`.
pub fn context_window_in(text: &str) -> Option<u64> {
    const BEFORE: &[&str] = &[
        "\"n_ctx\":",
        "maximum context length is ",
        "maximum context length of ",
        " tokens > ",
    ];
    let number = |mark: &&str| {
        let tail = text[text.find(*mark)? + mark.len()..].trim_start();
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        tail[..end].parse().ok()
    };
    BEFORE.iter().find_map(number).filter(|tokens| *tokens > 0)
}

const QUOTA_NAMES: &[&str] = &[
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit_reached",
    "usage_limit_reached",
];
const MODEL_NAMES: &[&str] = &["model_not_found", "model_not_available", "invalid_model"];

/// Classifies an error. `status` is absent if the error came within an answer.
pub fn fault_of(status: Option<u16>, body: &ErrorBody) -> Fault {
    let text = body.message.to_ascii_lowercase();
    let contains_any = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    // Only a rejected request can be about its length.
    let refused = status.is_none_or(|status| matches!(status, 400 | 413 | 422 | 500));
    if status == Some(413) || body.is_named(OVERFLOW_NAMES) || (refused && contains_any(OVERFLOW_PHRASES)) {
        return Fault::Overflow;
    }
    if status == Some(402) || body.is_named(QUOTA_NAMES) || contains_any(&["credit balance is too low"]) {
        return Fault::Quota;
    }
    let no_model = contains_any(&["model"])
        && contains_any(&[
            "not found",
            "does not exist",
            "not exist",
            "unknown",
            "not supported",
        ]);
    if body.is_named(MODEL_NAMES) || (matches!(status, Some(400 | 404)) && no_model) {
        return Fault::Model;
    }
    match status {
        Some(401 | 403) => return Fault::Auth,
        Some(404)
            if body.structured
                && (contains_any(&["model"])
                    || body.is_named(&["not_found_error"]) && contains_any(&["model:"])) =>
        {
            return Fault::Model;
        }
        Some(404 | 405) | Some(300..=399) => return Fault::Address,
        Some(408 | 425) => return Fault::Server,
        Some(429) => return Fault::RateLimit,
        Some(503 | 529) => return Fault::Overloaded,
        Some(500..) => return Fault::Server,
        _ => {}
    }
    if body.is_named(&[
        "rate_limit_error",
        "rate_limit_exceeded",
        "too_many_requests",
        "RESOURCE_EXHAUSTED",
    ]) {
        Fault::RateLimit
    } else if body.is_named(&[
        "overloaded_error",
        "server_is_overloaded",
        "slow_down",
        "overloaded",
    ]) {
        Fault::Overloaded
    } else if body.is_named(&["authentication_error", "invalid_api_key", "permission_error"]) {
        Fault::Auth
    } else if status.is_none()
        && !body.is_named(&["invalid_request_error", "invalid_prompt", "not_found_error"])
    {
        // Within an answer, with another name or none.
        Fault::Server
    } else {
        Fault::Request
    }
}

#[cfg(test)]
mod tests;
