//! The actions of a person: how they are made from keys, and the texts about them.

use vik_api::{Action, ApprovalView, QuestionView};
use vik_core::approval::Answer;
use vik_core::ids::IssueId;
use vik_core::plural;
use vik_core::question::{NewAnswer, Reply};
use vik_core::scheduler::{ApprovalReply, Command, RetryRequest, TakeOver};

/// Returns the retry of all parked stages of an issue.
pub(crate) fn retry(issue: IssueId) -> Action {
    let request = RetryRequest {
        issue,
        stage: None,
        attempts: None,
        agent: false,
    };
    Command::Retry(request).into()
}

/// Returns the request to hold an issue for the person.
pub(crate) fn take_over(issue: IssueId) -> Action {
    let request = TakeOver {
        issue,
        stage: None,
        wait: false,
    };
    Command::TakeOver(request).into()
}

/// Returns the request to hand an issue back.
pub(crate) fn hand_back(issue: IssueId) -> Action {
    Action::HandBack { issue, message: None }
}

/// Returns the answer to a request that the person sees.
pub(crate) fn answer(approval: ApprovalView, answer: Answer) -> Action {
    let reply = ApprovalReply {
        issue: approval.issue_id,
        stage: None,
        request: Some(approval.request.id),
        answer,
    };
    Command::Answer(reply).into()
}

/// Returns the answer to a question: a text, or the number of one of its choices.
pub(crate) fn answer_question(question: QuestionView, text: String) -> Action {
    let choices = question.question.question.choices.len();
    let number = text.trim().parse().ok();
    let reply = match number.filter(|number| (1..=choices).contains(number)) {
        Some(number) => Reply::Choice(number),
        None => Reply::Text(text),
    };
    let answer = NewAnswer {
        issue: question.issue_id,
        stage: Some(question.stage),
        question: Some(question.question.id),
        reply,
    };
    Command::AnswerQuestion(answer).into()
}

/// Returns the verb of an action, and its form while the action is running.
fn verb(action: &Action) -> (&'static str, &'static str) {
    match action {
        Action::Refresh => ("refresh", "requesting a refresh"),
        Action::Stop { .. } => ("stop", "stopping"),
        Action::RunAgain { .. } => ("run again", "moving the issue back"),
        Action::HandBack { .. } => ("hand back", "handing back"),
        Action::Command(command) => match command {
            Command::Pause(_) => ("pause", "pausing"),
            Command::Resume(_) => ("resume", "resuming"),
            Command::Cancel(_) => ("cancel", "cancelling"),
            Command::Retry(_) => ("retry", "retrying"),
            Command::Answer(reply) => match reply.answer {
                Answer::Approve { .. } => ("approve", "approving"),
                Answer::Deny { .. } | Answer::Instruct { .. } => ("deny", "denying"),
            },
            Command::AnswerQuestion(_) => ("answer the question of", "answering the question of"),
            Command::SendMessage(_) => ("send a message to", "sending a message to"),
            Command::WithdrawMessage(_) => ("withdraw a message to", "withdrawing a message to"),
            Command::TakeOver(_) => ("take over", "taking over"),
            Command::HandBack(_) => ("hand back", "handing back"),
            Command::Drain => ("drain", "draining"),
        },
    }
}

/// Returns the text while the action is running.
pub(crate) fn progress_text(action: &Action) -> String {
    let (_, progress) = verb(action);
    match (action, action.issue()) {
        (_, Some(issue)) => format!("{progress} {issue}"),
        (Action::Command(Command::Pause(_) | Command::Resume(_)), None) => {
            format!("{progress} all issues")
        }
        (_, None) => progress.to_owned(),
    }
}

/// Returns the text after the action succeeded.
pub(crate) fn success_text(action: &Action, count: usize) -> String {
    let attempts = plural::count(count, "attempt");
    let runs = plural::count(count, "run");
    match action {
        Action::Refresh => {
            "refresh requested: the daemon reloads the workflow and pulls the issues".to_owned()
        }
        Action::Stop { .. } => "stopping".to_owned(),
        Action::HandBack { issue, .. } => format!("handed {issue} back"),
        Action::RunAgain { issue, stage } => format!("moved {issue} back: {stage} runs again"),
        Action::Command(command) => match command {
            Command::Pause(None) => "paused: no new attempts start, running attempts continue".to_owned(),
            Command::Pause(Some(issue)) => format!("paused {issue}: running attempts continue"),
            Command::Resume(None) => "resumed all issues".to_owned(),
            Command::Resume(Some(issue)) => format!("resumed {issue}"),
            Command::Cancel(issue) => format!("cancelled and parked {issue}: {attempts} stopped"),
            Command::Retry(request) => format!("retrying {}: {runs} freed", request.issue),
            Command::Answer(reply) => match reply.answer {
                Answer::Approve { .. } => format!("approved {}", reply.issue),
                Answer::Deny { .. } | Answer::Instruct { .. } => format!("denied {}", reply.issue),
            },
            Command::AnswerQuestion(answer) => format!("answered the question of {}", answer.issue),
            Command::SendMessage(message) => format!("message sent to {}", message.issue),
            Command::WithdrawMessage(withdrawal) => format!("message to {} withdrawn", withdrawal.issue),
            Command::TakeOver(request) => format!(
                "took {0} over: open its session with `vik takeover {0}`",
                request.issue
            ),
            Command::HandBack(request) => format!("handed {} back", request.issue),
            Command::Drain => "draining: no new attempts start".to_owned(),
        },
    }
}

/// Returns the name of the action, for `cannot …`.
pub(crate) fn command_text(action: &Action) -> String {
    let (verb, _) = verb(action);
    match action.issue() {
        None => verb.to_owned(),
        Some(issue) => format!("{verb} {issue}"),
    }
}
