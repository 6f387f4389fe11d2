//! Tests that a ledger has the books of outputs that the shared log has.

use super::history::{delete, finished};
use super::shared_log::{self, sample_copy};
use super::*;

fn noted(notes: Vec<(RunId, OutputNote)>) -> Changes {
    Changes {
        outputs: notes,
        ..Changes::default()
    }
}

fn reader(folder: &TempDir) -> Reader {
    Reader::open(folder.path()).unwrap().unwrap()
}

#[test]
fn output_notes_are_the_last_ones_in_the_order_of_the_first_ones() {
    let folder = TempDir::new().unwrap();
    sample_copy(folder.path());
    let (copy, ..) = shared_log::open(folder.path());
    let later = OutputNote {
        at: at(5),
        attempt_id: session_id(3),
        is_keyed: true,
        detail: Some("it exited with 1".to_owned()),
        ..note("a", Progress::Failed)
    };
    let notes = [
        note("a", Progress::Applying),
        note("b", Progress::Applying),
        note("a", Progress::Applied),
        later.clone(),
    ];
    for (position, note) in (2..).zip(notes) {
        let entry = noted(vec![(run_id(2), note)]);
        let text = serde_json::to_string(&entry).unwrap();
        let entry = serde_json::from_str(&text).unwrap();
        copy.commit_entry(position, entry).wait().unwrap();
    }
    // A reader of a hub that runs sees what was committed.
    let written = [later, note("b", Progress::Applying)];
    assert_eq!(reader(&folder).output_notes(run_id(2)).unwrap(), written);
    assert_eq!(
        reader(&folder).output_notes(run_id(1)).unwrap(),
        [note("done", Progress::Applied)]
    );
    assert_eq!(reader(&folder).output_notes(run_id(9)).unwrap(), []);
    // What a hub without this log needs: the run 3 is over.
    copy.commit_entry(6, noted(vec![(run_id(3), note("over", Progress::Applied))]))
        .wait()
        .unwrap();
    let open: Vec<_> = reader(&folder).open_outputs().unwrap();
    let open: Vec<_> = open.iter().map(|(run, note)| (*run, &*note.summary)).collect();
    assert_eq!(open, [(run_id(1), "done"), (run_id(2), "a"), (run_id(2), "b")]);
    copy.close().unwrap();
}

#[test]
fn output_notes_are_removed_with_their_run() {
    let folder = TempDir::new().unwrap();
    let ledger = finished(folder.path(), CostSource::Reported);
    // The run 2 is parked, and of the last one no row is left.
    let runs = [1, 2, 9].map(run_id);
    let notes = runs.map(|run| (run, note("a", Progress::Applied)));
    ledger.commit(noted(notes.to_vec())).wait().unwrap();
    let count = |run: RunId| reader(&folder).output_notes(run).unwrap().len();
    assert_eq!(delete(&ledger, 1, 10), 0);
    assert_eq!(runs.map(count), [2, 1, 1]);
    delete(&ledger, 100, 10);
    assert_eq!(runs.map(count), [0, 1, 0]);
    ledger.close().unwrap();
}

#[test]
fn note_about_a_run_without_a_row_is_stored() {
    let (folder, ledger) = empty();
    let entry = noted(vec![(run_id(7), note("late", Progress::Unknown))]);
    ledger.commit(entry).wait().unwrap();
    assert_eq!(reader(&folder).output_notes(run_id(7)).unwrap().len(), 1);
}
