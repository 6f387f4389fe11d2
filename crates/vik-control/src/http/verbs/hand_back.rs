//! `vik handback`

use axum::http::StatusCode;
use axum::routing::post;
use vik_api::{Action, HandBack, Steered};
use vik_base::report::ErrorCode;
use vik_core::message::MAX_BYTES;

use super::{Caller, act};
use crate::http::answer::{Answer, Input, IssueInPath, Refusal};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<HandBack>(
        "/issues/{id}/hand-back",
        "End a person's hold on the issue: record what they changed, and pass it to the next attempt",
        post(hand_back),
    )
}

async fn hand_back(
    caller: Caller,
    IssueInPath(issue): IssueInPath,
    Input(body): Input<HandBack>,
) -> Answer<Steered> {
    let message = body.message.filter(|message| !message.trim().is_empty());
    if message.as_ref().is_some_and(|message| message.len() > MAX_BYTES) {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            ErrorCode::BadRequest,
            format!("the message is longer than {} KiB", MAX_BYTES / 1024),
        ));
    }
    act(caller, Action::HandBack { issue, message }).await
}
