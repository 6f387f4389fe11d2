//! The daemon's half of each verb that changes what the daemon does: its path, and the action that
//! it stands for. The loop decides each action and commits it with its actor before the response is
//! sent.

pub mod answer_question;
pub mod approve;
pub mod cancel;
pub mod deny;
pub mod drain;
pub mod hand_back;
pub mod message;
pub mod pause;
pub mod refresh;
pub mod resume;
pub mod retry;
pub mod run_again;
pub mod stop;
pub mod take_over;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use vik_api::{Action, ApprovalDecision, Steered};
use vik_core::approval;
use vik_core::message::MAX_BYTES;
use vik_core::scheduler::{Actor, ApprovalReply, Command};

use super::answer::{Answer, Input, IssueInPath};
use super::daemon::Daemon;

/// The maximum size of a request with a text of a person, in bytes: every character may be escaped.
const MAX_TEXT_BODY: usize = 6 * MAX_BYTES + 1024;

/// The daemon, and who requests the action.
type Caller = (State<Arc<Daemon>>, Extension<Actor>);

/// Requests an action of the loop.
async fn act((State(daemon), Extension(by)): Caller, action: impl Into<Action>) -> Answer<Steered> {
    daemon.act(action.into(), by).await
}

/// Answers a request for approval.
async fn answer(
    caller: Caller,
    IssueInPath(issue): IssueInPath,
    Input(decision): Input<ApprovalDecision>,
    to_answer: impl FnOnce(Option<String>) -> approval::Answer,
) -> Answer<Steered> {
    let reply = ApprovalReply {
        issue,
        stage: decision.stage,
        request: decision.request,
        answer: to_answer(decision.message.filter(|message| !message.trim().is_empty())),
    };
    act(caller, Command::Answer(reply)).await
}
