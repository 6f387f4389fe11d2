//! Checks whether an attempt kept to its scope. The check compares snapshots after the last process
//! of the agent has ended, so it covers every way to change a file.
//!
//! A change out of scope fails the attempt, or is reverted. A change that failed an attempt stays
//! owed in its run: the next attempt starts with it in the workspace, and must not succeed by
//! leaving it there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use vik_base::report;
use vik_core::file_change::{ChangeKind, RelPath, Side};
use vik_core::ids::RunId;
use vik_core::outcome::FailureClass;
use vik_core::scope::Scope;
use vik_core::visible::visible;
use vik_core::workflow::OnViolation;
use vik_store::AttemptFailure;
use vik_workspace::changes::{
    Base, Changes, Mark, Restored, Snapshot, Store, is_below, restore, restore_mark,
};
use vik_workspace::{Workspace, fs as private};

use super::intent::globs;
use super::opened::AttemptContext;

/// The number of paths in a reason, and in the feedback for the next attempt.
const NAMED: usize = 5;
const MAX_REPORTED: usize = 50;

/// The verdict on the scope of one attempt. It is kept beside the attempt's record and remains
/// valid even if the workspace changes later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeVerdict {
    /// The paths that changed out of scope and are not reverted.
    pub violations: BTreeSet<RelPath>,
    /// The paths that were reverted.
    #[serde(default)]
    pub reverted: BTreeSet<RelPath>,
    /// Why some paths were not reverted although the workflow asks for it.
    #[serde(default)]
    pub not_reverted: Option<String>,
}

/// The changes out of scope that attempts of one run left in the workspace: each path with its
/// earlier content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Owed {
    run: Option<RunId>,
    paths: BTreeMap<RelPath, Option<Side>>,
    /// Folders, special files and extended attributes, each with its earlier state.
    #[serde(default)]
    marks: BTreeMap<RelPath, Option<Mark>>,
}

impl Owed {
    /// Returns the paths to report: a folder only if none of the reported paths is in it.
    fn named(&self) -> BTreeSet<RelPath> {
        let holds_named = |folder: &RelPath| {
            let below = |path: &RelPath| path != folder && is_below(path, folder);
            self.paths.keys().any(below)
        };
        let marks = self.marks.keys().filter(|path| !holds_named(path));
        self.paths.keys().chain(marks).cloned().collect()
    }
}

impl AttemptContext<'_> {
    /// Determines the changes of an agent, if it ran, and compares them with the scope.
    pub(super) async fn check_changes(&self, folder: &Workspace, ran: bool) -> Result<(), AttemptFailure> {
        self.take_over_commits(folder).await?;
        if !ran {
            return Ok(());
        }
        self.trace_changes(folder).await?;
        self.keep_to_scope(folder).await
    }

    async fn keep_to_scope(&self, folder: &Workspace) -> Result<(), AttemptFailure> {
        let intent = self.start().intent.clone();
        let Some(scope) = intent.scope else {
            return Ok(());
        };
        let failed = |error: io::Error| {
            let reason = format!("cannot check the scope of the attempt: {}", report::chain(&error));
            AttemptFailure::failed(FailureClass::Verify, reason)
        };
        let (issue, stage) = (&self.start().issue.id, &self.start().stage.name);
        let judge = Judge {
            folder: folder.as_fd().try_clone_to_owned().map_err(failed)?,
            store: Store::new(&self.host().layout.contents_dir()),
            base: self.files.base(),
            changes: self.files.changes(),
            verdict: self.files.scope_verdict(),
            last: self.host().layout.last_snapshot(issue),
            owed: self.host().layout.unreverted_changes_file(issue, stage),
            run: self.start().run,
            reverts: intent.on_violation == OnViolation::Revert,
            scope: scope.clone(),
        };
        let verdict = match spawn_blocking(move || judge.verdict()).await {
            Ok(verdict) => verdict.map_err(failed)?,
            Err(error) => return Err(failed(io::Error::other(error))),
        };
        verdict.failure(&scope).map_or(Ok(()), Err)
    }

    /// Returns a message about the reverted paths for the session log.
    pub(super) fn reverted_message(&self) -> Option<String> {
        let verdict: ScopeVerdict = private::read_json(&self.files.scope_verdict()).ok()?;
        let paths = named(&verdict.reverted, MAX_REPORTED);
        (!paths.is_empty()).then(|| format!("changed out-of-scope paths, now reverted: {paths}"))
    }
}

/// The data that the check needs on a blocking thread.
struct Judge {
    folder: std::os::fd::OwnedFd,
    store: Store,
    base: std::path::PathBuf,
    changes: std::path::PathBuf,
    verdict: std::path::PathBuf,
    last: std::path::PathBuf,
    owed: std::path::PathBuf,
    run: RunId,
    reverts: bool,
    scope: Scope,
}

