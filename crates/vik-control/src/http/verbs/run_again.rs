//! Running a stage again whose run has ended.

use axum::routing::post;
use vik_api::{Action, RunAgain, Steered};

use super::{Caller, act};
use crate::http::answer::{Answer, Input, IssueInPath};
use crate::http::route::{Route, TRACKER_TIMEOUT};

pub fn route() -> Route {
    Route::post::<RunAgain>(
        "/issues/{id}/run-again",
        "Move the issue back to the state of a stage in the tracker, so that the stage runs again",
        post(run_again),
    )
    .within(TRACKER_TIMEOUT)
}

async fn run_again(
    caller: Caller,
    IssueInPath(issue): IssueInPath,
    Input(body): Input<RunAgain>,
) -> Answer<Steered> {
    let stage = body.stage;
    act(caller, Action::RunAgain { issue, stage }).await
}
