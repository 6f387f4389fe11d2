//! Attempts that exceed their disk limit, or whose disk is full.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use vik_base::report::describe_overrun;
use vik_core::outcome::FailureClass;
use vik_proc::Overrun;
use vik_store::AttemptFailure;
use vik_store::ledger::LedgerError;
use vik_workspace::fs as private;

use super::follow::KeptOutput;
use super::runner::AttemptRunner;

/// The start of the reason of an attempt that failed because of a full disk.
pub(super) const FULL: &str = "the disk is full: ";

/// Returns the failure of an agent that was killed because it exceeded a limit.
pub(super) fn overrun_failure(overrun: &Overrun) -> AttemptFailure {
    let reason = format!("the agent {}", describe_overrun(overrun));
    AttemptFailure::failed(FailureClass::Agent, reason)
}

/// Returns whether a disk is full. This may be temporary, unlike other reasons why a file cannot be
/// written.
pub(super) fn is_full(disk: &LedgerError) -> bool {
    matches!(disk, LedgerError::Full { .. })
}

impl AttemptRunner<'_> {
    /// Returns the files that are kept of the agent, and their limit on the disk.
    pub(super) fn kept_output(&self) -> KeptOutput {
        let files = self.files;
        KeptOutput {
            files: vec![files.raw(), files.stderr(), files.log(), files.refusals()],
            limit: self.sandbox_policy().and_then(|policy| policy.disk),
        }
    }

    /// Returns whether the storage may have caused a failure: it has almost no space, or Vik cannot
    /// write to it either, so that the next attempt would fail too.
    pub(super) async fn disk_fails(&self) -> bool {
        let layout = &self.host().layout;
        let probe = format!(".{}.probe", self.id);
        let probes = [
            self.files.journal().with_extension("probe"),
            layout.records_dir().join(&probe),
            layout.issues_dir().join(&probe),
        ];
        let written = spawn_blocking(move || {
            probes.into_iter().find_map(|probe| {
                let written = private::create_private(&probe).and_then(|mut file| {
                    std::io::Write::write_all(&mut file, &[0; 16 * 1024])?;
                    file.sync_data()
                });
                let _ = std::fs::remove_file(&probe);
                written.err().map(|error| (probe, error))
            })
        });
        if let Ok(Some((probe, error))) = written.await {
            let folder = probe.parent().unwrap_or(&probe);
            let failure = LedgerError::of_own_file(folder, &error);
            if is_full(&failure) {
                let _ = self.full.set(());
            } else {
                let _ = self.storage_failure.set(Arc::new(failure));
            }
        }
        let space = vik_proc::Space::of(self.files.dir());
        if space.is_some_and(|space| space.is_scarce()) {
            let _ = self.full.set(());
        }
        self.storage_failure.get().is_some() || self.full.get().is_some()
    }

    /// Returns the failure of an attempt whose disk was full. Its class is not that of a hook, as
    /// failed hooks are not retried, and not that of a bug in Vik.
    pub(super) fn failed_by_full_disk(&self, failure: AttemptFailure) -> AttemptFailure {
        let killed_by_shim = self.exit.as_ref().is_some_and(|record| record.overrun.is_some());
        let class = match failure.class {
            Some(FailureClass::Hook | FailureClass::Agent | FailureClass::Internal) => {
                Some(FailureClass::Agent)
            }
            Some(FailureClass::Verify) => failure.class,
            _ => return failure,
        };
        let reason = failure.plain_reason();
        let reason = if killed_by_shim {
            reason.to_owned()
        } else {
            format!("{FULL}{reason}")
        };
        AttemptFailure {
            class,
            reason,
            ..failure
        }
    }
}
