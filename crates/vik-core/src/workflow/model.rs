//! The typed workflow after loading: defaults are filled in, and invalid states cannot be
//! expressed.
//!
//! Maps keep the order of the file, because the stages of one issue run in file order.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::When;
use super::agent::AgentProfile;
use super::approve::ApprovePolicy;
use super::engine::Engine;
use super::http::Http;
use super::intent::{ScopeConflicts, StageIntent, TrustPolicy};
use super::mcp::McpServer;
use super::question::QuestionPolicy;
use super::resume::ResumePolicy;
use super::retention::{KeepTime, Retention};
use super::tracker::{StartState, shell_quoted};
use crate::duration::Span;
use crate::ids::{AgentName, StageName};
use crate::limits::Limit;
use crate::outputs::OutputPolicy;
use crate::worker::WorkerLabel;
use crate::workflow::triggers::{ScheduleEntry, Webhooks};

pub use super::notify::{Notifier, NotifyAddress, NotifyChannel, NotifyEvent, TimeOfDay};
pub use super::sandbox::{
    SandboxBackend, SandboxChoice, SandboxFiles, SandboxKeys, SandboxNetwork, SandboxPolicy,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// `loop.max_issue_concurrency`: the maximum number of concurrent issues.
    pub max_issue_concurrency: u32,
    /// `loop.max_iterations`: the number of pulls; `None` for no limit.
    pub max_iterations: Option<u64>,
    /// `loop.orphan_grace`: how long an agent lives without a daemon. `None` is 10 minutes, or zero
    /// for a daemon in the foreground.
    pub orphan_grace: Option<Span>,
    /// `loop.pressure`: when the machine is too busy to start more.
    pub pressure: Pressure,
    /// `limits`: the limit of all issues in one day (UTC).
    pub day_limit: Limit,
    pub workspace_root: WorkspaceRoot,
    /// `workspace.durable`: where the work of workspaces is saved; `None` if it is only on the
    /// machine of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_durable: Option<DurableWorkspace>,
    pub agents: BTreeMap<AgentName, AgentProfile>,
    /// `issues.tracker`: the program that speaks the tracker protocol, and its arguments.
    #[serde(default)]
    pub tracker: Option<Vec<String>>,
    pub pull: Intake,
    /// `issues.show`: how one issue is looked up.
    pub show: Option<Show>,
    pub issue: IssuePolicy,
    /// `engine`: what coordinates several machines; `None` if all runs on this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    #[serde(default)]
    pub http: Http,
    #[serde(default)]
    pub webhooks: Webhooks,
    #[serde(default)]
    pub schedule: BTreeMap<String, ScheduleEntry>,
    /// `trust`; `None` if there are no rules.
    #[serde(default)]
    pub trust: Option<TrustPolicy>,
    /// `retention`: how long Vik keeps what it stores.
    #[serde(default)]
    pub retention: Retention,
    pub retention_days: u32,
    #[serde(default)]
    pub log_format: LogFormat,
    #[serde(default)]
    pub notify: BTreeMap<String, Notifier>,
    #[serde(default)]
    pub secrets: BTreeMap<String, SecretSource>,
    /// `mcp`: servers by name, of which profiles and stages select some.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpServer>,
}

/// Where Vik keeps the files of this workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkspaceRoot {
    /// The section is absent: `.vik` next to the workflow file.
    BesideWorkflow,
    /// The section has no root: `VIK_HOME`, else `~/.vik`.
    UserHome,
    /// A path relative to the directory of the workflow file, or to the home directory with `~/`.
    Path(String),
}

/// `workspace.durable`: the work of a workspace is saved to a git remote after each attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurableWorkspace {
    /// The remote that `after_create` set up; `None` for the default one, such as `origin`.
    pub remote: Option<String>,
}

/// `issues.pull`: how snapshots of issues are taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intake {
    /// A shell command that prints a JSON array of issues.
    pub command: String,
    /// The names of the command's secrets.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// The time between two pulls.
    pub idle: Span,
    /// The time limit of a pull.
    pub timeout: Span,
}

/// `issues.show`: the lookup of one issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Show {
    /// A shell command, a template with `issue.id`. JSON is the snapshot, `null` a missing issue,
    /// and a failure unknown.
    pub command: String,
    /// The names of the command's secrets.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// The time limit of the command.
    pub timeout: Span,
}

/// `loop.pressure`: thresholds above which nothing starts; `None` for no threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// The minimum of available memory, in bytes.
    pub min_available_memory: Option<u64>,
    /// The maximum memory pressure (PSI, `some avg10`), in percent.
    pub max_memory_pressure: Option<f64>,
}

