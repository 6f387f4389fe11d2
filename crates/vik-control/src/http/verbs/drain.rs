//! `vik drain`

use axum::routing::post;
use vik_api::Steered;
use vik_core::scheduler::Command;

use super::{Caller, act};
use crate::http::answer::{Answer, EmptyBody, Input};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<EmptyBody>(
        "/drain",
        "Start no more attempts, and exit when none is running",
        post(drain),
    )
    .local()
}

async fn drain(caller: Caller, _: Input<EmptyBody>) -> Answer<Steered> {
    act(caller, Command::Drain).await
}
