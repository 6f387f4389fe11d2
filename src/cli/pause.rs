//! `vik pause` and `vik continue`

use std::path::Path;

use vik_api::Verb;
use vik_core::ids::IssueId;

use super::args::PauseArgs;
use super::client::{self, RequestOutcome as Did};
use super::{CliResult, print};
use crate::report::{Exit, one_line};

/// Pauses one issue, or all work.
pub fn pause(workflow: &Path, args: &PauseArgs) -> CliResult {
    let verb = Verb::Pause { issue: issue(args) };
    let result = client::send_command(workflow, verb, args.issue.as_deref())?;
    print(&match (result, &args.issue) {
        (Did::Nothing(why), _) => format!("nothing to do: {why}\n"),
        (Did::Applied(_), None) => "paused: no new attempts start; resume with `vik continue`\n".to_owned(),
        (Did::Applied(_), Some(id)) => {
            let id = one_line(id, 60);
            format!("paused issue {id}: no new attempts start; resume with `vik continue {id}`\n")
        }
    });
    Ok(Exit::Done)
}

pub fn resume(workflow: &Path, args: &PauseArgs) -> CliResult {
    let verb = Verb::Continue { issue: issue(args) };
    let result = client::send_command(workflow, verb, args.issue.as_deref())?;
    print(&match (result, &args.issue) {
        (Did::Nothing(why), _) => format!("nothing to do: {why}\n"),
        (Did::Applied(_), None) => "resumed\n".to_owned(),
        (Did::Applied(_), Some(id)) => format!("resumed issue {}\n", one_line(id, 60)),
    });
    Ok(Exit::Done)
}

fn issue(args: &PauseArgs) -> Option<IssueId> {
    args.issue.as_deref().map(IssueId::from)
}
