//! Replaces secrets with placeholders: `[REDACTED:kind]`, or `[secret NAME]` for one that Vik
//! passed by name.
//!
//! Text is redacted where it enters: results of tools, answers of models, errors of providers.
//! Everything stored, shown or sent contains placeholders only. [`vik_mask`] decides what is
//! masked; this module adds what a process of vex knows: the values of its own keys.

use std::borrow::Cow;
use std::sync::Once;

use serde_json::Value;
use vik_mask::{Label, MaskStream, Masker};

/// The variable in which Vik names the secrets that it passed to an agent.
pub const SECRET_NAMES: &str = "VIK_SECRETS";

static OWN: Once = Once::new();

/// Masks text that looks like a secret, and the values of this process's own keys.
pub fn redact(text: &str) -> Cow<'_, str> {
    process().mask(text)
}

/// Masks a text that arrives in pieces.
pub fn stream() -> MaskStream {
    process().stream()
}

/// Like [`redact`], for each text in a value. A text whose key names a secret is masked as one.
pub fn redact_json(value: &Value) -> Cow<'_, Value> {
    process().mask_value(value)
}

/// Also masks the values of these variables from now on, whatever their names are.
pub fn init(also: &[String]) {
    OWN.call_once(|| learn(&[]));
    learn(also);
}

/// Also masks these values from now on, if their names are those of keys. The value of a header
/// starts with a scheme.
pub(crate) fn learn_keys<'a>(values: impl Iterator<Item = (&'a String, &'a String)>) {
    let secret = |(name, value): (&String, &String)| {
        let (_, secret) = value.rsplit_once(' ').unwrap_or(("", value));
        (name.clone(), secret.to_owned())
    };
    let also = ["Authorization".to_owned(), "authorization".to_owned()];
    vik_mask::learn(vik_mask::key_values(values.map(secret), &also));
}

fn process() -> Masker {
    OWN.call_once(|| learn(&[]));
    vik_mask::process()
}

fn learn(also: &[String]) {
    let variables = || {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
    };
    let named = std::env::var(SECRET_NAMES).unwrap_or_default();
    let named: Vec<&str> = named.split(',').collect();
    let secrets = variables().filter(|(name, _)| named.contains(&name.as_str()));
    vik_mask::learn(secrets.map(|(name, value)| (Label::Secret(name), value)));
    vik_mask::learn(vik_mask::key_values(variables(), also));
}
