//! Waits for a condition with a deadline, instead of sleeping.

use std::time::{Duration, Instant};

/// Checks a condition every few milliseconds until it holds. Returns `false` after the deadline.
pub fn wait_for(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    wait_for_value(deadline, || condition().then_some(())).is_some()
}

/// Polls for a value every few milliseconds until there is one.
pub fn wait_for_value<T>(deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(value) = probe() {
            return Some(value);
        }
        let now = Instant::now();
        if now >= end {
            return None;
        }
        std::thread::sleep(pause.min(end - now));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Waits up to 60 s, which is enough on a busy machine, and panics with `description` if the
/// condition never holds.
#[track_caller]
pub fn eventually(description: &str, condition: impl FnMut() -> bool) {
    assert!(
        wait_for(Duration::from_secs(60), condition),
        "waited 60 s in vain for: {description}"
    );
}
