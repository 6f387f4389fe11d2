use ringlog::{status_page, Entry, Level, Ring};

#[test]
fn not_full() {
    let mut ring = Ring::new(3);
    ring.push(1);
    ring.push(2);
    assert_eq!(ring.iter().copied().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn wrapped() {
    let mut ring = Ring::new(3);
    for number in 1..=5 {
        ring.push(number);
    }
    assert_eq!(ring.len(), 3);
    assert_eq!(ring.iter().copied().collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn page_of_errors() {
    let mut log = Ring::new(4);
    log.push(Entry::new(Level::Info, "started"));
    log.push(Entry::new(Level::Error, "no disk"));
    assert_eq!(status_page(&log, Level::Warning), "2 entries\nError: no disk\n");
}
