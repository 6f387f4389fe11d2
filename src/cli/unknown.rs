//! Verbs that there are not.

use std::ffi::OsString;

use super::CliResult;
use crate::report::{Exit, Failure};

/// Verbs a user may have meant are suggested.
pub fn refuse(words: &[OsString]) -> CliResult {
    let verb = words
        .first()
        .map(|word| word.to_string_lossy().into_owned())
        .unwrap_or_default();
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
