//! The arguments of a native call.

use serde_json::Value;

use super::json::{self, End, JsonError, blank};
use crate::conversation::Arguments;

/// How often JSON may stand in a JSON text.
const MAX_ENCODED: usize = 2;

/// What the model is told where nothing was sent that could be arguments.
const NONE: &str = "there are none; send a JSON object";

/// What the model is told of arguments that are cut off.
pub(super) const CUT: &str =
    "they are cut off; send the whole call again, with less in it if it was too long";

/// Reads the arguments of a call.
///
/// JSON is taken as it is; a key that comes twice has the last value, as for every reader of JSON. What is wrapped in
/// a fence, encoded twice, said twice or followed by rubbish is unwrapped, and small mistakes are mended. What is cut
/// off stays broken: nobody knows what was to come.
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

/// Takes JSON out of JSON texts. A text that holds no object stays a text: the schema says what is wrong with it.
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

/// What stands within a fence around the whole text.
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

/// Whether what follows a value can be left out: nothing, the same value again, or what is no JSON.
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
            // Words or markup; another object behind them would be something that was to be said.
            Some(_) => return !tail.contains(['{', '"']),
        }
    }
}

/// What is wrong, for the model.
pub(super) fn explain(fault: JsonError, text: &str) -> String {
    match fault {
        JsonError::Cut => CUT.to_owned(),
        JsonError::Wrong { at, problem: what } => {
            let mut from = at.min(text.len()).saturating_sub(20);
            while !text.is_char_boundary(from) {
                from -= 1;
            }
            let near: String = text[from..].chars().take(40).collect();
            format!("{what}, near {near:?}")
        }
    }
}
