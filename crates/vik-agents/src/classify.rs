//! Classifies errors: by HTTP status where the agent reports one, otherwise by the text of the
//! message.
//!
//! The order of the tables of phrases decides. An error that matches nothing has no class; the
//! adapter uses `agent`.

mod phrases;

use vik_core::outcome::FailureClass;

use phrases::{AUTH, CONTEXT, MODEL, MODEL_MISSING, NETWORK, OVERLOADED, RATE_LIMIT, USAGE};

/// Bytes of an error message that are inspected.
const MAX_INSPECTED_BYTES: usize = 8 * 1024;

/// Returns the class of an HTTP status if the status alone decides it. A 400 may mean anything.
pub(crate) fn class_of_status(status: u16) -> Option<FailureClass> {
    match status {
        401 | 403 => Some(FailureClass::Auth),
        402 | 429 => Some(FailureClass::RateLimit),
        404 | 410 => Some(FailureClass::Model),
        407 | 408 => Some(FailureClass::Network),
        413 => Some(FailureClass::Context),
        500..=599 => Some(FailureClass::Overloaded),
        _ => None,
    }
}

/// Returns the class of an error that an agent reported about its model API.
///
/// Some phrases are more reliable than the status: a 400 for an overlong prompt, a 403 about the
/// model, a 400 about the credit. All other phrases count only without a status.
pub(crate) fn class_of_error(reported_status: Option<u16>, message: &str) -> Option<FailureClass> {
    let text = lower(message);
    let code = reported_status.or_else(|| find_status(&text));
    let about_model = contains(&text, MODEL) || sentence_about_model(&text);
    match code {
        Some(429 | 402) => return Some(FailureClass::RateLimit),
        Some(500..=599) => return Some(FailureClass::Overloaded),
        Some(_) | None if contains(&text, CONTEXT) => return Some(FailureClass::Context),
        Some(401) => return Some(FailureClass::Auth),
        Some(403) if about_model => return Some(FailureClass::Model),
        Some(400 | 422) if about_model => return Some(FailureClass::Model),
        Some(400 | 422) if contains(&text, RATE_LIMIT) => return Some(FailureClass::RateLimit),
        Some(400 | 422) if contains(&text, AUTH) => return Some(FailureClass::Auth),
        Some(400 | 422) => return None,
        Some(other) => {
            if let Some(class) = class_of_status(other) {
                return Some(class);
            }
        }
        None => {}
    }
    let tables = [
        (RATE_LIMIT, FailureClass::RateLimit),
        (OVERLOADED, FailureClass::Overloaded),
    ];
    for (table, class) in tables {
        if contains(&text, table) {
            return Some(class);
        }
    }
    // Codex reports an unknown model only as "model: gpt-x".
    if about_model
        || text
            .trim_start_matches(['[', ' '])
            .trim_start_matches("api error: ")
            .starts_with("model: ")
    {
        return Some(FailureClass::Model);
    }
    let tables = [
        (AUTH, FailureClass::Auth),
        (USAGE, FailureClass::Usage),
        (NETWORK, FailureClass::Network),
    ];
    tables
        .into_iter()
        .find(|(table, _)| contains(&text, table))
        .map(|(_, class)| class)
}

/// Returns the class of what an agent wrote to stderr before it exited without output on stdout.
/// The command line is the most likely cause, so its phrases are tried first.
pub(crate) fn class_of_stderr(tail: &str) -> Option<FailureClass> {
    let text = lower(tail);
    if contains(&text, USAGE) {
        return Some(FailureClass::Usage);
    }
    class_of_error(None, tail)
}

fn lower(text: &str) -> String {
    crate::state::head(text, MAX_INSPECTED_BYTES).to_ascii_lowercase()
}

fn contains(text: &str, table: &[&str]) -> bool {
    table.iter().any(|phrase| text.contains(phrase))
}

/// Returns whether one sentence says that a model is missing.
fn sentence_about_model(text: &str) -> bool {
    text.split(['\n', ';'])
        .flat_map(|line| line.split(". "))
        .any(|sentence| sentence.contains("model") && contains(sentence, MODEL_MISSING))
}

