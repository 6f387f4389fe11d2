//! Answers the command line.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::io::Interest;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use vik_api::{ApiView, ErrorBody, Request, Response, SCHEMA, SignInsPage, Verb};
use vik_core::scheduler::Actor;

use super::http::{Keys, LogLimit};
use crate::orchestrator::ControlRequest;

/// The longest request.
const MAX_REQUEST_BYTES: u64 = 64 * 1024;

/// How long a client may take to ask.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How many clients are served at once.
const MAX_CLIENTS: usize = 64;

/// How many agents are told at once that they are refused; more are cut off.
const MAX_REFUSED: usize = 8;

/// How long answers may hold up the end of the daemon.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// The code of the error that an agent gets.
pub const REFUSED: &str = "refused";

/// The code of the error that comes when the daemon is all but gone.
pub const STOPPING: &str = "stopping";

/// Says whether a peer (by its process id) may not ask: agents must not steer the daemon that runs them.
pub type Refuse = Arc<dyn Fn(i32) -> bool + Send + Sync>;

/// What stands behind the socket.
#[derive(Clone)]
pub struct ControlContext {
    /// The daemon's loop.
    pub asks: mpsc::Sender<ControlRequest>,
    /// Who may not ask.
    pub refuse: Refuse,
    /// Where connections go that speak HTTP.
    pub http: mpsc::UnboundedSender<(std::os::unix::net::UnixStream, i32)>,
    /// What opens the API on TCP, where it is served there.
    pub tcp: Option<(ApiView, Arc<Keys>)>,
}

/// A listening control socket; it is removed when this is dropped.
#[derive(Debug)]
pub struct ControlServer {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
    clients: Arc<Semaphore>,
}

impl ControlServer {
    /// Listens at `path` (0600). The caller holds the instance's lock, so an old socket there is nobody's.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(path: &Path, behind: ControlContext) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        #[expect(clippy::disallowed_methods, reason = "the socket was made just now")]
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
                        let (behind, agents) = (behind.clone(), Arc::clone(&agents));
                        tokio::spawn(async move {
                            let served = serve(stream, behind, permit, &agents);
                            let served = tokio::time::timeout(REQUEST_TIMEOUT, served).await;
                            if let Ok(Err(error)) = served {
                                tracing::debug!(%error, "a client of the control socket went away");
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the control socket cannot accept");
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

    /// Lets nobody in any more, and waits until who has asked has the answer; not long, who does not read gets none.
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

/// Agents that ask at the socket.
#[derive(Debug)]
struct Agents {
    /// Their answers: agents must not take the places of people.
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
    behind: ControlContext,
    permit: OwnedSemaphorePermit,
    agents: &Agents,
) -> io::Result<()> {
    let peer = vik_proc::peer_pid(&stream)?;
    let refused = (behind.refuse)(peer);
    let mut place = Some(permit);
    let answer_place = refused.then(|| agents.answers.try_acquire());
    if refused {
        if let Some(count) = agents.refusals.count() {
            tracing::warn!(peer, count, "an agent asked at the control socket: refused");
        }
        place.take();
        if !matches!(answer_place, Some(Ok(_))) {
            return Ok(());
        }
    } else if speaks_http(&stream).await? {
        let stream = stream.into_std()?;
        // Nobody takes it where the daemon is ending: then it is closed.
        let _ = behind.http.send((stream, peer));
        return Ok(());
    }
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(MAX_REQUEST_BYTES))
        .read_line(&mut line)
        .await?;
    let response = if refused {
        error(REFUSED, "agents may not steer the daemon that runs them")
    } else {
        match serde_json::from_str::<Request>(&line) {
            Ok(request) => answer(request, peer, &behind).await,
            Err(problem) => error(
                "bad_request",
                &format!("the request is not understood: {problem}"),
            ),
        }
    };
    let text = serde_json::to_string(&response)?;
    let mut text = vik_mask::mask_json(&text).into_owned();
    text.push('\n');
    write.write_all(text.as_bytes()).await
}

/// Whether a client speaks HTTP: a request of the other kind begins with a brace. The byte stays to be read.
async fn speaks_http(stream: &UnixStream) -> io::Result<bool> {
    let peek = || {
        let mut first = [0];
        let count = vik_proc::peek(stream, &mut first)?;
        Ok((count, first[0]))
    };
    let (count, first) = stream.async_io(Interest::READABLE, peek).await?;
    Ok(count > 0 && first.is_ascii_uppercase())
}

async fn answer(request: Request, peer: i32, behind: &ControlContext) -> Response {
    if matches!(
        request.verb,
        Verb::Link | Verb::SignIns | Verb::RevokeSignIn { .. }
    ) {
        return match &behind.tcp {
            Some((api, keys)) => dashboard(&request.verb, api, keys),
            None => Response::Nothing {
                why: "HTTP is served on the control socket only; `vik run --port N` serves it on TCP"
                    .to_owned(),
            },
        };
    }
    let (answer, receiver) = oneshot::channel();
    let gone = || error(STOPPING, "the daemon is ending");
    let by = Actor::person(&format!("command line, pid {peer}"));
    if behind
        .asks
        .send(ControlRequest { request, by, answer })
        .await
        .is_err()
    {
        return gone();
    }
    receiver.await.unwrap_or_else(|_| gone())
}

/// Answers what is about browsers.
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
                "sign_in",
                &format!("it is revoked until the daemon restarts: that cannot be written down: {problem}"),
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

fn error(code: &str, message: &str) -> Response {
    Response::Error(ErrorBody {
        code: code.to_owned(),
        message: message.to_owned(),
        hint: None,
    })
}