impl Judge {
    fn verdict(&self) -> io::Result<ScopeVerdict> {
        if self.verdict.exists() {
            return private::read_json(&self.verdict);
        }
        let base: Base = private::read_json(&self.base)?;
        let changes: Changes = private::read_json(&self.changes)?;
        let now: Snapshot = private::read_json(&self.last)?;
        let mut owed: Owed = private::read_json_if_exists(&self.owed)?.unwrap_or_default();
        if owed.run != Some(self.run) {
            owed = Owed {
                run: Some(self.run),
                ..Owed::default()
            };
        }
        let side =
            |snapshot: &Snapshot, path: &RelPath| snapshot.files.get(path).map(|found| found.side.clone());
        for path in violations(&changes, &base.snapshot, &self.scope) {
            let before = || side(&base.snapshot, &path);
            let before = owed.paths.get(&path).cloned().unwrap_or_else(before);
            owed.paths.insert(path, before);
        }
        // A path that has its content from before the run again is no violation, although this
        // attempt changed it.
        let unseen = |path: &RelPath| changes.unseen.contains(path);
        owed.paths
            .retain(|path, before| side(&now, path) != *before || unseen(path));
        for path in marks_out_of_scope(&changes, &base.snapshot, &self.scope) {
            let before = || base.snapshot.mark(&path).copied();
            let before = owed.marks.get(&path).copied().unwrap_or_else(before);
            owed.marks.insert(path, before);
        }
        owed.marks
            .retain(|path, before| now.mark(path) != before.as_ref() || unseen(path));
        let mut verdict = ScopeVerdict {
            violations: owed.named(),
            ..ScopeVerdict::default()
        };
        if self.reverts && !verdict.violations.is_empty() {
            if changes.head == changes.base_head {
                self.put_back(&base, &now, &mut owed, &mut verdict)?;
            } else {
                verdict.not_reverted =
                    Some("the attempt made commits, and Vik does not rewrite history".to_owned());
            }
        }
        private::create_parent(&self.owed)?;
        private::write_atomic_nosync(&self.owed, &serde_json::to_vec(&owed)?)?;
        private::write_atomic_nosync(&self.verdict, &serde_json::to_vec(&verdict)?)?;
        Ok(verdict)
    }

    fn put_back(
        &self,
        base: &Base,
        now: &Snapshot,
        owed: &mut Owed,
        verdict: &mut ScopeVerdict,
    ) -> io::Result<()> {
        let named = std::mem::take(&mut verdict.violations);
        let mut remaining = Owed {
            run: owed.run,
            ..Owed::default()
        };
        for (path, before) in std::mem::take(&mut owed.paths) {
            let base_side = base.snapshot.files.get(&path).map(|found| &found.side);
            let why = if before.as_ref() != base_side {
                EARLIER
            } else if restore(&self.store, &self.folder, &base.snapshot, &path)? == Restored::ContentMissing {
                NOT_KEPT
            } else {
                continue;
            };
            verdict.not_reverted = Some(why.to_owned());
            remaining.paths.insert(path, before);
        }
        // The content of a folder is reverted before the folder itself.
        for (path, before) in std::mem::take(&mut owed.marks).into_iter().rev() {
            let why = if before.as_ref() != base.snapshot.mark(&path) {
                EARLIER
            } else if remaining.paths.keys().any(|kept| is_below(kept, &path))
                || restore_mark(&self.store, &self.folder, &base.snapshot, now, &path)?
                    == Restored::ContentMissing
            {
                NOT_KEPT
            } else {
                continue;
            };
            verdict.not_reverted = Some(why.to_owned());
            remaining.marks.insert(path, before);
        }
        verdict.violations = remaining.named();
        verdict.reverted = named.difference(&verdict.violations).cloned().collect();
        *owed = remaining;
        Ok(())
    }
}

/// Why a path is not reverted.
const EARLIER: &str = "an earlier attempt had changed some of them";
const NOT_KEPT: &str =
    "the original content of some of them is not available: too large, lost, or not a regular file";

/// Returns whether a path is in a scope. A repository below the workspace is treated like any other
/// folder.
fn is_in(scope: &Scope, path: &RelPath) -> bool {
    let mut parts: Vec<&[u8]> = path.parts().collect();
    for part in parts.iter_mut().skip(1).filter(|part| **part == *b".git") {
        *part = b"_git";
    }
    scope.matches(Path::new(OsStr::from_bytes(&parts.join(&b'/'))))
}

