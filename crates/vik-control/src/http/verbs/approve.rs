//! `vik approve`

use axum::routing::post;
use vik_api::{ApprovalDecision, Steered};
use vik_core::approval;

use super::{Caller, answer};
use crate::http::answer::{Answer, Input, IssueInPath};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<ApprovalDecision>("/issues/{id}/approve", "Approve a pending request", post(approve))
}

async fn approve(caller: Caller, issue: IssueInPath, decision: Input<ApprovalDecision>) -> Answer<Steered> {
    answer(caller, issue, decision, |message| approval::Answer::Approve {
        message,
    })
    .await
}
