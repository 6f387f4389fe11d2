//! The files of one attempt.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_core::duration::Span;
use vik_core::ids::{AgentName, AttemptId, IssueId, RunId, StageName};
use vik_core::scheduler::Start;
use vik_core::workflow::AgentProfile;

/// Why a file of an attempt could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file could not be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder or file could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What an attempt is for; written before anything is done for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The version of this record: 2 has [`kept`](Self::kept).
    pub schema: u32,
    /// The run it belongs to.
    pub run_id: RunId,
    /// Its own id.
    pub session_id: AttemptId,
    /// The issue.
    pub issue_id: IssueId,
    /// The issue's title at the start.
    pub issue_title: String,
    /// The issue's state at the start.
    pub issue_state: String,
    /// The stage.
    pub stage: StageName,
    /// The agent profile.
    pub agent: AgentName,
    /// The adapter's name.
    pub runtime: String,
    /// The model, where the profile names one.
    pub model: Option<String>,
    /// Its number within the run, from 1.
    pub attempt: u32,
    /// When it started.
    pub started_at: Timestamp,
    /// The issue workspace.
    pub workdir: PathBuf,
    /// What it keeps to its end, whatever is edited meanwhile and whichever daemon goes on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<AttemptSpec>>,
}

/// What an attempt keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptSpec {
    /// What was decided on.
    pub start: Start,
    /// The agent profile, without the values of its `env`: those may be secrets.
    pub profile: AgentProfile,
    /// `issue.hooks.after_create`.
    pub after_create: Option<String>,
    /// `issue.hooks.timeout`.
    pub create_timeout: Span,
    /// `issue.hooks.sandbox`.
    #[serde(default)]
    pub create_in_sandbox: bool,
    /// `issue.hooks.secrets`: names, no values.
    #[serde(default)]
    pub create_secrets: Vec<String>,
    /// The attempt whose conversation it was to go on with, where that has no id that its agent would take.
    #[serde(default)]
    pub resume_refused: Option<AttemptId>,
}

impl AttemptRecord {
    /// Reads a record; `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is no record.
    pub fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text,
        };
        text.and_then(|text| Ok(serde_json::from_slice(&text)?))
            .map(Some)
            .map_err(|source| StoreError::Read {
                path: path.to_owned(),
                source,
            })
    }
}

/// The paths of one attempt: all have the stem `<stage>-<uuid-v7>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFiles {
    dir: PathBuf,
    stem: String,
}

impl AttemptFiles {
    /// The files of an attempt in the folder of its issue's sessions.
    pub fn new(issue_sessions_dir: &Path, stage: &StageName, session: AttemptId) -> Self {
        Self {
            dir: issue_sessions_dir.to_owned(),
            stem: format!("{stage}-{session}"),
        }
    }

    /// The files beside a session log or attempt record that was found; `None` if it is neither.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let stem = name
            .strip_suffix(".attempt.json")
            .or_else(|| name.strip_suffix(".jsonl"))
            .filter(|stem| !stem.ends_with(".raw") && !stem.ends_with(".steps"))?;
        Some(Self {
            dir: path.parent()?.to_owned(),
            stem: stem.to_owned(),
        })
    }

    fn with(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}{suffix}", self.stem))
    }

    /// The folder they are in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The events.
    pub fn log(&self) -> PathBuf {
        self.with(".jsonl")
    }

    /// What the agent printed, byte for byte.
    pub fn raw(&self) -> PathBuf {
        self.with(".raw.jsonl")
    }

    /// What the agent printed to stderr.
    pub fn stderr(&self) -> PathBuf {
        self.with(".stderr.log")
    }

    /// Which hosts the sandbox has refused.
    pub fn refusals(&self) -> PathBuf {
        self.with(".refused.jsonl")
    }

    /// The rendered prompt.
    pub fn prompt(&self) -> PathBuf {
        self.with(".prompt.md")
    }

    /// What an agent that asks is told on its standard input, while it lives. Its name is not that of a log.
    pub fn stdin(&self) -> PathBuf {
        self.with(".stdin")
    }

    /// The shim's record of the end.
    pub fn exit(&self) -> PathBuf {
        self.with(".exit.json")
    }

    /// The shim's list of the process tree.
    pub fn census(&self) -> PathBuf {
        self.with(".census")
    }

    /// What a hook printed, by the hook's name.
    pub fn hook(&self, name: &str) -> PathBuf {
        self.with(&format!(".{name}.log"))
    }

    /// The journal of its steps.
    pub fn journal(&self) -> PathBuf {
        self.with(".steps.jsonl")
    }

    /// What the workspace was before the agent ran; there while the attempt goes on.
    pub fn base(&self) -> PathBuf {
        self.with(".base.json")
    }

    /// What the agent changed in its workspace.
    pub fn changes(&self) -> PathBuf {
        self.with(".changes.json")
    }

    /// Whether the agent kept to its scope.
    pub fn scope_verdict(&self) -> PathBuf {
        self.with(".scope.json")
    }

    /// The folder of the file in which the agent asks for outputs: its own while it runs, and gone afterwards.
    pub fn outputs_dir(&self) -> PathBuf {
        self.with(".outputs")
    }

    /// What the agent asked for, byte for byte.
    pub fn outputs(&self) -> PathBuf {
        self.with(".outputs.raw.jsonl")
    }

    /// What the commands of the outputs printed, and the name of what lies beside it while they run.
    pub fn outputs_log(&self) -> PathBuf {
        self.with(".outputs.log")
    }

    /// The book of what the attempts of this run had done.
    pub fn output_book(&self, run: RunId) -> PathBuf {
        self.dir.join(format!("{run}.outputs"))
    }

    /// The shim's FIFO, by which a later daemon takes it over.
    pub fn control(&self) -> PathBuf {
        self.with(".control")
    }

    /// What the attempt is for.
    pub fn record(&self) -> PathBuf {
        self.with(".attempt.json")
    }
}
