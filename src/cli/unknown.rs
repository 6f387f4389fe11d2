//! Handles unknown verbs.

use std::ffi::OsString;

use vik_base::report::{ErrorCode, Exit, Failure};

use super::CliResult;

/// Returns an error that suggests the closest verb.
pub fn refuse(command: &[OsString]) -> CliResult {
    let verb = command
        .first()
        .map(|arg| arg.to_string_lossy().into_owned())
        .unwrap_or_default();
    let root = super::command();
    let close = root
        .get_subcommands()
        .map(|command| command.get_name())
        .max_by(|a, b| strsim::jaro(a, &verb).total_cmp(&strsim::jaro(b, &verb)))
        .filter(|name| strsim::jaro(name, &verb) > 0.75);
    let failure = Failure::new(Exit::Usage, ErrorCode::Usage, format!("unknown command `{verb}`"));
    Err(match close {
        Some(name) => failure.hint(format!("did you mean `vik {name}`? See `vik --help`")),
        None => failure.hint("see `vik --help`"),
    })
}
