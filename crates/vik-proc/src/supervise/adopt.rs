//! Taking over a shim that another daemon has started.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::link::{Fifo, Link};
use super::pump::{self, Shim, State, StatusSource};
use super::{Handle, Supervised, Supervisor, shims};
use crate::identity::{ProcessId, boot_id};
use crate::spec::ShimSpec;
#[cfg(target_os = "linux")]
use crate::sys;

/// How long a shim that lives may take to open its FIFO, or to read what stands in it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether a process lives where the system does not tell by itself.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// A shim that lives cannot be taken over. It was not touched: [`crate::recover`] ends it.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// It was started without a control FIFO.
    #[error("the shim {} has no control FIFO", shim.pid)]
    NoControl {
        /// The shim.
        shim: ProcessId,
    },
    /// Its control FIFO does not let anybody in.
    #[error("cannot reach the shim {} through {}", shim.pid, control.display())]
    Unreachable {
        /// The shim.
        shim: ProcessId,
        /// The FIFO.
        control: PathBuf,
        /// What the system said last.
        #[source]
        source: io::Error,
    },
}

impl Supervisor {
    /// Takes over a shim that another daemon has started, and returns when its agent is known, or its end.
    ///
    /// Of the spec only [`ShimSpec::control`], [`ShimSpec::exit_record`], [`ShimSpec::census`], [`ShimSpec::mark`] and
    /// [`ShimSpec::graces`] are used. `agent` is who the agent is, if that is known; the census tells it otherwise.
    ///
    /// A shim that has ended is no error: then [`Supervised::wait`] gives its exit record, or [`crate::ShimLost`] after
    /// what it left was ended. So nothing is missed if it ends meanwhile. One that was stopped by a signal is continued.
    pub async fn adopt(
        &self,
        spec: &ShimSpec,
        shim: ProcessId,
        agent: Option<ProcessId>,
    ) -> Result<Supervised, AdoptError> {
        let link = reach(spec, shim).await?;
        let (requests, inbox) = mpsc::unbounded_channel();
        let (publish, state) = watch::channel(State { agent, end: None });
        let handle = Handle {
            shim,
            requests,
            state,
        };
        let task = Shim {
            id: shim,
            boot_id: boot_id(),
            // Of an own child, when this daemon has replaced itself by `exec`, the end must be taken.
            reaps: shims::claim(shim),
            started: false,
            link,
            spec: spec.clone(),
            inbox,
            publish,
        };
        let census = spec.census.clone().filter(|_| agent.is_none());
        pump::run(task, StatusSource::watch(shim, census.clone()));
        let mut supervised = Supervised { handle, stdout: None };
        if census.is_some() {
            supervised.handle.known().await;
        }
        Ok(supervised)
    }
}

/// Says hello to the shim. `None`: it has ended.
async fn reach(spec: &ShimSpec, shim: ProcessId) -> Result<Option<Link>, AdoptError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if !shim.is_alive() {
            return Ok(None);
        }
        let Some(control) = &spec.control else {
            return Err(AdoptError::NoControl { shim });
        };
        let opened = Fifo::open(control);
        // What is stopped does not listen.
        shim.signal(libc::SIGCONT);
        match opened {
            Ok(fifo) => return Ok(Some(Link::Fifo(fifo))),
            Err(source) if !may_come(&source) || Instant::now() >= deadline => {
                if !shim.is_alive() {
                    return Ok(None);
                }
                return Err(AdoptError::Unreachable {
                    shim,
                    control: control.clone(),
                    source,
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Whether the shim may only be about to make or open its FIFO, or to read it.
fn may_come(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::WouldBlock | io::ErrorKind::BrokenPipe
    ) || error.raw_os_error() == Some(libc::ENXIO)
}

/// Returns when the process has ended, whoever its parent is.
pub(super) async fn ended(process: ProcessId) {
    #[cfg(target_os = "linux")]
    if let Ok(pidfd) = sys::pidfd_open(process.pid).and_then(sys::watched)
        // Whatever has the pid now keeps the handle.
        && ProcessId::of(process.pid) == Some(process)
    {
        // An error would show at the look that follows.
        let _ = pidfd.readable().await;
    }
    while process.is_alive() {
        sleep(POLL_INTERVAL).await;
    }
}

/// Who the agent is, once the census of this shim tells it.
pub(super) async fn agent_of(shim: ProcessId, census: &Path) -> ProcessId {
    loop {
        let agent = crate::Census::read(census)
            .filter(|census| census.shim == Some(shim))
            .and_then(|census| census.agent);
        if let Some(agent) = agent {
            return agent;
        }
        sleep(PAUSE).await;
    }
}
