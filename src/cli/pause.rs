//! `vik pause`

use std::path::Path;

use vik_api::Verb;
use vik_base::report::{Exit, one_line};
use vik_core::ids::IssueId;

use super::args::PauseArgs;
use super::client::{self, RequestOutcome as Did};
use super::{CliResult, print};

/// Pauses one issue, or all work.
pub fn run(workflow: &Path, args: &PauseArgs) -> CliResult {
    let verb = Verb::Pause {
        issue: args.issue.as_deref().map(IssueId::from),
    };
    let result = client::send_command(workflow, verb, args.issue.as_deref())?;
    print(&match (result, &args.issue) {
        (Did::Nothing(why), _) => format!("nothing to do: {why}\n"),
        (Did::Applied(_), None) => "paused: no new attempts start; resume with `vik resume`\n".to_owned(),
        (Did::Applied(_), Some(id)) => {
            let id = one_line(id, 60);
            format!("paused issue {id}: no new attempts start; resume with `vik resume {id}`\n")
        }
    });
    Ok(Exit::Done)
}
