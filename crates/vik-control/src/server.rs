//! The control socket: refuses agents, and passes all other connections to the HTTP API.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use vik_core::scheduler::Actor;
use vik_orchestrator::ControlRequest;

use crate::http::{LogLimit, refuse_agent};
use crate::line;

/// How long a client may take to send the first byte of its request, or all of a line.
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
    /// Requests to the daemon's loop, of clients of the previous version.
    pub asks: mpsc::Sender<ControlRequest>,
    pub refuse: IsRefused,
    /// Receives the connections that use HTTP, each with the pid of its peer.
    pub http: mpsc::UnboundedSender<(std::os::unix::net::UnixStream, i32)>,
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

impl Agents {
    async fn refuse(&self, stream: UnixStream, peer: i32) -> io::Result<()> {
        if let Some(count) = self.refusals.count() {
            tracing::warn!(peer, count, "refused a request of an agent to the control socket");
        }
        let Ok(_permit) = self.answers.try_acquire() else {
            return Ok(());
        };
        if speaks_http(&stream).await? {
            refuse_agent(stream).await
        } else {
            line::refuse(stream).await
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
    if (context.refuse)(peer) {
        drop(permit);
        return agents.refuse(stream, peer).await;
    }
    if speaks_http(&stream).await? {
        let stream = stream.into_std()?;
        // While the daemon shuts down, nothing receives the connection, and it is closed.
        let _ = context.http.send((stream, peer));
        return Ok(());
    }
    let by = Actor::person(&format!("command line, pid {peer}"));
    line::serve(stream, by, &context.asks).await
}

/// Returns whether a client speaks HTTP: a request of the previous version starts with a brace. The
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
