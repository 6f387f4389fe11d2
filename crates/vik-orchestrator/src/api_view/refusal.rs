//! The errors of requests that the loop refuses.

use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_core::ids::StageName;
use vik_core::issue::Issue;
use vik_core::message::MessageRefusal;
use vik_core::question::AnswerRefusal;

/// Returns the error about an issue that Vik does not know.
pub fn unknown_issue(issue: &str) -> Failure {
    Failure::new(
        Exit::NotFound,
        ErrorCode::UnknownIssue,
        format!("unknown issue `{}`", one_line(issue, 60)),
    )
    .hint("Vik knows only issues that a pull returned in the state of a stage; `vik refresh` pulls now")
}

/// Returns the error about an issue that was worked on, and that no stage takes in its state.
pub fn idle_issue(issue: &Issue) -> Failure {
    let (id, state) = (one_line(issue.id.as_str(), 60), one_line(&issue.state, 60));
    Failure::new(
        Exit::NotFound,
        ErrorCode::UnknownIssue,
        format!("no stage works on issue `{id}`: its last known state is `{state}`"),
    )
    .hint("move the issue back to the state of a stage in the tracker first")
}

/// Returns the error about a stage that the workflow does not have.
pub fn unknown_stage<'s>(stage: &str, known: impl Iterator<Item = &'s StageName>) -> Failure {
    let known: Vec<_> = known.map(StageName::as_str).collect();
    Failure::new(
        Exit::Usage,
        ErrorCode::UnknownStage,
        format!("the workflow has no stage `{}`", one_line(stage, 60)),
    )
    .hint(format!("known stages: {}", known.join(", ")))
}

/// Returns the error for a message that was not sent or withdrawn.
pub fn message_refused(refusal: &MessageRefusal) -> Failure {
    let (exit, code) = match refusal {
        MessageRefusal::Empty | MessageRefusal::TooLong(_) | MessageRefusal::ControlCharacter(_) => {
            (Exit::Usage, ErrorCode::MessageInvalid)
        }
        MessageRefusal::NotWaiting => (Exit::NotFound, ErrorCode::MessageNotWaiting),
        MessageRefusal::TooMany | MessageRefusal::Finished(_) | MessageRefusal::MayBeRead => {
            (Exit::Failed, ErrorCode::MessageRefused)
        }
    };
    let failure = Failure::new(exit, code, refusal.to_string());
    match refusal.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Returns the error for an answer that was not accepted.
pub fn answer_refused(refusal: &AnswerRefusal) -> Failure {
    let (exit, code) = match refusal {
        AnswerRefusal::Text(_) | AnswerRefusal::NoSuchChoice { .. } => {
            (Exit::Usage, ErrorCode::AnswerInvalid)
        }
        AnswerRefusal::NoQuestion | AnswerRefusal::OtherQuestion | AnswerRefusal::Several(_) => {
            (Exit::Usage, ErrorCode::NoQuestion)
        }
        AnswerRefusal::TakenOver => (Exit::Failed, ErrorCode::AnswerRefused),
    };
    let failure = Failure::new(exit, code, refusal.to_string());
    match refusal.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
