//! The model of the workflow: the policy in `workflow.yml`, as it applies.
//!
//! The crate `vik-workflow-reader` makes it from the text of a file.

mod agent;
mod approve;
mod diff;
mod engine;
mod http;
mod intent;
mod mcp;
pub mod model;
mod notify;
mod question;
mod resume;
mod retention;
mod sandbox;
mod tracker;
pub mod triggers;
mod when;

pub use agent::{AgentProfile, ArgValue, ArgsStyle, Home, OutputFormat, Permission, Price, Runtime};
pub use approve::{ApprovePolicy, CallRule};
pub use diff::{Edit, EditKind, Setting, applied, edits, settings};
pub use engine::{
    ClientCertificate, Engine, EngineTls, InvalidEngineText, SecretRef, ServerAddress, TaskQueueName,
    Temporal,
};
pub use http::Http;
pub use intent::{OnViolation, ScopeConflicts, StageIntent, TrustPolicy, Untrusted};
pub use mcp::{AUTHORIZATION, BadUrl, HeaderValue, HttpUrl, McpSandbox, McpServer, McpTools, McpTransport};
pub use model::{
    DEFAULT_MAX_ROUNDS, DurableWorkspace, HandOverRetry, Intake, IssuePolicy, LogFormat, Notifier,
    NotifyAddress, NotifyChannel, NotifyEvent, OnStateChange, Pressure, PromptSource, RemoveWorkspace, Retry,
    SandboxBackend, SandboxChoice, SandboxFiles, SandboxKeys, SandboxNetwork, SandboxPolicy, SecretSource,
    Show, Stage, TimeOfDay, Turns, Workflow, WorkspaceRoot,
};
pub use question::QuestionPolicy;
pub use resume::{ResumeForm, ResumePolicy, ResumeScope};
pub use retention::{KeepTime, Retention};
pub use tracker::{StartState, shell_quoted};
pub use triggers::{Hook, HookKind, Job, ScheduleEntry, Webhooks};
pub use when::When;
