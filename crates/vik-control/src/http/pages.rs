//! The dashboard: files that are embedded in the program.

use std::path::Path;

use axum::extract::{self, Request};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use vik_base::report::ErrorCode;

use super::answer::Refusal;

/// The path of the link that `vik status` prints.
pub const LOGIN: &str = "/login";

/// The content security policy: nothing is loaded from elsewhere, no text becomes code, and no
/// other page can frame a page of the dashboard.
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
    "address.js",
    "api.js",
    "app.css",
    "app.js",
    "attempts.js",
    "board.js",
    "board_rows.js",
    "board_stages.js",
    "daemon_pages.js",
    "dom.js",
    "event_kinds.js",
    "event_search.js",
    "event_store.js",
    "event_view.js",
    "evidence.js",
    "feed.js",
    "format.js",
    "heights.js",
    "hidden_characters.js",
    "history.js",
    "icon.svg",
    "index.html",
    "issue.js",
    "issue_about.js",
    "keys.js",
    "log_page.js",
    "messages.js",
    "plots.js",
    "prose.js",
    "report.js",
    "search_view.js",
    "session.js",
    "sign_in.js",
    "sign_in_page.js",
    "sign_ins.js",
    "sse.js",
    "steer.js",
    "store.js",
    "text.js",
    "theme.js",
    "transcript.js",
    "ui.js",
    "visible.js",
];

/// The paths of the pages, beside those of an issue and a session. All are served by [`index`].
pub const PAGES: [&str; 8] = [
    "/",
    "/history",
    "/report",
    "/workflow",
    "/log",
    "/pulls",
    "/sign-ins",
    LOGIN,
];

/// Returns whether a request needs no token: the embedded pages and files hold no data of the
/// daemon. A browser loads them without a token, and they request their data with one.
pub fn is_public(request: &Request) -> bool {
    let path = request.uri().path();
    matches!(*request.method(), Method::GET | Method::HEAD)
        && (path == "/favicon.ico"
            || PAGES.contains(&path)
            || is_opened_by_browser(request)
            || ["/assets/", "/issues/", "/sessions/"]
                .iter()
                .any(|prefix| path.starts_with(prefix)))
}

/// The paths of the API and of its probes, whose answers are never pages.
const API: [&str; 4] = ["/api/", "/metrics", "/healthz", "/readyz"];

/// Returns whether a person opens an address outside of the API.
pub fn is_opened_by_browser(request: &Request) -> bool {
    let path = request.uri().path();
    let accept = request.headers().get(header::ACCEPT);
    matches!(*request.method(), Method::GET | Method::HEAD)
        && !API.iter().any(|prefix| path.starts_with(prefix))
        && accept
            .and_then(|types| types.to_str().ok())
            .is_some_and(|types| types.split(',').any(|kind| kind.trim().starts_with("text/html")))
}

/// Serves the icon of the dashboard.
pub async fn icon() -> Response {
    asset("icon.svg")
}

/// Serves the only page of the dashboard; its script reads the address.
pub async fn index() -> Response {
    asset("index.html")
}

/// Serves an embedded file.
pub async fn file(extract::Path(name): extract::Path<String>) -> Response {
    asset(&name)
}

fn asset(name: &str) -> Response {
    let Some((_, bytes)) = ASSETS.iter().find(|(known, _)| *known == name) else {
        return Refusal::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, "no such file").into_response();
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

/// Adds the security headers to every response.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use vik_core::event::EventKind;

    #[test]
    fn each_kind_of_event_has_a_view() {
        let script = include_str!("../web/event_view.js");
        let (_, views) = script.split_once("const BODIES = {\n").unwrap();
        let (views, _) = views.split_once("\n};\n").unwrap();
        let seen: BTreeSet<_> = views
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.split_once(':'))
            .map(|(name, _)| name)
            .filter(|name| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()))
            .collect();
        assert_eq!(seen, EventKind::ALL.iter().map(|kind| kind.as_str()).collect());
    }
}
