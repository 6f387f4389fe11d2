//! The file in which a shim lists the processes of its tree, for the case that the shim dies
//! without an exit record.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::identity::ProcessId;

/// Replaces the file at `path` as a whole, with mode 0600. With `durable` the content is on the
/// disk before the function returns.
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
        fs::rename(&temporary, path)?;
        match path.parent().filter(|_| durable) {
            // A rename is durable only after its folder was synchronised.
            Some(folder) => fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// The processes of one tree, as its shim last saw them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// The boot that the processes belong to.
    pub boot_id: String,
    pub shim: Option<ProcessId>,
    /// The agent; `None` until it runs.
    pub agent: Option<ProcessId>,
    /// The folder of the tree's own cgroup, if it has one.
    pub cgroup: Option<PathBuf>,
    /// All processes that were alive below the shim.
    pub members: Vec<ProcessId>,
}

impl Census {
    /// Reads the census of a shim. Returns `None` if the file is missing or is not a census.
    pub fn read(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let mut lines = bytes.split(|&byte| byte == b'\n');
        let boot_id = lines.next()?.strip_prefix(b"boot ")?;
        let mut census = Self {
            boot_id: String::from_utf8(boot_id.to_vec()).ok()?,
            ..Self::default()
        };
        for line in lines {
            if let Some(shim) = line.strip_prefix(b"shim ") {
                census.shim = parse_process(shim);
            } else if let Some(agent) = line.strip_prefix(b"agent ") {
                census.agent = parse_process(agent);
            } else if let Some(cgroup) = line.strip_prefix(b"cgroup ") {
                census.cgroup = Some(std::ffi::OsString::from_vec(cgroup.to_vec()).into());
            } else {
                census.members.extend(parse_process(line));
            }
        }
        Some(census)
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = format!("boot {}\n", self.boot_id).into_bytes();
        let mut line = |label: &str, process: &ProcessId| {
            text.extend(format!("{label}{} {}\n", process.pid, process.start_time).bytes());
        };
        self.shim.iter().for_each(|shim| line("shim ", shim));
        self.agent.iter().for_each(|agent| line("agent ", agent));
        self.members.iter().for_each(|member| line("", member));
        if let Some(cgroup) = &self.cgroup {
            text.extend([b"cgroup ", cgroup.as_os_str().as_bytes(), b"\n"].concat());
        }
        replace(path, &text, false)
    }
}

fn parse_process(line: &[u8]) -> Option<ProcessId> {
    let (pid, start_time) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some(ProcessId {
        pid: pid.parse().ok().filter(|&pid| pid > 1)?,
        start_time: start_time.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn census_round_trips_through_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("census");
        let id = |pid| ProcessId { pid, start_time: 12 };
        let mut census = Census {
            boot_id: "boot".to_owned(),
            shim: Some(id(6)),
            ..Census::default()
        };
        census.write(&path).unwrap();
        assert_eq!(Census::read(&path).unwrap(), census);
        census.agent = Some(id(7));
        census.members = vec![id(7), id(8)];
        census.cgroup = Some("/sys/fs/cgroup/vik 1".into());
        census.write(&path).unwrap();
        assert_eq!(Census::read(&path).unwrap(), census);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn census_ignores_foreign_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("census");
        assert_eq!(Census::read(&path), None);
        fs::write(&path, "no census").unwrap();
        assert_eq!(Census::read(&path), None);
        fs::write(&path, "boot here\n1 5\nx 4\n7\n-9 4\n\n8 13\n").unwrap();
        let eight = ProcessId {
            pid: 8,
            start_time: 13,
        };
        assert_eq!(Census::read(&path).unwrap().members, [eight]);
    }
}
