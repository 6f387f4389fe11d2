//! The trace: for each attempt that changed something, the changed files and lines, the agent and
//! the issue.
//!
//! Records are based on the changes that Vik itself finds in the workspace (`workspace/changes`),
//! and never on claims of an agent. They are stored outside of every workspace in the schema of
//! [Agent Trace](https://agent-trace.dev), and each contains the hash of the previous one (ADR 33).

pub mod blame;
pub mod chain;
pub mod map;
pub mod record;
pub mod trim;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io;

use vik_core::file_change::ContentHash;

pub use chain::{Broken, Line, Trace, Verified};
pub use record::{Mutation, Record};
pub use trim::Trimmed;

use vik_workspace::changes::{Base, Snapshot, Store};
use vik_workspace::{Layout, fs as private};

/// Removes stored file contents that are no longer needed: those in no record, in no last snapshot
/// of a workspace that still exists, and in no base snapshot of an unfinished attempt. No attempt
/// may be running. Blocks.
///
/// # Errors
/// Returns an error if something cannot be read or removed.
pub fn sweep(layout: &Layout) -> io::Result<()> {
    if !layout.contents_dir().exists() {
        return Ok(());
    }
    let mut wanted: HashSet<ContentHash> = HashSet::new();
    let mut keep =
        |snapshot: &Snapshot| wanted.extend(snapshot.files.values().filter_map(|found| found.side.hash));
    for issue in vik_workspace::list(layout)? {
        if let Ok(snapshot) = private::read_json(&layout.last_snapshot(&issue)) {
            keep(&snapshot);
        }
        if let Ok(base) = private::read_json::<Base>(&layout.taken_over_base(&issue)) {
            keep(&base.snapshot);
        }
    }
    for folder in folders(&layout.sessions_dir())? {
        for file in folders(&folder)? {
            let is_base = file.to_string_lossy().ends_with(".base.json");
            if is_base && let Ok(base) = private::read_json::<Base>(&file) {
                keep(&base.snapshot);
            }
        }
    }
    for line in Trace::new(&layout.trace_dir()).read()? {
        for mutation in &line.record.vik().changes {
            let sides = [&mutation.change.old, &mutation.change.new];
            wanted.extend(sides.into_iter().flatten().filter_map(|side| side.hash));
        }
    }
    Store::new(&layout.contents_dir()).retain(|hash| wanted.contains(&hash))
}

fn folders(folder: &std::path::Path) -> io::Result<Vec<std::path::PathBuf>> {
    match private::list_folder(folder) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(Vec::new())
        }
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}
