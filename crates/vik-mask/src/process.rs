//! The values known to this process, in one place so that no writer can miss them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use crate::masker::{Label, MIN_BYTES, Masker};
use crate::rules;

/// The maximum total size of the values, each of which is searched in a few dozen forms.
const BYTES: usize = 64 * 1024;

/// The maximum number of values of one name: they may rotate, and earlier output is displayed
/// later. Keys of the process do not rotate.
const VALUES: usize = 64;

static PROCESS: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

#[derive(Debug, Default)]
struct Known {
    values: BTreeMap<Label, Vec<String>>,
    masker: Masker,
}

/// Returns the masker of this process with all values known so far.
pub fn process() -> Masker {
    PROCESS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .masker
        .clone()
}

/// Masks a text by all values of this process.
///
/// # Examples
///
/// ```
/// use vik_mask::{Label, learn, mask};
///
/// learn([(Label::Key, "correct horse battery".to_owned())]);
/// assert_eq!(mask("sent correct horse battery"), "sent [REDACTED:key]");
/// assert_eq!(mask("an ordinary sentence"), "an ordinary sentence");
/// ```
pub fn mask(text: &str) -> Cow<'_, str> {
    process().mask(text)
}

/// Masks the texts in JSON by all values of this process; text that is not JSON is masked as plain
/// text.
pub fn mask_json(text: &str) -> Cow<'_, str> {
    process().mask_json(text)
}

/// Registers values that this process masks from now on.
pub fn learn(values: impl IntoIterator<Item = (Label, String)>) {
    let mut known = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    let mut is_new = false;
    for (label, value) in values {
        if value.trim().len() < MIN_BYTES {
            continue;
        }
        let rotates = label != Label::Key;
        let of_label = known.values.entry(label).or_default();
        if of_label.contains(&value) {
            continue;
        }
        of_label.push(value);
        let bytes = |values: &[String]| values.iter().map(String::len).sum::<usize>();
        while rotates && of_label.len() > 1 && (of_label.len() > VALUES || bytes(of_label) > BYTES) {
            of_label.remove(0);
        }
        is_new = true;
    }
    if is_new {
        let all = known.values.iter();
        let all = all.flat_map(|(label, values)| values.iter().map(|value| (label.clone(), value.clone())));
        known.masker = Masker::new(all.collect::<Vec<_>>());
    }
}

/// Returns the values of the variables whose names mark them as keys, and of those named in `also`.
pub fn key_values(
    variables: impl IntoIterator<Item = (String, String)>,
    also: &[String],
) -> Vec<(Label, String)> {
    variables
        .into_iter()
        .filter(|(name, value)| {
            let holds_key = also.contains(name) || rules::names_key(name.as_bytes());
            // A path to a secret is not a secret.
            holds_key && !value.starts_with('/')
        })
        .map(|(_, value)| (Label::Key, value))
        .collect()
}
