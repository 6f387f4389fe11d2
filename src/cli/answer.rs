//! What `vik approve` and `vik deny` share.

use std::path::Path;

use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_core::approval::Answer;
use vik_core::ids::StageName;
use vik_core::scheduler::{ApprovalReply, Command};

use super::args::AnswerArgs;
use super::client::{self, ActionOutcome};
use super::{CliResult, print};

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
        issue: args.issue.as_str().into(),
        stage: args.stage.clone().map(StageName::new),
        request: args.request.clone(),
        answer,
    };
    let id = one_line(&args.issue, 60);
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
