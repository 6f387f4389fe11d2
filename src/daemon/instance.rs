//! The instance folder: how a daemon is found, with or without a readable workflow.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_proc::{FileLock, ProcessId};

use crate::report::{Exit, Failure};
use crate::workspace::{InstanceDir, fs as private};

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
        match FileLock::try_acquire(&self.dir.lock()).map_err(|error| fail(&error))? {
            Some(lock) => Ok(lock),
            None => {
                let who = match self.read() {
                    Some(info) => format!(" (pid {})", info.process.pid),
                    None => String::new(),
                };
                Err(Failure::new(
                    Exit::AlreadyRunning,
                    "already_running",
                    format!("a daemon{who} runs for this workflow already"),
                )
                .hint("see `vik status`; stop it with `vik stop`"))
            }
        }
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
        serde_json::from_slice(&std::fs::read(self.dir.info()).ok()?).ok()
    }

    /// Whether a daemon is there now: the lock decides, since it ends with its holder.
    pub fn presence(&self) -> Presence {
        let locked = FileLock::is_locked(&self.dir.lock()).unwrap_or(false);
        match (locked, self.read()) {
            (true, Some(info)) if info.process.is_alive() => Presence::Running(info),
            (true, _) => Presence::Starting,
            (false, Some(info)) if info.ended_at.is_none() => Presence::Dead(info),
            (false, _) => Presence::None,
        }
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
