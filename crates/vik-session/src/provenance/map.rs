//! The intent map: the issues, and the changes to files that were made for each.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use vik_core::file_change::{ChangeKind, RelPath};
use vik_core::ids::{AgentName, IssueId};

use super::record::Record;

/// An issue and its changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Intent {
    /// The issue's title when the last attempt started.
    pub intent: String,
    /// The number of attempts that changed something.
    pub attempts: u64,
    /// The agents of these attempts.
    pub agents: BTreeSet<AgentName>,
    /// The models of these attempts, if known.
    pub models: BTreeSet<String>,
    pub files: BTreeMap<RelPath, FileTotals>,
}

/// The changes of a file for an issue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileTotals {
    /// The number of attempts that changed the file.
    pub changes: u64,
    /// The number of added lines, over all attempts.
    pub added: u64,
    /// The number of removed lines, over all attempts.
    pub removed: u64,
    /// The number of changes of each class; `null` counts changes without a class.
    pub classes: BTreeMap<&'static str, u64>,
    /// Whether the file is deleted after the last change.
    pub deleted: bool,
}

/// Returns the intents of some records.
pub fn map<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeMap<IssueId, Intent> {
    let mut intents: BTreeMap<IssueId, Intent> = BTreeMap::new();
    for record in records {
        let vik = record.vik();
        let intent = intents.entry(vik.issue.clone()).or_default();
        intent.intent.clone_from(&vik.intent);
        if vik.by.is_none() {
            intent.attempts += 1;
            intent.agents.insert(vik.agent.clone());
        }
        intent.models.extend(vik.model.clone());
        for mutation in &vik.changes {
            if let ChangeKind::Renamed { from } = &mutation.change.kind
                && let Some(sums) = intent.files.remove(from)
            {
                // The renamed file continues the history of the old name.
                let to = intent.files.entry(mutation.change.path.clone()).or_default();
                to.add(&sums);
            }
            let (added, removed) = mutation.line_counts();
            let class = mutation
                .class
                .map_or("null", vik_core::mutation::MutationClass::as_str);
            let sums = intent.files.entry(mutation.change.path.clone()).or_default();
            sums.add(&FileTotals {
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

impl FileTotals {
    fn add(&mut self, other: &Self) {
        self.changes += other.changes;
        self.added += other.added;
        self.removed += other.removed;
        for (class, count) in &other.classes {
            *self.classes.entry(class).or_default() += count;
        }
    }
}
