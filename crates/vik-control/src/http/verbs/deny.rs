//! `vik deny`

use axum::routing::post;
use vik_api::{ApprovalDecision, Steered};
use vik_core::approval;

use super::{Caller, answer};
use crate::http::answer::{Answer, Input, IssueInPath};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<ApprovalDecision>(
        "/issues/{id}/deny",
        "Deny a pending request; a message says what to do instead",
        post(deny),
    )
}

async fn deny(caller: Caller, issue: IssueInPath, decision: Input<ApprovalDecision>) -> Answer<Steered> {
    answer(caller, issue, decision, approval::Answer::denied).await
}
