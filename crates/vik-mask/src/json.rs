//! Masks the texts in JSON and leaves everything else unchanged.

use std::borrow::Cow;

use serde_json::Value;

use crate::masker::Masker;
use crate::rules;

/// The placeholder of a value whose key marks it as a secret.
const BY_KEY: &str = "[REDACTED:secret]";

/// A text in JSON: its end with the quote, and its content.
struct Text<'t> {
    end: usize,
    content: Cow<'t, str>,
}

impl Masker {
    /// Masks the texts in JSON; numbers, order and white space stay unchanged. A text whose key
    /// marks it as a secret is treated as one. Text that is not JSON is masked as plain text.
    pub fn mask_json<'t>(&self, json: &'t str) -> Cow<'t, str> {
        if self.needs_no_masking(json) {
            return Cow::Borrowed(json);
        }
        self.mask_texts(json).unwrap_or_else(|| self.mask(json))
    }

    /// Returns `None` if the text is not JSON.
    pub(crate) fn mask_texts<'t>(&self, json: &'t str) -> Option<Cow<'t, str>> {
        if !json.trim_ascii_start().starts_with(['{', '[', '"']) {
            return None;
        }
        let bytes = json.as_bytes();
        let mut out: Option<String> = None;
        let (mut copied, mut at) = (0, 0);
        let mut key: Option<Text<'t>> = None;
        while at < bytes.len() {
            match bytes[at] {
                b'"' => {
                    let text = read_text(json, at)?;
                    let by_key = key.take().is_some_and(|key| {
                        rules::names_secret(key.content.as_bytes())
                            && rules::secret_value(text.content.as_bytes(), true)
                    });
                    let masked = if by_key {
                        Cow::Borrowed(BY_KEY)
                    } else {
                        self.mask(&text.content)
                    };
                    if by_key || matches!(masked, Cow::Owned(_)) {
                        let out = out.get_or_insert_with(|| String::with_capacity(json.len()));
                        out.push_str(&json[copied..at]);
                        out.push_str(&serde_json::to_string(&masked).ok()?);
                        copied = text.end;
                    }
                    at = text.end;
                    let follows = bytes[at..].iter().position(|byte| !byte.is_ascii_whitespace());
                    if follows.is_some_and(|space| bytes[at + space] == b':') {
                        key = Some(text);
                    }
                }
                byte if holds_together(byte) => {
                    if matches!(byte, b',' | b'{' | b'[') {
                        key = None;
                    }
                    at += 1;
                }
                _ => return None,
            }
        }
        Some(match out {
            None => Cow::Borrowed(json),
            Some(mut out) => {
                out.push_str(&json[copied..]);
                Cow::Owned(out)
            }
        })
    }

    /// Masks the texts in a JSON value.
    pub fn mask_value<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        match value {
            Value::String(text) => match self.mask(text) {
                Cow::Borrowed(_) => Cow::Borrowed(value),
                Cow::Owned(text) => Cow::Owned(Value::String(text)),
            },
            Value::Array(values) if !values.is_empty() => {
                let masked = values.iter().map(|value| self.mask_value(value).into_owned());
                Cow::Owned(masked.collect())
            }
            Value::Object(fields) if !fields.is_empty() => {
                let masked = fields.iter().map(|(key, value)| {
                    let by_key = value.as_str().is_some_and(|text| {
                        rules::names_secret(key.as_bytes()) && rules::secret_value(text.as_bytes(), true)
                    });
                    let value = if by_key {
                        BY_KEY.into()
                    } else {
                        self.mask_value(value).into_owned()
                    };
                    (self.mask(key).into_owned(), value)
                });
                Cow::Owned(masked.collect())
            }
            other => Cow::Borrowed(other),
        }
    }
}

/// Returns whether a byte can occur between texts: brackets, signs, spaces, numbers, and the
/// letters of `true`, `false` and `null`.
fn holds_together(byte: u8) -> bool {
    byte.is_ascii_digit() || b"{}[]:, \t\r\n+-.eEtrufalsn".contains(&byte)
}

/// Reads the text that starts at this quote.
fn read_text(json: &str, quote: usize) -> Option<Text<'_>> {
    let bytes = json.as_bytes();
    let start = quote + 1;
    let mut at = start;
    let mut is_plain = true;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            break;
        }
        is_plain = false;
        at += 2;
    }
    let inside = json.get(start..at)?;
    Some(Text {
        end: at + 1,
        content: if is_plain {
            Cow::Borrowed(inside)
        } else {
            Cow::Owned(unescape(inside)?)
        },
    })
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(at) = remaining.find('\\') {
        out.push_str(&remaining[..at]);
        let escape = *remaining.as_bytes().get(at + 1)?;
        remaining = remaining.get(at + 2..)?;
        let plain = match escape {
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let (high, behind) = unit(remaining)?;
                remaining = behind;
                let low = remaining.strip_prefix("\\u").and_then(unit);
                match (high, low) {
                    (0xd800..=0xdbff, Some((low @ 0xdc00..=0xdfff, behind))) => {
                        remaining = behind;
                        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?
                    }
                    // A lone surrogate is invalid.
                    (0xd800..=0xdfff, _) => char::REPLACEMENT_CHARACTER,
                    _ => char::from_u32(high)?,
                }
            }
            b'"' | b'\\' | b'/' => char::from(escape),
            _ => return None,
        };
        out.push(plain);
    }
    out.push_str(remaining);
    Some(out)
}

fn unit(text: &str) -> Option<(u32, &str)> {
    let digits = text.get(..4)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unit = is_hex.then(|| u32::from_str_radix(digits, 16).ok())??;
    Some((unit, &text[4..]))
}
