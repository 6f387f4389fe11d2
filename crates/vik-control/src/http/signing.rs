//! Signing in to the dashboard, and ending sign-ins.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::{Extension, Json as Unmasked};
use vik_api::{Link, SCHEMA, SignIn, SignInsPage, SignedIn, Steered};
use vik_base::clock;
use vik_base::report::{ErrorCode, Failure};

use super::answer::{Answer, EmptyBody, Input, Json, Refusal};
use super::daemon::Daemon;
use super::pages::LOGIN;
use super::sign_ins::SignInRef;
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
    _: Input<EmptyBody>,
) -> Answer<Steered> {
    let unknown = Refusal::new(StatusCode::NOT_FOUND, ErrorCode::NoSignIn, "no such sign-in")
        .hint("`GET /api/v1/sign-ins` lists all sign-ins");
    match revoke_sign_ins(&daemon, Some(id)).await? {
        0 => Err(unknown),
        count => Ok(Json(Steered { count, nothing: None })),
    }
}

pub async fn revoke_all(
    State(daemon): State<Arc<Daemon>>,
    Extension(transport): Extension<Transport>,
    _: Input<EmptyBody>,
) -> Answer<Steered> {
    transport.require_socket()?;
    let count = revoke_sign_ins(&daemon, None).await?;
    Ok(Json(Steered { count, nothing: None }))
}

/// Signs out one browser, or all, and returns their number.
async fn revoke_sign_ins(daemon: &Arc<Daemon>, id: Option<String>) -> Result<usize, Refusal> {
    daemon
        .run_blocking(move |daemon| {
            let revoked = daemon.keys.sign_ins().revoke(id.as_deref(), clock::now());
            let count = revoked.map_err(|error| {
                Failure::failed(
                    ErrorCode::SignIn,
                    "cannot save the revocation: it applies until the daemon restarts",
                    &error,
                )
            })?;
            if count > 0 {
                tracing::info!(id, count, "sign-ins to the dashboard were revoked");
            }
            Ok(count)
        })
        .await
}

/// Creates a link for a browser. Agents must not get one, so it is given on the control socket only.
pub async fn link(
    State(daemon): State<Arc<Daemon>>,
    Extension(transport): Extension<Transport>,
    _: Input<EmptyBody>,
) -> Answer<Link> {
    transport.require_socket()?;
    match &daemon.api {
        Some(api) => Ok(Json(Link {
            url: format!("http://{}{LOGIN}#code={}", api.address, daemon.keys.link()),
        })),
        None => Err(Refusal::new(
            StatusCode::CONFLICT,
            ErrorCode::NoDashboard,
            "HTTP is served on the control socket only",
        )
        .hint("`vik run --port N` serves it on TCP")),
    }
}
