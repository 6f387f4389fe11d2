//! Requests that steer. Each is decided by the loop and on disk, with who asked, before it is answered.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use vik_api::{ApprovalDecision, Response, Steered, Unpark, Verb, WhichIssue};
use vik_core::approval;
use vik_core::ids::IssueId;
use vik_core::scheduler::Actor;

use super::answer::{Answer, Input, IssueInPath, Json, Refusal};
use super::read::Daemon;

type Asked = (State<Arc<Daemon>>, Extension<Actor>);

/// A body without anything in it.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

pub async fn refresh((State(daemon), Extension(by)): Asked, _: Input<Nothing>) -> Answer<Steered> {
    steer(&daemon, Verb::Refresh, by, None).await
}

pub async fn drain((State(daemon), Extension(by)): Asked, _: Input<Nothing>) -> Answer<Steered> {
    steer(&daemon, Verb::Drain, by, None).await
}

pub async fn pause((State(daemon), Extension(by)): Asked, which: Input<WhichIssue>) -> Answer<Steered> {
    let issue = which.0.issue_id;
    let verb = Verb::Pause { issue: issue.clone() };
    steer(&daemon, verb, by, issue).await
}

pub async fn resume((State(daemon), Extension(by)): Asked, which: Input<WhichIssue>) -> Answer<Steered> {
    let issue = which.0.issue_id;
    let verb = Verb::Continue { issue: issue.clone() };
    steer(&daemon, verb, by, issue).await
}

pub async fn cancel(
    (State(daemon), Extension(by)): Asked,
    IssueInPath(issue): IssueInPath,
    _: Input<Nothing>,
) -> Answer<Steered> {
    let verb = Verb::Cancel { issue: issue.clone() };
    steer(&daemon, verb, by, Some(issue)).await
}

pub async fn unpark(
    (State(daemon), Extension(by)): Asked,
    IssueInPath(issue): IssueInPath,
    wish: Input<Unpark>,
) -> Answer<Steered> {
    let verb = Verb::Unpark {
        issue: issue.clone(),
        attempts: wish.0.attempts,
    };
    steer(&daemon, verb, by, Some(issue)).await
}

pub async fn approve(asked: Asked, issue: IssueInPath, opinion: Input<ApprovalDecision>) -> Answer<Steered> {
    answer(asked, issue, opinion, |message| approval::Answer::Approve {
        message,
    })
    .await
}

pub async fn deny(asked: Asked, issue: IssueInPath, opinion: Input<ApprovalDecision>) -> Answer<Steered> {
    answer(asked, issue, opinion, approval::Answer::denied).await
}

async fn answer(
    (State(daemon), Extension(by)): Asked,
    IssueInPath(issue): IssueInPath,
    opinion: Input<ApprovalDecision>,
    say: impl FnOnce(Option<String>) -> approval::Answer,
) -> Answer<Steered> {
    let ApprovalDecision {
        stage,
        request,
        message,
    } = opinion.0;
    let verb = Verb::Answer {
        issue: issue.clone(),
        stage,
        request,
        answer: say(message.filter(|message| !message.trim().is_empty())),
    };
    steer(&daemon, verb, by, Some(issue)).await
}

async fn steer(daemon: &Daemon, verb: Verb, by: Actor, issue: Option<IssueId>) -> Answer<Steered> {
    let done = |count, nothing| Ok(Json(Steered { count, nothing }));
    let response = daemon.ask(verb, by).await?;
    // What was seen before is not what is now.
    daemon.forget_status().await;
    match response {
        Response::Done { count } => done(count, None),
        Response::Accepted => done(0, None),
        Response::Nothing { why } => done(0, Some(why)),
        Response::NotFound => Err(Refusal::unknown_issue(&issue.unwrap_or_else(|| "".into()))),
        _ => Err(Refusal::nonsense()),
    }
}
