//! `vik retry`

use axum::routing::post;
use vik_api::{Retry, Steered};
use vik_core::scheduler::{Command, RetryRequest};

use super::{Caller, act};
use crate::http::answer::{Answer, Input, IssueInPath};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<Retry>(
        "/issues/{id}/retry",
        "Free the parked stages of the issue, or one of them, so that they can start again",
        post(retry),
    )
}

/// Returns the path of earlier versions.
pub fn former_route() -> Route {
    Route::post::<Retry>(
        "/issues/{id}/unpark",
        "The former path of `/issues/{id}/retry`",
        post(retry),
    )
    .deprecated()
}

async fn retry(
    caller: Caller,
    IssueInPath(issue): IssueInPath,
    Input(body): Input<Retry>,
) -> Answer<Steered> {
    act(
        caller,
        Command::Retry(RetryRequest {
            issue,
            stage: body.stage,
            attempts: body.attempts,
            agent: body.agent,
        }),
    )
    .await
}
