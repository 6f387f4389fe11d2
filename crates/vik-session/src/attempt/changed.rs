//! The changes of an attempt's agent to its workspace. Snapshots are taken right before the agent
//! starts and right after its last process has ended, so that changes by hooks and `verify` are not
//! attributed to it.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use vik_base::{failpoint, report};
use vik_core::outcome::FailureClass;
use vik_core::workflow::SandboxFiles;
use vik_store::{AttemptFailure, AttemptRecord, StoreError};
use vik_workspace::changes::{Base, Bounds, Changes, Store};
use vik_workspace::worktree::{LinkedTree, TakeOverError, take_over};
use vik_workspace::{Fingerprint, Workspace, fs as private};

use super::opened::AttemptContext;
use crate::host::Host;
use crate::provenance::{Record, Trace};

/// The time limits of a snapshot: in general, and after a stop was requested.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const SNAPSHOT_TIMEOUT_AT_STOP: Duration = Duration::from_secs(60);

/// The time limit for taking over commits after a stop was requested. Remaining commits are
/// taken over after the next attempt.
const TAKE_OVER_TIMEOUT_AT_STOP: Duration = Duration::from_secs(10);

/// What is stored before the agent starts.
#[derive(Debug, Serialize, Deserialize)]
struct Before {
    /// The end of the trace, in bytes: the record of this attempt can only be after it.
    #[serde(default)]
    trace_end: u64,
    #[serde(flatten)]
    base: Base,
}

/// The only part of [`Before`] that is needed once the changes are known.
#[derive(Debug, Default, Deserialize)]
struct TraceEnd {
    #[serde(default)]
    trace_end: u64,
}

