//! Requests to a server with a token.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, Url};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use vik_base::report::one_line;

use super::{items, low_limit, refusal, requested_wait};
use crate::protocol::CallError;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How many items of a list are asked for at once.
const PAGE: usize = 100;
/// The most bytes of a response.
const MAX_RESPONSE: usize = 32 * 1024 * 1024;

/// Where a server is, and the token for it.
#[derive(Clone)]
pub struct Access {
    /// The address of the server, without the path of its API.
    pub url: String,
    pub token: String,
    /// Permits `http` to another machine, although everybody on the way can read the token.
    pub insecure_http: bool,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("url", &self.url)
            .field("insecure_http", &self.insecure_http)
            .finish_non_exhaustive()
    }
}

/// The names that a tracker has for its server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    /// The name of the tracker.
    pub(crate) tracker: &'static str,
    /// The header with the token, in lower case.
    pub(crate) header: &'static str,
    /// The variable with the token.
    pub(crate) variable: &'static str,
}

/// A server that answers with JSON.
#[derive(Debug)]
pub(crate) struct Server {
    names: Names,
    /// Without a slash at the end.
    base: String,
    client: reqwest::Client,
    runtime: Runtime,
    token: HeaderValue,
    timeout: Duration,
    warning: OnceLock<String>,
}

