//! Requests through `gh api`. Its exit code and the HTTP status decide; what it prints for people
//! is not parsed.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use vik_base::report::{one_line, tail_lines};

use crate::http::{DEFAULT_WAIT, low_limit, refusal, requested_wait, string};
use crate::protocol::CallError;
use crate::run::{Command, Finished, find_program, run};

/// How long one request may take, with all its pages.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The most bytes of a response, with all its pages.
const MAX_RESPONSE: usize = 256 * 1024 * 1024;
/// The variables that would make `gh` color its output.
const COLORS: &[&str] = &["CLICOLOR_FORCE", "GH_FORCE_TTY"];
/// The exit code of `gh` if nobody is signed in.
const NOT_SIGNED_IN: i32 = 4;

/// The API of one repository.
#[derive(Clone, Debug)]
pub(super) struct Gh {
    program: PathBuf,
    /// The owner and the name; `gh` replaces placeholders in braces.
    owner: String,
    name: String,
    warning: OnceLock<String>,
}

impl Gh {
    pub(super) fn new(program: &str, repository: Option<&str>) -> Result<Self, CallError> {
        let found = find_program(OsStr::new(program)).ok_or_else(|| {
            CallError::Failed(format!("there is no program `{program}`: install the GitHub CLI"))
        })?;
        let is_plain = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !part.is_empty() && !part.starts_with(['.', '-']) && part.bytes().all(plain)
        };
        let (owner, name) = match repository {
            None => ("{owner}", "{repo}"),
            Some(repository) => repository
                .split_once('/')
                .filter(|(owner, name)| is_plain(owner) && is_plain(name))
                .ok_or_else(|| CallError::Usage(format!("{repository:?} is not OWNER/NAME")))?,
        };
        Ok(Self {
            program: found,
            owner: owner.to_owned(),
            name: name.to_owned(),
            warning: OnceLock::new(),
        })
    }

    /// Returns the owner, for a query.
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// Reads one object; `path` is below the repository.
    pub(super) fn get(&self, path: &str) -> Result<Value, CallError> {
        self.send("GET", path, &Value::Null)
    }

    /// Reads all pages of a list.
    pub(super) fn get_all(&self, path: &str) -> Result<Vec<Value>, CallError> {
        let pages = self.pages(path)?;
        let items = pages.into_iter().map(|page| match page {
            Value::Array(items) => Ok(items),
            _ => Err(CallError::Failed(format!("GitHub sent no list for {path}"))),
        });
        Ok(items.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Reads all pages, each as one value.
    pub(super) fn pages(&self, path: &str) -> Result<Vec<Value>, CallError> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}per_page=100");
        self.call(&["--paginate"], "GET", &path, &Value::Null)
    }

    /// Sends a request with a body, unless that is null, and returns the response.
    pub(super) fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, CallError> {
        let mut pages = self.call(&[], method, path, body)?;
        Ok(pages.pop().unwrap_or_default())
    }

    fn call(
        &self,
        options: &[&str],
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Vec<Value>, CallError> {
        let endpoint = match path {
            "" => format!("repos/{}/{}", self.owner, self.name),
            path => format!("repos/{}/{}/{path}", self.owner, self.name),
        };
        let mut args = vec!["api", "--include", "--method", method];
        args.extend(["--header", "Accept: application/vnd.github+json"]);
        args.extend(options);
        let input = if body.is_null() {
            String::new()
        } else {
            args.extend(["--input", "-"]);
            body.to_string()
        };
        args.push(&endpoint);
        let finished = run(&Command {
            program: &self.program,
            args: args.into_iter().map(OsStr::new).collect(),
            folder: None,
            with: &[],
            without: COLORS,
            input: &input,
            timeout: TIMEOUT,
            max_bytes: MAX_RESPONSE,
        });
        let finished = finished.map_err(|error| error.of_call("gh"))?;
        let responses = responses(&finished.stdout);
        let last = responses.last();
        if let Some(warning) = last.and_then(|last| low_limit("GitHub", |name| last.header(name))) {
            let _ = self.warning.set(warning);
        }
        read(&finished, responses, Timestamp::now())
    }

    /// Returns the first warning about a limit.
    pub(super) fn warning(&self) -> Option<&str> {
        self.warning.get().map(String::as_str)
    }
}

#[derive(Debug, Default)]
struct Response {
    status: u16,
    /// The names in lower case, and the values.
    headers: Vec<(String, String)>,
    body: Value,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns how long GitHub asks to wait, if it limits requests.
    fn wait(&self, now: Timestamp) -> Option<Duration> {
        let is_limit = || string(&self.body, "documentation_url").contains("rate-limits");
        requested_wait(|name| self.header(name), now).or_else(|| is_limit().then_some(DEFAULT_WAIT))
    }
}

/// Returns the bodies of all pages, or the error of the last one.
fn read(finished: &Finished, responses: Vec<Response>, now: Timestamp) -> Result<Vec<Value>, CallError> {
    let detail = || one_line(&tail_lines(&finished.stderr, 3), 300);
    let Some(last) = responses.last() else {
        // Without a status, the request did not reach GitHub.
        return Err(match finished.code {
            NOT_SIGNED_IN => CallError::Failed(format!("gh is not signed in: {}", detail())),
            code => later(
                format!("gh failed with exit code {code}: {}", detail()),
                Duration::ZERO,
            ),
        });
    };
    let message = one_line(&string(&last.body, "message"), 300);
    let reason = format!("GitHub answered with status {}: {message}", last.status);
    match last.status {
        200..300 if finished.code == 0 => {}
        // A later page is missing.
        200..300 => return Err(later(format!("gh failed: {}", detail()), Duration::ZERO)),
        status => return Err(refusal(status, reason, last.wait(now))),
    }
    Ok(responses.into_iter().map(|response| response.body).collect())
}

