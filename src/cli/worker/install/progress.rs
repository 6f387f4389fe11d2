//! The steps of an installation, as they are printed.

use vik_api::{InstallationStep, InstallationStepName, StepResult};
use vik_base::report::{count, one_line};

use super::files::{Part, RemoteFile};
use super::host::HostFacts;
use super::unit::Layout;
use crate::cli::print;

/// Collects the steps, and prints each as it is done.
pub struct Progress {
    pub steps: Vec<InstallationStep>,
    /// Whether steps are only collected, for JSON.
    pub is_silent: bool,
}

impl Progress {
    pub fn add(&mut self, step: InstallationStepName, result: StepResult, detail: impl Into<String>) {
        let detail = one_line(&detail.into(), 300);
        if !self.is_silent {
            print(&format!("{:<12} {detail}\n", heading(step)));
        }
        self.steps.push(InstallationStep { step, result, detail });
    }

    pub fn add_host(&mut self, facts: &HostFacts) {
        let free = facts
            .free_kib
            .map_or_else(String::new, |kib| format!(", {} MiB free", kib / 1024));
        let text = format!("{} {}{free}", facts.system, facts.machine);
        self.add(InstallationStepName::Host, StepResult::Unchanged, text);
    }

    /// Adds a step for each part of the installation. `changed` are the files that differ; they were
    /// copied, unless this is only a plan.
    pub fn add_files(
        &mut self,
        layout: Layout<'_>,
        files: &[RemoteFile],
        changed: &[&RemoteFile],
        is_plan: bool,
    ) {
        let parts = [
            (Part::Program, InstallationStepName::Program),
            (Part::Environment, InstallationStepName::Environment),
            (Part::Workflow, InstallationStepName::Workflow),
            (Part::Unit, InstallationStepName::Unit),
        ];
        for (part, step) in parts {
            let total = files.iter().filter(|file| file.part == part).count();
            let number = changed.iter().filter(|file| file.part == part).count();
            let verb = if is_plan { "to be copied" } else { "copied" };
            let (result, text) = match (number, part) {
                // Without a file, that of an earlier installation stays.
                _ if total == 0 => continue,
                (0, _) => (StepResult::Unchanged, "unchanged".to_owned()),
                (_, Part::Program) => {
                    let bytes: usize = changed
                        .iter()
                        .filter(|file| file.part == part)
                        .map(|file| file.content.len())
                        .sum();
                    let text = format!(
                        "{verb} ({} MiB) to ~/{}; a previous one is kept as vik.previous",
                        bytes.div_ceil(1 << 20),
                        layout.program()
                    );
                    (StepResult::Changed, text)
                }
                (_, Part::Environment) => (StepResult::Changed, format!("{verb} to ~/{}", layout.env_file())),
                (_, Part::Unit) => (StepResult::Changed, format!("{verb} to ~/{}", layout.unit_file())),
                (_, Part::Workflow) => {
                    let folder = layout.workflow_file("");
                    (
                        StepResult::Changed,
                        format!("{} {verb} to ~/{folder}", count(number, "file")),
                    )
                }
            };
            let result = if is_plan && number > 0 {
                StepResult::Planned
            } else {
                result
            };
            self.add(step, result, text);
        }
    }
}

fn heading(step: InstallationStepName) -> &'static str {
    match step {
        InstallationStepName::Host => "host",
        InstallationStepName::Program => "program",
        InstallationStepName::Environment => "environment",
        InstallationStepName::Workflow => "workflow",
        InstallationStepName::Unit => "unit",
        InstallationStepName::Check => "check",
        InstallationStepName::Lingering => "lingering",
        InstallationStepName::Service => "service",
        InstallationStepName::Connection => "connection",
    }
}
