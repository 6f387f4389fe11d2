//! `vik pause`

use axum::routing::post;
use vik_api::{Steered, WhichIssue};
use vik_core::scheduler::Command;

use super::{Caller, act};
use crate::http::answer::{Answer, Input};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<WhichIssue>(
        "/pause",
        "Pause scheduling for one issue or for all; running attempts continue",
        post(pause),
    )
    .may_be_unknown()
}

async fn pause(caller: Caller, Input(which): Input<WhichIssue>) -> Answer<Steered> {
    act(caller, Command::Pause(which.issue_id)).await
}
