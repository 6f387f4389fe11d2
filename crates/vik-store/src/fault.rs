//! Simulated disk failures for tests of whole programs. Release builds do not contain them.
//!
//! `VIK_DISK_FAULT=KIND:N` makes the `N`-th write of the process fail, and every later one. The
//! kinds `full` and `error` apply to commits of the ledger: the disk is full or cannot be written,
//! and the opening is commit 0. The kind `files` applies to writes to journals and session logs:
//! the disk is full.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicI64, Ordering};

/// Returns the kind of fault in `VIK_DISK_FAULT`, and the number of writes before it.
#[cfg(debug_assertions)]
fn planned() -> Option<&'static (String, AtomicI64)> {
    use std::sync::OnceLock;

    static PLANNED: OnceLock<Option<(String, AtomicI64)>> = OnceLock::new();
    PLANNED
        .get_or_init(|| {
            let text = std::env::var("VIK_DISK_FAULT").ok()?;
            let (kind, number) = text.split_once(':')?;
            Some((kind.to_owned(), AtomicI64::new(number.parse().ok()?)))
        })
        .as_ref()
}

/// Returns whether a write of this kind must fail, and counts it.
#[cfg(debug_assertions)]
fn must_fail(kind: &str) -> bool {
    planned().is_some_and(|(fault, left)| fault == kind && left.fetch_sub(1, Ordering::Relaxed) <= 0)
}

/// Returns the planned fault of a commit. Called when a ledger is opened, and before each commit.
pub(crate) fn before_commit() -> rusqlite::Result<()> {
    #[cfg(debug_assertions)]
    for (kind, code) in [
        ("full", rusqlite::ffi::SQLITE_FULL),
        ("error", rusqlite::ffi::SQLITE_IOERR_WRITE),
    ] {
        if must_fail(kind) {
            let failure = rusqlite::ffi::Error::new(code);
            return Err(rusqlite::Error::SqliteFailure(failure, None));
        }
    }
    Ok(())
}

/// Returns the planned fault of a write. Called before each write to a journal or a session log.
pub fn before_write() -> std::io::Result<()> {
    #[cfg(debug_assertions)]
    if must_fail("files") {
        return Err(std::io::ErrorKind::StorageFull.into());
    }
    Ok(())
}
