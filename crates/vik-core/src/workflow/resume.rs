//! `issue.stages.S.resume`: which conversations the attempts of a stage resume.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which conversations the attempts of a stage resume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ResumeForm", into = "ResumeForm")]
pub enum ResumePolicy {
    /// Each attempt starts a new one.
    Never,
    /// The one of an interrupted attempt of the same run.
    #[default]
    Run,
    /// Also the last one of the stage, when the issue comes back to it.
    Issue,
}

impl ResumePolicy {
    /// Returns whether attempts of a run continue the conversation of an earlier one.
    pub fn resumes(self) -> bool {
        self != Self::Never
    }
}

/// The forms in the workflow file and in stored stages, of which earlier versions knew only the
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ResumeForm {
    /// `true` is `run`.
    Switch(bool),
    Scope(ResumeScope),
}

/// The runs whose conversations are resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResumeScope {
    Run,
    Issue,
}

impl From<ResumeForm> for ResumePolicy {
    fn from(form: ResumeForm) -> Self {
        match form {
            ResumeForm::Switch(false) => Self::Never,
            ResumeForm::Switch(true) | ResumeForm::Scope(ResumeScope::Run) => Self::Run,
            ResumeForm::Scope(ResumeScope::Issue) => Self::Issue,
        }
    }
}

impl From<ResumePolicy> for ResumeForm {
    fn from(policy: ResumePolicy) -> Self {
        match policy {
            ResumePolicy::Never => Self::Switch(false),
            ResumePolicy::Run => Self::Switch(true),
            ResumePolicy::Issue => Self::Scope(ResumeScope::Issue),
        }
    }
}
