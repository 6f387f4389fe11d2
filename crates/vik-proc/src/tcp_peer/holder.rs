//! Finds the process that has a socket open.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::identity::ProcessId;
use crate::{sys, tree};

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This process has the socket open.
    Process(i32),
    /// No process that can be read has it, every process of the trees but their shims can be, and there is one outside of
    /// them that cannot be: of another user, or one that hides its files as `sshd` does.
    HiddenOutside,
    /// Nobody has it, or one of the trees may have it.
    Undetermined,
}

/// Searches all processes for one that has the socket open. Below `roots` each thread is searched, since a thread may
/// have files of its own.
pub(super) fn search(inode: u32, uid: u32, roots: &[ProcessId]) -> Found {
    let roots: Vec<i32> = roots
        .iter()
        .filter(|root| root.is_alive())
        .map(|root| root.pid)
        .collect();
    let mut inside: HashSet<i32> = tree::descendants(&roots).iter().map(|id| id.pid).collect();
    inside.extend(&roots);
    let socket = format!("socket:[{inode}]");
    let mut hidden = Vec::new();
    for pid in sys::all_pids() {
        let held = if inside.contains(&pid) {
            any_thread_holds(pid, &socket)
        } else {
            holds(Path::new(&format!("/proc/{pid}/fd")), &socket)
        };
        match held {
            Ok(true) => return Found::Process(pid),
            Ok(false) => {}
            Err(_) => hidden.push(pid),
        }
    }
    let mut hidden_outside = uid != nix::unistd::geteuid().as_raw();
    for pid in hidden {
        if !inside.contains(&pid) {
            hidden_outside |= has_user(pid, uid);
        } else if !roots.contains(&pid) && !is_init_of_namespace(pid) {
            return Found::Undetermined;
        }
    }
    // A socket on its way between two processes is open in neither.
    if !hidden_outside || inside.iter().any(|&pid| sends_files(pid)) {
        return Found::Undetermined;
    }
    Found::HiddenOutside
}

/// An error where the process exists and its files cannot be read.
fn holds(folder: &Path, socket: &str) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(files) => Ok(files
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == socket))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        // The process is gone.
        Err(_) => Ok(false),
    }
}

fn any_thread_holds(pid: i32, socket: &str) -> io::Result<bool> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Ok(false);
    };
    for thread in threads.flatten() {
        if holds(&thread.path().join("fd"), socket)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Shims hide their files from ordinary users, those within a namespace of processes too, where they are the first. An
/// agent in a sandbox can make no such namespace.
fn is_init_of_namespace(pid: i32) -> bool {
    let pids = sys::pids_within(pid);
    pids.len() > 1 && pids.last() == Some(&1)
}

/// Returns whether a process runs as this user. The owner of its folder does not tell: it is root for who hides.
fn has_user(pid: i32, uid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users
        .unwrap_or_default()
        .split_ascii_whitespace()
        .any(|user| user.parse() == Ok(uid))
}

/// Returns whether a process has a Unix socket in which open files wait to be received.
fn sends_files(pid: i32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_dir(thread.path().join("fdinfo")).ok())
        .flat_map(Iterator::flatten)
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .any(|info| {
            let waiting = info.lines().find_map(|line| line.strip_prefix("scm_fds:"));
            waiting.is_some_and(|count| count.trim() != "0")
        })
}
