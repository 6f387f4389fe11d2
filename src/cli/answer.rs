//! `vik approve`, `vik deny`

use std::path::Path;

use vik_api::Verb;
use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_core::approval::Answer;
use vik_core::ids::StageName;

use super::args::AnswerArgs;
use super::client::{self, RequestOutcome as Did};
use super::{CliResult, print};

/// Approves what waits for a person.
pub fn approve(workflow: &Path, args: &AnswerArgs) -> CliResult {
    answer(workflow, args, |message| Answer::Approve { message })
}

/// Denies what waits for a person, optionally with an instruction.
pub fn deny(workflow: &Path, args: &AnswerArgs) -> CliResult {
    answer(workflow, args, Answer::denied)
}

fn answer(workflow: &Path, args: &AnswerArgs, to_answer: impl FnOnce(Option<String>) -> Answer) -> CliResult {
    let answer = to_answer(args.message.clone().filter(|message| !message.trim().is_empty()));
    let result = match &answer {
        Answer::Approve { .. } => "approved",
        Answer::Deny { .. } => "denied",
        Answer::Instruct { .. } => "denied with instructions",
    };
    let verb = Verb::Answer {
        issue: args.issue.as_str().into(),
        stage: args.stage.clone().map(StageName::new),
        request: args.request.clone(),
        answer,
    };
    let id = one_line(&args.issue, 60);
    match client::send_command(workflow, verb, Some(&args.issue))? {
        // The caller expects that something waits: a script must not continue as if it had been
        // answered.
        Did::Nothing(why) => Err(Failure::new(
            Exit::Failed,
            ErrorCode::NothingWaits,
            format!("issue {id}: {why}"),
        )
        .hint("`vik status` lists pending requests")),
        Did::Applied(_) => {
            print(&format!("issue {id}: {result}\n"));
            Ok(Exit::Done)
        }
    }
}
