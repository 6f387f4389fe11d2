//! Converts records to their form in `--json`.

use std::collections::BTreeMap;

use vik_api::{IntentFile, IntentView, TraceEntry, TracedAttempt, TracedFile};
use vik_core::file_change::ChangeKind;
use vik_core::ids::IssueId;
use vik_session::provenance::map::Intent;
use vik_session::provenance::{Mutation, Record};

/// Returns the attempt of a record.
pub fn attempt(record: &Record) -> TracedAttempt {
    let vik = record.vik();
    TracedAttempt {
        seq: vik.seq,
        at: record.timestamp,
        issue_id: vik.issue.clone(),
        intent: vik.intent.clone(),
        stage: vik.stage.clone(),
        run_id: vik.run,
        attempt: vik.attempt,
        session_id: vik.session,
        agent: vik.agent.clone(),
        by: vik.by.clone(),
        runtime: vik.runtime.clone(),
        model: vik.model.clone(),
        revision: vik.revision.clone(),
    }
}

/// Returns the entry of a record.
pub fn entry(record: &Record) -> TraceEntry {
    let vik = record.vik();
    let files: Vec<_> = vik.changes.iter().map(file).collect();
    TraceEntry {
        attempt: attempt(record),
        hash: vik.hash.to_string(),
        added: files.iter().map(|file| file.added).sum(),
        removed: files.iter().map(|file| file.removed).sum(),
        files,
        unseen: vik.unseen.iter().map(|path| path.text().into_owned()).collect(),
    }
}

fn file(mutation: &Mutation) -> TracedFile {
    let change = &mutation.change;
    let (kind, from) = match &change.kind {
        ChangeKind::Added => ("added", None),
        ChangeKind::Modified => ("modified", None),
        ChangeKind::Deleted => ("deleted", None),
        ChangeKind::TypeChanged => ("type_changed", None),
        ChangeKind::Renamed { from } => ("renamed", Some(from.text().into_owned())),
    };
    let (added, removed) = mutation.line_counts();
    TracedFile {
        path: change.path.text().into_owned(),
        change: kind.to_owned(),
        from,
        added,
        removed,
        whole: change.hunks.is_none(),
        class: mutation.class.map(|class| class.as_str().to_owned()),
    }
}

/// Returns the entries of the intent map.
pub fn intents(map: BTreeMap<IssueId, Intent>) -> Vec<IntentView> {
    let views = map.into_iter().map(|(issue_id, intent)| IntentView {
        issue_id,
        intent: intent.intent,
        attempts: intent.attempts,
        agents: intent.agents.into_iter().collect(),
        models: intent.models.into_iter().collect(),
        files: intent
            .files
            .into_iter()
            .map(|(path, sums)| IntentFile {
                path: path.text().into_owned(),
                changes: sums.changes,
                added: sums.added,
                removed: sums.removed,
                classes: sums
                    .classes
                    .into_iter()
                    .map(|(class, count)| (class.to_owned(), count))
                    .collect(),
                deleted: sums.deleted,
            })
            .collect(),
    });
    views.collect()
}
