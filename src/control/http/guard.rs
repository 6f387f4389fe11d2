//! Who is let in, and what is never answered: another site's page, a name that was bent to point here, an agent.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use vik_core::scheduler::By;

use super::answer::Refusal;
use super::door::Door;
use super::keys::Keys;
use super::pages;

/// The name of the cookie. Cookies know no ports: each daemon of a host has its own.
pub fn cookie_name(port: u16) -> String {
    format!("vik_{port}")
}

/// Looks at each request before anything else does.
pub async fn guard(State(keys): State<Arc<Keys>>, mut request: Request, next: Next) -> Response {
    let door = request.extensions().get::<Door>().cloned();
    let by = match &door {
        // The socket lies in a folder of the user's own, and agents were turned away when they connected.
        Some(Door::Socket { pid }) => By::way(&format!("control socket, pid {pid}")),
        Some(Door::Tcp { peer, port }) => {
            if let Err(refusal) = same_place(request.headers()) {
                return refusal.into_response();
            }
            if request.uri().path() == pages::LOGIN {
                return pages::login(&keys, request.uri().query().unwrap_or(""), *port);
            }
            match who(&keys, request.method(), request.headers(), *port) {
                Ok(who) => By::way(&format!("{who}, {peer}")),
                Err(_) if pages::is_page(request.uri().path()) => return pages::locked(),
                Err(refusal) => return refusal.into_response(),
            }
        }
        None => return Refusal::new(StatusCode::FORBIDDEN, "refused", "unknown way in").into_response(),
    };
    request.extensions_mut().insert(by);
    next.run(request).await
}

/// A page of another site can neither name this place as its own nor make the browser speak for it.
fn same_place(headers: &HeaderMap) -> Result<(), Refusal> {
    let host = text(headers, header::HOST).unwrap_or("");
    if !is_own_name(host) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "host",
            "the Host header is no address of this machine",
        )
        .hint("use the address that `vik status` prints"));
    }
    let cross = Refusal::new(
        StatusCode::FORBIDDEN,
        "origin",
        "the request comes from another site",
    );
    match text(headers, header::ORIGIN) {
        None if headers.contains_key(header::ORIGIN) => return Err(cross),
        Some(origin) if origin.strip_prefix("http://").or(origin.strip_prefix("https://")) != Some(host) => {
            return Err(cross);
        }
        None | Some(_) => {}
    }
    match text(headers, header::HeaderName::from_static("sec-fetch-site")) {
        Some("cross-site" | "same-site") if !is_navigation(headers) => Err(cross),
        _ => Ok(()),
    }
}

/// A person who follows a link to here.
fn is_navigation(headers: &HeaderMap) -> bool {
    text(headers, header::HeaderName::from_static("sec-fetch-mode")) == Some("navigate")
        && text(headers, header::HeaderName::from_static("sec-fetch-dest")) == Some("document")
}

/// An IP address, or `localhost`: a name that somebody else's DNS answers for is none of ours.
fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Who asks, by token or by cookie.
fn who(keys: &Keys, method: &Method, headers: &HeaderMap, port: u16) -> Result<&'static str, Refusal> {
    let refused = || {
        Refusal::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "a token is needed: `Authorization: Bearer …`",
        )
        .hint("`vik status` prints a link for the browser; a program sends what VIK_API_TOKEN has, else `api.token` of the instance folder")
    };
    if let Some(given) = headers.get(header::AUTHORIZATION) {
        let token = given
            .to_str()
            .ok()
            .and_then(|given| given.strip_prefix("Bearer "));
        return match token {
            Some(token) if keys.is_token(token.trim()) => Ok("API token"),
            _ => Err(refused()),
        };
    }
    let name = cookie_name(port);
    let signed_in = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .any(|(key, value)| key == name && keys.is_cookie(value, Timestamp::now()));
    if !signed_in {
        return Err(refused());
    }
    // A browser tells where a post comes from; one that does not is not trusted with a cookie.
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if !reads && !headers.contains_key(header::ORIGIN) {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "origin",
            "the request does not tell where it comes from",
        ));
    }
    Ok("dashboard")
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_our_names() {
        for own in [
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost:1",
            "LOCALHOST",
            "[::1]:8080",
            "[::1]",
            "10.1.2.3:4",
        ] {
            assert!(is_own_name(own), "{own}");
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
            assert!(!is_own_name(other), "{other}");
        }
    }
}
