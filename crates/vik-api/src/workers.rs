//! The workers of a hub, for `vik status`.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::worker::{WorkerLabel, WorkerName, WorkerState};

/// A worker: a host that carries out attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerView {
    /// Its name.
    pub name: WorkerName,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeSet<WorkerLabel>,
    /// Whether it gets attempts.
    pub state: WorkerState,
    /// The number of running attempts on it.
    pub running: u32,
    /// The maximum number of attempts at once.
    pub capacity: NonZeroU32,
    /// Its version of Vik.
    pub version: String,
}

impl WorkerView {
    /// Returns the labels as a list for people; empty if there are none.
    pub fn label_list(&self) -> String {
        let labels: Vec<_> = self.labels.iter().map(WorkerLabel::as_str).collect();
        labels.join(", ")
    }
}
