//! The values of a workflow that is in force.

use serde::{Deserialize, Serialize};

use super::leaves::{Leaves, Shown};
use crate::workflow::Workflow;

/// A value of a workflow, also if it is a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Setting {
    /// The key in the file, such as `issue.stages.plan.timeout`.
    pub key: String,
    /// The value; `null` if it may contain a secret.
    pub value: Option<String>,
}

/// Returns the values of a workflow in the order of the model, without unset ones and without
/// possible secrets.
///
/// The scripts and prompts of stages are included: an attempt shows them as well. Of other commands
/// only the number of lines is.
pub fn settings(workflow: &Workflow) -> Vec<Setting> {
    let leaves = Leaves::of(workflow);
    let set = leaves.all.iter().filter(|leaf| !leaf.value.is_null());
    // The name of a stage is in its key, and the other one is no key of the file.
    let is_key = |key: &String| {
        let is_name = key.starts_with("issue.stages.") && key.ends_with(".name");
        !is_name && !key.ends_with(".is_keyed")
    };
    let keys = set.map(|leaf| (leaf, leaf.key())).filter(|(_, key)| is_key(key));
    keys.map(|(leaf, key)| {
        let value = match leaf.shown() {
            Shown::As(text) => Some(text),
            Shown::Lines(_) if key.starts_with("issue.") => leaf.value.as_str().map(str::to_owned),
            Shown::Lines(count) => Some(super::lines(count)),
            Shown::Hidden => None,
        };
        Setting { key, value }
    })
    .collect()
}
