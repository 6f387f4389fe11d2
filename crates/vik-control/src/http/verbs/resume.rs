//! `vik resume`

use axum::routing::post;
use vik_api::{Steered, WhichIssue};
use vik_core::scheduler::Command;

use super::{Caller, act};
use crate::http::answer::{Answer, Input};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<WhichIssue>("/resume", "Resume after a pause", post(resume)).may_be_unknown()
}

/// Returns the path of earlier versions.
pub fn former_route() -> Route {
    Route::post::<WhichIssue>("/continue", "The former path of `/resume`", post(resume))
        .may_be_unknown()
        .deprecated()
}

async fn resume(caller: Caller, Input(which): Input<WhichIssue>) -> Answer<Steered> {
    act(caller, Command::Resume(which.issue_id)).await
}
