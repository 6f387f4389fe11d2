//! Tests that a ledger that cannot be stored safely is refused before any effect.

use std::io;

use super::*;

#[test]
fn ledger_allows_one_process_at_a_time() {
    let folder = TempDir::new().unwrap();
    let (first, _) = Ledger::open(folder.path()).unwrap();
    assert!(matches!(refused(folder.path()), LedgerError::Busy { .. }));
    drop(first);
    Ledger::open(folder.path()).unwrap();
}

#[test]
fn foreign_writer_makes_the_ledger_busy() {
    let folder = TempDir::new().unwrap();
    let options = Options {
        lock_timeout: Duration::from_millis(20),
        ..Options::default()
    };
    let (ledger, _) = Ledger::open_with(folder.path(), &options).unwrap();
    let other_writer = Connection::open(folder.path().join(DB)).unwrap();
    other_writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = ledger.commit(pause(true)).wait().unwrap_err();
    assert!(matches!(*error.cause, LedgerError::Busy { .. }), "{error:?}");
    other_writer.execute_batch("ROLLBACK").unwrap();
    assert!(ledger.commit(pause(true)).wait().is_err());
    drop(ledger);
    assert!(!Ledger::open(folder.path()).unwrap().1.paused);
}

#[test]
fn network_file_system_is_refused() {
    let folder = TempDir::new().unwrap();
    let options = Options {
        probe: |_| Ok(Some("nfs".to_owned())),
        ..Options::default()
    };
    let error = Ledger::open_with(folder.path(), &options).unwrap_err();
    assert!(matches!(&error, LedgerError::Network { kind, .. } if kind == "nfs"));
    assert!(error.hint().unwrap().contains("local disk"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn full_disk_fails_commits_until_the_ledger_is_reopened() {
    let folder = TempDir::new().unwrap();
    let options = Options {
        max_pages: Some(64),
        ..Options::default()
    };
    let (ledger, _) = Ledger::open_with(folder.path(), &options).unwrap();
    ledger.commit(pause(true)).wait().unwrap();
    let mut big = Changes {
        decisions: vec![decision(None, 1)],
        ..pause(false)
    };
    big.decisions[0].detail = "x".repeat(1 << 20);
    // Commits that wait together are stored together or not at all.
    let commits = [
        ledger.commit(big),
        ledger.commit(pause(false)),
        ledger.commit(pause(true)),
    ];
    for commit in commits {
        let error = commit.wait().unwrap_err();
        assert!(matches!(*error.cause, LedgerError::Full { .. }), "{error:?}");
        assert!(error.cause.hint().unwrap().contains("free some disk space"));
    }
    drop(ledger);
    let (ledger, stored) = Ledger::open(folder.path()).unwrap();
    assert!(stored.paused);
    ledger.commit(pause(false)).wait().unwrap();
}

#[test]
fn system_errors_are_classified() {
    let classified = |kind: io::ErrorKind| LedgerError::of_io(Path::new("db"), kind.into());
    assert!(matches!(
        classified(io::ErrorKind::StorageFull),
        LedgerError::Full { .. }
    ));
    assert!(matches!(
        classified(io::ErrorKind::ReadOnlyFilesystem),
        LedgerError::ReadOnly { .. }
    ));
    assert!(matches!(
        classified(io::ErrorKind::PermissionDenied),
        LedgerError::ReadOnly { .. }
    ));
    assert!(matches!(
        classified(io::ErrorKind::NotFound),
        LedgerError::Other { .. }
    ));
    let broken = || io::Error::from_raw_os_error(nix::libc::EIO);
    let error = LedgerError::of_io(Path::new("db"), broken());
    assert!(matches!(error, LedgerError::Disk { .. }) && error.hint().is_some());
    for code in [
        rusqlite::ffi::SQLITE_IOERR_READ,
        rusqlite::ffi::SQLITE_IOERR_FSYNC,
    ] {
        let failure = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let error = LedgerError::of(Path::new("db"), failure);
        assert!(matches!(error, LedgerError::Disk { .. }), "{error:?}");
    }
    // Only errors of the disk itself are not blamed on the attempt that owns the file.
    let of_disk = |error: io::Error| LedgerError::of_disk(Path::new("log"), &error).is_some();
    assert!(of_disk(broken()) && of_disk(io::ErrorKind::StorageFull.into()));
    assert!(of_disk(io::ErrorKind::ReadOnlyFilesystem.into()));
    assert!(!of_disk(io::ErrorKind::PermissionDenied.into()) && !of_disk(io::ErrorKind::NotFound.into()));
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_folder_is_reported() {
    // Not even root can create files there.
    let error = refused(Path::new("/sys/kernel"));
    assert!(matches!(error, LedgerError::ReadOnly { .. }), "{error:?}");
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn commit_can_be_awaited() {
    let (_folder, ledger) = empty();
    ledger.commit(pause(true)).await.unwrap();
    ledger.commit(Changes::default()).await.unwrap();
}
