//! Decodes JSON lines without copying them: small borrowing types that tolerate unexpected shapes
//! of unimportant fields.
//!
//! `#[serde(bound = "'de: 'a")]` on such a type stands for `#[serde(borrow)]` on each of its fields.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use vik_core::event::{Event, ToolOutput};
use vik_core::outcome::Usage;

use crate::Sink;

/// A JSON string, borrowed if it contains no escapes. (`Option<Cow<str>>` would always copy.)
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A count: any JSON value is accepted, and only a number counts. A count whose type changes in a
/// new version of an agent must not make the agent's final event unreadable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        let whole = json.trim_matches('"').parse().ok();
        // A cast takes the nearest count.
        let nearest = || json.parse::<f64>().map_or(0, |number| number as u64);
        Ok(Self(whole.unwrap_or_else(nearest)))
    }
}

/// Token counts under the names of Codex and vex; in the app-server of Codex, their camel case.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenCounts {
    #[serde(alias = "inputTokens")]
    input_tokens: Count,
    #[serde(alias = "cachedInputTokens")]
    cached_input_tokens: Count,
    #[serde(alias = "cacheWriteInputTokens")]
    cache_write_input_tokens: Count,
    #[serde(alias = "outputTokens")]
    output_tokens: Count,
}

impl From<TokenCounts> for Usage {
    fn from(counts: TokenCounts) -> Self {
        Self {
            input_tokens: counts.input_tokens.0,
            cached_input_tokens: counts.cached_input_tokens.0,
            cache_write_input_tokens: counts.cache_write_input_tokens.0,
            output_tokens: counts.output_tokens.0,
        }
    }
}

/// The `type` of a line, without its other fields.
#[derive(Deserialize)]
pub(crate) struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Text<'a>,
}

/// Decodes a line that is an object. (Serde would decode an array as the fields in their order.)
pub(crate) fn object<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
    if line.starts_with('{') {
        serde_json::from_str(line).ok()
    } else {
        None
    }
}

/// Decodes a raw value; `None` if it has another type.
pub(crate) fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// Decodes a string from a raw value.
pub(crate) fn text<'a>(raw: Option<&'a RawValue>) -> Option<Cow<'a, str>> {
    read::<Text<'a>>(raw).map(|text| text.0)
}

/// Returns the raw value, unless it is `null`.
pub(crate) fn present(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|raw| raw.get() != "null")
}

/// Returns a raw value as a tool's output, unless it is absent or `null`.
pub(crate) fn output(raw: Option<&RawValue>) -> Option<ToolOutput<'_>> {
    present(raw).map(|raw| ToolOutput::Raw(raw.into()))
}

/// Returns the trimmed line as text. Invalid UTF-8 is replaced: a broken byte in a tool's output
/// must not lose its event.
pub(crate) fn line_text(line: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text.trim()),
        Err(_) => Cow::Owned(String::from_utf8_lossy(line).trim().to_owned()),
    }
}

/// Emits a line of unknown meaning: as a JSON value if possible, otherwise as text.
pub(crate) fn emit_unparsed(line: &str, sink: &mut Sink<'_>) {
    match serde_json::from_str::<&RawValue>(line) {
        Ok(raw) => sink(Event::Unknown { raw: raw.into() }),
        Err(_) => sink(Event::Malformed {
            line: Cow::Borrowed(line),
            bytes: None,
            offset: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_borrows_unless_it_holds_escapes() {
        let plain: Text<'_> = serde_json::from_str(r#""plain""#).unwrap();
        assert!(matches!(plain.0, Cow::Borrowed("plain")));
        let escaped: Text<'_> = serde_json::from_str(r#""a\nb""#).unwrap();
        assert_eq!(escaped.as_str(), "a\nb");
        let line: Option<Text<'_>> = serde_json::from_str("null").unwrap();
        assert!(line.is_none());
    }

    #[test]
    fn count_accepts_every_json_shape() {
        for (json, expected) in [
            ("7", 7),
            ("-7", 0),
            ("7.9", 7),
            ("null", 0),
            ("\"12\"", 12),
            ("[1,[2]]", 0),
            ("{\"a\":1}", 0),
            ("true", 0),
        ] {
            assert_eq!(serde_json::from_str::<Count>(json).unwrap().0, expected, "{json}");
        }
    }

    #[test]
    fn line_text_replaces_invalid_utf8() {
        assert_eq!(line_text(b" {\"a\":\"\xff\"}\r"), "{\"a\":\"\u{fffd}\"}");
    }
}
