//! The meaning of Claude Code's error codes and texts.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vik_core::outcome::FailureClass;

use super::line::ResultLine;
use crate::classify;
use crate::wire::{self, Text};

/// Returns the failure class of an error code of Claude Code (`assistant.error`,
/// `api_retry.error`).
pub(super) fn class_of_code(code: &str, status: Option<u16>, text: &str) -> Option<FailureClass> {
    match code {
        "rate_limit" | "billing_error" => Some(FailureClass::RateLimit),
        "overloaded" => Some(FailureClass::Overloaded),
        "authentication_failed" | "oauth_org_not_allowed" => Some(FailureClass::Auth),
        "model_not_found" => Some(FailureClass::Model),
        // Also used when no server was reached or a connection broke.
        "server_error" => classify::class_of_error(status, text).or(Some(FailureClass::Overloaded)),
        _ => classify::class_of_error(status, text),
    }
}

/// Returns the reason of a failed run, as Claude Code reports it.
pub(super) fn failure_text<'a>(
    result: &ResultLine<'a>,
    text: Option<&'a str>,
    subtype: &'a str,
) -> Cow<'a, str> {
    if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
        return Cow::Borrowed(text);
    }
    let errors = wire::read::<Vec<Text<'_>>>(result.errors).unwrap_or_default();
    // Internal diagnostics are of no use to a person.
    let errors: Vec<&str> = errors
        .iter()
        .map(Text::as_str)
        .filter(|e| !e.starts_with("[ede_diagnostic]"))
        .collect();
    match (errors.is_empty(), subtype) {
        (false, _) => Cow::Owned(errors.join("\n")),
        (true, "error_during_execution") => {
            Cow::Borrowed("Claude Code was interrupted or failed during its work")
        }
        (true, "" | "success") => Cow::Borrowed("Claude Code reported a failure without a reason"),
        (true, subtype) => Cow::Borrowed(subtype),
    }
}

/// Returns the exit code of a failed command, which Claude Code reports only in the text of the
/// result.
pub(super) fn exit_code(content: Option<&RawValue>) -> Option<i64> {
    let digits = content?.get().strip_prefix("\"Exit code ")?;
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    digits[..end].parse().ok()
}
