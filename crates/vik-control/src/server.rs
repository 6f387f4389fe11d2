//! The control socket: answers requests of the command line.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use vik_api::{ApiView, ErrorBody, Request, Response, SCHEMA, SignInsPage, Verb};
use vik_base::report::ErrorCode;
use vik_core::scheduler::Actor;
use vik_orchestrator::ControlRequest;

use super::http::{Keys, LogLimit};

/// The maximum size of a request, in bytes.
const MAX_REQUEST_BYTES: u64 = 64 * 1024;

/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of concurrent clients.
const MAX_CLIENTS: usize = 64;

/// The maximum number of agents that receive a refusal at the same time; further agents are
/// disconnected.
const MAX_REFUSED: usize = 8;

/// How long pending responses may delay the end of the daemon.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Returns whether a peer (by its process id) is refused: agents must not control the daemon that
/// runs them.
pub type IsRefused = Arc<dyn Fn(i32) -> bool + Send + Sync>;

/// What the control socket needs to answer requests.
#[derive(Clone)]
pub struct ControlContext {
    /// Requests to the daemon's loop.
    pub asks: mpsc::Sender<ControlRequest>,
    pub refuse: IsRefused,
    /// Receives the connections that use HTTP, each with the pid of its peer.
    pub http: mpsc::UnboundedSender<(std::os::unix::net::UnixStream, i32)>,
    /// The address and the credentials of the API on TCP, if it is served there.
    pub tcp: Option<(ApiView, Arc<Keys>)>,
}

/// A listening control socket. Dropping it removes the socket.
#[derive(Debug)]
pub struct ControlServer {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
    clients: Arc<Semaphore>,
}

impl ControlServer {
    /// Listens at `path` (mode 0600). The caller holds the instance's lock, so an existing socket
    /// is stale.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn listen(path: &Path, context: ControlContext) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        #[expect(clippy::disallowed_methods, reason = "the socket was created just now")]
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
        let served = Arc::clone(&clients);
        let agents = Arc::new(Agents::default());
        let task = tokio::spawn(async move {
            loop {
                let Ok(permit) = Arc::clone(&served).acquire_owned().await else {
                    return;
                };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let (context, agents) = (context.clone(), Arc::clone(&agents));
                        tokio::spawn(async move {
                            let served = serve(stream, context, permit, &agents);
                            let served = tokio::time::timeout(REQUEST_TIMEOUT, served).await;
                            if let Ok(Err(error)) = served {
                                tracing::debug!(%error, "a client of the control socket disconnected");
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the control socket cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
        Ok(Self {
            path: path.to_owned(),
            task,
            clients,
        })
    }

    /// Stops accepting clients and waits briefly for pending responses. A client that does not read
    /// gets none.
    pub async fn close(self) {
        self.task.abort();
        let all = u32::try_from(MAX_CLIENTS).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(LAST_ANSWERS, self.clients.acquire_many(all)).await;
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The limits for agents that connect to the socket.
#[derive(Debug)]
struct Agents {
    /// Permits for refusals: agents must not use the permits of people.
    answers: Semaphore,
    refusals: LogLimit,
}

impl Default for Agents {
    fn default() -> Self {
        Self {
            answers: Semaphore::new(MAX_REFUSED),
            refusals: LogLimit::default(),
        }
    }
}

async fn serve(
    stream: UnixStream,
    context: ControlContext,
    permit: OwnedSemaphorePermit,
    agents: &Agents,
) -> io::Result<()> {
    let peer = vik_proc::peer_pid(&stream)?;
    let refused = (context.refuse)(peer);
    let mut client_permit = Some(permit);
    let refusal_permit = refused.then(|| agents.answers.try_acquire());
    if refused {
        if let Some(count) = agents.refusals.count() {
            tracing::warn!(peer, count, "refused a request of an agent to the control socket");
        }
        client_permit.take();
        if !matches!(refusal_permit, Some(Ok(_))) {
            return Ok(());
        }
    } else if speaks_http(&stream).await? {
        let stream = stream.into_std()?;
        // While the daemon shuts down, nothing receives the connection, and it is closed.
        let _ = context.http.send((stream, peer));
        return Ok(());
    }
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(MAX_REQUEST_BYTES))
        .read_line(&mut line)
        .await?;
    let response = if refused {
        error(
            ErrorCode::Refused,
            "agents must not control the daemon that runs them",
        )
    } else {
        match serde_json::from_str::<Request>(&line) {
            Ok(request) => answer(request, peer, &context).await,
            Err(problem) => error(ErrorCode::BadRequest, &format!("invalid request: {problem}")),
        }
    };
    let text = serde_json::to_string(&response)?;
    let mut text = vik_mask::mask_json(&text).into_owned();
    text.push('\n');
    write.write_all(text.as_bytes()).await
}

/// Returns whether a client speaks HTTP: a request of the control protocol starts with a brace. The
/// first byte stays in the stream.
async fn speaks_http(stream: &UnixStream) -> io::Result<bool> {
    let peek = || {
        let mut first = [0];
        let count = vik_proc::peek(stream, &mut first)?;
        Ok((count, first[0]))
    };
    let (count, first) = stream.async_io(Interest::READABLE, peek).await?;
    Ok(count > 0 && first.is_ascii_uppercase())
}

async fn answer(request: Request, peer: i32, context: &ControlContext) -> Response {
    if matches!(
        request.verb,
        Verb::Link | Verb::SignIns | Verb::RevokeSignIn { .. }
    ) {
        return match &context.tcp {
            Some((api, keys)) => dashboard(&request.verb, api, keys),
            None => Response::Nothing {
                why: "HTTP is served on the control socket only; `vik run --port N` serves it on TCP"
                    .to_owned(),
            },
        };
    }
    let (answer, receiver) = oneshot::channel();
    let stopping = || error(ErrorCode::Stopping, "the daemon is shutting down");
    let by = Actor::person(&format!("command line, pid {peer}"));
    if context
        .asks
        .send(ControlRequest { request, by, answer })
        .await
        .is_err()
    {
        return stopping();
    }
    receiver.await.unwrap_or_else(|_| stopping())
}

/// Answers the requests about browsers.
fn dashboard(verb: &Verb, api: &ApiView, keys: &Keys) -> Response {
    let now = Timestamp::now();
    match verb {
        Verb::SignIns => Response::SignIns(SignInsPage {
            schema: SCHEMA,
            sign_ins: keys.sign_ins().list(now),
        }),
        Verb::RevokeSignIn { id } => match keys.sign_ins().revoke(id.as_deref(), now) {
            Ok(0) if id.is_some() => Response::NotFound,
            Ok(count) => {
                tracing::info!(count, "sign-ins to the dashboard were revoked");
                Response::Done { count }
            }
            Err(problem) => error(
                ErrorCode::SignIn,
                &format!(
                    "the revocation applies until the daemon restarts, because it cannot be saved: {problem}"
                ),
            ),
        },
        _ => Response::Link {
            url: format!(
                "http://{}{}#code={}",
                api.address,
                super::http::LOGIN,
                keys.link()
            ),
        },
    }
}

fn error(code: ErrorCode, message: &str) -> Response {
    Response::Error(ErrorBody {
        code: code.to_string(),
        message: message.to_owned(),
        hint: None,
    })
}
