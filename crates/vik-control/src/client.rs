//! Sends requests to a daemon.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use vik_api::{PROTOCOL, Request, Response, Verb};

/// How long a daemon may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a request to a daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("cannot connect to the socket of the daemon")]
    Connect(#[source] io::Error),
    #[error("the daemon did not answer")]
    Answer(#[source] io::Error),
    #[error("invalid response from the daemon")]
    InvalidResponse(#[source] serde_json::Error),
}

/// Sends one request and waits for its response.
///
/// # Errors
/// When no daemon listens, or it does not answer.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use vik_api::Verb;
/// use vik_control::{AskError, ask};
///
/// let error = ask(Path::new("/nonexistent/vik.sock"), Verb::Status).unwrap_err();
/// assert!(matches!(error, AskError::Connect(_)), "no daemon listens there");
/// ```
pub fn ask(socket: &Path, verb: Verb) -> Result<Response, AskError> {
    let mut stream = UnixStream::connect(socket).map_err(AskError::Connect)?;
    let request = serde_json::to_string(&Request { v: PROTOCOL, verb }).map_err(AskError::InvalidResponse)?;
    let mut line = String::new();
    let mut exchange = || -> io::Result<()> {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(request.as_bytes())?;
        stream.write_all(b"\n")?;
        BufReader::new(&stream).read_line(&mut line)?;
        Ok(())
    };
    exchange().map_err(AskError::Answer)?;
    serde_json::from_str(&line).map_err(AskError::InvalidResponse)
}
