//! Finds the process that has a socket open.

use std::collections::HashSet;
use std::path::Path;
use std::{fs, io};

use crate::identity::ProcessId;
use crate::{sys, tree};

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This process has the socket open.
    Process(ProcessId),
    /// No process that can be read has it, and another user made it. No process of that user is in
    /// the trees.
    OtherUser,
    /// No process that can be read has it. One outside of the trees runs as the user that made it
    /// and cannot be read.
    Hidden,
    /// No process has it.
    NoProcess,
}

/// Searches all processes for one that has the socket open. Below `roots` each thread is searched,
/// since a thread may have files of its own.
pub(super) fn search(inode: u32, uid: u32, roots: &[ProcessId]) -> Found {
    let roots: Vec<i32> = roots
        .iter()
        .filter(|root| root.is_alive())
        .map(|root| root.pid)
        .collect();
    let mut inside: HashSet<i32> = tree::descendants(&roots).iter().map(|id| id.pid).collect();
    inside.extend(&roots);
    let socket = format!("socket:[{inode}]");
    let holds = |pid| {
        if inside.contains(&pid) {
            any_thread_holds(pid, &socket)
        } else {
            holds(Path::new(&format!("/proc/{pid}/fd")), &socket)
        }
    };
    let mut hidden = Vec::new();
    for pid in sys::all_pids() {
        match holds(pid) {
            // Once more: another process may have got the pid.
            Ok(true) => match ProcessId::of(pid) {
                Some(process) if holds(pid).is_ok_and(|holds| holds) => return Found::Process(process),
                _ => {}
            },
            Ok(false) => {}
            Err(_) => hidden.push(pid),
        }
    }
    // An agent of root can give its sockets to any user.
    let own = nix::unistd::geteuid();
    if uid != own.as_raw() && !own.is_root() && !inside.iter().any(|&pid| has_user(pid, uid)) {
        return Found::OtherUser;
    }
    let is_hidden = |pid: &i32| !inside.contains(pid) && has_user(*pid, uid);
    if hidden.iter().any(is_hidden) {
        Found::Hidden
    } else {
        Found::NoProcess
    }
}

/// Returns whether the process has the socket open. Returns an error if the process exists and its
/// files cannot be read.
fn holds(folder: &Path, socket: &str) -> io::Result<bool> {
    let read = || {
        for file in fs::read_dir(folder)? {
            match fs::read_link(file?.path()) {
                Ok(target) if target.as_os_str() == socket => return Ok(true),
                Err(error) if !is_missing(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    };
    read().or_else(|error| if is_missing(&error) { Ok(false) } else { Err(error) })
}

/// Returns whether the error means that a process, or a file of it, does not exist any more.
fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH)
}

fn any_thread_holds(pid: i32, socket: &str) -> io::Result<bool> {
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(error) if is_missing(&error) => return Ok(false),
        threads => threads?,
    };
    for thread in threads {
        if holds(&thread?.path().join("fd"), socket)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a process runs as this user. The owner of its folder is no evidence: it is root
/// where the process hides its files.
fn has_user(pid: i32, uid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users
        .unwrap_or_default()
        .split_ascii_whitespace()
        .any(|user| user.parse() == Ok(uid))
}
