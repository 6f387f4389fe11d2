//! Secrets become placeholders: `[REDACTED:kind]`, or `[secret NAME]` for one that Vik has handed over by name.
//!
//! Text is redacted where it enters: what tools give back, what models say, what providers report. Whatever is stored,
//! shown or sent on holds placeholders only. What is masked and how is in [`vik_mask`]; this module says what a process
//! of vex knows: the values of its own keys.

use std::borrow::Cow;
use std::sync::Once;

use serde_json::Value;
use vik_mask::{Label, Masker};

/// The variable in which Vik names the secrets that it has given to an agent.
pub const SECRET_NAMES: &str = "VIK_SECRETS";

static OWN: Once = Once::new();

/// Masks what looks like a secret, and the values of this process's own keys.
pub fn redact(text: &str) -> Cow<'_, str> {
    process().mask(text)
}

/// As [`redact`], for each text in a value; a text whose key says that it is a secret is judged as one.
pub fn redact_json(value: &Value) -> Cow<'_, Value> {
    process().mask_value(value)
}

/// From now on the values of these variables are masked, too, whatever their names say.
pub fn init(also: &[String]) {
    OWN.call_once(|| learn(&[]));
    learn(also);
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
