//! Finds the processes that a test left behind, even hidden ones.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

/// A process that should have exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub pid: i32,
    /// The command line, cut at 200 characters.
    pub command: String,
    /// How it was found: `environ`, `cwd`, `cmdline` or `fd`.
    pub found_by: &'static str,
}

impl Leftover {
    /// Returns whether it is the template of the shims of a process.
    pub(crate) fn is_template_of(&self, parent: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The state and the parent follow the name.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
        let of = fields.and_then(|fields| fields.split(' ').nth(1)?.parse().ok());
        self.command.contains("__shim template") && of == Some(parent)
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.pid, self.found_by, self.command)
    }
}

/// Returns the live processes (no zombies, not this one) of a test: those with its mark or root in
/// their environment or command line, with a working directory below the root, or with an open file
/// below it.
///
/// Only Linux has this information; elsewhere the list is empty.
pub fn leftovers_of(root: &Path, mark: &str) -> Vec<Leftover> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found: Vec<Leftover> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| pid != std::process::id().cast_signed())
        .filter_map(|pid| belongs(pid, root, mark))
        .collect();
    found.sort_by_key(|left| left.pid);
    found
}

fn belongs(pid: i32, root: &Path, mark: &str) -> Option<Leftover> {
    let proc = Path::new("/proc").join(pid.to_string());
    let root_bytes = root.as_os_str().as_encoded_bytes();
    let below_root = |link: &Path| std::fs::read_link(link).is_ok_and(|target| target.starts_with(root));
    let environ = std::fs::read(proc.join("environ")).unwrap_or_default();
    let cmdline = std::fs::read(proc.join("cmdline")).unwrap_or_default();
    let found_by = if contains_bytes(&environ, root_bytes) || contains_bytes(&environ, mark.as_bytes()) {
        "environ"
    } else if below_root(&proc.join("cwd")) {
        "cwd"
    } else if contains_bytes(&cmdline, root_bytes) {
        "cmdline"
    } else if std::fs::read_dir(proc.join("fd"))
        .ok()?
        .flatten()
        .filter(|fd| below_root(&fd.path()) && gives_access(&proc, &fd.file_name()))
        // Its number may have passed to another file between these.
        .any(|fd| below_root(&fd.path()))
    {
        "fd"
    } else {
        return None;
    };
    if !alive(pid) {
        return None;
    }
    let command_line = String::from_utf8_lossy(&cmdline).replace('\0', " ");
    Some(Leftover {
        pid,
        command: command_line.trim().chars().take(200).collect(),
        found_by,
    })
}

/// Returns whether a descriptor gives access to the content of its file. The template of shims of
/// another test may keep handles (`O_PATH`) of the folders of all tests, and closes and opens them
/// at any time: a descriptor without information has just been closed.
fn gives_access(proc: &Path, fd: &OsStr) -> bool {
    const PATH_ONLY: u32 = 0o10_000_000;
    let info = std::fs::read_to_string(proc.join("fdinfo").join(fd)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & PATH_ONLY == 0)
}

/// Returns whether a process exists and is not a zombie.
pub fn alive(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state follows the name, which may contain anything, including `)`.
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, fields)| {
            // While other threads of a dead process are still exiting, its files are open and its
            // locks are held.
            let threads = fields
                .split_ascii_whitespace()
                .nth(17)
                .and_then(|count| count.parse::<u32>().ok());
            !fields.starts_with(['Z', 'X'])
                || (fields.starts_with('Z') && threads.is_some_and(|count| count > 1))
        }),
        Err(_) if cfg!(target_os = "linux") => false,
        Err(_) => nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok(),
    }
}

fn contains_bytes(haystack: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && haystack.windows(needle.len()).any(|window| window == needle)
}
