//! The instance folder: how a daemon is found, even if its workflow is unreadable.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_client::{ClientError, Endpoint, blocking};
use vik_core::worker::WorkerName;
use vik_proc::{FileLock, ProcessId};
use vik_workspace::{InstanceDir, WorkspaceError, fs as private};

/// How long to wait for a daemon that is just starting or was just killed to reach a stable state.
/// A killed process holds its locks until its last thread has left the kernel.
const MOMENT: Duration = Duration::from_secs(5);

/// The interval of the checks in that time.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The record of a daemon about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceInfo {
    /// The version of this record.
    pub schema: u32,
    /// The pid and start time of the daemon, so that a reused pid is never mistaken for it.
    pub process: ProcessId,
    /// The boot in which the daemon runs.
    pub boot_id: String,
    pub started_at: Timestamp,
    /// The version of the daemon.
    pub version: String,
    pub workflow_path: PathBuf,
    /// The home with its state, logs and sessions (`<home>/workflows/<key>`).
    pub root: PathBuf,
    pub socket: PathBuf,
    /// The options of its `run`, for a restart.
    #[serde(default)]
    pub options: Vec<String>,
    /// When the daemon ended normally. The record stays, so that its files can be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Whether a daemon is running.
#[derive(Clone, Debug)]
pub enum Presence {
    Running(InstanceInfo),
    /// The lock is held, but its holder has not written a valid record yet, or cannot.
    Starting,
    /// The daemon ended without closing its record.
    Dead(InstanceInfo),
    /// No daemon is running.
    None,
}

/// The folder of one workflow's instance.
///
/// # Examples
///
/// ```
/// use vik_daemon::{Instance, Presence};
///
/// // A missing or broken file does not hide its daemon.
/// let folder = tempfile::tempdir()?;
/// let instance = Instance::of(&folder.path().join("workflow.yml")).unwrap();
/// assert_eq!(instance.name().len(), 16);
/// assert!(matches!(instance.presence_now(), Presence::None));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Instance {
    dir: InstanceDir,
}

impl Instance {
    /// Returns the instance of a workflow file, which may be invalid or missing.
    ///
    /// # Errors
    /// When the state folder cannot be determined.
    pub fn of(workflow_path: &Path) -> Result<Self, Failure> {
        InstanceDir::of(workflow_path)
            .map(|dir| Self { dir })
            .map_err(|error| no_state_dir(&error))
    }

    /// Returns the instance of a worker for a workflow file.
    ///
    /// # Errors
    /// When the state folder cannot be determined.
    pub fn of_worker(workflow_path: &Path, name: &WorkerName) -> Result<Self, Failure> {
        InstanceDir::of_worker(workflow_path, name)
            .map(|dir| Self { dir })
            .map_err(|error| no_state_dir(&error))
    }

    /// Lists all instances that ever ran for this user.
    pub fn all() -> Vec<Self> {
        InstanceDir::all().into_iter().map(|dir| Self { dir }).collect()
    }

    pub fn dir(&self) -> &InstanceDir {
        &self.dir
    }

    /// Returns the name of the instance folder.
    pub fn name(&self) -> String {
        self.dir
            .path()
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Takes the lock, which the daemon holds while it lives.
    ///
    /// # Errors
    /// When another daemon has it (exit 5), or the folder cannot be created.
    pub fn acquire(&self) -> Result<FileLock, Failure> {
        let fail = |error: &dyn std::error::Error| {
            Failure::failed(
                ErrorCode::InstanceFolder,
                format!("cannot use {}", self.dir.path().display()),
                error,
            )
        };
        self.dir.create().map_err(|error| fail(&error))?;
        let lock = acquire_with_wait(&self.dir.lock(), || self.answers()).map_err(|error| fail(&error))?;
        lock.ok_or_else(|| {
            let who = match self.read() {
                Some(info) => format!(" (pid {})", info.process.pid),
                None => String::new(),
            };
            Failure::new(
                Exit::AlreadyRunning,
                ErrorCode::AlreadyRunning,
                format!("a daemon{who} is already running for this workflow"),
            )
            .hint("see `vik status`; stop the daemon with `vik stop`")
        })
    }

    /// Returns whether a daemon answers requests.
    fn answers(&self) -> bool {
        let Presence::Running(info) = self.presence_now() else {
            return false;
        };
        let state = blocking(&Endpoint::Unix(info.socket), async |client| client.state().await);
        // A refusal is an answer too.
        matches!(state, Ok(_) | Err(ClientError::Refused(_)))
    }

    /// Writes the record of the daemon.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn announce(&self, info: &InstanceInfo) -> io::Result<()> {
        private::write_json_atomic(&self.dir.info(), info)
    }

    /// Reads the record of the daemon.
    pub fn read(&self) -> Option<InstanceInfo> {
        serde_json::from_slice(&private::read(&self.dir.info()).ok()?).ok()
    }

    /// Returns whether a daemon is running. Waits briefly for one that is just starting or ending.
    pub fn presence(&self) -> Presence {
        wait_until_stable(
            || self.presence_now(),
            |presence| !matches!(presence, Presence::Starting),
        )
    }

    /// Returns whether a daemon is running at this instant. The lock decides, since it ends with
    /// its holder.
    pub fn presence_now(&self) -> Presence {
        let locked = FileLock::is_locked(&self.dir.lock()).unwrap_or(false);
        match (locked, self.read()) {
            (true, Some(info)) if info.ended_at.is_none() && info.process.is_alive() => {
                Presence::Running(info)
            }
            (true, _) => Presence::Starting,
            (false, Some(info)) if info.ended_at.is_none() => Presence::Dead(info),
            (false, _) => Presence::None,
        }
    }

    /// Returns whether this daemon has ended or is replaced by another one. Waits briefly for that.
    pub fn has_ended(&self, daemon: &InstanceInfo) -> bool {
        let has_ended = || match self.presence_now() {
            Presence::Running(info) => info.process != daemon.process,
            Presence::Starting => false,
            Presence::Dead(_) | Presence::None => true,
        };
        wait_until_stable(has_ended, |has_ended| *has_ended)
    }

    /// Records that the daemon has ended normally.
    pub fn close(&self) {
        let _ = std::fs::remove_file(self.dir.socket());
        if let Some(mut info) = self.read()
            && info.ended_at.is_none()
        {
            info.ended_at = Some(Timestamp::now());
            if let Err(error) = self.announce(&info) {
                tracing::error!(%error, "cannot write instance.json");
            }
        }
    }
}

/// Takes a lock, and waits briefly if its holder may be about to exit, unless the holder is known
/// to live. Returns `None` if the lock stays taken.
///
/// # Errors
/// When the lock's file cannot be opened.
pub fn acquire_with_wait(path: &Path, holder_lives: impl Fn() -> bool) -> io::Result<Option<FileLock>> {
    wait_until_stable(
        || FileLock::try_acquire(path),
        |lock| !matches!(lock, Ok(None)) || holder_lives(),
    )
}

fn no_state_dir(error: &WorkspaceError) -> Failure {
    Failure::failed(
        ErrorCode::NoStateDir,
        "cannot determine the state folder of Vik",
        error,
    )
    .hint("set XDG_STATE_HOME or HOME")
}

/// Repeats a check until its result is stable, for at most [`MOMENT`].
fn wait_until_stable<T>(mut check: impl FnMut() -> T, is_stable: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + MOMENT;
    loop {
        let result = check();
        if is_stable(&result) || Instant::now() >= deadline {
            return result;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
