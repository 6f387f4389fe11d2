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
    /// The steps, in their order.
    pub steps: Vec<InstallationStep>,
    /// The text of the unit.
    pub unit_file: String,
}

/// One step of an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InstallationStep {
    /// Its name.
    pub step: InstallationStepName,
    /// Its result.
    pub result: StepResult,
    /// A description for people.
    pub detail: String,
}

/// The name of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstallationStepName {
    /// The host was inspected.
    Host,
    /// The program.
    Program,
    /// The file with secrets.
    Environment,
    /// The workflow file and the files that it needs.
    Workflow,
    /// The systemd user unit.
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

/// The result of a step.
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
