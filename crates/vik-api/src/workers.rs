//! The workers of a hub, for `vik status`.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::worker::{WorkerLabel, WorkerName, WorkerState};

/// A worker: a host that carries out attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerView {
    /// The name that is unique among the workers of a task queue: 1 to 64 characters.
    pub name: WorkerName,
    /// The labels that `where.labels` of stages and agents demand, sorted; at most 64.
    #[serde(default)]
    pub labels: BTreeSet<WorkerLabel>,
    /// Whether it gets attempts, and why not.
    pub state: WorkerState,
    /// The number of attempts that run on it now, as the hub counts them.
    pub running: u32,
    /// The maximum number of attempts at once: `--capacity`.
    pub capacity: NonZeroU32,
    /// The version of Vik that it runs, such as `0.2.0`. It gets nothing unless the hub has the same.
    pub version: String,
}

impl WorkerView {
    /// Returns the labels as a list for people; empty if there are none.
    pub fn label_list(&self) -> String {
        let labels: Vec<_> = self.labels.iter().map(WorkerLabel::as_str).collect();
        labels.join(", ")
    }
}
