//! The intent map: what was wanted, and which files became what for it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use vik_core::file_change::{ChangeKind, RelPath};
use vik_core::ids::{AgentName, IssueId};

use super::record::Record;

/// An issue, and what was changed for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Intent {
    /// What was wanted: the issue's title, as the last attempt knew it.
    pub intent: String,
    /// How many attempts changed something.
    pub attempts: u64,
    /// The agents that did.
    pub agents: BTreeSet<AgentName>,
    /// The models, where they are known.
    pub models: BTreeSet<String>,
    /// The files.
    pub files: BTreeMap<RelPath, Sums>,
}

/// What was changed in a file for an issue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// In how many attempts it was changed.
    pub changes: u64,
    /// Lines that came, over all of them.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// How often each kind of change was told; `null` stands for those that could not be told.
    pub classes: BTreeMap<&'static str, u64>,
    /// Whether it was gone at last.
    pub deleted: bool,
}

/// The intents of some records.
pub fn map<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeMap<IssueId, Intent> {
    let mut intents: BTreeMap<IssueId, Intent> = BTreeMap::new();
    for record in records {
        let vik = record.vik();
        let intent = intents.entry(vik.issue.clone()).or_default();
        intent.intent.clone_from(&vik.intent);
        intent.attempts += 1;
        intent.agents.insert(vik.agent.clone());
        intent.models.extend(vik.model.clone());
        for mutation in &vik.changes {
            if let ChangeKind::Renamed { from } = &mutation.change.kind
                && let Some(sums) = intent.files.remove(from)
            {
                // It is the same file under another name.
                let to = intent.files.entry(mutation.change.path.clone()).or_default();
                to.add(&sums);
            }
            let (added, removed) = mutation.sums();
            let class = mutation
                .class
                .map_or("null", vik_core::mutation::MutationClass::as_str);
            let sums = intent.files.entry(mutation.change.path.clone()).or_default();
            sums.add(&Sums {
                changes: 1,
                added,
                removed,
                classes: [(class, 1)].into(),
                deleted: false,
            });
            sums.deleted = mutation.change.new.is_none();
        }
    }
    intents
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.changes += other.changes;
        self.added += other.added;
        self.removed += other.removed;
        for (class, count) in &other.classes {
            *self.classes.entry(class).or_default() += count;
        }
    }
}
