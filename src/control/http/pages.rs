//! The dashboard: files that are part of the program.

use std::path::Path;

use axum::extract;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;

use super::answer::Refusal;
use super::guard::cookie_name;
use super::keys::Keys;

/// Where the link of `vik status` leads.
pub const LOGIN: &str = "/login";

/// Nothing is loaded from elsewhere, no text becomes code, and no other page can frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../web/", $name)))),*]
    };
}

/// The files by name.
const ASSETS: &[(&str, &[u8])] = assets![
    "api.js",
    "app.css",
    "app.js",
    "attempts.js",
    "board.js",
    "board_rows.js",
    "board_stages.js",
    "dom.js",
    "event_store.js",
    "event_view.js",
    "evidence.js",
    "format.js",
    "heights.js",
    "icon.svg",
    "index.html",
    "issue.js",
    "keys.js",
    "plots.js",
    "report.js",
    "session.js",
    "steer.js",
    "store.js",
    "text.js",
    "theme.js",
    "transcript.js",
    "ui.js",
    "visible.js",
];

/// Whether a path is one that a person's browser shows.
pub fn is_page(path: &str) -> bool {
    !path.starts_with("/api/") && !path.starts_with("/assets/")
}

/// Every page is this one; its script looks at the address.
pub async fn index() -> Response {
    asset("index.html")
}

/// One of the files.
pub async fn file(extract::Path(name): extract::Path<String>) -> Response {
    asset(&name)
}

fn asset(name: &str) -> Response {
    let Some((_, bytes)) = ASSETS.iter().find(|(known, _)| *known == name) else {
        return Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is no such file").into_response();
    };
    let kind = match Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str())
    {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    ([(header::CONTENT_TYPE, kind)], *bytes).into_response()
}

/// What goes with every answer.
pub async fn headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Opens the dashboard for who has the link. It leads on by a page of its own, since a cookie that is only for this place
/// does not travel with a redirect from another.
pub fn login(keys: &Keys, query: &str, port: u16) -> Response {
    let code = query.split('&').find_map(|pair| pair.strip_prefix("code="));
    if !code.is_some_and(|code| keys.redeem(code)) {
        return locked();
    }
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}",
        cookie_name(port),
        keys.cookie(Timestamp::now()),
        Keys::cookie_seconds()
    );
    let page = page(
        "Vik",
        "<meta http-equiv=\"refresh\" content=\"0;url=/\">",
        "<p>Signed in. <a href=\"/\">Go on to the dashboard</a></p>",
    );
    ([(header::SET_COOKIE, cookie)], page).into_response()
}

/// What a browser is shown that is not signed in.
pub fn locked() -> Response {
    let page = page(
        "Vik: sign in",
        "",
        "<h1>Sign in</h1><p>Run <code>vik status</code> on the machine where the daemon runs, and open the link that it \
         prints. Each link works once.</p>",
    );
    (StatusCode::UNAUTHORIZED, page).into_response()
}

fn page(title: &str, head: &str, body: &str) -> impl IntoResponse + use<> {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>{head}</head>\
         <body><main>{body}</main></body></html>"
    );
    axum::response::Html(html)
}
