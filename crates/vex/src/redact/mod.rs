//! Secrets become placeholders: `[REDACTED:kind]`.
//!
//! Text is redacted where it enters: what tools give back, what models say, what providers report. Whatever is stored,
//! shown or sent on holds placeholders only. Two things are masked: texts that look like secrets (`rules`), and the
//! very values of this process's own keys. One pass over the text finds both; nothing is compiled, and what a rule looks
//! ahead is bounded, so the time is linear. Ordinary words and code come out as they are, byte for byte.

mod rules;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// The shortest value of a variable that is masked wherever it stands; a shorter one could be a word.
const MIN_EXACT_BYTES: usize = 8;

static PROCESS: OnceLock<Redactor> = OnceLock::new();

/// Masks what looks like a secret, and the values of this process's own keys.
pub fn redact(text: &str) -> Cow<'_, str> {
    process().redact(text)
}

/// As [`redact`], for each text in a value; a text whose key says that it is a secret is judged as one.
pub fn redact_json(value: &Value) -> Cow<'_, Value> {
    process().redact_json(value)
}

/// The redactor of this process: it knows the values of all variables whose names say that they hold a key.
pub fn process() -> &'static Redactor {
    PROCESS.get_or_init(|| Redactor::of_variables(std::env::vars_os(), &[]))
}

/// As [`process`], but the variables named here hold keys, too, whatever their names say. Only counts before the first
/// text is redacted.
pub fn init(also: &[String]) {
    let _ = PROCESS.set(Redactor::of_variables(std::env::vars_os(), also));
}

/// What masks secrets.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    exact: Arc<[Vec<u8>]>,
}

/// What is found from a place on.
enum Found {
    /// A secret.
    Secret(Range<usize>, &'static str),
    /// What begins here may be one: more text decides.
    More(usize),
    /// Nothing.
    Nothing,
}

impl Redactor {
    /// Masks these values wherever they stand, beside all that looks like a secret.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut exact: Vec<Vec<u8>> = values
            .into_iter()
            .map(|value| value.trim().as_bytes().to_vec())
            .filter(|value| value.len() >= MIN_EXACT_BYTES)
            .collect();
        // The longest first: one may begin with another.
        exact.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        exact.dedup();
        Self { exact: exact.into() }
    }

    fn of_variables(variables: impl Iterator<Item = (OsString, OsString)>, also: &[String]) -> Self {
        let keys = variables.filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            let holds_key = also.contains(&name) || rules::names_secret(name.as_bytes());
            // A path to a secret is none.
            (holds_key && !value.starts_with('/')).then_some(value)
        });
        Self::new(keys)
    }

    /// The text with its secrets masked.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut masked: Option<String> = None;
        let mut from = 0;
        while let Found::Secret(range, kind) = self.find(text.as_bytes(), from, None, true) {
            let out = masked.get_or_insert_with(|| String::with_capacity(text.len()));
            out.push_str(&text[from..range.start]);
            push_placeholder(out, kind);
            from = range.end;
        }
        match masked {
            None => Cow::Borrowed(text),
            Some(mut out) => {
                out.push_str(&text[from..]);
                Cow::Owned(out)
            }
        }
    }

    /// The value with the secrets in its texts masked.
    pub fn redact_json<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        match value {
            Value::String(text) => match self.redact(text) {
                Cow::Borrowed(_) => Cow::Borrowed(value),
                Cow::Owned(text) => Cow::Owned(Value::String(text)),
            },
            Value::Array(values) if !values.is_empty() => {
                let masked = values.iter().map(|value| self.redact_json(value).into_owned());
                Cow::Owned(masked.collect())
            }
            Value::Object(fields) if !fields.is_empty() => {
                let masked = fields.iter().map(|(key, value)| {
                    let value = match value.as_str() {
                        Some(text)
                            if rules::names_secret(key.as_bytes())
                                && rules::secret_value(text.as_bytes(), true) =>
                        {
                            let mut masked = String::new();
                            push_placeholder(&mut masked, "secret");
                            Value::String(masked)
                        }
                        _ => self.redact_json(value).into_owned(),
                    };
                    (self.redact(key).into_owned(), value)
                });
                Cow::Owned(masked.collect())
            }
            other => Cow::Borrowed(other),
        }
    }

    /// The same for a text that comes in pieces.
    pub fn stream(&self) -> RedactStream {
        RedactStream {
            redactor: self.clone(),
            held: String::new(),
            before: None,
            looked_at: 0,
        }
    }

    /// Looks for the first secret at or after `from`. `before` is the byte in front of the text, `whole` whether its end is
    /// the end of all.
    fn find(&self, text: &[u8], from: usize, before: Option<u8>, whole: bool) -> Found {
        for at in from..text.len() {
            let rest = &text[at..];
            for value in self.exact.iter() {
                if rest.starts_with(value) {
                    return Found::Secret(at..at + value.len(), "key");
                }
                if !whole && value.starts_with(rest) {
                    return Found::More(at);
                }
            }
            let previous = at.checked_sub(1).map_or(before, |index| Some(text[index]));
            match rules::at(rest, previous, whole) {
                rules::Verdict::Secret(range, kind) => {
                    return Found::Secret(at + range.start..at + range.end, kind);
                }
                rules::Verdict::More => return Found::More(at),
                rules::Verdict::No => {}
            }
        }
        Found::Nothing
    }
}

fn push_placeholder(out: &mut String, kind: &str) {
    out.push_str("[REDACTED:");
    out.push_str(kind);
    out.push(']');
}

/// Redacts a text that comes in pieces, for display: what could still become a secret is held back until more text tells.
#[derive(Clone, Debug)]
pub struct RedactStream {
    redactor: Redactor,
    held: String,
    /// The byte in front of what is held.
    before: Option<u8>,
    /// How much was held when it was last looked at.
    looked_at: usize,
}

impl RedactStream {
    /// Takes a piece; gives what can be shown of all that came.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        // A long word is not looked at again for each of its letters.
        let word_goes_on = !piece
            .bytes()
            .any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''));
        if self.looked_at > 0 && word_goes_on && self.held.len() < 2 * self.looked_at {
            return String::new();
        }
        self.take(false)
    }

    /// The text is over; gives the rest.
    pub fn finish(&mut self) -> String {
        self.take(true)
    }

    fn take(&mut self, whole: bool) -> String {
        let mut out = String::new();
        let mut from = 0;
        loop {
            match self.redactor.find(self.held.as_bytes(), from, self.before, whole) {
                Found::Secret(range, kind) => {
                    out.push_str(&self.held[from..range.start]);
                    push_placeholder(&mut out, kind);
                    from = range.end;
                }
                Found::More(at) => {
                    out.push_str(&self.held[from..at]);
                    from = at;
                    break;
                }
                Found::Nothing => {
                    out.push_str(&self.held[from..]);
                    from = self.held.len();
                    break;
                }
            }
        }
        if let Some(last) = from.checked_sub(1) {
            self.before = Some(self.held.as_bytes()[last]);
        }
        self.held.drain(..from);
        self.looked_at = self.held.len();
        out
    }
}
