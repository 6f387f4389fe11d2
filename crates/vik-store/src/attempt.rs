//! The files of one attempt.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_core::attempt::Start;
use vik_core::duration::Span;
use vik_core::ids::{AgentName, AttemptId, IssueId, RunId, StageName};
use vik_core::workflow::AgentProfile;

/// An error in writing or reading a file of an attempt.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
}

impl StoreError {
    /// Returns the error for a path that cannot be written.
    pub fn write(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the error for a path that cannot be read.
    pub fn read(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Read {
            path: path.to_owned(),
            source,
        }
    }
}

/// The specification of an attempt, written before any effect of the attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The version of this record; version 2 added [`kept`](Self::kept).
    pub schema: u32,
    /// The run of the attempt.
    pub run_id: RunId,
    pub session_id: AttemptId,
    pub issue_id: IssueId,
    /// The issue's title at the start.
    pub issue_title: String,
    /// The issue's state at the start.
    pub issue_state: String,
    pub stage: StageName,
    pub agent: AgentName,
    pub runtime: String,
    /// The model, if the profile names one.
    pub model: Option<String>,
    /// The number of the attempt within the run, from 1.
    pub attempt: u32,
    pub started_at: Timestamp,
    pub workdir: PathBuf,
    /// The values that apply until the attempt ends, whatever workflow edits follow and whichever
    /// daemon resumes the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<AttemptSpec>>,
}

/// The values that an attempt keeps until it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptSpec {
    /// The decision that started the attempt.
    pub start: Start,
    /// The agent profile, without the values of its `env`: those may be secrets.
    pub profile: AgentProfile,
    pub after_create: Option<String>,
    pub create_timeout: Span,
    #[serde(default)]
    pub create_in_sandbox: bool,
    /// `issue.hooks.secrets`: names, no values.
    #[serde(default)]
    pub create_secrets: Vec<String>,
    /// The attempt whose conversation this one was meant to resume, if that has no id that the
    /// agent accepts.
    #[serde(default)]
    pub resume_refused: Option<AttemptId>,
    /// Why people cannot send messages to the agent; `None`: they can.
    #[serde(default = "not_steerable")]
    pub not_steerable_because: Option<String>,
    /// Where the work of the workspace is saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<DurableSpec>,
}

/// Where the work of a durable workspace is saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurableSpec {
    /// The name of the git remote; `None` for the default one.
    pub remote: Option<String>,
    /// Separates workflows with the same remote.
    pub queue: String,
}

/// Returns the reason for a record without one.
fn not_steerable() -> Option<String> {
    Some("an earlier version of Vik started it".to_owned())
}

impl AttemptRecord {
    /// Reads a record. Returns `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a record.
    pub fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text,
        };
        text.and_then(|text| Ok(serde_json::from_slice(&text)?))
            .map(Some)
            .map_err(StoreError::read(path))
    }
}

/// The paths of the files of one attempt, all with the stem `<stage>-<uuid-v7>`.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use vik_core::ids::AttemptId;
/// use vik_store::AttemptFiles;
///
/// let id = AttemptId(uuid::Uuid::nil());
/// let files = AttemptFiles::new(Path::new("sessions/7"), &"plan".into(), id);
/// let log = "sessions/7/plan-00000000-0000-0000-0000-000000000000.jsonl";
/// assert_eq!(files.log(), Path::new(log));
/// assert_eq!(AttemptFiles::of(&files.log()), Some(files));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFiles {
    dir: PathBuf,
    stem: String,
}

impl AttemptFiles {
    /// Returns the paths of an attempt in the sessions folder of its issue.
    pub fn new(issue_sessions_dir: &Path, stage: &StageName, session: AttemptId) -> Self {
        Self {
            dir: issue_sessions_dir.to_owned(),
            stem: format!("{stage}-{session}"),
        }
    }

    /// Returns the paths beside a session log or attempt record; `None` if the path is neither.
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

    /// Returns the folder of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the session log.
    pub fn log(&self) -> PathBuf {
        self.with(".jsonl")
    }

    /// Returns the path of the agent's output, byte for byte.
    pub fn raw(&self) -> PathBuf {
        self.with(".raw.jsonl")
    }

