//! `vik handback`

use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use vik_api::{Action, HandBack, Steered};
use vik_core::message::check_optional_text;
use vik_orchestrator::api_view;

use super::{Caller, MAX_TEXT_BODY, act};
use crate::http::answer::{Answer, Input, IssueInPath, Refusal};
use crate::http::route::{Route, TRACKER_TIMEOUT};

pub fn route() -> Route {
    Route::post::<HandBack>(
        "/issues/{id}/hand-back",
        "End a person's hold on the issue: record what they changed, and pass it to the next attempt",
        post(hand_back).layer(DefaultBodyLimit::max(MAX_TEXT_BODY)),
    )
    .within(TRACKER_TIMEOUT)
}

async fn hand_back(
    caller: Caller,
    IssueInPath(issue): IssueInPath,
    Input(body): Input<HandBack>,
) -> Answer<Steered> {
    let message = check_optional_text(body.message)
        .map_err(|refusal| Refusal::from(api_view::message_refused(&refusal)))?;
    act(caller, Action::HandBack { issue, message }).await
}
