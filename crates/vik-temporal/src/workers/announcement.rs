//! What a worker announces, and which process does so.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_core::worker::Worker;

/// A worker, as it announces itself, with the process that has its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    pub worker: Worker,
    pub instance: WorkerInstance,
    /// Whether the worker has ended, so that another one can have its name.
    #[serde(default)]
    pub is_last: bool,
}

/// A process that is a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInstance {
    /// The name of its host, for people.
    pub host: String,
    pub pid: i32,
    pub started_at: Timestamp,
    /// Identifies the boot of its machine. The clone of a machine may differ in nothing else.
    pub boot: String,
    /// Identifies the folder of its files within this boot. A copy of the folder has another id.
    pub folder: String,
}

impl WorkerInstance {
    /// Returns the instance of this process, which has the lock of `home`.
    ///
    /// # Errors
    ///
    /// Returns an error if `home` cannot be read.
    pub fn of_this_process(host: String, home: &Path) -> io::Result<Self> {
        let folder = std::fs::metadata(home)?;
        Ok(Self {
            host,
            pid: vik_proc::ProcessId::current().pid,
            started_at: Timestamp::now(),
            boot: vik_proc::identity::boot_id(),
            folder: format!("{}:{}", folder.dev(), folder.ino()),
        })
    }

    /// Returns whether both have the same home. Its lock makes sure that the earlier one has ended.
    pub(super) fn is_at_home_of(&self, other: &Self) -> bool {
        self.boot == other.boot && self.folder == other.folder
    }

    /// Returns whether this may be an earlier process of the machine of `other`, which has been
    /// restarted since, or a clone of that machine.
    pub(super) fn is_of_another_boot_of(&self, other: &Self) -> bool {
        self.host == other.host && self.boot != other.boot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_has_the_home_of_an_earlier_process_and_not_that_of_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let copy = tempfile::tempdir().unwrap();
        let of = |home: &Path| WorkerInstance::of_this_process("host".to_owned(), home).unwrap();
        let first = of(folder.path());
        assert!(of(folder.path()).is_at_home_of(&first));
        assert!(!of(copy.path()).is_at_home_of(&first));
        let restarted = WorkerInstance {
            boot: "another".to_owned(),
            ..first.clone()
        };
        assert!(!restarted.is_at_home_of(&first));
        assert!(restarted.is_of_another_boot_of(&first) && !first.is_of_another_boot_of(&first));
        let elsewhere = WorkerInstance {
            host: "another".to_owned(),
            ..restarted
        };
        assert!(!elsewhere.is_of_another_boot_of(&first));
    }
}