/// `issue.*`: the treatment of issues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IssuePolicy {
    /// `hooks.after_create`: runs once for each created workspace.
    pub after_create: Option<String>,
    /// `hooks.before_remove`: runs before a workspace is removed.
    pub before_remove: Option<String>,
    /// `hooks.secrets`: the names of secrets for both hooks.
    #[serde(default)]
    pub hook_secrets: Vec<String>,
    /// `hooks.timeout` of each hook.
    pub hook_timeout: Span,
    /// `hooks.sandbox`: whether the hooks run in the sandbox.
    #[serde(default)]
    pub hooks_in_sandbox: bool,
    /// `terminal_states`: the states of finished issues.
    pub terminal_states: Vec<String>,
    /// `terminal_grace`: how long a run may continue after that.
    pub terminal_grace: Span,
    /// `remove_workspace`: what happens to its workspace.
    pub remove_workspace: RemoveWorkspace,
    /// `unlisted`: how long the workspace of an issue is kept that pulls no longer list.
    #[serde(default)]
    pub unlisted: KeepTime,
    /// `limits.attempts`: the maximum number of attempts in the issue's life.
    pub max_attempts: u32,
    /// `limits.rounds`: how often an agent is started because the issue came back to its stage.
    #[serde(default = "default_max_rounds")]
    pub max_rounds: u32,
    /// `limits.tokens` and `limits.usd` of the issue's life.
    pub limit: Limit,
    /// `scope_conflicts`: whether issues with overlapping scopes run at once.
    #[serde(default)]
    pub scope_conflicts: ScopeConflicts,
    /// The stages in file order.
    pub stages: Vec<Stage>,
}

/// The default of [`IssuePolicy::max_rounds`].
pub const DEFAULT_MAX_ROUNDS: u32 = 5;

fn default_max_rounds() -> u32 {
    DEFAULT_MAX_ROUNDS
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub name: StageName,
    /// `when`: the issues that the stage takes.
    #[serde(alias = "when_state")]
    pub when: When,
    /// `start_state`: the state that an issue gets when an attempt starts.
    #[serde(default)]
    pub start_state: Option<StartState>,
    pub agent: AgentName,
    /// The sandbox of the stage, which overrides the profile's.
    #[serde(default)]
    pub sandbox: Option<SandboxChoice>,
    /// `mcp`: the names of servers; `None` for those of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
    /// `skills`: folders of skills, relative to the workflow file; `None` for those of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// The source of the prompt.
    pub prompt: PromptSource,
    pub before_run: Option<String>,
    pub after_run: Option<String>,
    /// `hooks.secrets`: the names of secrets for hooks, `verify` and the commands of the prompt.
    #[serde(default)]
    pub hook_secrets: Vec<String>,
    /// `hooks.timeout` of each hook.
    pub hook_timeout: Span,
    /// `hooks.sandbox`: whether the hooks run in the sandbox.
    #[serde(default)]
    pub hooks_in_sandbox: bool,
    /// `intent`: what attempts must do, and where.
    #[serde(default)]
    pub intent: StageIntent,
    /// `approve`: the approvals of the stage.
    #[serde(default)]
    pub approve: Option<ApprovePolicy>,
    /// `questions`: how long questions of agents wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<QuestionPolicy>,
    /// `outputs`: the outputs that agents may request; `None` for none, which also restricts
    /// nothing.
    #[serde(default)]
    pub outputs: Option<OutputPolicy>,
    /// `verify`: a command that must succeed after the agent has finished.
    pub verify: Option<String>,
    /// The time limit of an attempt.
    pub timeout: Span,
    /// The maximum silence of an agent while no tool call is open.
    pub stall_timeout: Span,
    /// The time limit of one tool call.
    pub tool_timeout: Span,
    /// The number and timing of retries.
    pub retry: Retry,
    /// `hand_over`: how a failed hand-over is repeated.
    #[serde(default)]
    pub hand_over: HandOverRetry,
    /// `limits` of one attempt.
    pub limit: Limit,
    /// `max_concurrency`: the maximum number of concurrent attempts.
    pub max_concurrency: Option<u32>,
    /// `where.labels`: the labels that a worker needs for its attempts, beside those of the profile.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub worker_labels: BTreeSet<WorkerLabel>,
    /// `parallel`: whether the stage may run beside another one of the same issue.
    pub parallel: bool,
    /// `on_state_change`: what happens to an attempt whose issue leaves the state.
    pub on_state_change: OnStateChange,
    /// `resume`: which conversations its attempts resume.
    pub resume: ResumePolicy,
    /// `resume_prompt`: the prompt for that; `None` for the built-in one.
    pub resume_prompt: Option<String>,
    /// `turns`: whether a conversation continues until the issue leaves the state; `None` if each
    /// attempt after a success or a failed `verify` starts a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
}

/// `turns` of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// The maximum number of turns of one conversation, including the first.
    pub max: u32,
}

