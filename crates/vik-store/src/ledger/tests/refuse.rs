//! Tests that a ledger that cannot be stored safely is refused before any effect.

use std::io;

use super::*;

fn pause(paused: bool) -> Changes {
    Changes {
        paused: Some(paused),
        ..Changes::default()
    }
}

#[test]
fn one_process_writes() {
    let folder = TempDir::new().unwrap();
    let (first, _) = Ledger::open(folder.path()).unwrap();
    assert!(matches!(refused(folder.path()), LedgerError::Busy { .. }));
    drop(first);
    Ledger::open(folder.path()).unwrap();
}

#[test]
fn a_stranger_that_writes_is_waited_for_and_then_told_of() {
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
fn a_network_file_system_is_refused() {
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
fn a_full_disk_fails_the_commit_and_all_after_it_until_it_is_opened_again() {
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
        assert!(error.cause.hint().unwrap().contains("free some space"));
    }
    drop(ledger);
    let (ledger, stored) = Ledger::open(folder.path()).unwrap();
    assert!(stored.paused);
    ledger.commit(pause(false)).wait().unwrap();
}

#[test]
fn what_the_system_says_is_sorted() {
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
        LedgerError::Io { .. }
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
fn a_folder_that_cannot_be_written_is_told_of() {
    // Not even root can create files there.
    let error = refused(Path::new("/sys/kernel"));
    assert!(matches!(error, LedgerError::ReadOnly { .. }), "{error:?}");
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn a_commit_can_be_awaited() {
    let folder = TempDir::new().unwrap();
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    ledger.commit(pause(true)).await.unwrap();
    ledger.commit(Changes::default()).await.unwrap();
}
