//! What an attempt's agent changed in its workspace: looked at right before it starts and right after nothing of it lives,
//! so that what hooks and `verify` do there is not taken for its work.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use vik_core::outcome::FailureClass;
use vik_core::workflow::SandboxFiles;
use vik_store::{AttemptFailure, AttemptRecord, StoreError};

use super::attempt::AttemptRunner;
use crate::crash;
use crate::host::Host;
use crate::provenance::{Record, Trace};
use crate::report;
use crate::workspace::changes::{Base, Bounds, Changes, Snapshot, Store};
use crate::workspace::worktree::{LinkedTree, TakeOverError, take_over};
use crate::workspace::{self, Fingerprint, fs as private};

/// How long a look at a workspace may take, and how long after the attempt was told to stop.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const SNAPSHOT_TIMEOUT_AT_STOP: Duration = Duration::from_secs(60);

/// How long commits may be taken over after the attempt was told to stop. What is left is taken over after the next attempt.
const TAKE_OVER_TIMEOUT_AT_STOP: Duration = Duration::from_secs(10);

impl AttemptRunner<'_> {
    /// Looks at the workspace before the agent starts, and keeps what it found beside the attempt's record.
    pub(super) async fn snapshot_before(&self) -> Result<(), AttemptFailure> {
        let issue = self.start().issue.id.clone();
        let file = self.files.base();
        self.with_snapshot("before the agent", move |looking| {
            let earlier = read_snapshot(&looking.host.layout.last_snapshot(&issue));
            let base = Base::take(
                &looking.store,
                &looking.folder,
                &looking.path,
                earlier.as_ref(),
                Bounds::default(),
            )?;
            private::write_soon(&file, &serde_json::to_vec(&base)?)
        })
        .await
    }

    /// Gives the agent a repository to commit to, where the workspace is a linked work tree. Two agents at once in one of them only
    /// read the repository.
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

    /// Brings what the agent committed in a linked work tree into the main repository, which it cannot write.
    pub(super) async fn take_over_commits(&self) -> Result<(), AttemptFailure> {
        if self.start().stage.parallel {
            // What is apart belongs to the stage beside it, whose agent may be at work.
            return Ok(());
        }
        let (Some(folder), layout) = (&self.folder, &self.host().layout) else {
            return Ok(());
        };
        let record = layout.worktree_record(&self.start().issue.id);
        let (host, workdir) = (Arc::clone(&self.attempt.host), folder.path().to_owned());
        let orders = self.attempt.commands.clone();
        let taken = spawn_blocking(move || {
            let stop = async {
                tokio::select! {
                    () = async {
                        orders.halted().await;
                        tokio::time::sleep(TAKE_OVER_TIMEOUT_AT_STOP).await;
                    } => {}
                    () = orders.killed() => {}
                }
            };
            Handle::current().block_on(take_over(&host.supervisor, &workdir, &record, stop))
        });
        let failed =
            |error: &dyn std::error::Error| AttemptFailure::failed(FailureClass::Agent, report::chain(error));
        match taken.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error @ TakeOverError::Stopped)) => {
                tracing::warn!(session = self.id, "{error}");
                let halt = self.attempt.commands.halt();
                Err(halt.map_or_else(|| failed(&error), |halt| halt.trouble()))
            }
            Ok(Err(error)) => Err(failed(&error)),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Tells what the agent changed, and appends it to the trace: once, however often the attempt is taken up.
    pub(super) async fn trace_changes(&self) -> Result<(), AttemptFailure> {
        if !self.agent_ran {
            return Ok(());
        }
        self.snapshot_after().await?;
        crash::point("changes_found");
        let (record, changes) = (self.files.record(), self.files.changes());
        self.with_snapshot("to trace it", move |looking| {
            let changes: Changes = match private::read(&changes) {
                Ok(text) => serde_json::from_slice(&text)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            };
            if changes.files.is_empty() && changes.unseen.is_empty() {
                return Ok(());
            }
            let attempt = AttemptRecord::read(&record).map_err(io::Error::other)?;
            let attempt = attempt.ok_or(io::ErrorKind::NotFound)?;
            let record = Record::of(&attempt, &changes, &looking.store, Timestamp::now());
            let trace = Trace::new(&looking.host.layout.trace_dir());
            trace.append(&record).map(|_| ())
        })
        .await
    }

    /// Looks again, once: what is found is kept, and stands whatever happens to the workspace later.
    async fn snapshot_after(&self) -> Result<(), AttemptFailure> {
        if let Some(folder) = &self.folder {
            // What stands at its path is what the next stage would work in, and not what is looked at here.
            folder
                .check(&self.host().layout)
                .map_err(|error| AttemptFailure::failed(FailureClass::Agent, report::chain(&error)))?;
        }
        let (base, file) = (self.files.base(), self.files.changes());
        let issue = self.start().issue.id.clone();
        self.with_snapshot("after the agent", move |looking| {
            if file.exists() {
                return Ok(());
            }
            let base: Base = match private::read(&base) {
                Ok(text) => serde_json::from_slice(&text)?,
                // It was begun by a version that did not look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            };
            let (changes, now) =
                base.changes(&looking.store, &looking.folder, &looking.path, Bounds::default())?;
            let last = looking.host.layout.last_snapshot(&issue);
            if let Some(folder) = last.parent() {
                private::create_private_dir_all(folder)?;
            }
            private::write_soon(&last, &serde_json::to_vec(&now)?)?;
            private::write_soon(&file, &serde_json::to_vec(&changes)?)
        })
        .await
    }

    /// Whether anything changed at all, also what rules leave out.
    pub(super) async fn fingerprint(&self, workdir: &Path) -> Option<Fingerprint> {
        let workdir = workdir.to_owned();
        spawn_blocking(move || workspace::fingerprint(&workdir))
            .await
            .ok()
            .flatten()
    }

    /// What the workspace was before is of no use any more; what was found changed is kept for people, without secrets.
    pub(super) fn forget_base(&self) {
        let _ = std::fs::remove_file(self.files.base());
        let file = self.files.changes();
        let found = private::read(&file).unwrap_or_default();
        if let Cow::Owned(masked) = vik_mask::mask_json(&String::from_utf8_lossy(&found)) {
            let _ = private::write_soon(&file, masked.as_bytes());
        }
    }

    async fn with_snapshot<T: Send + 'static>(
        &self,
        when: &'static str,
        look: impl FnOnce(&SnapshotContext) -> io::Result<T> + Send + 'static,
    ) -> Result<T, AttemptFailure> {
        let failed = |error: io::Error| {
            let error = StoreError::Write {
                path: self.host().layout.contents_dir(),
                source: error,
            };
            self.note_disk_error(&error);
            let reason = format!("cannot look at the workspace {when}: {}", report::chain(&error));
            AttemptFailure::failed(FailureClass::Agent, reason)
        };
        let Some(folder) = &self.folder else {
            return Err(failed(io::ErrorKind::NotFound.into()));
        };
        let looking = SnapshotContext {
            folder: folder.as_fd().try_clone_to_owned().map_err(failed)?,
            path: folder.path().to_owned(),
            store: Store::new(&self.host().layout.contents_dir()),
            host: Arc::clone(&self.attempt.host),
        };
        // A file system that does not answer must not keep the attempt, or the daemon's end, for ever.
        let too_long = async {
            tokio::select! {
                () = tokio::time::sleep(SNAPSHOT_TIMEOUT) => {}
                () = async {
                    self.attempt.commands.halted().await;
                    tokio::time::sleep(SNAPSHOT_TIMEOUT_AT_STOP).await;
                } => {}
            }
        };
        tokio::select! {
            looked = spawn_blocking(move || look(&looking)) => match looked {
                Ok(looked) => looked.map_err(failed),
                Err(error) => Err(failed(io::Error::other(error))),
            },
            () = too_long => Err(failed(io::ErrorKind::TimedOut.into())),
        }
    }
}

/// What a look needs, away from its attempt.
struct SnapshotContext {
    folder: OwnedFd,
    path: PathBuf,
    store: Store,
    host: Arc<Host>,
}

/// An earlier look spares reading; without one everything is read.
fn read_snapshot(path: &Path) -> Option<Snapshot> {
    serde_json::from_slice(&private::read(path).ok()?).ok()
}
