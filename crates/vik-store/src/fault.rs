//! A disk that is full or broken, for tests of whole programs. A release build has none.
//!
//! `VIK_DISK_FAULT=WHAT:N` makes the `N`-th write of the process fail, and every later one: commits of the ledger as on a
//! full disk (`full`) or on one that cannot be written (`error`), the opening being commit 0; or writes to journals and
//! session logs as on a full disk (`files`).

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicI64, Ordering};

/// What of the disk fails.
#[cfg(debug_assertions)]
fn planned() -> Option<&'static (String, AtomicI64)> {
    use std::sync::OnceLock;

    static PLANNED: OnceLock<Option<(String, AtomicI64)>> = OnceLock::new();
    PLANNED
        .get_or_init(|| {
            let text = std::env::var("VIK_DISK_FAULT").ok()?;
            let (what, number) = text.split_once(':')?;
            Some((what.to_owned(), AtomicI64::new(number.parse().ok()?)))
        })
        .as_ref()
}

/// Whether the time of a fault has come.
#[cfg(debug_assertions)]
fn strikes(what: &str) -> bool {
    planned().is_some_and(|(kind, left)| kind == what && left.fetch_sub(1, Ordering::Relaxed) <= 0)
}

/// Called at the opening of a ledger, and before each commit.
pub(crate) fn before_commit() -> rusqlite::Result<()> {
    #[cfg(debug_assertions)]
    for (what, code) in [
        ("full", rusqlite::ffi::SQLITE_FULL),
        ("error", rusqlite::ffi::SQLITE_IOERR_WRITE),
    ] {
        if strikes(what) {
            let failure = rusqlite::ffi::Error::new(code);
            return Err(rusqlite::Error::SqliteFailure(failure, None));
        }
    }
    Ok(())
}

/// Called before each write to a journal or a session log.
pub(crate) fn before_write() -> std::io::Result<()> {
    #[cfg(debug_assertions)]
    if strikes("files") {
        return Err(std::io::ErrorKind::StorageFull.into());
    }
    Ok(())
}
