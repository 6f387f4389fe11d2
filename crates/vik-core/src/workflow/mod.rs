//! The workflow: the policy in `workflow.yml`.

pub mod model;

pub use model::{
    AgentProfile, ArgValue, ArgsStyle, Home, Intake, IssuePolicy, OutputFormat, Permission, Price, PromptSource,
    Retry, Runtime, Stage, Workflow, WorkspaceRoot,
};
