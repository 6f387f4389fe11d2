//! The arguments of a native call.

use serde_json::Value;

use super::json::{self, End, JsonError, blank};
use crate::conversation::Arguments;

/// The maximum depth of JSON encoded in JSON texts.
const MAX_ENCODED: usize = 2;

/// The message to the model if nothing was sent that could be arguments.
const NONE: &str = "there are none; send a JSON object";

/// The message to the model about arguments that are cut off.
pub(super) const CUT: &str =
    "they are cut off; send the whole call again, with less in it if it was too long";

/// Reads the arguments of a call.
///
/// Valid JSON is unchanged; a repeated key has the last value, as in every JSON parser. Arguments
/// that are fenced, encoded twice, repeated or followed by garbage are unwrapped, and small
/// mistakes are corrected. Arguments that are cut off stay broken, since the missing part is
/// unknown.
pub fn arguments(raw: &str) -> Arguments {
    match read(raw) {
        Ok(value) => Arguments::Json(value),
        Err(reason) => Arguments::Broken {
            raw: raw.to_owned(),
            reason,
        },
    }
}

fn read(raw: &str) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_str(raw) {
        return decoded(value);
    }
    let text = unfenced(raw.trim());
    if text.is_empty() {
        return Err(NONE.to_owned());
    }
    let (value, end) = json::read(text, End::Unknown).map_err(|fault| explain(fault, text))?;
    if !rubbish(&value, &text[end..]) {
        return Err(
            "more JSON follows the first object, and it says something else; send one object".to_owned(),
        );
    }
    decoded(value).and_then(|value| {
        if value.is_object() || value.is_array() {
            Ok(value)
        } else {
            Err(NONE.to_owned())
        }
    })
}

/// Decodes JSON in JSON texts. A text without an object stays a text: the schema reports what is
/// wrong with it.
fn decoded(mut value: Value) -> Result<Value, String> {
    for _ in 0..MAX_ENCODED {
        let Value::String(text) = &value else { break };
        let inner = unfenced(text.trim());
        if !inner.starts_with(['{', '"']) {
            break;
        }
        let (read, end) = json::read(inner, End::Unknown).map_err(|fault| explain(fault, inner))?;
        if !rubbish(&read, &inner[end..]) {
            break;
        }
        value = read;
    }
    Ok(value)
}

/// Returns the content of a fence around the whole text.
fn unfenced(text: &str) -> &str {
    let Some(tail) = text.strip_prefix("```") else {
        return text;
    };
    let Some(inner) = tail.strip_suffix("```") else {
        return text;
    };
    inner
        .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_')
        .trim()
}

/// Returns whether the text after a value can be ignored: it is empty, the same value again, or not
/// JSON.
fn rubbish(value: &Value, mut tail: &str) -> bool {
    loop {
        tail = &tail[blank(tail)..];
        match tail.bytes().next() {
            None => return true,
            Some(b'{' | b'[') => match json::read(tail, End::Unknown) {
                Ok((again, end)) if again == *value => tail = &tail[end..],
                _ => return false,
            },
            Some(b'}' | b']') => tail = &tail[1..],
            Some(b',' | b':' | b'"' | b'\'') => return false,
            // Text or markup. Another object in it would be content that must not be lost.
            Some(_) => return !tail.contains(['{', '"']),
        }
    }
}

/// Explains a failure to the model.
pub(super) fn explain(fault: JsonError, text: &str) -> String {
    match fault {
        JsonError::Cut => CUT.to_owned(),
        JsonError::Wrong { at, problem } => {
            let mut from = at.min(text.len()).saturating_sub(20);
            while !text.is_char_boundary(from) {
                from -= 1;
            }
            let near: String = text[from..].chars().take(40).collect();
            format!("{problem}, near {near:?}")
        }
    }
}
