//! `vik explain ISSUE`: why an issue runs, why it does not, and when it runs next.

mod text;

#[cfg(test)]
mod tests;

use std::path::Path;

use jiff::Timestamp;
use vik_base::report::{Exit, stdout_width};
use vik_workflow::absolute;

use super::args::ExplainArgs;
use super::{CliResult, explained, print, print_json};

pub fn run(workflow: &Path, args: &ExplainArgs) -> CliResult {
    let explained = explained::load(&absolute(workflow), &args.issue.as_str().into())?;
    if args.json {
        print_json(&explained);
    } else {
        print(&text::text(&explained, Timestamp::now(), stdout_width()));
    }
    Ok(Exit::Done)
}
