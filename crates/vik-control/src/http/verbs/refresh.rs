//! `vik refresh`

use axum::routing::post;
use vik_api::{Action, Steered};

use super::{Caller, act};
use crate::http::answer::{Answer, EmptyBody, Input};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<EmptyBody>(
        "/refresh",
        "Reload the workflow file and pull issues now",
        post(refresh),
    )
}

async fn refresh(caller: Caller, _: Input<EmptyBody>) -> Answer<Steered> {
    act(caller, Action::Refresh).await
}
