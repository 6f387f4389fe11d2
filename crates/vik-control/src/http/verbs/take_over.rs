//! `vik takeover`

use axum::routing::post;
use vik_api::{Steered, TakeOver};
use vik_core::scheduler::{self, Command};

use super::{Caller, act};
use crate::http::answer::{Answer, Input, IssueInPath};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<TakeOver>(
        "/issues/{id}/take-over",
        "Hold the issue for a person: stop its agent, or let it end, and start nothing until it is handed back",
        post(take_over),
    )
}

async fn take_over(
    caller: Caller,
    IssueInPath(issue): IssueInPath,
    Input(TakeOver { stage, wait }): Input<TakeOver>,
) -> Answer<Steered> {
    let request = scheduler::TakeOver { issue, stage, wait };
    act(caller, Command::TakeOver(request)).await
}
