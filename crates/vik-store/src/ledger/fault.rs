//! A disk that is full, for tests of whole programs. A release build has none.

/// In a debug build, `VIK_DISK_FULL_AT_COMMIT=n` makes the `n`-th commit of the process fail, and every later one.
#[derive(Debug)]
pub(super) struct Fault {
    #[cfg(debug_assertions)]
    commits_left: Option<u64>,
}

impl Fault {
    pub(super) fn from_env() -> Self {
        Self {
            #[cfg(debug_assertions)]
            commits_left: std::env::var("VIK_DISK_FULL_AT_COMMIT")
                .ok()
                .and_then(|number| number.parse::<u64>().ok())
                .map(|number| number.saturating_sub(1)),
        }
    }

    /// Called before each commit.
    #[cfg(debug_assertions)]
    pub(super) fn strike(&mut self) -> rusqlite::Result<()> {
        match &mut self.commits_left {
            None => Ok(()),
            Some(0) => Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
                None,
            )),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// Called before each commit.
    #[cfg(not(debug_assertions))]
    pub(super) fn strike(&mut self) -> rusqlite::Result<()> {
        Ok(())
    }
}
