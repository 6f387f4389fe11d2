//! The wall clock. A test can make it jump.
//!
//! In debug builds, the file `clock` in the folder `VIK_CRASH_DIR` holds the number of seconds by
//! which the clock has jumped.

use jiff::Timestamp;

/// Returns the current wall clock time.
#[cfg(debug_assertions)]
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    #[expect(clippy::disallowed_methods, reason = "a file of the tests")]
    let jumped = crate::failpoint::folder()
        .and_then(|folder| std::fs::read_to_string(folder.join("clock")).ok())
        .and_then(|text| text.trim().parse().ok());
    let jump = jiff::SignedDuration::from_secs(jumped.unwrap_or(0));
    now.checked_add(jump).unwrap_or(now)
}

/// Returns the current wall clock time.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn now() -> Timestamp {
    Timestamp::now()
}
