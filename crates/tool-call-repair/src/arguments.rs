//! The arguments of a native call.

use std::error::Error;
use std::fmt;

use serde_json::Value;

use crate::json::{self, End, JsonError, blank};

/// The maximum depth of JSON encoded in JSON texts.
const MAX_ENCODED: usize = 2;

/// The message to the model if nothing was sent that could be arguments.
const NONE: &str = "there are none; send a JSON object";

/// The message to the model about arguments that are cut off.
pub(crate) const CUT: &str =
    "they are cut off; send the whole call again, with less in it if it was too long";

/// Arguments without a certain reading. A call with such arguments must not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenArguments {
    /// The arguments as the model wrote them. For parameters in markup: those that were read, as
    /// JSON, then the text that was not.
    pub raw: String,
    /// What is wrong with them, in words for the model: "they" are the arguments. It is short, even
    /// if they are long.
    pub reason: String,
}

impl fmt::Display for BrokenArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read the arguments: {}", self.reason)
    }
}

impl Error for BrokenArguments {}

/// Reads the arguments of a call, and repairs them if there is only one way to read them.
///
/// Valid JSON is returned unchanged, whether or not it is an object, unless it is a string of JSON.
/// A repeated key has the last value, as in every JSON parser. Arguments that are fenced, encoded
/// as a JSON string (at most twice), repeated or followed by text without JSON are unwrapped. These
/// mistakes are corrected: a comma or closing brackets too many, single quotation marks, keys
/// without any, Python's `True`, `False`, `None` and triple quotation marks, backticks, line breaks
/// in strings, doubled braces, and single backslashes in regular expressions and shell commands
/// (`\d`, `\.`, `\$`). The result of a repair is an object or an array. Invalid JSON may be nested
/// 64 levels deep.
///
/// No schema is used: the caller validates the result.
///
/// # Errors
///
/// Returns the reason if the arguments are empty or cut off, since the missing part is unknown, or
/// if they can be read in several ways: values without quotation marks, quotation marks in a string
/// that are not escaped, a key that comes twice in JSON that is invalid for another reason, unknown
/// escapes, or different values one after the other.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use tool_call_repair::repair_arguments;
///
/// let repaired = repair_arguments("{'path': \"src/main.rs\", 'all': True,}")?;
/// assert_eq!(repaired, json!({"path": "src/main.rs", "all": true}));
///
/// let broken = repair_arguments(r#"{"path": "src/ma"#).unwrap_err();
/// assert!(broken.reason.starts_with("they are cut off"));
///
/// assert!(repair_arguments(r#"{"path": "a"}{"path": "b"}"#).is_err());
/// # Ok::<(), tool_call_repair::BrokenArguments>(())
/// ```
pub fn repair_arguments(raw: &str) -> Result<Value, BrokenArguments> {
    read(raw).map_err(|reason| BrokenArguments {
        raw: raw.to_owned(),
        reason,
    })
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
pub(crate) fn unfenced(text: &str) -> &str {
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
pub(crate) fn explain(fault: JsonError, text: &str) -> String {
    match fault {
        JsonError::Cut => CUT.to_owned(),
        JsonError::Wrong { at, problem } => {
            let from = text.floor_char_boundary(at.min(text.len()).saturating_sub(20));
            let near: String = text[from..].chars().take(40).collect();
            format!("{problem}, near {near:?}")
        }
    }
}
