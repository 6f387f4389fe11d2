//! Takes over a shim that another daemon has started.

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

/// How long a living shim may take to open its FIFO, or to read from it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a process is polled where the system does not report its end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// A living shim that cannot be taken over. It was not signalled: [`crate::recover`] ends it.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The shim was started without a control FIFO.
    #[error("the shim {} has no control FIFO", shim.pid)]
    NoControl { shim: ProcessId },
    /// The shim's control FIFO cannot be opened.
    #[error("cannot reach the shim {} through {}", shim.pid, control.display())]
    Unreachable {
        shim: ProcessId,
        control: PathBuf,
        /// The last error of the system.
        #[source]
        source: io::Error,
    },
}

impl Supervisor {
    /// Takes over a shim that another daemon has started. Returns when its agent, or its end, is
    /// known.
    ///
    /// Of the spec only [`ShimSpec::control`], [`ShimSpec::exit_record`], [`ShimSpec::census`],
    /// [`ShimSpec::mark`] and [`ShimSpec::graces`] are used. `agent` is the agent's identity, if it
    /// is known; otherwise it is read from the census.
    ///
    /// A shim that has ended is not an error: [`Supervised::wait`] then returns its exit record, or
    /// [`crate::ShimLost`] after the rest of its tree was ended. So an end during the call is not
    /// missed. A shim that was stopped by a signal is continued.
    ///
    /// The adoption of a shim with a lease renews it, if it has not ended, with the lease of this
    /// supervisor ([`Supervisor::with_lease`]), and with [`Handle::renew`].
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
        let mut lease = self.lease.clone();
        if let Some(lease) = &mut lease {
            lease.mark_renewed();
        }
        let task = Shim {
            id: shim,
            boot_id: boot_id(),
            // After an `exec` of this daemon the shim is its own child, so its exit status must be
            // taken.
            reaps: shims::claim(shim),
            started: false,
            link,
            spec: spec.clone().into_recovery(),
            lease,
            inbox,
            publish,
        };
        let census = spec.census.clone().filter(|_| agent.is_none());
        pump::run(task, StatusSource::watch(shim, census.clone()));
        let mut supervised = Supervised { handle, stdout: None };
        if census.is_some() {
            supervised.handle.wait_until_known().await;
        }
        Ok(supervised)
    }
}

/// Opens the shim's FIFO, which announces this daemon. Returns `None` if the shim has ended.
async fn reach(spec: &ShimSpec, shim: ProcessId) -> Result<Option<Link>, AdoptError> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if !shim.is_alive() {
            return Ok(None);
        }
        let Some(control) = &spec.control else {
            return Err(AdoptError::NoControl { shim });
        };
        let opened = Fifo::open(control);
        // A stopped shim does not read its FIFO.
        shim.signal(libc::SIGCONT);
        match opened {
            Ok(fifo) => return Ok(Some(Link::Fifo(fifo))),
            Err(source) if !is_temporary(&source) || Instant::now() >= deadline => {
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

/// Returns whether the shim may still be about to create, open or read its FIFO.
fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::WouldBlock | io::ErrorKind::BrokenPipe
    ) || error.raw_os_error() == Some(libc::ENXIO)
}

/// Returns when the process has ended, whichever process is its parent.
pub(super) async fn ended(process: ProcessId) {
    #[cfg(target_os = "linux")]
    if let Ok(pidfd) = sys::pidfd_open(process.pid).and_then(sys::watched)
        // The handle stays with the process that has the pid now.
        && ProcessId::of(process.pid) == Some(process)
    {
        // The check below notices an end after an error.
        let _ = pidfd.readable().await;
    }
    while process.is_alive() {
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the agent's identity, once the census of this shim contains it.
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