/// Finds an HTTP error status in running text: three digits on their own, after a term that
/// announces one (`status 401`, `last status: 429`, `HTTP 503`, `API Error: 500`, `rejected (429)`,
/// `"code":401`).
fn find_status(text: &str) -> Option<u16> {
    const ANNOUNCE: &[&str] = &[
        "status",
        "http",
        "code",
        "error",
        "statuscode",
        "status_code",
        "rejected",
        "failed",
        "returned",
    ];
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
        let bound =
            |byte: Option<&u8>| byte.is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'_' && *b != b'-');
        if at - start != 3 || !bound(bytes.get(at)) || (start > 0 && !bound(bytes.get(start - 1))) {
            continue;
        }
        let Some(number) = text.get(start..at).and_then(|digits| digits.parse().ok()) else {
            continue;
        };
        if !(400..=599).contains(&number) {
            continue;
        }
        // Only punctuation is allowed between the term and the number.
        let before = text[..start].trim_end_matches([' ', ':', '(', '"', '=', '[', ',']);
        let before = ["/1.1", "/1.0", "/2", "/3"]
            .iter()
            .find_map(|v| before.strip_suffix(v))
            .unwrap_or(before);
        let preceding = before
            .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next()
            .unwrap_or("");
        if ANNOUNCE.contains(&preceding) {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use FailureClass::*;

    use super::*;

    #[test]
    fn find_status_reads_running_text() {
        for (text, expected) in [
            (
                "unexpected status 401 Unauthorized: x, url: http://127.0.0.1:41621/v1",
                Some(401),
            ),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                Some(429),
            ),
            ("API Error: 500 upstream exploded", Some(500)),
            ("API Error: Request rejected (429) · Rate limit", Some(429)),
            (
                "not found on provider at http://127.0.0.1:404/v1 (HTTP 403).",
                Some(403),
            ),
            (
                "[API Error: {\"error\":{\"code\":503,\"message\":\"x\"}}]",
                Some(503),
            ),
            ("HTTP/1.1 502 Bad Gateway", Some(502)),
            ("Connection refused (http://10.0.0.1:500/v1)", None),
            ("request id: req_429abc", None),
            ("wrote 500 lines, 404 words", None),
            ("error 4290", None),
            ("error-401-x", None),
        ] {
            assert_eq!(find_status(&text.to_ascii_lowercase()), expected, "{text}");
        }
    }

    #[test]
    fn class_of_error_uses_status_and_text() {
        for (status, text, expected) in [
            (
                Some(400),
                "prompt is too long: 250000 tokens > 200000 maximum",
                Some(Context),
            ),
            (
                Some(400),
                "Your credit balance is too low to access the API",
                Some(RateLimit),
            ),
            (Some(400), "invalid request: something", None),
            (Some(400), "The requested model 'x' does not exist", Some(Model)),
            (
                Some(403),
                "Project does not have access to model `x`",
                Some(Model),
            ),
            (Some(403), "Request not allowed", Some(Auth)),
            (Some(404), "model: x", Some(Model)),
            (Some(413), "Request exceeds the maximum size", Some(Context)),
            (
                Some(429),
                "Request too large: tokens per min, maximum context",
                Some(RateLimit),
            ),
            (Some(502), "Bad gateway", Some(Overloaded)),
            (Some(529), "Overloaded", Some(Overloaded)),
            (
                None,
                "Codex ran out of room in the model's context window.",
                Some(Context),
            ),
            (
                None,
                "Quota exceeded. Check your plan and billing details.",
                Some(RateLimit),
            ),
            (
                None,
                "You've hit your usage limit. Upgrade to Pro or try again at Nov 23rd",
                Some(RateLimit),
            ),
            (
                None,
                "You've hit your limit · resets Nov 23, 2:13am (UTC)",
                Some(RateLimit),
            ),
            (
                None,
                "Selected model is at capacity. Please try a different model.",
                Some(Overloaded),
            ),
            (
                None,
                "We’re currently experiencing high demand, which may cause temporary errors.",
                Some(Overloaded),
            ),
            (None, "model: bad-model-x", Some(Model)),
            (None, "[API Error: model: bad-model-x]", Some(Model)),
            (None, "unexpected status 403 Forbidden: no", Some(Auth)),
            (
                None,
                "unexpected status 502 Bad Gateway: error sending request",
                Some(Overloaded),
            ),
            (
                None,
                "stream disconnected before completion: error sending request",
                Some(Network),
            ),
            (None, "Connection failed: error sending request", Some(Network)),
            (
                None,
                "API Error: Unable to connect to API (ConnectionRefused)",
                Some(Network),
            ),
            (None, "API Error: Request timed out.", Some(Network)),
            (
                None,
                "Missing environment variable: `OPENAI_API_KEY`.",
                Some(Auth),
            ),
            (None, "Not logged in · Please run /login", Some(Auth)),
            (
                None,
                "Incomplete response returned, reason: max_output_tokens",
                None,
            ),
            (
                None,
                "{\"error\": {\"message\": \"invalid request: something\"}}",
                None,
            ),
        ] {
            assert_eq!(class_of_error(status, text), expected, "{status:?} {text}");
        }
    }

    #[test]
    fn class_of_stderr_refused_command_line_is_usage() {
        for text in [
            "error: unexpected argument '--full-auto' found\n\nFor more information, try '--help'.",
            "error: unknown option '--x'",
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
            "Error loading config.toml: unknown configuration field `no_such_key`",
        ] {
            assert_eq!(class_of_stderr(text), Some(Usage), "{text}");
        }
        assert_eq!(class_of_stderr("Segmentation fault"), None);
    }
}
