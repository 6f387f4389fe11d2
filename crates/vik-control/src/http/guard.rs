//! Admits requests. It refuses pages of other sites, names that point here by DNS rebinding, and
//! agents.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use vik_base::clock;
use vik_base::report::ErrorCode;
use vik_core::scheduler::Actor;

use super::answer::Refusal;
use super::keys::Keys;
use super::pages;
use super::sign_ins::SignInRef;
use super::signing::SIGN_IN;
use super::tcp::Token;
use super::transport::Transport;

/// What the guard admits over TCP.
pub struct Admission {
    pub keys: Arc<Keys>,
    /// The host names, in lower case, that requests may use beside addresses and `localhost`.
    pub names: Vec<String>,
}

/// Checks each request before any handler.
pub async fn guard(State(admission): State<Arc<Admission>>, mut request: Request, next: Next) -> Response {
    let transport = request.extensions().get::<Transport>().cloned();
    let by = match &transport {
        // The socket is in a folder of the user, and agents are refused when they connect.
        Some(Transport::Socket { pid }) => {
            let is_vik = text(request.headers(), header::USER_AGENT)
                .is_some_and(|program| program.starts_with("vik/"));
            let via = if is_vik { "command line" } else { "control socket" };
            Actor::person(&format!("{via}, pid {pid}"))
        }
        Some(Transport::Tcp(connection)) => {
            if let Err(refusal) = check_origin(request.headers(), &admission.names) {
                return refusal.into_response();
            }
            if pages::is_public(&request) {
                let old = old_cookie(request.headers(), connection.port());
                return remove_cookie(next.run(request).await, old);
            }
            // The handler checks the code of a link instead of a token.
            if request.method() == Method::POST && request.uri().path() == SIGN_IN {
                return next.run(request).await;
            }
            let peer = connection.peer();
            let Some(credential) = credential(&admission.keys, request.headers(), peer) else {
                return unauthorized().into_response();
            };
            let token = match credential {
                Credential::ApiToken => Token::Api,
                Credential::SignIn(_) => Token::SignIn,
            };
            if let Err(refusal) = connection.admit(token).await {
                return refusal.closing();
            }
            match credential {
                Credential::ApiToken => Actor::person(&format!("API token, {peer}")),
                Credential::SignIn(sign_in) => {
                    request.extensions_mut().insert(sign_in);
                    Actor::person(&format!("dashboard, {peer}"))
                }
            }
        }
        // Those have no connection, and no guard.
        Some(Transport::Forwarded(_)) | None => {
            return Refusal::new(StatusCode::FORBIDDEN, ErrorCode::Refused, "unknown origin").into_response();
        }
    };
    request.extensions_mut().insert(by);
    next.run(request).await
}

/// Returns the name of the cookie of earlier Vik versions if the browser still sends it. The cookie
/// grants nothing: a browser sends it to every port of the host, so pages keep sign-ins now.
fn old_cookie(headers: &HeaderMap, port: u16) -> Option<String> {
    let name = format!("vik_{port}");
    let found = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .any(|pair| pair.trim().split_once('=').is_some_and(|(key, _)| key == name));
    found.then_some(name)
}

fn remove_cookie(mut response: Response, name: Option<String>) -> Response {
    let cookie = name.map(|name| format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"));
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Refuses requests to a host name that is not this machine's, and requests that a page of another
/// site makes.
fn check_origin(headers: &HeaderMap, names: &[String]) -> Result<(), Refusal> {
    let host = text(headers, header::HOST).unwrap_or("");
    if !is_own_name(host, names) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            ErrorCode::Host,
            "the Host header is neither an address of this machine nor one of `http.names`",
        )
        .hint("use the address that `vik status` prints, or add the name to `http.names` in the workflow"));
    }
    let cross_site = Refusal::new(
        StatusCode::FORBIDDEN,
        ErrorCode::Origin,
        "the request comes from another website",
    );
    match text(headers, header::ORIGIN) {
        None if headers.contains_key(header::ORIGIN) => return Err(cross_site),
        Some(origin) if origin.strip_prefix("http://").or(origin.strip_prefix("https://")) != Some(host) => {
            return Err(cross_site);
        }
        None | Some(_) => {}
    }
    match text(headers, header::HeaderName::from_static("sec-fetch-site")) {
        Some("cross-site" | "same-site") if !is_navigation(headers) => Err(cross_site),
        _ => Ok(()),
    }
}

/// Returns whether a person follows a link to this server.
fn is_navigation(headers: &HeaderMap) -> bool {
    text(headers, header::HeaderName::from_static("sec-fetch-mode")) == Some("navigate")
        && text(headers, header::HeaderName::from_static("sec-fetch-dest")) == Some("document")
}

/// Returns whether the host is an IP address, `localhost` or one of `names`. Any other name could be
/// resolved by somebody else's DNS server.
fn is_own_name(host: &str, names: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok()
        || names.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// The credential in `Authorization`. No other header counts: browsers never send this one by
/// themselves.
enum Credential {
    ApiToken,
    SignIn(SignInRef),
}

fn credential(keys: &Keys, headers: &HeaderMap, peer: IpAddr) -> Option<Credential> {
    let token = text(headers, header::AUTHORIZATION)?
        .strip_prefix("Bearer ")?
        .trim();
    if keys.is_token(token) {
        return Some(Credential::ApiToken);
    }
    let found = keys.sign_ins().find(token, peer, clock::now());
    found.map(Credential::SignIn)
}

fn unauthorized() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        ErrorCode::Unauthorized,
        "missing or invalid token: send `Authorization: Bearer …`",
    )
    .hint("`vik status` prints a link for the browser; a program sends the value of VIK_API_TOKEN or of the file `api.token` in the instance folder")
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_are_addresses_and_localhost_only() {
        for own in [
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost:1",
            "LOCALHOST",
            "[::1]:8080",
            "[::1]",
            "10.1.2.3:4",
        ] {
            assert!(is_own_name(own, &[]), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "127.0.0.1:80:evil",
            "user@127.0.0.1",
            "[::1].evil",
        ] {
            assert!(!is_own_name(other, &[]), "{other}");
        }
    }

    #[test]
    fn names_of_the_workflow_are_accepted_as_a_whole() {
        let names = ["vik.example.com".to_owned()];
        for own in ["vik.example.com", "VIK.example.com:8443", "127.0.0.1"] {
            assert!(is_own_name(own, &names), "{own}");
        }
        for other in [
            "example.com",
            "a.vik.example.com",
            "vik.example.com.evil.example",
            "vik.example.com.",
            "[vik.example.com]",
            "vik.example.com:80:1",
        ] {
            assert!(!is_own_name(other, &names), "{other}");
        }
    }
}
