//! `vik status --json`.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::approval::Request;
use vik_core::ids::{AgentName, IssueId, StageName};
use vik_core::outcome::Usage;

use crate::{DayView, LimitView, NotifierView, RootCauseView, SpendView};

/// The version of the `--json` outputs.
pub const SCHEMA: u32 = 1;

/// What a daemon does now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The daemon itself.
    #[serde(flatten)]
    pub daemon: Daemon,
    /// The last pull; absent before the first one ended.
    pub last_pull: Option<LastPull>,
    /// Pulls since the daemon started.
    pub pulls: PullCounts,
    /// Attempts under way.
    pub sessions: Vec<SessionView>,
    /// What waits for a person, the oldest first.
    #[serde(default)]
    pub approvals: Vec<ApprovalView>,
    /// What will not start again by itself.
    pub parked: Vec<ParkedView>,
    /// What will start later: the first ones where there are very many.
    pub waiting: Vec<WaitingView>,
    /// How many more wait than are listed.
    #[serde(default)]
    pub waiting_more: usize,
    /// Whether everything is paused.
    #[serde(default)]
    pub paused: bool,
    /// Issues that are paused.
    #[serde(default)]
    pub paused_issues: Vec<IssueId>,
    /// The workflow that is in force.
    #[serde(default)]
    pub workflow: Option<WorkflowView>,
    /// Today.
    #[serde(default)]
    pub day: Option<DayView>,
    /// The ledger.
    #[serde(default)]
    pub ledger: Option<LedgerView>,
    /// Where the HTTP API and the dashboard are served; `null`: only on the control socket.
    #[serde(default)]
    pub api: Option<ApiView>,
    /// The notifiers.
    #[serde(default)]
    pub notify: Vec<NotifierView>,
    /// Where webhooks are listened for; `null`: nowhere.
    #[serde(default)]
    pub webhooks: Option<ApiView>,
}

impl Status {
    /// Creates a status of a daemon without any other data.
    pub fn of(daemon: Daemon) -> Self {
        Self {
            schema: SCHEMA,
            daemon,
            last_pull: None,
            pulls: PullCounts::default(),
            sessions: Vec::new(),
            approvals: Vec::new(),
            parked: Vec::new(),
            waiting: Vec::new(),
            waiting_more: 0,
            paused: false,
            paused_issues: Vec::new(),
            workflow: None,
            day: None,
            ledger: None,
            api: None,
            notify: Vec::new(),
            webhooks: None,
        }
    }
}

/// The HTTP API on TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiView {
    /// Address and port, as in `127.0.0.1:8080`.
    pub address: String,
}

/// The workflow that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowView {
    /// When it was read.
    #[schemars(with = "String")]
    pub loaded_at: Timestamp,
    /// The newest edit, where it is not valid: the one before it stays in force.
    pub rejected: Option<RejectedEdit>,
    /// Keys that were edited and take effect at the next start only.
    #[serde(default)]
    pub needs_restart: Vec<String>,
    /// Its stages, in file order.
    #[serde(default)]
    pub stages: Vec<StageDef>,
}

/// A stage as the workflow names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageDef {
    /// Its name.
    pub stage: StageName,
    /// The state of the issues it takes.
    pub when_state: String,
    /// The agent profile.
    pub agent: AgentName,
}

/// An edit of the workflow that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectedEdit {
    /// When it was seen.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// What is wrong: the first diagnostics, one line each (`workflow.yml:3:5: error: …`).
    pub diagnostics: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

/// The ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerView {
    /// Where it is.
    pub path: PathBuf,
    /// Why nothing can be written to it; `null`: it is well.
    pub error: Option<String>,
}

/// A daemon, running or not.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Daemon {
    /// What it is doing.
    pub state: DaemonState,
    /// Its process id; absent when it is not running.
    pub pid: Option<i32>,
    /// When it started.
    #[schemars(with = "Option<String>")]
    pub started_at: Option<Timestamp>,
    /// Its version.
    pub version: Option<String>,
    /// The workflow file.
    pub workflow_path: PathBuf,
    /// Where it keeps its files.
    pub home: Option<PathBuf>,
}

