//! Verbs that the contract names and this version does not have yet.

use std::ffi::OsString;

use super::Done;
use crate::report::{Exit, Failure};

const LATER: [&str; 2] = ["approve", "deny"];

/// Verbs a user may have meant are suggested; those that will come are said to.
pub fn refuse(words: &[OsString]) -> Done {
    let verb = words
        .first()
        .map(|word| word.to_string_lossy().into_owned())
        .unwrap_or_default();
    if LATER.contains(&&*verb) {
        return Err(not_yet(&format!("`vik {verb}`")));
    }
    let known = super::command();
    let close = known
        .get_subcommands()
        .map(|command| command.get_name())
        .max_by(|a, b| strsim::jaro(a, &verb).total_cmp(&strsim::jaro(b, &verb)))
        .filter(|name| strsim::jaro(name, &verb) > 0.75);
    let failure = Failure::new(Exit::Usage, "usage", format!("there is no verb `{verb}`"));
    Err(match close {
        Some(name) => failure.hint(format!("did you mean `vik {name}`? See `vik --help`")),
        None => failure.hint("see `vik --help`"),
    })
}

/// Something that a later version brings.
pub fn not_yet(what: &str) -> Failure {
    Failure::new(
        Exit::Usage,
        "not_yet",
        format!("{what} comes with a later version of Vik"),
    )
}