impl AttemptContext<'_> {
    /// Takes a snapshot of the workspace before the agent starts, and stores it beside the
    /// attempt's record.
    pub(super) async fn snapshot_before(&self, folder: &Workspace) -> Result<(), AttemptFailure> {
        let issue = self.start().issue.id.clone();
        let file = self.files.base();
        let base_commit = self.files.base_commit(self.start().run);
        self.with_snapshot(folder, "before the agent", move |context| {
            // It saves reading unchanged files.
            let earlier = private::read_json(&context.host.layout.last_snapshot(&issue)).ok();
            let base = Base::take(
                &context.store,
                &context.folder,
                &context.path,
                earlier.as_ref(),
                Bounds::default(),
            )?;
            // Later attempts of the run start from commits of this one.
            if let Some(head) = &base.head
                && !base_commit.exists()
            {
                private::write_atomic_nosync(&base_commit, head.as_bytes())?;
            }
            let trace_end = context.trace().end()?;
            private::write_atomic_nosync(&file, &serde_json::to_vec(&Before { trace_end, base })?)
        })
        .await
    }

    /// Gives the agent its own repository for commits if the workspace is a linked work tree.
    /// Stages that run beside others only read the repository.
    pub(super) async fn separate_commits(&self, workdir: &Path) -> io::Result<()> {
        let policy = self.sandbox_policy();
        let may_write = policy.is_some_and(|policy| policy.files == SandboxFiles::Workspace);
        if !may_write || self.start().stage.parallel {
            return Ok(());
        }
        let record = self.host().layout.worktree_record(&self.start().issue.id);
        let workdir = workdir.to_owned();
        let separated =
            spawn_blocking(move || LinkedTree::of(&workdir).map_or(Ok(()), |tree| tree.separate(&record)));
        separated.await.map_err(io::Error::other)?
    }

    /// Copies the agent's commits in a linked work tree to the main repository, which the agent
    /// cannot write.
    pub(super) async fn take_over_commits(&self, folder: &Workspace) -> Result<(), AttemptFailure> {
        if self.start().stage.parallel {
            // The separate repository belongs to the other stage, whose agent may be running.
            return Ok(());
        }
        let layout = &self.host().layout;
        let record = layout.worktree_record(&self.start().issue.id);
        let (host, workdir) = (Arc::clone(&self.attempt.host), folder.path().to_owned());
        let commands = self.attempt.commands.clone();
        let taken = spawn_blocking(move || {
            let stop = async {
                tokio::select! {
                    () = async {
                        commands.stopped().await;
                        tokio::time::sleep(TAKE_OVER_TIMEOUT_AT_STOP).await;
                    } => {}
                    () = commands.killed() => {}
                }
            };
            Handle::current().block_on(take_over(&host.supervisor, &workdir, &record, stop))
        });
        let failed =
            |error: &dyn std::error::Error| AttemptFailure::failed(FailureClass::Agent, report::chain(error));
        match taken.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error @ TakeOverError::Stopped)) => {
                tracing::warn!("{error}");
                let cause = self.attempt.commands.stop_cause();
                Err(cause.map_or_else(|| failed(&error), |cause| cause.failure()))
            }
            Ok(Err(error)) => Err(failed(&error)),
            Err(error) => Err(AttemptFailure::bug(report::chain(&error))),
        }
    }

    /// Determines what the agent changed and appends it to the trace: once, even if the attempt is
    /// recovered several times.
    pub(super) async fn trace_changes(&self, folder: &Workspace) -> Result<(), AttemptFailure> {
        self.snapshot_after(folder).await?;
        failpoint::reach("changes_found");
        let (record, changes, base) = (self.files.record(), self.files.changes(), self.files.base());
        self.with_snapshot(folder, "to trace it", move |context| {
            let Some(changes) = private::read_json_if_exists::<Changes>(&changes)? else {
                return Ok(());
            };
            if changes.files.is_empty() && changes.unseen.is_empty() {
                return Ok(());
            }
            let attempt = AttemptRecord::read(&record).map_err(io::Error::other)?;
            let attempt = attempt.ok_or(io::ErrorKind::NotFound)?;
            let record = Record::of(&attempt, &changes, &context.store, Timestamp::now());
            // Without the first snapshot, the record may be anywhere.
            let TraceEnd { trace_end } = private::read_json(&base).unwrap_or_default();
            context.trace().append(&record, trace_end).map(|_| ())
        })
        .await
    }

    /// Takes the second snapshot once. The result is stored and remains valid even if the workspace
    /// changes later.
    async fn snapshot_after(&self, folder: &Workspace) -> Result<(), AttemptFailure> {
        // The next stage works in the folder at this path, which must be the folder of the
        // snapshot.
        folder
            .check(&self.host().layout)
            .map_err(|error| AttemptFailure::failed(FailureClass::Agent, report::chain(&error)))?;
        let (base, file) = (self.files.base(), self.files.changes());
        let issue = self.start().issue.id.clone();
        self.with_snapshot(folder, "after the agent", move |context| {
            if file.exists() {
                return Ok(());
            }
            let Some(Before { base, .. }) = private::read_json_if_exists(&base)? else {
                // A version without snapshots started the attempt.
                return Ok(());
            };
            let (changes, now) =
                base.changes(&context.store, &context.folder, &context.path, Bounds::default())?;
            let last = context.host.layout.last_snapshot(&issue);
            private::create_parent(&last)?;
            private::write_atomic_nosync(&last, &serde_json::to_vec(&now)?)?;
            private::write_atomic_nosync(&file, &serde_json::to_vec(&changes)?)
        })
        .await
    }

    /// Returns a fingerprint of the whole workspace, including files that rules leave out.
    pub(super) async fn fingerprint(&self, workdir: &Path) -> Option<Fingerprint> {
        let workdir = workdir.to_owned();
        spawn_blocking(move || vik_workspace::fingerprint(&workdir))
            .await
            .ok()
            .flatten()
    }

    /// Removes the first snapshot, which is no longer needed, and masks secrets in the list of
    /// changes, which is kept for people.
    pub(super) fn remove_base_snapshot(&self) {
        let _ = std::fs::remove_file(self.files.base());
        let file = self.files.changes();
        let found = private::read(&file).unwrap_or_default();
        if let Cow::Owned(masked) = vik_mask::mask_json(&String::from_utf8_lossy(&found)) {
            let _ = private::write_atomic_nosync(&file, masked.as_bytes());
        }
    }

    async fn with_snapshot<T: Send + 'static>(
        &self,
        folder: &Workspace,
        when: &'static str,
        operation: impl FnOnce(&SnapshotContext) -> io::Result<T> + Send + 'static,
    ) -> Result<T, AttemptFailure> {
        let failed = |error: io::Error| {
            let error = StoreError::Write {
                path: self.host().layout.contents_dir(),
                source: error,
            };
            self.disk.note(&error);
            let reason = format!(
                "cannot take a snapshot of the workspace {when}: {}",
                report::chain(&error)
            );
            AttemptFailure::failed(FailureClass::Internal, reason)
        };
        let context = SnapshotContext {
            folder: folder.as_fd().try_clone_to_owned().map_err(failed)?,
            path: folder.path().to_owned(),
            store: Store::new(&self.host().layout.contents_dir()),
            host: Arc::clone(&self.attempt.host),
        };
        // A file system that does not answer must not block the attempt, or the daemon's exit, for
        // ever.
        let timeout = async {
            tokio::select! {
                () = tokio::time::sleep(SNAPSHOT_TIMEOUT) => {}
                () = async {
                    self.attempt.commands.stopped().await;
                    tokio::time::sleep(SNAPSHOT_TIMEOUT_AT_STOP).await;
                } => {}
                () = self.attempt.commands.lease_lost() => {}
            }
        };
        tokio::select! {
            result = spawn_blocking(move || operation(&context)) => match result {
                Ok(result) => result.map_err(failed),
                Err(error) => Err(failed(io::Error::other(error))),
            },
            () = timeout => Err(failed(io::ErrorKind::TimedOut.into())),
        }
    }
}

/// The data that a snapshot needs on a blocking thread.
struct SnapshotContext {
    folder: OwnedFd,
    path: PathBuf,
    store: Store,
    host: Arc<Host>,
}

impl SnapshotContext {
    fn trace(&self) -> Trace {
        Trace::new(&self.host.layout.trace_dir())
    }
}

#[cfg(test)]
mod tests {
    use vik_workspace::changes::Snapshot;

    use super::*;

    #[test]
    fn first_snapshot_is_read_by_and_from_the_version_without_trace_end() {
        let base = Base {
            head: Some("a".repeat(40)),
            snapshot: Snapshot::default(),
        };
        let older = serde_json::to_vec(&base).unwrap();
        let before: Before = serde_json::from_slice(&older).unwrap();
        assert_eq!((before.trace_end, &before.base), (0, &base));
        let newer = serde_json::to_vec(&Before { trace_end: 7, base }).unwrap();
        let read: Base = serde_json::from_slice(&newer).unwrap();
        assert_eq!(read, before.base);
        let TraceEnd { trace_end } = serde_json::from_slice(&newer).unwrap();
        assert_eq!(trace_end, 7);
    }
}
