//! `vik unpark`

use std::path::Path;

use vik_api::Verb;

use super::args::UnparkArgs;
use super::client::{self, RequestOutcome as Did};
use super::{CliResult, print};
use crate::report::{Exit, count, one_line};

pub fn run(workflow: &Path, args: &UnparkArgs) -> CliResult {
    let verb = Verb::Unpark {
        issue: args.issue.as_str().into(),
        attempts: args.attempts,
    };
    let id = one_line(&args.issue, 60);
    print(&match client::send_command(workflow, verb, Some(&args.issue))? {
        Did::Nothing(why) => format!("nothing to do: {why}\n"),
        Did::Applied(_) => {
            let more = match args.attempts {
                None => String::new(),
                Some(more) => format!(", allowing {} more", count(more.into(), "attempt")),
            };
            format!("unparked issue {id}{more}; see when it runs with `vik explain {id}`\n")
        }
    });
    Ok(Exit::Done)
}
