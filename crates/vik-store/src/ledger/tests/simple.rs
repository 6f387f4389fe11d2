use super::*;

#[test]
fn an_empty_ledger_is_made_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, stored) = Ledger::open(folder.path()).unwrap();
    assert_eq!(stored, Stored::default());
    ledger
        .commit(Changes {
            paused: Some(true),
            ..Changes::default()
        })
        .wait()
        .unwrap();
    ledger.close().unwrap();
    let (_ledger, stored) = Ledger::open(folder.path()).unwrap();
    assert!(stored.paused);
    assert!(Reader::open(folder.path()).unwrap().unwrap().is_paused().unwrap());
    assert!(matches!(
        check(folder.path()),
        Health::Good {
            schema: 1,
            commits: 1,
            ..
        }
    ));
}
