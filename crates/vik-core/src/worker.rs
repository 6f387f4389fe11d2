//! Workers: the hosts that carry out attempts when there are many machines.
//!
//! A [`Worker`] is what a host announces about itself. [`Workers`] is the present list of them, and
//! derives the [`WorkerState`] of each, so that no announcement can contradict it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum length of a name or a label, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// A text that is neither the name nor the label of a worker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a worker's name or label has 1 to {MAX_NAME_BYTES} letters, digits, `.`, `_` and `-`, and starts with a letter or a digit"
)]
pub struct InvalidWorkerText;

macro_rules! worker_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidWorkerText;

            fn try_from(text: String) -> Result<Self, InvalidWorkerText> {
                text.parse()
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidWorkerText;

            fn from_str(text: &str) -> Result<Self, InvalidWorkerText> {
                if is_valid(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidWorkerText)
                }
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                (*text.0).into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

worker_text! {
    /// The name of a worker, unique among the workers of a hub.
    WorkerName
}
worker_text! {
    /// A label of a worker, such as `gpu`. Stages and profiles demand labels.
    WorkerLabel
}

fn is_valid(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= MAX_NAME_BYTES
        && text.bytes().all(is_allowed)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// What a worker and its hub must have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The version of Vik.
    pub version: String,
    /// The digest of the workflow file.
    pub workflow_digest: String,
}

/// Whether a worker takes attempts, as far as it depends on the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// It announced itself, and responds.
    Available,
    /// It gets nothing new. Its attempts continue.
    Draining,
    /// It does not respond, and its attempts are lost.
    Lost,
}

/// A worker, as it announces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    pub name: WorkerName,
    #[serde(default)]
    pub labels: BTreeSet<WorkerLabel>,
    /// The maximum number of attempts at once.
    pub capacity: NonZeroU32,
    pub revision: Revision,
    pub presence: Presence,
}

impl Worker {
    /// Returns whether the worker has all of these labels.
    pub fn has_labels(&self, labels: &BTreeSet<WorkerLabel>) -> bool {
        self.labels.is_superset(labels)
    }
}

/// Whether a worker gets attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum WorkerState {
    /// It gets attempts.
    Ready,
    /// It gets nothing new. Its attempts continue.
    Draining,
    /// It gets nothing, because its version is not that of the hub.
    MismatchedVersion,
    /// It gets nothing, because its workflow file is not that of the hub.
    MismatchedWorkflow,
    /// It does not respond, and its attempts are lost.
    Lost,
}

impl WorkerState {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The workers of a hub, each name once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    hub: Revision,
    by_name: BTreeMap<WorkerName, Worker>,
}

impl Workers {
    /// Returns the workers of a hub with this revision. Of several with the same name, the last one
    /// counts.
    pub fn new(hub: Revision, workers: impl IntoIterator<Item = Worker>) -> Self {
        let by_name = workers
            .into_iter()
            .map(|worker| (worker.name.clone(), worker))
            .collect();
        Self { hub, by_name }
    }

    /// Returns the revision of the hub.
    pub fn hub(&self) -> &Revision {
        &self.hub
    }

    /// Returns the workers with their states, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Worker, WorkerState)> {
        self.by_name
            .values()
            .map(|worker| (worker, self.state_of(worker)))
    }

    /// Returns the workers that get attempts, by name.
    pub fn ready(&self) -> impl Iterator<Item = &Worker> {
        let ready = self.iter().filter(|(_, state)| *state == WorkerState::Ready);
        ready.map(|(worker, _)| worker)
    }

    /// Returns the state of a worker. One that is not listed is lost.
    pub fn state(&self, name: &WorkerName) -> WorkerState {
        let worker = self.by_name.get(name);
        worker.map_or(WorkerState::Lost, |worker| self.state_of(worker))
    }

    fn state_of(&self, worker: &Worker) -> WorkerState {
        match worker.presence {
            Presence::Lost => WorkerState::Lost,
            Presence::Draining => WorkerState::Draining,
            Presence::Available if worker.revision.version != self.hub.version => {
                WorkerState::MismatchedVersion
            }
            Presence::Available if worker.revision != self.hub => WorkerState::MismatchedWorkflow,
            Presence::Available => WorkerState::Ready,
        }
    }
}

/// Why a worker did not finish an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerLoss {
    /// The worker does not respond, or did not take the attempt.
    Lost,
    /// The worker was drained before the attempt had ended.
    Drained,
    /// The worker was upgraded.
    Upgraded,
}

impl WorkerLoss {
    /// Returns the reason of an attempt on this worker, as a sentence.
    pub fn reason(self, worker: &WorkerName) -> String {
        let cause = match self {
            Self::Lost => "does not respond",
            Self::Drained => "was drained",
            Self::Upgraded => "was upgraded",
        };
        format!("the worker `{worker}` {cause}")
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    fn revision(version: &str, workflow: &str) -> Revision {
        Revision {
            version: version.to_owned(),
            workflow_digest: workflow.to_owned(),
        }
    }

    fn worker(presence: Presence, revision: Revision) -> Worker {
        Worker {
            name: "a".parse().unwrap(),
            labels: BTreeSet::new(),
            capacity: NonZeroU32::MIN,
            revision,
            presence,
        }
    }

    #[test]
    fn worker_texts_are_checked_when_they_are_made_and_read() {
        for text in ["a", "gpu", "Host-7.example", "9", "cuda_12", &"a".repeat(64)] {
            let name: WorkerName = text.parse().unwrap();
            let json = serde_json::to_value(&name).unwrap();
            assert_eq!(json, text);
            assert_eq!(serde_json::from_value::<WorkerName>(json).unwrap(), name);
        }
        for text in ["", "-a", ".", "a b", "a/b", "a\n", "ä", &"a".repeat(65)] {
            assert_eq!(text.parse::<WorkerLabel>(), Err(InvalidWorkerText), "{text:?}");
            assert!(
                serde_json::from_value::<WorkerLabel>(text.into()).is_err(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn worker_state_follows_from_presence_and_revision() {
        let hub = revision("1", "x");
        let state = |presence, revision| {
            let worker = worker(presence, revision);
            let name = worker.name.clone();
            Workers::new(hub.clone(), [worker]).state(&name)
        };
        let (same, older, other) = (hub.clone(), revision("0", "y"), revision("1", "y"));
        assert_eq!(state(Presence::Available, same.clone()), WorkerState::Ready);
        assert_eq!(
            state(Presence::Available, older.clone()),
            WorkerState::MismatchedVersion
        );
        assert_eq!(state(Presence::Available, other), WorkerState::MismatchedWorkflow);
        assert_eq!(state(Presence::Draining, older), WorkerState::Draining);
        assert_eq!(state(Presence::Lost, same), WorkerState::Lost);
        let none = Workers::new(hub.clone(), []);
        assert_eq!(none.state(&"a".parse().unwrap()), WorkerState::Lost);
    }

    #[test]
    fn worker_state_has_one_name() {
        for state in WorkerState::VARIANTS {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn workers_have_each_name_once() {
        let hub = revision("1", "x");
        let twice = [
            worker(Presence::Available, hub.clone()),
            worker(Presence::Lost, hub.clone()),
        ];
        let workers = Workers::new(hub, twice);
        assert_eq!((workers.iter().count(), workers.ready().count()), (1, 0));
    }
}
