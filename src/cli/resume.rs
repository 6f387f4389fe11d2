//! `vik resume`

use std::path::Path;

use vik_api::Verb;
use vik_base::report::{Exit, one_line};
use vik_core::ids::IssueId;

use super::args::ResumeArgs;
use super::client::{self, RequestOutcome as Did};
use super::{CliResult, print};

/// Ends the pause of one issue, or of all work.
pub fn run(workflow: &Path, args: &ResumeArgs) -> CliResult {
    let verb = Verb::Resume {
        issue: args.issue.as_deref().map(IssueId::from),
    };
    let result = client::send_command(workflow, verb, args.issue.as_deref())?;
    print(&match (result, &args.issue) {
        (Did::Nothing(why), _) => format!("nothing to do: {why}\n"),
        (Did::Applied(_), None) => "resumed\n".to_owned(),
        (Did::Applied(_), Some(id)) => format!("resumed issue {}\n", one_line(id, 60)),
    });
    Ok(Exit::Done)
}
