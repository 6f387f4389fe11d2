//! The plan of a run: the steps of the model, pinned in its context and shown to people.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The status of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not started.
    #[default]
    Pending,
    /// In progress.
    InProgress,
    /// Completed.
    Done,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The description of the step.
    pub text: String,
    /// The status.
    #[serde(default)]
    pub status: StepStatus,
}

/// The plan of a run. Clones share the same plan.
#[derive(Clone, Debug, Default)]
pub struct Plan(Arc<Mutex<Vec<Step>>>);

impl Plan {
    fn inner(&self) -> MutexGuard<'_, Vec<Step>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the steps; none if there is no plan.
    pub fn steps(&self) -> Vec<Step> {
        self.inner().clone()
    }

    pub fn set(&self, steps: Vec<Step>) {
        *self.inner() = steps;
    }
}

/// Renders one line per step.
pub fn render(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        let mark = match step.status {
            StepStatus::Pending => ' ',
            StepStatus::InProgress => '>',
            StepStatus::Done => 'x',
        };
        let _ = writeln!(text, "[{mark}] {}", step.text);
    }
    text
}
