//! The inside of bubblewrap: `vik __shim within`. It runs in the namespaces that `bwrap` has
//! created, applies the rules of the sandbox to the agent, starts it, inherits its orphans, and
//! reports its start and end to the shim. `bwrap` itself reports neither, and would kill the
//! processes that an agent leaves behind without asking them to end first.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::launch;
use crate::identity::{ProcessId, ancestors};
use crate::sandbox::Sandbox;
use crate::spec::{ShimSpec, SpawnFailure};
use crate::{sys, tree};

/// The argument after [`crate::SHIM_VERB`].
pub(super) const VERB: &str = "within";

/// A bound above the longest line of the inside.
const MAX_LINE_BYTES: usize = 1024 * 1024;

/// The messages of the inside to the shim: one line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InsideMessage {
    /// The agent runs. The pid is that of the inside's namespace. The inside waits for an answer.
    Runs(i32),
    /// The agent could not be started.
    Failed(SpawnFailure),
    /// The agent has ended.
    Ended {
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}

/// The numbers of the descriptors that the inside gets.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct InsideDescriptors {
    pub(super) spec: i32,
    pub(super) messages: i32,
    pub(super) stdio: [i32; 3],
}

// --- the shim's side

/// The shim's end of the connection to the inside.
#[derive(Debug)]
pub(super) struct Inside {
    messages: Option<UnixStream>,
    received: Vec<u8>,
    /// The error output of `bwrap`.
    complaints: OwnedFd,
}

impl Inside {
    pub(super) fn new(messages: UnixStream, complaints: OwnedFd) -> io::Result<Self> {
        messages.set_nonblocking(true)?;
        sys::set_nonblocking(&complaints, true)?;
        Ok(Self {
            messages: Some(messages),
            received: Vec::new(),
            complaints,
        })
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.messages.as_ref().map(AsFd::as_fd)
    }

    /// Returns the messages that have arrived.
    pub(super) fn take_messages(&mut self) -> Vec<InsideMessage> {
        let mut bytes = [0; 4096];
        while let Some(stream) = &mut self.messages {
            match stream.read(&mut bytes) {
                Ok(length @ 1..) if self.received.len() < MAX_LINE_BYTES => {
                    self.received.extend_from_slice(&bytes[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                _ => self.messages = None,
            }
        }
        let mut messages = Vec::new();
        while let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            messages.extend(serde_json::from_slice::<InsideMessage>(&line).ok());
        }
        messages
    }

    /// Lets the inside reap the agent: until then its pid cannot be reused.
    pub(super) fn answer(&mut self) {
        if let Some(stream) = &mut self.messages {
            let _ = stream.write_all(b"\n");
        }
    }

    /// Returns the error message of `bwrap`.
    pub(super) fn complaint(&self) -> String {
        let mut bytes = [0; 1024];
        let length = nix::unistd::read(&self.complaints, &mut bytes).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..length]).trim().to_owned();
        if text.is_empty() {
            "bubblewrap exited before it started the command".to_owned()
        } else {
            text
        }
    }
}

/// Creates a file without a path, which only its holders can read.
pub(super) fn nameless(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"vik", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Finds the process with this pid in the namespace below `outermost`. Also returns the processes
/// of the sandbox above it: `bwrap` and the inside.
pub(super) fn find_agent(outermost: i32, pid: i32) -> Option<(ProcessId, Vec<ProcessId>)> {
    let depth = sys::pids_within(i32::try_from(std::process::id()).ok()?).len();
    let around = tree::descendants(&[outermost]);
    let parents = around.iter().map(|process| process.pid).chain([outermost]);
    // The process may be a zombie, which is not a descendant in this list any more, but still a
    // child.
    let children = parents.map(sys::children).collect::<Option<Vec<_>>>();
    let candidates = children.map_or_else(sys::all_pids, |lists| lists.concat());
    let is_it = |candidate: &i32| {
        let pids = sys::pids_within(*candidate);
        pids.len() == depth + 1 && pids.last() == Some(&pid)
    };
    candidates.into_iter().filter(is_it).find_map(|candidate| {
        let above = ancestors(candidate);
        let end = above.iter().position(|process| process.pid == outermost)?;
        Some((ProcessId::of(candidate)?, above[..=end].to_vec()))
    })
}

// --- the inside

/// Runs the inside to its end. The argument is a [`InsideDescriptors`] as JSON.
pub(super) fn main(given: Option<String>) -> ExitCode {
    crate::set_non_dumpable();
    let _ = nix::sys::prctl::set_name(c"vik-shim");
    let given = given.and_then(|given| serde_json::from_str::<InsideDescriptors>(&given).ok());
    let Some((spec, messages, stdio)) = given.and_then(|given| {
        let [stdin, stdout, stderr] = given.stdio.map(sys::inherited);
        let stdio = [stdin?, stdout?, stderr?];
        Some((
            sys::inherited(given.spec)?,
            sys::inherited(given.messages)?,
            stdio,
        ))
    }) else {
        return super::refuse("only bubblewrap can start it");
    };
    sys::cloexec_from_3();
    sys::become_subreaper();
    let mut messages = UnixStream::from(messages);
    let started = match serde_json::from_reader(BufReader::new(File::from(spec))) {
        Ok(spec) => start(&spec, stdio),
        Err(error) => return super::refuse(&format!("cannot read the command to start: {error}")),
    };
    let agent = match started {
        Ok(agent) => agent,
        Err(failure) => {
            send(&mut messages, &InsideMessage::Failed(failure));
            return ExitCode::FAILURE;
        }
    };
    send(&mut messages, &InsideMessage::Runs(agent));
    // Without an answer the shim has ended, and this process ends with it.
    let _ = messages
        .try_clone()
        .map(|stream| BufReader::new(stream).read_line(&mut String::new()));
    reap_all(agent, &mut messages);
    ExitCode::SUCCESS
}

/// Starts the agent with the rules of its sandbox.
fn start(spec: &ShimSpec, stdio: [OwnedFd; 3]) -> Result<i32, SpawnFailure> {
    let fence = spec.sandbox.clone().map(Sandbox::fence_within).transpose();
    let fence = fence.map_err(|error| launch::no_sandbox(&error))?;
    let image = launch::agent(spec, stdio.each_ref().map(AsRawFd::as_raw_fd), fence, None)?;
    let (mut report, pid) = launch::fork(&image, None)?;
    drop((image, stdio));
    let mut bytes = Vec::new();
    let _ = report.read_to_end(&mut bytes);
    match sys::parse_report(&bytes) {
        None => Ok(pid),
        Some((step, errno)) => Err(launch::failure(spec, step, errno)),
    }
}

/// Reaps children until none is left, and reports the agent's end.
fn reap_all(agent: i32, messages: &mut UnixStream) {
    loop {
        let status = match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::__WALL)) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            Err(_) => return,
        };
        let (code, signal) = match status {
            WaitStatus::Exited(_, code) => (Some(code), None),
            WaitStatus::Signaled(_, signal, _) => (None, Some(signal as libc::c_int)),
            _ => continue,
        };
        if status.pid() == Some(Pid::from_raw(agent)) {
            send(messages, &InsideMessage::Ended { code, signal });
        }
    }
}

fn send(messages: &mut UnixStream, message: &InsideMessage) {
    if let Ok(mut line) = serde_json::to_vec(message) {
        line.push(b'\n');
        let _ = messages.write_all(&line);
    }
}
