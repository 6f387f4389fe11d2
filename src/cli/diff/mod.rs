//! `vik diff ISSUE`: what an issue or one of its attempts changed.

mod text;

use std::io;
use std::path::Path;

use clap::Args;
use vik_api::DiffView;
use vik_base::report::{ErrorCode, Exit, Failure, colored, one_line};
use vik_control::diff::Sources;
use vik_core::ids::IssueId;
use vik_orchestrator::api_view;
use vik_proc::Supervisor;
use vik_store::PastAttempt;
use vik_workspace::Layout;

use super::issue_arg::RequiredIssue;
use super::{CliResult, client, history, print_result, runtime};

/// `vik diff`
#[derive(Debug, Args)]
#[command(after_help = "It works before and after a push, with and without a daemon.")]
pub struct DiffArgs {
    #[command(flatten)]
    pub issue: RequiredIssue,
    /// Show what one attempt changed; a prefix of its session id is enough
    #[arg(long, value_name = "ID", add = super::completion::sessions())]
    pub attempt: Option<String>,
    /// Show only the commits, and the files with their numbers of lines
    #[arg(long, conflicts_with = "json")]
    pub stat: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Shows the changes of an issue.
pub fn run(workflow: &Path, args: &DiffArgs) -> CliResult {
    let issue = IssueId::from(args.issue.id());
    let layout = history::layout(workflow)?;
    let attempt = match &args.attempt {
        Some(id) => Some(attempt(history::attempts(&layout, Some(&issue))?, id)?),
        None => None,
    };
    let diff = match ask(workflow, &issue, attempt.as_ref())? {
        Some(diff) => diff,
        None => read(&layout, &issue, attempt)?,
    };
    print_result(args.json, &diff, || {
        text::text(&issue, &diff, args.stat, colored(&io::stdout()))
    })
}

/// Returns the attempt whose session id starts with a text.
fn attempt(attempts: Vec<PastAttempt>, id: &str) -> Result<PastAttempt, Failure> {
    let matches = |attempt: &PastAttempt| attempt.record.session_id.to_string().starts_with(id);
    let mut found = attempts.into_iter().filter(matches);
    let failure = |text: &str| {
        let id = one_line(id, 60);
        Failure::new(Exit::NotFound, ErrorCode::NoSession, format!("{text} `{id}`"))
            .hint("`vik show ISSUE` lists the attempts of an issue")
    };
    match (found.next(), found.next()) {
        (Some(attempt), None) => Ok(attempt),
        (None, _) => Err(failure("the issue has no attempt")),
        (Some(_), Some(_)) => Err(failure("several attempts of the issue match")),
    }
}

/// Returns the diff from the daemon, which knows the secrets to mask; `None` if none answers.
fn ask(workflow: &Path, issue: &IssueId, attempt: Option<&PastAttempt>) -> Result<Option<DiffView>, Failure> {
    let Ok((instance, info)) = client::find(workflow) else {
        return Ok(None);
    };
    let asked = client::request(&instance, &info, async |client| match attempt {
        Some(attempt) => client.diff(&attempt.record.session_id.to_string()).await,
        None => client.issue_diff(issue).await,
    });
    match asked {
        Err(failure) if failure.exit == Exit::NotFound => Err(failure),
        // It can be read without a daemon too.
        asked => Ok(asked.ok().flatten()),
    }
}

fn read(layout: &Layout, issue: &IssueId, attempt: Option<PastAttempt>) -> Result<DiffView, Failure> {
    let supervisor = Supervisor::this_program()
        .map_err(|error| Failure::failed(ErrorCode::Runtime, "cannot prepare the shim", &error))?;
    let runtime = runtime()?;
    let sources = Sources {
        layout,
        supervisor: &supervisor,
    };
    let diff = runtime.block_on(async {
        match attempt {
            Some(PastAttempt { record, files, .. }) => {
                Some(sources.of_attempt(issue, record.session_id, files).await)
            }
            None => sources.of_issue(issue).await,
        }
    });
    diff.ok_or_else(|| api_view::unknown_issue(issue.as_str()))
}
