set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- tests Cargo.toml src/entry.rs src/status.rs
cat > tests/hidden.rs <<'RS'
use ringlog::{status_page, Entry, Level, Ring};

#[test]
fn hidden_orders() {
    for capacity in 1..6 {
        for count in 0..20usize {
            let mut ring = Ring::new(capacity);
            for number in 0..count {
                ring.push(number);
            }
            let expected: Vec<_> = (count.saturating_sub(capacity)..count).collect();
            assert_eq!(ring.iter().copied().collect::<Vec<_>>(), expected);
            assert_eq!(ring.last().copied(), expected.last().copied());
            assert_eq!(ring.is_empty(), count == 0);
        }
    }
}

#[test]
fn hidden_page() {
    let mut log = Ring::new(2);
    for text in ["a", "b", "c"] {
        log.push(Entry::new(Level::Warning, text));
    }
    assert_eq!(status_page(&log, Level::Info), "2 entries\nWarning: b\nWarning: c\n");
}
RS
cargo test --offline -q