impl Server {
    /// Creates the client; sends nothing yet.
    ///
    /// # Errors
    /// When the address or the token is invalid, or the token would be sent without encryption.
    pub(crate) fn new(names: Names, access: &Access) -> Result<Self, CallError> {
        let url = check_url(names, access)?;
        let mut token = HeaderValue::from_str(access.token.trim())
            .ok()
            .filter(|token| !token.is_empty())
            .ok_or_else(|| {
                CallError::Failed(format!(
                    "the variable {} must hold the token for {}",
                    names.variable, names.tracker
                ))
            })?;
        token.set_sensitive(true);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CallError::Failed(format!("cannot start a runtime: {error}")))?;
        Ok(Self {
            names,
            client: vik_http::client(&url).map_err(CallError::Failed)?,
            base: url.as_str().trim_end_matches('/').to_owned(),
            runtime,
            token,
            timeout: TIMEOUT,
            warning: OnceLock::new(),
        })
    }

    /// Returns the address of a page for people.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Returns the first warning about a limit.
    pub(crate) fn warning(&self) -> Option<&str> {
        self.warning.get().map(String::as_str)
    }

    /// Reads one value. `path` begins with a slash, and its parts are encoded.
    pub(crate) fn get(&self, path: &str) -> Result<Value, CallError> {
        Ok(self.exchange(Method::GET, path, None)?.1)
    }

    /// Reads all pages of a list.
    pub(crate) fn get_all(&self, path: &str) -> Result<Vec<Value>, CallError> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut found = Vec::new();
        let mut page: u64 = 1;
        loop {
            let path = format!("{path}{separator}per_page={PAGE}&page={page}");
            let (headers, body) = self.exchange(Method::GET, &path, None)?;
            let Value::Array(items) = body else {
                return Err(CallError::Failed(format!("{} sent no list", self.names.tracker)));
            };
            let next = match header(&headers, "x-next-page") {
                Some(next) => next.trim().parse().ok(),
                None => (items.len() >= PAGE).then_some(page + 1),
            };
            // A list without pages is the same for each of them.
            if page > 1 && items.last() == found.last() {
                return Ok(found);
            }
            found.extend(items);
            match next {
                Some(next) if next > page => page = next,
                _ => return Ok(found),
            }
        }
    }

    /// Sends a request with JSON, and returns that of the response; null if there is none.
    pub(crate) fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, CallError> {
        Ok(self.exchange(method, path, Some(body))?.1)
    }

    fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(HeaderMap, Value), CallError> {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.base))
            .timeout(self.timeout)
            .header(ACCEPT, "application/json")
            .header(self.names.header, self.token.clone());
        if let Some(body) = body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        self.runtime.block_on(async {
            let mut response = request.send().await.map_err(|error| self.no_response(error))?;
            let status = response.status().as_u16();
            let headers = response.headers().clone();
            if let Some(warning) = low_limit(self.names.tracker, |name| header(&headers, name)) {
                let _ = self.warning.set(warning);
            }
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| self.no_response(error))? {
                if bytes.len() + chunk.len() > MAX_RESPONSE {
                    let reason = format!("{} sent more than {MAX_RESPONSE} bytes", self.names.tracker);
                    return Err(CallError::Failed(reason));
                }
                bytes.extend_from_slice(&chunk);
            }
            let body = self.read(status, &headers, &bytes)?;
            Ok((headers, body))
        })
    }

    /// Returns the error of a request without a complete response. It can be repeated.
    fn no_response(&self, error: reqwest::Error) -> CallError {
        let cause = vik_http::failure_message(&error.without_url());
        self.later(&format!("{} did not answer: {cause}", self.names.tracker))
    }

    fn later(&self, reason: &str) -> CallError {
        CallError::Later {
            reason: self.without_token(reason),
            wait: Duration::ZERO,
        }
    }

    fn read(&self, status: u16, headers: &HeaderMap, bytes: &[u8]) -> Result<Value, CallError> {
        let tracker = self.names.tracker;
        if (200..300).contains(&status) {
            let text = bytes.trim_ascii();
            return match serde_json::from_slice(text) {
                Ok(body) => Ok(body),
                Err(_) if text.is_empty() => Ok(Value::Null),
                Err(error) if error.is_eof() => {
                    Err(self.later(&format!("{tracker} sent an incomplete response")))
                }
                Err(_) => Err(CallError::Failed(format!(
                    "{tracker} did not send JSON: is the URL right?"
                ))),
            };
        }
        let mut reason = format!("{tracker} answered with status {status}");
        let detail = match status {
            300..400 => {
                let target = header(headers, LOCATION.as_str()).unwrap_or_default();
                let target = target.split(['?', '#']).next().unwrap_or_default();
                format!(": redirects are not followed, correct the URL; it redirects to {target}")
            }
            _ => message(bytes),
        };
        reason.push_str(&one_line(&detail, 300));
        let wait = requested_wait(|name| header(headers, name), Timestamp::now());
        let variable = self.names.variable;
        match status {
            401 => reason.push_str(&format!("; {variable} must hold a valid token")),
            403 if wait.is_none() => reason.push_str(&format!(
                "; the account of the token in {variable} lacks a permission, or the API is not enabled"
            )),
            _ => {}
        }
        Err(refusal(status, self.without_token(&reason), wait))
    }

    /// Returns a text without the token: a response may repeat what was sent.
    fn without_token(&self, text: &str) -> String {
        match self.token.to_str() {
            Ok(token) => text.replace(token, "[REDACTED]"),
            Err(_) => text.to_owned(),
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the message in the body of an error, after a colon; empty if there is none.
fn message(bytes: &[u8]) -> String {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let errors: Vec<String> = items(&body["errors"]).iter().map(text).collect();
    let found = ["message", "error_description", "error"].map(|name| &body[name]);
    let found = found.into_iter().find(|value| !value.is_null()).map(text);
    match found {
        Some(message) => format!(": {message}"),
        None if errors.is_empty() => String::new(),
        None => format!(": {}", errors.join("; ")),
    }
}

/// Returns the address of a server. It must not have parts that would be lost or printed.
fn check_url(names: Names, access: &Access) -> Result<Url, CallError> {
    let invalid = |problem: &str| CallError::Usage(format!("the URL of {} {problem}", names.tracker));
    let url = Url::parse(access.url.trim()).map_err(|error| invalid(&format!("is invalid: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(&format!(
            "must not contain a password: set {} instead",
            names.variable
        )));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("must end with its path"));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if access.insecure_http || vik_http::is_loopback(&url) => Ok(url),
        "http" => Err(invalid(
            "is not encrypted, so that others could read the token: use https, or permit it with `--insecure-http`",
        )),
        _ => Err(invalid("does not begin with https://")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names {
        tracker: "Test",
        header: "x-token",
        variable: "TEST_TOKEN",
    };

    fn server(url: &str, token: &str) -> Result<Server, CallError> {
        let access = Access {
            url: url.to_owned(),
            token: token.to_owned(),
            insecure_http: false,
        };
        Server::new(NAMES, &access)
    }

    #[test]
    fn token_is_sent_in_clear_only_on_this_machine_or_if_permitted() {
        for url in [
            "http://127.0.0.1:1",
            "http://localhost/redmine/",
            "http://[::1]:80",
        ] {
            assert!(server(url, "t").is_ok(), "{url}");
        }
        let url = "http://tracker.example";
        let error = server(url, "t").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--insecure-http"), "{error}");
        let permitted = Access {
            url: url.to_owned(),
            token: "t".to_owned(),
            insecure_http: true,
        };
        assert!(Server::new(NAMES, &permitted).is_ok());
    }

    #[test]
    fn invalid_addresses_and_tokens_are_refused_without_printing_them() {
        for url in [
            "",
            "tracker.example",
            "ftp://127.0.0.1",
            "http://ann:secret@127.0.0.1",
            "http://127.0.0.1/?key=secret",
            "http://127.0.0.1/#secret",
        ] {
            let error = server(url, "t").unwrap_err();
            assert_eq!(error.exit_code(), 2, "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        for token in ["", "  ", "secret\nx"] {
            let error = server("http://127.0.0.1", token).unwrap_err();
            assert_eq!(
                error,
                CallError::Failed("the variable TEST_TOKEN must hold the token for Test".to_owned())
            );
        }
        let server = server("http://127.0.0.1", "secret").unwrap();
        assert!(!format!("{server:?}").contains("secret"), "{server:?}");
    }

    #[test]
    fn server_that_does_not_answer_can_be_tried_later() {
        // Connections are accepted by the system, and nobody reads them.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/below/", listener.local_addr().unwrap());
        let mut server = server(&url, "secret").unwrap();
        assert_eq!(server.page("/issues/1"), format!("{url}issues/1"));
        server.timeout = Duration::from_millis(1);
        assert_eq!(
            server.get("/a").unwrap_err(),
            CallError::Later {
                reason: "Test did not answer: no response in time".to_owned(),
                wait: Duration::ZERO,
            }
        );
    }

    #[test]
    fn messages_of_errors_are_found() {
        for (body, expected) in [
            (r#"{"errors": ["a", "b"]}"#, ": a; b"),
            (r#"{"message": "a"}"#, ": a"),
            (
                r#"{"message": {"title": ["is too long"]}}"#,
                r#": {"title":["is too long"]}"#,
            ),
            (r#"{"error": "x", "error_description": "a"}"#, ": a"),
            ("<html>", ""),
            ("[1]", ""),
            ("", ""),
        ] {
            assert_eq!(message(body.as_bytes()), expected);
        }
    }
}
