//! Attempts that exceed their disk limit, whose disk is full, or that can open no more files.

use std::io;
use std::sync::{Arc, OnceLock};

use nix::libc;
use tokio::task::spawn_blocking;
use vik_base::report::describe_overrun;
use vik_core::outcome::FailureClass;
use vik_proc::{ExitRecord, Overrun};
use vik_store::ledger::LedgerError;
use vik_store::{AttemptFailure, StoreError};
use vik_workspace::fs as private;

use super::follow::KeptOutput;
use super::opened::AttemptContext;

/// The start of the reason of an attempt that failed because of a full disk.
pub(super) const FULL: &str = "the disk is full: ";

/// Returns the failure of an agent that was killed because it exceeded a limit.
pub(super) fn overrun_failure(overrun: &Overrun) -> AttemptFailure {
    let reason = format!("the agent {}", describe_overrun(overrun));
    AttemptFailure::failed(FailureClass::Agent, reason)
}

/// Returns whether an error says that this process, or the system, has too many open files. The
/// disk and the attempt are not at fault, and files are closed again.
pub(super) fn is_out_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Returns whether a disk is full. This may be temporary, unlike other reasons why a file cannot be
/// written.
pub(super) fn is_full(disk: &LedgerError) -> bool {
    matches!(disk, LedgerError::Full { .. })
}

/// What the steps of an attempt found out about the disk.
#[derive(Debug, Default)]
pub(super) struct DiskFaults {
    /// Set when the disk is broken. The attempt then gets no end.
    broken: OnceLock<Arc<LedgerError>>,
    /// Set when the disk was full. This fails the attempt, and the daemon continues.
    full: OnceLock<()>,
    /// Set when there were too many open files. This fails the attempt, and does not count.
    out_of_files: OnceLock<()>,
}

impl DiskFaults {
    /// Records whether an error comes from the disk. Returns whether the disk is broken.
    pub(super) fn note(&self, error: &StoreError) -> bool {
        if let StoreError::Write { path, source } = error
            && let Some(fault) = LedgerError::of_disk(path, source)
        {
            self.add(fault);
        }
        self.is_broken()
    }

    fn add(&self, fault: LedgerError) {
        if is_full(&fault) {
            let _ = self.full.set(());
        } else {
            let _ = self.broken.set(Arc::new(fault));
        }
    }

    /// Returns the error of the broken disk.
    pub(super) fn broken(&self) -> Option<Arc<LedgerError>> {
        self.broken.get().cloned()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.get().is_some()
    }

    pub(super) fn is_out_of_files(&self) -> bool {
        self.out_of_files.get().is_some()
    }
}

impl AttemptContext<'_> {
    /// Returns the files that are kept of the agent, and their limit on the disk.
    pub(super) fn kept_output(&self) -> KeptOutput {
        let files = self.files;
        KeptOutput {
            files: vec![files.raw(), files.stderr(), files.log(), files.refusals()],
            limit: self.sandbox_policy().and_then(|policy| policy.disk),
            discount: files.partial(),
        }
    }

    /// Returns whether the storage may have caused a failure: it has almost no space, Vik cannot
    /// write to it either, so that the next attempt would fail too, or there are too many open
    /// files.
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
                    io::Write::write_all(&mut file, &[0; 16 * 1024])?;
                    file.sync_data()
                });
                let _ = std::fs::remove_file(&probe);
                written.err().map(|error| (probe, error))
            })
        });
        if let Ok(Some((probe, error))) = written.await {
            let folder = probe.parent().unwrap_or(&probe);
            if is_out_of_files(&error) {
                let _ = self.disk.out_of_files.set(());
            } else {
                self.disk.add(LedgerError::of_own_file(folder, &error));
            }
        }
        let space = vik_proc::Space::of(self.files.dir());
        if space.is_some_and(|space| space.is_scarce()) {
            let _ = self.disk.full.set(());
        }
        self.disk.is_broken() || self.disk.is_full() || self.disk.is_out_of_files()
    }
}

/// Returns the failure of an attempt whose disk was full. Its class is not that of a hook, as
/// failed hooks are not retried, and not that of a bug in Vik.
pub(super) fn failed_by_full_disk(failure: AttemptFailure, exit: Option<&ExitRecord>) -> AttemptFailure {
    let killed_by_shim = exit.is_some_and(|record| record.overrun.is_some());
    let class = match failure.class {
        Some(FailureClass::Hook | FailureClass::Agent | FailureClass::Internal) => Some(FailureClass::Agent),
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
        before_run: None,
        requested_wait: None,
        ..failure
    }
}

/// Returns the failure of an attempt that could open no more files, which is not the fault of its
/// agent or its hooks.
pub(super) fn failed_by_open_files(failure: AttemptFailure) -> AttemptFailure {
    match failure.class {
        Some(FailureClass::Hook | FailureClass::Agent | FailureClass::Verify | FailureClass::Internal) => {
            AttemptFailure {
                class: Some(FailureClass::Internal),
                reason: format!("too many open files: {}", failure.plain_reason()),
                before_run: None,
                requested_wait: None,
                ..failure
            }
        }
        _ => failure,
    }
}
