//! The installation of a worker on another host.

use schemars::JsonSchema;
use serde::Serialize;

/// `vik worker install --json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WorkerInstallation {
    /// The version of this layout.
    pub schema: u32,
    /// The host, as it was given.
    pub host: String,
    /// The name of the systemd user unit, without `.service`.
    pub unit: String,
    /// Whether nothing was changed: `--dry-run`.
    pub dry_run: bool,
    /// The steps in the order in which they were carried out.
    pub steps: Vec<InstallationStep>,
    /// The text of the unit.
    pub unit_file: String,
}

/// A step of an installation. Steps that were not reached are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InstallationStep {
    /// What the step is about. A name may occur several times, such as `check`.
    pub step: InstallationStepName,
    /// Whether the step changed the host.
    pub result: StepResult,
    /// What was done or found, as a fragment for people. Its text is not stable.
    pub detail: String,
}

/// What a step of an installation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstallationStepName {
    /// The host was inspected.
    Host,
    /// The program of the worker was copied, or is there already.
    Program,
    /// The file of `--env-file` with the secrets was copied, or an earlier one stays.
    Environment,
    /// The workflow file and the files that it needs were copied.
    Workflow,
    /// The systemd user unit was written.
    Unit,
    /// A need of an agent, which `vik doctor` does not find on the host.
    Check,
    /// Whether services of the user run without a login.
    Lingering,
    /// The start or restart of the unit.
    Service,
    /// The report of the worker that it is connected.
    Connection,
}

/// Whether a step changed the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// Nothing had to be changed.
    Unchanged,
    /// The host was changed.
    Changed,
    /// The host would be changed without `--dry-run`.
    Planned,
    /// A person should do something, which the description names.
    Warning,
}
