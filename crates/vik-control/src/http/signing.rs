//! Signing in to the dashboard, and ending sign-ins.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::{Extension, Json as Unmasked};
use vik_api::{SCHEMA, SignIn, SignInsPage, SignedIn, Steered};
use vik_base::clock;
use vik_base::report::{ErrorCode, Failure};

use super::answer::{Answer, Input, Json, Refusal};
use super::read::Daemon;
use super::sign_ins::SignInRef;
use super::steer::Nothing;
use super::tcp::Token;
use super::transport::Transport;

/// Where a browser exchanges the code of its link for a token.
pub const SIGN_IN: &str = "/api/v1/sign-in";

pub async fn sign_in(
    State(daemon): State<Arc<Daemon>>,
    Extension(transport): Extension<Transport>,
    headers: HeaderMap,
    Input(SignIn { code }): Input<SignIn>,
) -> Result<Unmasked<SignedIn>, Refusal> {
    let refused = || {
        Refusal::new(
            StatusCode::UNAUTHORIZED,
            ErrorCode::SignIn,
            "the link was already used, or has expired",
        )
        .hint("`vik status` prints a new one")
    };
    let Transport::Tcp(connection) = transport else {
        return Err(refused());
    };
    // An agent that is refused must not use up a person's link.
    if !daemon.keys.is_link(&code) {
        return Err(refused());
    }
    connection.admit(Token::SignIn).await?;
    if !daemon.keys.redeem(&code) {
        return Err(refused());
    }
    let user_agent = headers.get(header::USER_AGENT).map(|value| value.as_bytes());
    let user_agent = String::from_utf8_lossy(user_agent.unwrap_or_default()).into_owned();
    let address = connection.peer();
    let (token, expires_at) = daemon
        .run_blocking(move |daemon| {
            let sign_in = daemon.keys.sign_ins().create(address, &user_agent, clock::now());
            sign_in
                .map_err(|error| Failure::failed(ErrorCode::SignIn, "cannot save the sign-in", &error).into())
        })
        .await?;
    let id = token.split('.').next().unwrap_or_default().to_owned();
    tracing::info!(id, %address, "a browser signed in to the dashboard");
    // Masking would make the token useless.
    Ok(Unmasked(SignedIn {
        schema: SCHEMA,
        id,
        token,
        expires_at,
    }))
}

pub async fn list(
    State(daemon): State<Arc<Daemon>>,
    current: Option<Extension<SignInRef>>,
) -> Answer<SignInsPage> {
    let mut sign_ins = daemon.keys.sign_ins().list(clock::now());
    for view in &mut sign_ins {
        view.current = current.as_ref().is_some_and(|current| current.id == view.id);
    }
    Ok(Json(SignInsPage {
        schema: SCHEMA,
        sign_ins,
    }))
}

pub async fn revoke(
    State(daemon): State<Arc<Daemon>>,
    Path(id): Path<String>,
    _: Input<Nothing>,
) -> Answer<Steered> {
    let unknown = Refusal::new(StatusCode::NOT_FOUND, ErrorCode::NoSignIn, "no such sign-in")
        .hint("`GET /api/v1/sign-ins` lists all sign-ins");
    let count = daemon
        .run_blocking(move |daemon| {
            let revoked = daemon.keys.sign_ins().revoke(Some(&id), clock::now());
            let revoked = revoked.map_err(|error| {
                Failure::failed(
                    ErrorCode::SignIn,
                    "cannot save the revocation: it applies until the daemon restarts",
                    &error,
                )
            })?;
            if revoked > 0 {
                tracing::info!(id, "a sign-in to the dashboard was revoked");
            }
            Ok(revoked)
        })
        .await?;
    if count == 0 {
        return Err(unknown);
    }
    Ok(Json(Steered { count, nothing: None }))
}
