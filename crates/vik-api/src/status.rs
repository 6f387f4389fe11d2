//! `vik status --json`.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::approval::Request;
use vik_core::ids::{AgentName, IssueId, StageName};
use vik_core::outcome::Usage;
use vik_core::turn::TurnOfMax;
use vik_core::worker::WorkerName;

use crate::{
    DayView, LimitView, NotifierView, QuestionView, RetentionView, RootCauseView, SpendView, WorkerView,
};

/// The version of the `--json` outputs.
pub const SCHEMA: u32 = 1;

/// The current status of a daemon.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The daemon itself.
    #[serde(flatten)]
    pub daemon: Daemon,
    /// The last pull; absent before the first one ended.
    pub last_pull: Option<PullView>,
    /// Pulls since the daemon started.
    pub pulls: PullCounts,
    /// The running attempts.
    pub sessions: Vec<SessionView>,
    /// The pending requests, oldest first.
    #[serde(default)]
    pub approvals: Vec<ApprovalView>,
    /// The questions of agents that wait for a person, oldest first.
    #[serde(default)]
    pub questions: Vec<QuestionView>,
    /// The parked stages.
    pub parked: Vec<ParkedView>,
    /// The waiting stages; only the first ones if there are very many.
    pub waiting: Vec<WaitingView>,
    /// The number of waiting stages that are not listed.
    #[serde(default)]
    pub waiting_more: usize,
    /// Whether everything is paused.
    #[serde(default)]
    pub paused: bool,
    /// Issues that are paused.
    #[serde(default)]
    pub paused_issues: Vec<IssueId>,
    /// The issues that people have taken over.
    #[serde(default)]
    pub taken_over: Vec<TakenOverView>,
    /// The workflow that is in force.
    #[serde(default)]
    pub workflow: Option<WorkflowView>,
    /// Today.
    #[serde(default)]
    pub day: Option<DayView>,
    /// The ledger.
    #[serde(default)]
    pub ledger: Option<LedgerView>,
    /// The address of the HTTP API and the dashboard; `null` if they are only on the control
    /// socket.
    #[serde(default)]
    pub api: Option<ApiView>,
    /// The notifiers.
    #[serde(default)]
    pub notify: Vec<NotifierView>,
    /// The address of the webhook server; `null` if there is none.
    #[serde(default)]
    pub webhooks: Option<ApiView>,
    /// How long Vik keeps what it stores, and what it has removed.
    #[serde(default)]
    pub retention: Option<RetentionView>,
    /// The workers, by name; empty if attempts run on the machine of the daemon.
    #[serde(default)]
    pub workers: Vec<WorkerView>,
    /// Which hub leads; `null` if the workflow runs on one machine.
    #[serde(default)]
    pub hub: Option<HubView>,
}

/// The hub that leads, and the one that passed the request on to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HubView {
    /// The host of the hub that leads, whose status this is; `null` if none answers.
    pub leader: Option<String>,
    /// The host of the hub that was asked, if it follows.
    pub follower: Option<String>,
}

impl Status {
    /// Creates a status of a daemon without any other data.
    pub fn of(daemon: Daemon) -> Self {
        Self {
            schema: SCHEMA,
            daemon,
            ..Self::default()
        }
    }
}

/// An issue that a person has taken over: nothing of it starts, is pruned or removed until they hand
/// it back. The usage of their session is not counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TakenOverView {
    /// The issue as the tracker names it.
    pub issue_id: IssueId,
    /// The title when the issue was last seen.
    pub issue_title: String,
    /// Its state when it was last seen. A finished issue stays taken over.
    pub issue_state: String,
    /// The id of the person's session, under which the trace has its changes.
    pub session_id: String,
    /// The person and the way they used.
    pub by: String,
    /// When they took it over.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// The stage whose conversation they continue, if one has run.
    pub stage: Option<StageName>,
    /// Whether an agent of the issue has not ended yet, or its work is being handed over.
    pub busy: bool,
}

/// The HTTP API on TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiView {
    /// Address and port, such as `127.0.0.1:8080`.
    pub address: String,
}

/// The workflow that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowView {
    /// When it was read.
    #[schemars(with = "String")]
    pub loaded_at: Timestamp,
    /// The newest edit if it is invalid; the previous version stays in force.
    pub rejected: Option<RejectedEdit>,
    /// Edited keys that take effect after a restart.
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
    /// The state of the issues it takes; several are separated by `, `.
    pub when_state: String,
    /// The labels that these issues must have.
    #[serde(default)]
    pub when_labels: Vec<String>,
    /// The agent profile.
    pub agent: AgentName,
}

/// An invalid edit of the workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectedEdit {
    /// The time when it was detected.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The first diagnostics, one per line (`workflow.yml:3:5: error: …`).
    pub diagnostics: Vec<String>,
    /// The number of further diagnostics.
    pub more: usize,
}

/// The ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerView {
    /// Its path.
    pub path: PathBuf,
    /// The error that prevents writing; `null` if there is none.
    pub error: Option<String>,
}

/// A daemon, running or not.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Daemon {
    /// Its status.
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
    /// The home folder.
    pub home: Option<PathBuf>,
}