fn later(reason: String, wait: Duration) -> CallError {
    CallError::Later { reason, wait }
}

/// Reads what `gh api --include` prints: for each page a status line, headers, an empty line and the
/// body.
fn responses(mut text: &[u8]) -> Vec<Response> {
    let mut responses = Vec::new();
    loop {
        text = text.trim_ascii_start();
        if !text.starts_with(b"HTTP/") {
            return responses;
        }
        let mut response = Response::default();
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&text[..end]).trim().to_owned();
            text = &text[end + 1..];
            if line.is_empty() {
                break;
            }
            if response.status == 0 {
                let status = line.split_whitespace().nth(1);
                response.status = status.and_then(|status| status.parse().ok()).unwrap_or(0);
            } else if let Some((name, value)) = line.split_once(':') {
                response
                    .headers
                    .push((name.trim().to_lowercase(), value.trim().to_owned()));
            }
        }
        let mut bodies = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
        if !text.trim_ascii_start().starts_with(b"HTTP/")
            && let Some(Ok(body)) = bodies.next()
        {
            response.body = body;
            text = &text[bodies.byte_offset()..];
        }
        responses.push(response);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(code: i32, stdout: &str) -> Finished {
        Finished {
            code,
            stdout: stdout.as_bytes().to_vec(),
            stderr: "gh: rate limit exceeded, not found\n".to_owned(),
        }
    }

    fn read_at_1000(code: i32, stdout: &str) -> Result<Vec<Value>, CallError> {
        let finished = finished(code, stdout);
        let responses = responses(&finished.stdout);
        read(&finished, responses, Timestamp::from_second(1000).unwrap())
    }

    #[test]
    fn pages_are_read_one_after_the_other() {
        let text = "HTTP/2.0 200 OK\nLink: <x>; rel=\"next\"\r\n\r\n[1, \"HTTP/1.1 500 \\nx\"]\n\
                    HTTP/2.0 200 OK\r\nA: b\r\n\r\n[2]";
        let pages = read_at_1000(0, text).unwrap();
        assert_eq!(Value::from(pages).to_string(), r#"[[1,"HTTP/1.1 500 \nx"],[2]]"#);
        let empty = read_at_1000(0, "HTTP/1.1 204 No Content\nA: b\r\n\r\n").unwrap();
        assert_eq!(empty, [Value::Null]);
    }

    #[test]
    fn status_and_headers_decide_about_an_error() {
        let error = |status: &str, headers: &str, body: &str| {
            let text = format!("HTTP/2.0 {status}\n{headers}\r\n{body}");
            match read_at_1000(1, &text).unwrap_err() {
                CallError::Later { wait, .. } => format!("later {}", wait.as_secs()),
                error => error.exit_code().to_string(),
            }
        };
        let limits = r#"{"documentation_url": "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"}"#;
        assert_eq!(error("404 Not Found", "", "{}"), "66");
        assert_eq!(error("410 Gone", "", "{}"), "66");
        assert_eq!(error("401 Unauthorized", "", "{}"), "1");
        assert_eq!(error("403 Forbidden", "X-Ratelimit-Remaining: 5\r\n", "{}"), "1");
        assert_eq!(error("422 Unprocessable Entity", "", "{}"), "1");
        assert_eq!(error("429 Too Many Requests", "", "{}"), "later 60");
        assert_eq!(
            error("429 Too Many Requests", "Retry-After: 7\r\n", "{}"),
            "later 7"
        );
        assert_eq!(error("403 Forbidden", "Retry-After: 9\r\n", "{}"), "later 9");
        assert_eq!(error("403 Forbidden", "", limits), "later 60");
        let used_up = "X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 1090\r\n";
        assert_eq!(error("403 Forbidden", used_up, "{}"), "later 90");
        assert_eq!(error("502 Bad Gateway", "", "<html>"), "later 0");
        // A page after the first one.
        let text = "HTTP/2.0 200 OK\n\r\n[1]\nHTTP/2.0 429 Too Many Requests\nRetry-After: 3\r\n\r\n{}";
        assert!(matches!(
            read_at_1000(1, text),
            Err(CallError::Later { wait, .. }) if wait.as_secs() == 3
        ));
    }

    #[test]
    fn request_that_did_not_reach_github_can_be_repeated() {
        assert!(matches!(read_at_1000(1, ""), Err(CallError::Later { .. })));
        assert!(matches!(read_at_1000(4, ""), Err(CallError::Failed(_))));
        // The connection broke before the second page.
        let text = "HTTP/2.0 200 OK\n\r\n[1]\n";
        assert!(matches!(read_at_1000(1, text), Err(CallError::Later { .. })));
    }

    #[test]
    fn texts_cannot_change_a_path() {
        for repository in ["", "a", "a/b/c", "../b", "a/..", "-a/b", "{owner}/b", "a/b?c"] {
            let error = Gh::new("sh", Some(repository)).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{repository}");
        }
        assert!(Gh::new("sh", Some("vik-sh/vik.rs")).is_ok());
    }
}
