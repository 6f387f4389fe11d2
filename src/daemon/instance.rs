//! The instance folder: how a daemon is found, with or without a readable workflow.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_api::Verb;
use vik_proc::{FileLock, ProcessId};

use crate::control::ask;
use crate::report::{Exit, Failure};
use crate::workspace::{InstanceDir, fs as private};

/// How long a daemon that was just started, or was just killed, may be neither here nor there before that is told. What
/// was killed holds its locks until its last thread has left the kernel.
const MOMENT: Duration = Duration::from_secs(5);

/// How often it is looked at meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a daemon writes about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceInfo {
    /// The version of this record.
    pub schema: u32,
    /// Who it is: pid and start time, so that a reused pid is never taken for it.
    pub process: ProcessId,
    /// The boot it lives in.
    pub boot_id: String,
    /// When it started.
    pub started_at: Timestamp,
    /// Its version.
    pub version: String,
    /// The workflow file.
    pub workflow_path: PathBuf,
    /// The home with its state, logs and sessions (`<home>/workflows/<key>`).
    pub root: PathBuf,
    /// The control socket.
    pub socket: PathBuf,
    /// The options of its `run`, for a restart.
    #[serde(default)]
    pub options: Vec<String>,
    /// When it ended in good order; the record stays, so that its files are found again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Whether a daemon is there.
#[derive(Clone, Debug)]
pub enum Presence {
    /// It runs.
    Running(InstanceInfo),
    /// It holds the lock but has not said who it is yet, or cannot.
    Starting,
    /// It left without cleaning up.
    Dead(InstanceInfo),
    /// There is none.
    None,
}

/// The folder of one workflow's instance.
#[derive(Clone, Debug)]
pub struct Instance {
    dir: InstanceDir,
}

impl Instance {
    /// The instance of a workflow file, which may be broken or missing.
    ///
    /// # Errors
    /// When the state folder cannot be told.
    pub fn of(workflow_path: &Path) -> Result<Self, Failure> {
        let dir = InstanceDir::of(workflow_path).map_err(|error| {
            Failure::failed("no_state_dir", "cannot tell where Vik keeps its state", &error)
                .hint("set XDG_STATE_HOME or HOME")
        })?;
        Ok(Self { dir })
    }

    /// All instances that ever ran for this user.
    pub fn all() -> Vec<Self> {
        InstanceDir::all().into_iter().map(|dir| Self { dir }).collect()
    }

    /// Its folder.
    pub fn dir(&self) -> &InstanceDir {
        &self.dir
    }

    /// The name of its folder.
    pub fn name(&self) -> String {
        self.dir
            .path()
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Takes the lock for life.
    ///
    /// # Errors
    /// When another daemon has it (exit 5), or the folder cannot be made.
    pub fn acquire(&self) -> Result<FileLock, Failure> {
        let fail = |error: &dyn std::error::Error| {
            Failure::failed(
                "instance_folder",
                format!("cannot use {}", self.dir.path().display()),
                error,
            )
        };
        self.dir.create().map_err(|error| fail(&error))?;
        let lock = acquire_soon(&self.dir.lock(), || self.answers()).map_err(|error| fail(&error))?;
        lock.ok_or_else(|| {
            let who = match self.read() {
                Some(info) => format!(" (pid {})", info.process.pid),
                None => String::new(),
            };
            Failure::new(
                Exit::AlreadyRunning,
                "already_running",
                format!("a daemon{who} runs for this workflow already"),
            )
            .hint("see `vik status`; stop it with `vik stop`")
        })
    }

    /// Whether a daemon is there that speaks.
    fn answers(&self) -> bool {
        matches!(self.glance(), Presence::Running(info) if ask(&info.socket, Verb::Status).is_ok())
    }

    /// Writes who the daemon is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn announce(&self, info: &InstanceInfo) -> io::Result<()> {
        private::write_json_atomic(&self.dir.info(), info)
    }

    /// What a daemon wrote about itself.
    pub fn read(&self) -> Option<InstanceInfo> {
        serde_json::from_slice(&private::read(&self.dir.info()).ok()?).ok()
    }

    /// Whether a daemon is there. One that is just starting or ending gets a moment to be there, or gone.
    pub fn presence(&self) -> Presence {
        settle(
            || self.glance(),
            |presence| !matches!(presence, Presence::Starting),
        )
    }

    /// Whether a daemon is there at this instant: the lock decides, since it ends with its holder.
    pub fn glance(&self) -> Presence {
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

    /// Whether this daemon has gone, or goes within a moment: it is not there any more, or another one is.
    pub fn has_lost(&self, daemon: &InstanceInfo) -> bool {
        let is_gone = || match self.glance() {
            Presence::Running(info) => info.process != daemon.process,
            Presence::Starting => false,
            Presence::Dead(_) | Presence::None => true,
        };
        settle(is_gone, |gone| *gone)
    }

    /// Notes that the daemon has ended and that nothing of it is left.
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

/// Takes a lock that its holder may be about to lose with its life; not where the holder is known to live. `None`: it
/// stays where it is.
///
/// # Errors
/// When the lock's file cannot be opened.
pub fn acquire_soon(path: &Path, holder_lives: impl Fn() -> bool) -> io::Result<Option<FileLock>> {
    settle(
        || FileLock::try_acquire(path),
        |lock| !matches!(lock, Ok(None)) || holder_lives(),
    )
}

/// Looks until it is as it will stay, but for a moment at most.
fn settle<T>(mut look: impl FnMut() -> T, stays: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + MOMENT;
    loop {
        let found = look();
        if stays(&found) || Instant::now() >= deadline {
            return found;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