/// `remove_workspace`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RemoveWorkspace {
    /// A git work tree with nothing uncommitted or unpushed, or an empty folder.
    #[default]
    Clean,
    /// The workspace is kept.
    Never,
    /// The workspace is removed with all of its contents.
    Always,
}

/// `logging.format`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// `on_state_change`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnStateChange {
    /// The attempt continues until it ends.
    #[default]
    Finish,
    /// The attempt is stopped.
    Cancel,
}

/// The source of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PromptSource {
    /// `prompt_file`, relative to the workflow file.
    File(String),
    Inline(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The number of attempts before the stage of an issue is parked; at least 1.
    pub max_attempts: u32,
    /// The wait after the first failure, which doubles with each further one.
    pub initial_backoff: Span,
    pub max_backoff: Span,
}

/// `issue.stages.S.hand_over`: how outputs and `after_run` are repeated after a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOverRetry {
    /// The number of tries before the stage of the issue is parked, with that of the attempt; at
    /// least 1.
    pub max_tries: u32,
    /// No try begins later than this after the first failure.
    pub max_time: Span,
    /// The wait after the first failure, which doubles with each further one.
    pub initial_backoff: Span,
    pub max_backoff: Span,
}

impl Default for HandOverRetry {
    fn default() -> Self {
        Self {
            max_tries: 8,
            max_time: Span::mins(120),
            initial_backoff: Span::secs(15),
            max_backoff: Span::mins(30),
        }
    }
}

/// `secrets.S`: the source of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretSource {
    /// A variable of the daemon.
    Env(String),
    /// A file, relative to the workflow file.
    File(String),
    /// The output of a shell command.
    Command(String),
}

impl Workflow {
    /// Returns the servers of a stage's attempts, in the order of the list.
    pub fn mcp_servers<'w>(
        &'w self,
        profile: &'w AgentProfile,
        stage: &'w Stage,
    ) -> impl Iterator<Item = (&'w String, &'w McpServer)> {
        let names = stage.mcp_names(profile).iter();
        names.filter_map(|name| self.mcp.get_key_value(name))
    }

    /// Returns the names of the secrets that the agent of a stage gets, each once: those of its
    /// profile, and those of its servers without a sandbox of their own.
    pub fn agent_secrets(&self, profile: &AgentProfile, stage: &Stage) -> Vec<String> {
        let mut names = profile.secrets.clone();
        let servers = self.mcp_servers(profile, stage);
        for (_, server) in servers.filter(|(_, server)| !server.has_own_sandbox()) {
            for name in &server.secrets {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// Returns the shell command of a request to `issues.tracker`: a verb and its arguments. `None`
    /// if the workflow names no tracker.
    pub fn tracker_command(&self, request: &[&str]) -> Option<String> {
        let program = self.tracker.as_ref()?.iter().map(String::as_str);
        let args: Vec<_> = program.chain(request.iter().copied()).map(shell_quoted).collect();
        Some(args.join(" "))
    }

    /// Returns the stage with this name.
    pub fn stage(&self, name: &StageName) -> Option<&Stage> {
        self.issue.stages.iter().find(|stage| stage.name == *name)
    }

    /// Returns the names of the stages, in file order.
    pub fn stage_names(&self) -> impl Iterator<Item = &StageName> {
        self.issue.stages.iter().map(|stage| &stage.name)
    }

    /// Returns how long the workspace of an issue is kept that pulls no longer list. Without removals
    /// of finished issues, it is kept too.
    pub fn keep_unlisted(&self) -> KeepTime {
        match self.issue.remove_workspace {
            RemoveWorkspace::Never => KeepTime::Forever,
            RemoveWorkspace::Clean | RemoveWorkspace::Always => self.issue.unlisted,
        }
    }

    /// Returns whether the state is terminal.
    pub fn is_terminal(&self, state: &str) -> bool {
        self.issue
            .terminal_states
            .iter()
            .any(|terminal| terminal == state)
    }
}

impl Stage {
    /// Returns the names of the servers of its attempts: its own, or else the profile's.
    pub fn mcp_names<'a>(&'a self, profile: &'a AgentProfile) -> &'a [String] {
        self.mcp.as_deref().unwrap_or(&profile.mcp)
    }

    /// Returns the folders of the skills of its attempts: its own, or else the profile's.
    pub fn skill_paths<'a>(&'a self, profile: &'a AgentProfile) -> &'a [String] {
        self.skills.as_deref().unwrap_or(&profile.skills)
    }

    /// Returns whether a person must approve each start.
    pub fn asks_before(&self) -> bool {
        self.approve.as_ref().is_some_and(|policy| policy.before)
    }

    /// Returns whether agents must ask before the calls that a rule names.
    pub fn asks_before_calls(&self) -> bool {
        self.approve
            .as_ref()
            .is_some_and(|policy| !policy.calls.is_empty())
    }
}
