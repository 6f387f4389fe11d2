//! `vik cancel`

use axum::routing::post;
use vik_api::Steered;
use vik_core::scheduler::Command;

use super::{Caller, act};
use crate::http::answer::{Answer, EmptyBody, Input, IssueInPath};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<EmptyBody>(
        "/issues/{id}/cancel",
        "Stop the running attempts of the issue, and park it",
        post(cancel),
    )
}

async fn cancel(caller: Caller, IssueInPath(issue): IssueInPath, _: Input<EmptyBody>) -> Answer<Steered> {
    act(caller, Command::Cancel(issue)).await
}
