//! `vik stop`

use axum::Extension;
use axum::routing::post;
use vik_api::{Action, Steered, Stop};

use super::{Caller, act};
use crate::http::answer::{Answer, Input};
use crate::http::route::Route;
use crate::http::transport::Transport;

pub fn route() -> Route {
    Route::post::<Stop>(
        "/stop",
        "Stop the daemon, and its agents unless they are kept; on the control socket only",
        post(stop),
    )
    .local()
}

async fn stop(
    caller: Caller,
    Extension(transport): Extension<Transport>,
    Input(Stop { keep_sessions }): Input<Stop>,
) -> Answer<Steered> {
    transport.require_socket()?;
    act(caller, Action::Stop { keep_sessions }).await
}
