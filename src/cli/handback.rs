//! `vik handback`

use std::path::Path;

use clap::Args;
use vik_api::{Action, HandbackView};
use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_core::ids::IssueId;
use vik_core::message::check_optional_text;
use vik_orchestrator::api_view;
use vik_workflow::{WorkflowFile, absolute};

use super::client::{self, ActionOutcome};
use super::issue_arg::RequiredIssue;
use super::{CliResult, print_result};

/// `vik handback`
#[derive(Debug, Args)]
#[command(
    after_help = "The changes in the workspace since `vik takeover` are recorded in the trace as the person's. \
                  The next attempt gets the list of the changed files and the message, and continues the \
                  conversation of the last one if that can be continued."
)]
pub struct HandbackArgs {
    #[command(flatten)]
    pub issue: RequiredIssue,
    /// Message for the next attempt
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Ends the hold of `vik takeover`.
pub fn run(workflow: &Path, args: &HandbackArgs) -> CliResult {
    let message =
        check_optional_text(args.message.clone()).map_err(|refusal| api_view::message_refused(&refusal))?;
    let issue = IssueId::from(args.issue.id());
    let id = one_line(args.issue.id(), 60);
    let outcome = match client::find_running(workflow)? {
        None => offline(workflow, &issue, message)?,
        Some(_) => client::act(workflow, Action::HandBack { issue, message })?,
    };
    match outcome {
        ActionOutcome::Nothing(why) => {
            let problem = format!("issue {id}: {why}");
            Err(Failure::new(Exit::Failed, ErrorCode::NothingWaits, problem)
                .hint("`vik status` lists the issues that are taken over"))
        }
        ActionOutcome::Applied(_) => {
            let view = HandbackView {
                schema: vik_api::SCHEMA,
                issue_id: IssueId::from(args.issue.id()),
            };
            print_result(args.json, &view, || {
                format!("issue {id} is handed back; see when it runs with `vik explain {id}`\n")
            })
        }
    }
}

fn offline(workflow: &Path, issue: &IssueId, message: Option<String>) -> Result<ActionOutcome, Failure> {
    let loaded = WorkflowFile::valid(&absolute(workflow), |_| {})?;
    client::offline_outcome(
        vik_daemon::offline::hand_back(&loaded, issue, message)?,
        Some(issue),
    )
}
