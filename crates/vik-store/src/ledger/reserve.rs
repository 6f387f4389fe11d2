//! Disk space that is reserved for the ledger, so that commits still succeed on a full disk.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The size of the reserve, and the amount released at a time.
const BYTES: u64 = 8 * 1024 * 1024;
const STEP: u64 = 1024 * 1024;

/// The wait after each release, in which the process that fills the disk can be killed.
const PAUSE: Duration = Duration::from_millis(100);

/// The interval between attempts to refill the reserve.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// A file that only takes up disk space.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    last_try: Instant,
}

impl Reserve {
    /// Creates the reserve, if there is enough space.
    pub(super) fn new(path: PathBuf) -> Self {
        let mut reserve = Self {
            path,
            bytes: 0,
            last_try: Instant::now(),
        };
        reserve.fill();
        reserve
    }

    /// Releases a part of the reserve. Returns whether there was any left.
    pub(super) fn release(&mut self) -> bool {
        if self.bytes == 0 {
            return false;
        }
        std::thread::sleep(PAUSE);
        self.bytes = self.bytes.saturating_sub(STEP);
        self.shorten();
        true
    }

    /// Refills the reserve, at most once per interval.
    pub(super) fn restore(&mut self) {
        if self.bytes < BYTES && self.last_try.elapsed() >= RETRY_INTERVAL {
            self.fill();
        }
    }

    fn fill(&mut self) {
        self.last_try = Instant::now();
        if self.write().is_ok() {
            self.bytes = BYTES;
        } else {
            // The part that is left stays reserved.
            self.shorten();
        }
    }

    /// Truncates the file to the reserved size.
    fn shorten(&mut self) {
        let file = OpenOptions::new().write(true).open(&self.path);
        let shortened = file.and_then(|file| file.set_len(self.bytes));
        if shortened.is_err() {
            self.bytes = 0;
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn write(&self) -> std::io::Result<()> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&self.path)?;
        allocate(&file)
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File) -> std::io::Result<()> {
    let bytes = i64::try_from(BYTES).unwrap_or(i64::MAX);
    Ok(nix::fcntl::posix_fallocate(file, 0, bytes)?)
}

#[cfg(not(target_os = "linux"))]
fn allocate(mut file: &File) -> std::io::Result<()> {
    let block = [0; 64 * 1024];
    (0..BYTES / block.len() as u64).try_for_each(|_| std::io::Write::write_all(&mut file, &block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_released_in_steps_until_it_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let mut reserve = Reserve::new(path.clone());
        let size = || std::fs::metadata(&path).unwrap().len();
        assert_eq!(size(), BYTES);
        let mut steps = 0;
        while reserve.release() {
            steps += 1;
            assert_eq!(size(), BYTES - steps * STEP);
        }
        assert_eq!(steps, BYTES / STEP);
        reserve.last_try -= RETRY_INTERVAL;
        reserve.restore();
        assert_eq!(size(), BYTES);
    }
}
