//! What `vik approve` and `vik deny` share.

use std::path::Path;

use clap::Args;
use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_core::approval::Answer;
use vik_core::ids::StageName;
use vik_core::scheduler::{ApprovalReply, Command};

use super::client::{self, ActionOutcome};
use super::completion::stages;
use super::issue_arg::RequiredIssue;
use super::{CliResult, print};

/// `vik approve`, `vik deny`
#[derive(Debug, Args)]
#[command(
    after_help = "`vik status` lists pending requests and their deadlines. If nobody answers in time, \
                  `approve.on_timeout` of the stage decides.\n\n`deny --message` rejects a tool call and \
                  sends the text to the agent; for a denied result, the next attempt gets the text. \
                  Without a message, a denied start or result stays parked until the issue changes or `vik \
                  retry` is run."
)]
pub struct AnswerArgs {
    #[command(flatten)]
    pub issue: RequiredIssue,
    /// Stage, if several stages have pending requests
    #[arg(long, value_name = "NAME", add = stages())]
    pub stage: Option<String>,
    /// Answer only this request; `vik status --json` prints the id
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
    /// Message for the agent
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
}

/// Answers a request for approval.
pub fn answer(
    workflow: &Path,
    args: &AnswerArgs,
    to_answer: impl FnOnce(Option<String>) -> Answer,
) -> CliResult {
    let answer = to_answer(args.message.clone().filter(|message| !message.trim().is_empty()));
    let result = match &answer {
        Answer::Approve { .. } => "approved",
        Answer::Deny { .. } => "denied",
        Answer::Instruct { .. } => "denied with instructions",
    };
    let reply = ApprovalReply {
        issue: args.issue.id().into(),
        stage: args.stage.clone().map(StageName::new),
        request: args.request.clone(),
        answer,
    };
    let id = one_line(args.issue.id(), 60);
    match client::act(workflow, Command::Answer(reply))? {
        // The caller expects that something waits: a script must not continue as if it had been
        // answered.
        ActionOutcome::Nothing(why) => Err(Failure::new(
            Exit::Failed,
            ErrorCode::NothingWaits,
            format!("issue {id}: {why}"),
        )
        .hint("`vik status` lists pending requests")),
        ActionOutcome::Applied(_) => {
            print(&format!("issue {id}: {result}\n"));
            Ok(Exit::Done)
        }
    }
}
