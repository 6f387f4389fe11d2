//! Requests that control the daemon. The loop decides each request and commits it with its actor
//! before the response is sent.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use vik_api::{ApprovalDecision, Response, Retry, Steered, Verb, WhichIssue};
use vik_core::approval;
use vik_core::ids::IssueId;
use vik_core::scheduler::Actor;

use super::answer::{Answer, Input, IssueInPath, Json, Refusal};
use super::read::Daemon;

type Caller = (State<Arc<Daemon>>, Extension<Actor>);

/// An empty body.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

pub async fn refresh((State(daemon), Extension(by)): Caller, _: Input<Nothing>) -> Answer<Steered> {
    steer(&daemon, Verb::Refresh, by, None).await
}

pub async fn drain((State(daemon), Extension(by)): Caller, _: Input<Nothing>) -> Answer<Steered> {
    steer(&daemon, Verb::Drain, by, None).await
}

pub async fn pause((State(daemon), Extension(by)): Caller, input: Input<WhichIssue>) -> Answer<Steered> {
    let issue = input.0.issue_id;
    let verb = Verb::Pause { issue: issue.clone() };
    steer(&daemon, verb, by, issue).await
}

pub async fn resume((State(daemon), Extension(by)): Caller, input: Input<WhichIssue>) -> Answer<Steered> {
    let issue = input.0.issue_id;
    let verb = Verb::Resume { issue: issue.clone() };
    steer(&daemon, verb, by, issue).await
}

pub async fn cancel(
    (State(daemon), Extension(by)): Caller,
    IssueInPath(issue): IssueInPath,
    _: Input<Nothing>,
) -> Answer<Steered> {
    let verb = Verb::Cancel { issue: issue.clone() };
    steer(&daemon, verb, by, Some(issue)).await
}

pub async fn retry(
    (State(daemon), Extension(by)): Caller,
    IssueInPath(issue): IssueInPath,
    input: Input<Retry>,
) -> Answer<Steered> {
    let Retry { stage, attempts } = input.0;
    let verb = Verb::Retry {
        issue: issue.clone(),
        stage,
        attempts,
    };
    steer(&daemon, verb, by, Some(issue)).await
}

pub async fn approve(
    caller: Caller,
    issue: IssueInPath,
    decision: Input<ApprovalDecision>,
) -> Answer<Steered> {
    answer(caller, issue, decision, |message| approval::Answer::Approve {
        message,
    })
    .await
}

pub async fn deny(caller: Caller, issue: IssueInPath, decision: Input<ApprovalDecision>) -> Answer<Steered> {
    answer(caller, issue, decision, approval::Answer::denied).await
}

async fn answer(
    (State(daemon), Extension(by)): Caller,
    IssueInPath(issue): IssueInPath,
    decision: Input<ApprovalDecision>,
    to_answer: impl FnOnce(Option<String>) -> approval::Answer,
) -> Answer<Steered> {
    let ApprovalDecision {
        stage,
        request,
        message,
    } = decision.0;
    let verb = Verb::Answer {
        issue: issue.clone(),
        stage,
        request,
        answer: to_answer(message.filter(|message| !message.trim().is_empty())),
    };
    steer(&daemon, verb, by, Some(issue)).await
}

async fn steer(daemon: &Daemon, verb: Verb, by: Actor, issue: Option<IssueId>) -> Answer<Steered> {
    let done = |count, nothing| Ok(Json(Steered { count, nothing }));
    let response = daemon.ask(verb, by).await?;
    // The shared status is out of date.
    daemon.forget_status().await;
    match response {
        Response::Done { count } => done(count, None),
        Response::Accepted => done(0, None),
        Response::Nothing { why } => done(0, Some(why)),
        Response::NotFound => Err(Refusal::unknown_issue(&issue.unwrap_or_else(|| "".into()))),
        _ => Err(Refusal::unexpected_response()),
    }
}
