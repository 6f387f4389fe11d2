//! The line protocol of the previous version: one line of JSON as the request, one as the answer.
//!
//! Only `status` and `stop` are left of it, so that `vik status`, `vik stop` and `vik restart` of
//! the previous version work with this daemon. The client's half, for a daemon of the previous
//! version, is in `crates/vik-client/src/line.rs`.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use vik_api::{Action, ErrorBody, Status};
use vik_base::report::ErrorCode;
use vik_core::scheduler::Actor;
use vik_orchestrator::ControlRequest;

/// The version of the protocol.
const VERSION: u32 = 1;

/// The maximum size of a request, in bytes.
const MAX_REQUEST_BYTES: u64 = 64 * 1024;

#[derive(Deserialize)]
struct Request {
    v: u32,
    #[serde(flatten)]
    verb: Verb,
}

#[derive(Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
enum Verb {
    Status,
    Stop {
        #[serde(default)]
        keep_sessions: bool,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    Status(Box<Status>),
    Accepted,
    Error(ErrorBody),
}

pub async fn serve(mut stream: UnixStream, by: Actor, asks: &mpsc::Sender<ControlRequest>) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new((&mut stream).take(MAX_REQUEST_BYTES))
        .read_line(&mut line)
        .await?;
    let response = match serde_json::from_str::<Request>(&line) {
        Ok(Request { v: VERSION, verb }) => ask(verb, by, asks).await,
        Ok(_) => error(
            ErrorCode::Protocol,
            format!("this daemon speaks version {VERSION} of the control protocol"),
            Some("use the same version of vik, or `vik restart`"),
        ),
        Err(problem) => error(
            ErrorCode::BadRequest,
            format!("invalid request: {problem}"),
            Some("use the same version of vik, or HTTP: `curl --unix-socket`"),
        ),
    };
    answer(stream, &response).await
}

/// Answers an agent: it is refused.
pub async fn refuse(stream: UnixStream) -> io::Result<()> {
    let message = "agents must not control the daemon that runs them".to_owned();
    answer(stream, &error(ErrorCode::Refused, message, None)).await
}

async fn ask(verb: Verb, by: Actor, asks: &mpsc::Sender<ControlRequest>) -> Response {
    let response = match verb {
        Verb::Status => send(asks, ControlRequest::Status).await.map(Response::Status),
        Verb::Stop { keep_sessions } => {
            let action = Action::Stop { keep_sessions };
            let result = send(asks, |answer| ControlRequest::Act { action, by, answer }).await;
            result.map(|result| result.map_or_else(Response::Error, |_| Response::Accepted))
        }
    };
    let stopping = || "the daemon is shutting down".to_owned();
    response.unwrap_or_else(|| error(ErrorCode::Stopping, stopping(), None))
}

/// Sends a request to the daemon's loop. Returns `None` if the loop has ended.
async fn send<T>(
    asks: &mpsc::Sender<ControlRequest>,
    request: impl FnOnce(oneshot::Sender<T>) -> ControlRequest,
) -> Option<T> {
    let (answer, receiver) = oneshot::channel();
    asks.send(request(answer)).await.ok()?;
    receiver.await.ok()
}

async fn answer(mut stream: UnixStream, response: &Response) -> io::Result<()> {
    let text = serde_json::to_string(response)?;
    let mut text = vik_mask::mask_json(&text).into_owned();
    text.push('\n');
    stream.write_all(text.as_bytes()).await
}

fn error(code: ErrorCode, message: String, hint: Option<&str>) -> Response {
    Response::Error(ErrorBody {
        code: code.to_string(),
        message,
        hint: hint.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use vik_api::{Daemon, DaemonState};
    use vik_core::scheduler::CommandResult;

    use super::*;

    /// Sends a request as the previous version does. Returns the requested stop, and the answer.
    async fn exchange(request: &str) -> (Option<Action>, String) {
        let (mut client, server) = UnixStream::pair().unwrap();
        let (asks, mut receiver) = mpsc::channel::<ControlRequest>(1);
        let daemon = async move {
            match receiver.recv().await? {
                ControlRequest::Status(answer) => answer.send(Box::new(status())).unwrap(),
                ControlRequest::Act { action, answer, .. } => {
                    answer.send(Ok(CommandResult::Done(0))).unwrap();
                    return Some(action);
                }
                request => panic!("{request:?}"),
            }
            None
        };
        let served = async move { serve(server, Actor::default(), &asks).await.unwrap() };
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let (action, (), read) = tokio::join!(daemon, served, client.read_to_string(&mut answer));
        read.unwrap();
        (action, answer)
    }

    fn status() -> Status {
        Status::of(Daemon {
            state: DaemonState::Running,
            pid: Some(4711),
            version: Some("0.2.0".to_owned()),
            workflow_path: "/w/workflow.yml".into(),
            ..Daemon::default()
        })
    }

    #[tokio::test]
    async fn status_of_the_previous_version_is_answered() {
        let (_, answer) = exchange("{\"v\":1,\"verb\":\"status\"}\n").await;
        // As the previous version has written it; later versions only add fields.
        let expected: serde_json::Value = serde_json::from_str(include_str!("line/status.json")).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        for (field, value) in expected["status"].as_object().unwrap() {
            assert_eq!(answer["status"][field], *value, "{field}");
        }
    }

    #[tokio::test]
    async fn stop_of_the_previous_version_is_answered() {
        for (line, keep_sessions) in [
            ("{\"v\":1,\"verb\":\"stop\"}\n", false),
            ("{\"v\":1,\"verb\":\"stop\",\"keep_sessions\":true}\n", true),
        ] {
            let (action, answer) = exchange(line).await;
            assert_eq!(action, Some(Action::Stop { keep_sessions }));
            assert_eq!(answer, "\"accepted\"\n");
        }
    }

    #[tokio::test]
    async fn other_lines_are_refused() {
        for (line, code) in [
            ("{\"v\":1,\"verb\":\"pause\"}\n", "bad_request"),
            ("{\"v\":2,\"verb\":\"stop\"}\n", "protocol"),
            ("nonsense\n", "bad_request"),
        ] {
            let (action, answer) = exchange(line).await;
            assert!(action.is_none());
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["error"]["code"], code);
        }
    }
}
