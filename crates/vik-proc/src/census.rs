//! The file in which a shim notes who belongs to its tree, for the day it dies without a word.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::identity::{ProcessId, boot_id};

/// Replaces the file at `path` as a whole, with mode 0600; `durable` also brings it to the disk first.
pub(crate) fn replace(path: &Path, content: &[u8], durable: bool) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        if durable {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Writes the members of a tree.
pub(crate) fn write(path: &Path, members: &[ProcessId]) -> io::Result<()> {
    let mut text = format!("boot {}\n", boot_id());
    for member in members {
        text.push_str(&format!("{} {}\n", member.pid, member.start_time));
    }
    replace(path, text.as_bytes(), false)
}

/// Reads the members of a tree that a shim noted. Empty when there is no file, or when it is of another boot.
pub fn read_census(path: &Path) -> Vec<ProcessId> {
    let Ok(text) = fs::read_to_string(path) else {
        return Vec::new();
    };
    let mut lines = text.lines();
    if lines.next().and_then(|line| line.strip_prefix("boot ")) != Some(&boot_id()) {
        return Vec::new();
    }
    let member = |line: &str| {
        let (pid, start_time) = line.split_once(' ')?;
        Some(ProcessId {
            pid: pid.parse().ok().filter(|&pid| pid > 1)?,
            start_time: start_time.parse().ok()?,
        })
    };
    lines.filter_map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_another_boot_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("census");
        let members = [
            ProcessId {
                pid: 7,
                start_time: 12,
            },
            ProcessId {
                pid: 8,
                start_time: 13,
            },
        ];
        write(&path, &members).unwrap();
        assert_eq!(read_census(&path), members);
        fs::write(&path, "boot other\n7 12\n").unwrap();
        assert_eq!(read_census(&path), []);
        assert_eq!(read_census(&folder.path().join("none")), []);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }
}
