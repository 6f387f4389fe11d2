//! `vik cancel`

use std::path::Path;

use vik_api::Verb;
use vik_base::report::{Exit, one_line};

use super::args::CancelArgs;
use super::client::{self, RequestOutcome as Did};
use super::{CliResult, print};

/// Stops the agents of an issue and parks it.
pub fn run(workflow: &Path, args: &CancelArgs) -> CliResult {
    let verb = Verb::Cancel {
        issue: args.issue.as_str().into(),
    };
    let id = one_line(&args.issue, 60);
    print(&match client::send_command(workflow, verb, Some(&args.issue))? {
        Did::Nothing(why) => format!("nothing to do: {why}\n"),
        Did::Applied(_) => format!(
            "cancelled issue {id}: its attempts are stopped, and it stays parked until it changes or `vik \
             retry {id}` is run\n"
        ),
    });
    Ok(Exit::Done)
}