/// The status of a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DaemonState {
    /// It pulls issues and starts attempts.
    Running,
    /// It is a hub, and another one leads.
    Following,
    /// It starts no new attempts, and exits when the running ones have ended.
    Draining,
    /// It is stopping the running attempts.
    Stopping,
    /// No daemon is running.
    #[default]
    NotRunning,
    /// It exited without cleaning up.
    Dead,
}

/// The result of a pull.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullView {
    /// When it ended.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Whether it returned a list.
    pub ok: bool,
    /// Valid items.
    pub issues: usize,
    /// Invalid items.
    pub skipped: usize,
    /// Fields of issues with the wrong type; the daemon's log names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// The reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next pull is due, after a failed one. Missing while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub next_at: Option<Timestamp>,
}

/// Pulls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullCounts {
    /// Pulls that returned a list.
    pub ok: u64,
    /// Pulls that failed.
    pub failed: u64,
    /// Pulls that failed since the last successful one.
    pub failed_in_a_row: u64,
}

/// A running attempt.
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
    /// The worker that carries it out; absent if it runs on the machine of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerName>,
    /// Its number within the run.
    pub attempt: u32,
    /// The turn of its conversation, in a stage with `turns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnOfMax>,
    /// `preparing`, `running`, `verifying`, `awaiting_approval`, `finishing`.
    pub phase: String,
    /// When it started.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// The time of the agent's last event.
    #[schemars(with = "Option<String>")]
    pub last_event_at: Option<Timestamp>,
    /// A short text about its current activity.
    pub activity: Option<String>,
    /// The number of events in its log.
    pub events: u64,
    /// Tokens so far, as reported by the agent.
    pub usage: Usage,
    /// Cost so far, if known.
    pub cost_usd: Option<f64>,
    /// The charge against the limits so far.
    #[serde(default)]
    pub charged: SpendView,
    /// Its limit: the minimum of the limits of attempt, issue and day when it started.
    #[serde(default)]
    pub budget: LimitView,
    /// Whether this daemon adopted it from an earlier one.
    #[serde(default)]
    pub adopted: bool,
    /// The session whose conversation it resumes.
    #[serde(default)]
    pub resumed_from: Option<String>,
    /// What the agent waits for, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsForView>,
    /// The speed of the answer that is arriving, estimated from its characters; absent if none
    /// arrives, or not in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// How full the context of the conversation is, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
    /// The rate limit of the account, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimitView>,
    /// How far the stop of the agent is, while it is being stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<StoppingView>,
    /// Its log.
    pub log: PathBuf,
    /// Whether messages of people reach the agent while it runs: `ready`, `not_yet`, `no`; `null` if
    /// that is not known.
    #[serde(default)]
    pub steerable: Option<String>,
    /// Why messages do not reach it while it runs.
    #[serde(default)]
    pub not_steerable_because: Option<String>,
}

/// What a running agent waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitsForView {
    /// `model`, `tool`, `person`.
    pub kind: String,
    /// For `tool`, its name; for `model`, what of its answer is arriving: `text`, `thinking`, `tool
    /// input`.
    pub detail: Option<String>,
    /// Since when.
    #[schemars(with = "String")]
    pub since: Timestamp,
}

/// How full the context of a conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextView {
    /// The tokens of the last request and its answer.
    pub used: u64,
    /// The size of the context in tokens, if it is known.
    pub window: Option<u64>,
}

/// How much of a rate limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateLimitView {
    /// From 0 to 100.
    pub used_percent: f64,
    /// When it is reset, if that is known.
    #[schemars(with = "Option<String>")]
    pub resets_at: Option<Timestamp>,
}

/// How far the stop of an agent is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoppingView {
    /// The reason.
    pub why: String,
    /// The step of the stop ladder by its timetable: `interrupt`, `terminate`, `kill`.
    pub step: String,
    /// When the next step comes, unless the agent has ended before.
    #[schemars(with = "Option<String>")]
    pub next_step_at: Option<Timestamp>,
}

/// A request that waits for a person: `vik approve`, `vik deny`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalView {
    /// The run.
    pub run_id: String,
    /// The attempt, if it is running.
    pub session_id: Option<String>,
    /// The issue.
    pub issue_id: IssueId,
    /// Its title.
    pub issue_title: String,
    /// The stage.
    pub stage: StageName,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
    /// The request as a text for people.
    pub detail: String,
}

/// A parked stage of an issue.
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
    /// The time when it was parked.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// A stable code in snake case.
    pub reason: String,
    /// A text for people.
    pub detail: String,
    /// The actions that free it.
    pub freed_by: String,
}

/// A waiting stage of an issue.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WaitingView {
    /// The run, if it has started.
    pub run_id: Option<String>,
    /// The issue.
    pub issue_id: IssueId,
    /// Its title.
    #[serde(default)]
    pub issue_title: String,
    /// The stage.
    pub stage: StageName,
    /// A stable code in snake case: `backoff`, `slot`, `pull`, `quota`, `blocked`, `day_limit`, ….
    pub reason: String,
    /// A text for people.
    #[serde(default)]
    pub detail: String,
    /// The start time, if known.
    #[schemars(with = "Option<String>")]
    pub until: Option<Timestamp>,
    /// Attempts used so far.
    pub attempts: u32,
    /// For `blocked`: the parked issue at the root of the chain of blockers, if any.
    #[serde(default)]
    pub root_cause: Option<RootCauseView>,
}
