//! Room on the disk that is set aside for the ledger, so that a full disk does not end it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How much is set aside, and how much of it is given back at a time.
const BYTES: u64 = 8 * 1024 * 1024;
const STEP: u64 = 1024 * 1024;

/// How long a commit that finds no room waits after each step: whoever has filled the disk is killed meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// How often it is tried to set room aside again.
const EVERY: Duration = Duration::from_secs(30);

/// A file that only takes room.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    tried: Instant,
}

impl Reserve {
    /// Sets room aside, where there is enough of it.
    pub(super) fn new(path: PathBuf) -> Self {
        let mut reserve = Self {
            path,
            bytes: 0,
            tried: Instant::now(),
        };
        reserve.fill();
        reserve
    }

    /// Gives some of the room back. Returns whether there was any left.
    pub(super) fn release(&mut self) -> bool {
        if self.bytes == 0 {
            return false;
        }
        std::thread::sleep(PAUSE);
        self.bytes = self.bytes.saturating_sub(STEP);
        self.shorten();
        true
    }

    /// Sets aside again what was given back, from time to time.
    pub(super) fn restore(&mut self) {
        if self.bytes < BYTES && self.tried.elapsed() >= EVERY {
            self.fill();
        }
    }

    fn fill(&mut self) {
        self.tried = Instant::now();
        if self.write().is_ok() {
            self.bytes = BYTES;
        } else {
            // What was left of it stays set aside.
            self.shorten();
        }
    }

    /// Makes the file as long as what is set aside.
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
    fn room_is_given_back_in_steps_until_there_is_none() {
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
        reserve.tried -= EVERY;
        reserve.restore();
        assert_eq!(size(), BYTES);
    }
}