/// Returns the folders, special files and extended attributes that changed out of scope. A new
/// folder is allowed if it may contain something in scope.
fn marks_out_of_scope(changes: &Changes, base: &Snapshot, scope: &Scope) -> BTreeSet<RelPath> {
    let may_hold = |folder: &RelPath| {
        let text = folder.text();
        let is_plain = !text.contains(['*', '?', '[', ']', '{', '}', '!', '\\', '"']);
        is_plain && Scope::new([format!("{text}/**")]).is_ok_and(|below| below.overlaps(scope))
    };
    let is_new = |path: &RelPath| base.mark(path).is_none() && !base.files.contains_key(path);
    let is_out = |path: &&RelPath| !(is_in(scope, path) || is_new(path) && may_hold(path));
    changes.marks.iter().filter(is_out).cloned().collect()
}

/// Returns the paths that changed out of scope: both names of a rename, links by their own path,
/// removed files, and new files that cannot be inspected.
fn violations(changes: &Changes, base: &Snapshot, scope: &Scope) -> BTreeSet<RelPath> {
    let mut touched = BTreeSet::new();
    for change in &changes.files {
        touched.insert(&change.path);
        if let ChangeKind::Renamed { from } = &change.kind {
            touched.insert(from);
        }
    }
    let was_unseen = |path: &RelPath| base.unseen.contains(path) || base.crowded.contains(path);
    touched.extend(changes.unseen.iter().filter(|path| !was_unseen(path)));
    let is_out = |path: &&RelPath| !is_in(scope, path);
    touched.into_iter().filter(is_out).cloned().collect()
}

impl ScopeVerdict {
    /// Returns the failure of the attempt, if there is one, with feedback for the next attempt.
    fn failure(&self, scope: &Scope) -> Option<AttemptFailure> {
        if self.violations.is_empty() {
            return None;
        }
        let mut reason = format!("changed out-of-scope paths: {}", named(&self.violations, NAMED));
        let mut feedback = format!(
            "These paths are out of the scope of this issue, and were changed: {}.\nThe scope is: {}.\nPut each of them back \
             as it was before your work",
            named(&self.violations, MAX_REPORTED),
            visible(&globs(scope).join(", "))
        );
        feedback.push_str(match &self.not_reverted {
            Some(why) => {
                reason.push_str(&format!("; not reverted: {why}"));
                "; for what you committed, by another commit. Vik could not do it for you.\n"
            }
            None => "; for what you committed, by another commit. Until then no attempt succeeds.\n",
        });
        Some(AttemptFailure {
            feedback: Some(feedback),
            ..AttemptFailure::failed(FailureClass::Verify, reason)
        })
    }
}

fn named(paths: &BTreeSet<RelPath>, max: usize) -> String {
    let names: Vec<_> = paths
        .iter()
        .take(max)
        .map(|path| visible(&path.text()).into_owned())
        .collect();
    let more = match paths.len().saturating_sub(max) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use vik_core::file_change::FileChange;

    use super::*;

    fn change(path: &str, kind: ChangeKind) -> FileChange {
        FileChange {
            path: RelPath::new(path),
            kind,
            old: None,
            new: None,
            hunks: None,
        }
    }

    fn paths(paths: &[&str]) -> BTreeSet<RelPath> {
        paths.iter().map(|path| RelPath::new(*path)).collect()
    }

    #[test]
    fn violations_include_renames_deletions_and_unseen_paths() {
        let scope = Scope::new(["src/a", "!src/a/lock"]).unwrap();
        let renamed = |from: &str| ChangeKind::Renamed {
            from: RelPath::new(from),
        };
        let changes = Changes {
            files: vec![
                change("src/a/x", ChangeKind::Modified),
                change("src/ab", ChangeKind::Added),
                change("src/a/y", renamed("lib/y")),
                change("out/z", renamed("src/a/z")),
                change("src/a/lock", ChangeKind::Deleted),
                change("src", ChangeKind::TypeChanged),
            ],
            unseen: paths(&["hidden", "target", "src/a/deep"]),
            ..Changes::default()
        };
        let base = Snapshot {
            crowded: paths(&["target"]),
            ..Snapshot::default()
        };
        assert_eq!(
            violations(&changes, &base, &scope),
            paths(&["hidden", "lib/y", "out/z", "src", "src/a/lock", "src/ab"])
        );
    }

    #[test]
    fn failure_names_the_paths_and_feedback_names_the_scope() {
        let scope = Scope::new(["src"]).unwrap();
        let verdict = ScopeVerdict {
            violations: paths(&["a\u{202e}b", "c1", "c2", "c3", "c4", "c5"]),
            ..ScopeVerdict::default()
        };
        let failure = verdict.failure(&scope).unwrap();
        assert_eq!(
            failure.reason,
            "changed out-of-scope paths: a⟦U+202E⟧b, c1, c2, c3, c4 and 1 more"
        );
        assert_eq!(failure.class, Some(FailureClass::Verify));
        let feedback = failure.feedback.unwrap();
        assert!(feedback.contains("c5.\nThe scope is: src."), "{feedback}");
        assert_eq!(ScopeVerdict::default().failure(&scope), None);
    }
}