/// What a daemon is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DaemonState {
    /// It takes and starts work.
    Running,
    /// It starts nothing more, and ends when what runs has ended.
    Draining,
    /// It is ending what runs.
    Stopping,
    /// There is none.
    NotRunning,
    /// It left without cleaning up.
    Dead,
}

/// How a pull went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastPull {
    /// When it ended.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Whether it brought a list.
    pub ok: bool,
    /// Good items.
    pub issues: usize,
    /// Bad items.
    pub skipped: usize,
    /// Issues' fields that hold something of another type; the daemon's log names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Pulls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullCounts {
    /// Pulls that brought a list.
    pub ok: u64,
    /// Pulls that failed.
    pub failed: u64,
    /// Pulls that failed since the last good one.
    pub failed_in_a_row: u64,
}

/// An attempt under way.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SessionView {
    /// The attempt's id.
    pub session_id: String,
    /// The issue.
    pub issue_id: IssueId,
    /// Its title.
    pub issue_title: String,
    /// The stage.
    pub stage: StageName,
    /// The agent profile.
    pub agent: AgentName,
    /// The model.
    pub model: Option<String>,
    /// Its number within the run.
    pub attempt: u32,
    /// `preparing`, `running`, `verifying`, `awaiting_approval`, `finishing`.
    pub phase: String,
    /// When it started.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// When the agent was last heard.
    #[schemars(with = "Option<String>")]
    pub last_event_at: Option<Timestamp>,
    /// What it does now, in a few words.
    pub activity: Option<String>,
    /// How many events its log has.
    pub events: u64,
    /// Tokens so far, as far as the agent tells.
    pub usage: Usage,
    /// Cost so far, where known.
    pub cost_usd: Option<f64>,
    /// What it counts against the limits so far.
    #[serde(default)]
    pub charged: SpendView,
    /// What it may spend at most, by the limits of attempt, issue and day together when it started.
    #[serde(default)]
    pub budget: LimitView,
    /// Whether an earlier daemon started it, and this one took it up.
    #[serde(default)]
    pub adopted: bool,
    /// The session whose conversation it goes on with.
    #[serde(default)]
    pub resumed_from: Option<String>,
    /// Its log.
    pub log: PathBuf,
}

/// Something that waits for a person: `vik approve`, `vik deny`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalView {
    /// The run.
    pub run_id: String,
    /// The attempt, where it is under way.
    pub session_id: Option<String>,
    /// The issue.
    pub issue_id: IssueId,
    /// Its title.
    pub issue_title: String,
    /// The stage.
    pub stage: StageName,
    /// What is asked.
    #[serde(flatten)]
    pub request: Request,
    /// The same for people.
    pub detail: String,
}

/// An (issue, stage) that will not start again by itself.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ParkedView {
    /// The run.
    pub run_id: String,
    /// The issue.
    pub issue_id: IssueId,
    /// Its title.
    #[serde(default)]
    pub issue_title: String,
    /// The stage.
    pub stage: StageName,
    /// Since when.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// Stable, snake case.
    pub reason: String,
    /// For people.
    pub detail: String,
    /// What would free it.
    pub freed_by: String,
}

/// An (issue, stage) that will start later.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WaitingView {
    /// The run, where it has begun.
    pub run_id: Option<String>,
    /// The issue.
    pub issue_id: IssueId,
    /// Its title.
    #[serde(default)]
    pub issue_title: String,
    /// The stage.
    pub stage: StageName,
    /// Stable, snake case: `backoff`, `slot`, `pull`, `quota`, `blocked`, `day_limit`, ….
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub detail: String,
    /// When it will start, where that is known.
    #[schemars(with = "Option<String>")]
    pub until: Option<Timestamp>,
    /// Attempts used so far.
    pub attempts: u32,
    /// For `blocked`: the parked issue that all of it waits for in the end, where there is one.
    #[serde(default)]
    pub root_cause: Option<RootCauseView>,
}