    /// Returns the path of the file whose length is the number of bytes of the raw output that will
    /// be removed. The file exists while the agent runs.
    pub fn partial(&self) -> PathBuf {
        self.with(".partial")
    }

    /// Returns the path of the agent's stderr output.
    pub fn stderr(&self) -> PathBuf {
        self.with(".stderr.log")
    }

    /// Returns the path of the list of hosts that the sandbox refused.
    pub fn refusals(&self) -> PathBuf {
        self.with(".refused.jsonl")
    }

    /// Returns the path of the rendered prompt.
    pub fn prompt(&self) -> PathBuf {
        self.with(".prompt.md")
    }

    /// Returns the path of the file that holds the standard input of a running agent that asks for
    /// approvals. It does not have the suffix of a log.
    pub fn stdin(&self) -> PathBuf {
        self.with(".stdin")
    }

    /// Returns the path of the exit record, which the shim writes.
    pub fn exit(&self) -> PathBuf {
        self.with(".exit.json")
    }

    /// Returns the path of the shim's list of the process tree.
    pub fn census(&self) -> PathBuf {
        self.with(".census")
    }

    /// Returns the path of the output of a hook, by the hook's name.
    pub fn hook(&self, name: &str) -> PathBuf {
        self.with(&format!(".{name}.log"))
    }

    /// Returns the path of the journal.
    pub fn journal(&self) -> PathBuf {
        self.with(".steps.jsonl")
    }

    /// Returns the path of the snapshot of the workspace before the agent ran. The file exists
    /// until the attempt ends.
    pub fn base(&self) -> PathBuf {
        self.with(".base.json")
    }

    /// Returns the path of the agent's changes to its workspace.
    pub fn changes(&self) -> PathBuf {
        self.with(".changes.json")
    }

    /// Returns the path of the verdict on whether the agent kept to its scope.
    pub fn scope_verdict(&self) -> PathBuf {
        self.with(".scope.json")
    }

    /// Returns the folder of the file to which the agent writes its output requests. It exists only
    /// while the agent runs.
    pub fn outputs_dir(&self) -> PathBuf {
        self.with(".outputs")
    }

    /// Returns the folder of the file in which the agent asks. It exists only while the agent runs.
    pub fn questions_dir(&self) -> PathBuf {
        self.with(".questions")
    }

    /// Returns the folder of the agent's MCP servers and skills. It exists only while the agent runs.
    pub fn extensions_dir(&self) -> PathBuf {
        self.with(".extensions")
    }

    /// Returns the folder of the pipes through which the agent reaches MCP servers with sandboxes of
    /// their own. It exists only while the agent runs, if it has such servers.
    pub fn server_pipes(&self) -> PathBuf {
        self.with(".pipes")
    }

    /// Returns the folder with one folder for each of these servers. It exists as long as their pipes.
    pub fn servers_dir(&self) -> PathBuf {
        self.with(".servers")
    }

    /// Returns the path of the error output of these servers.
    pub fn servers_log(&self) -> PathBuf {
        self.with(".servers.log")
    }

    /// Returns the path of the list of the skills that the agent got.
    pub fn skills(&self) -> PathBuf {
        self.with(".skills.json")
    }

    /// Returns the path of the output requests, byte for byte.
    pub fn outputs(&self) -> PathBuf {
        self.with(".outputs.raw.jsonl")
    }

    /// Returns the path of the log of the output commands. Files that exist while the commands run
    /// have the same name with another extension.
    pub fn outputs_log(&self) -> PathBuf {
        self.with(".outputs.log")
    }

    /// Returns the path of the book with the outputs of this run's attempts.
    pub fn output_book(&self, run: RunId) -> PathBuf {
        self.dir.join(format!("{run}.outputs"))
    }

    /// Returns the path of the file with the commit at which this run began.
    pub fn base_commit(&self, run: RunId) -> PathBuf {
        self.dir.join(format!("{run}.base"))
    }

    /// Returns the path of the shim's FIFO, through which a later daemon adopts the shim.
    pub fn control(&self) -> PathBuf {
        self.with(".control")
    }

    /// Returns the path of the attempt record.
    pub fn record(&self) -> PathBuf {
        self.with(".attempt.json")
    }
}
