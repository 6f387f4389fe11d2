//! The messages between the daemon and the shim: plain data, one JSON line each.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::boot_time::BootTime;
use crate::identity::ProcessId;
use crate::os_text;
use crate::sandbox::{Overrun, Sandbox};
use crate::servers::Servers;

/// The argument that makes the program act as the shim: `vik __shim`.
pub const SHIM_VERB: &str = "__shim";

/// The description of one agent (or one short command) for the shim that starts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimSpec {
    /// The program. A name without a slash is searched in the absolute folders of the `PATH` in
    /// [`env`](Self::env). Relative folders are skipped, as the working directory may be hostile.
    #[serde(with = "os_text")]
    pub program: OsString,
    /// The arguments after the program's own name.
    #[serde(with = "os_text", default)]
    pub args: Vec<OsString>,
    #[serde(with = "os_text")]
    pub cwd: PathBuf,
    /// The whole environment: the agent gets no other variables, except [`mark`](Self::mark).
    #[serde(with = "os_text", default)]
    pub env: Vec<(OsString, OsString)>,
    /// Added to the environment, so that the processes of this tree can be found by it.
    #[serde(default)]
    pub mark: Option<Mark>,
    #[serde(default)]
    pub stdin: Stdin,
    #[serde(default)]
    pub stdout: Output,
    #[serde(default)]
    pub stderr: Output,
    /// The time limits of the steps of the stop ladder.
    #[serde(default)]
    pub graces: Graces,
    /// The file for the exit record, which is written once the whole tree has ended.
    #[serde(with = "os_text", default)]
    pub exit_record: Option<PathBuf>,
    /// The file in which the shim lists the members of the tree while it lives.
    #[serde(with = "os_text", default)]
    pub census: Option<PathBuf>,
    /// How long the agent may live without a daemon once the lifeline has closed. Zero stops it at
    /// once.
    #[serde(rename = "orphan_grace_ms", with = "millis", default)]
    pub orphan_grace: Duration,
    /// The path of the FIFO through which a later daemon takes the shim over
    /// ([`crate::Supervisor::adopt`]), if there is an [`orphan_grace`](Self::orphan_grace). The
    /// shim creates it before it starts the agent, and removes it at the end.
    #[serde(with = "os_text", default)]
    pub control: Option<PathBuf>,
    /// The agent's soft limit on open files; `None` keeps that of the shim.
    /// [`crate::raise_file_limit`] raises the daemon's limit, which programs that still use
    /// `select` must not inherit: [`crate::Supervisor`] sets this field.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// The umask of the agent; `None` keeps that of the shim. [`crate::keep_files_private`]
    /// tightens the daemon's umask, which is not meant for the files of a workspace:
    /// [`crate::Supervisor`] sets this field.
    #[serde(default)]
    pub umask: Option<u32>,
    /// The restrictions of the agent and its descendants; `None` restricts nothing.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// The file for the hosts that the sandbox has refused ([`crate::read_refusals`]).
    #[serde(with = "os_text", default)]
    pub refusals: Option<PathBuf>,
    /// Files outside of the sandbox that hold the output of the tree, or logs that were made from
    /// it. They count towards its share of the disk, which is limited without a sandbox too.
    #[serde(with = "os_text", default)]
    pub kept: Vec<PathBuf>,
    /// A file whose length is the number of bytes in [`kept`](Self::kept) that do not count towards
    /// the limit, because they will be removed.
    #[serde(with = "os_text", default)]
    pub kept_discount: Option<PathBuf>,
    /// The programs that processes of the agent can connect to (Linux only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Servers>,
    /// The end of the first lease, at most one hour from the start of the shim; `None` if the agent
    /// needs no lease. The shim kills the tree when the lease ends, and starts no agent after that.
    /// [`crate::Handle::renew`] renews it. A lease also ends the stop ladder and the
    /// [`orphan_grace`](Self::orphan_grace). [`crate::Supervisor::with_lease`] sets and renews it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<BootTime>,
}

impl ShimSpec {
    /// Returns the part that adopts the shim or cleans up after it. The remainder, above all the
    /// hidden places of the sandbox, takes much memory and is needed only by the shim.
    pub(crate) fn into_recovery(self) -> Self {
        Self {
            mark: self.mark,
            graces: self.graces,
            exit_record: self.exit_record,
            census: self.census,
            orphan_grace: self.orphan_grace,
            control: self.control,
            ..Self::default()
        }
    }

    /// Creates a spec with the defaults of an agent: no input, discarded output, the graces of
    /// [`Graces::default`].
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            cwd: cwd.into(),
            ..Self::default()
        }
    }

    /// Creates a spec for [`crate::Supervisor::output`]: standard output goes to the daemon, the
    /// graces are short.
    pub fn command(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            stdout: Output::Inherit,
            graces: Graces::short(),
            ..Self::new(program, cwd)
        }
    }
}

/// A variable in the environment of every process of one tree, for example `VIK_ATTEMPT_ID` and a
/// uuid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub name: String,
    /// The value, which is unique for this tree.
    pub value: String,
}

impl Mark {
    /// Creates the mark `name=value`.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// The source of standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    #[default]
    Null,
    /// The content of this file, which the shim writes to a pipe that it then closes.
    File(#[serde(with = "os_text")] PathBuf),
    /// The content of this file and all that is appended to it while the agent lives, with or
    /// without a daemon. A NUL byte ends the input: bytes after it are not read.
    Follow(#[serde(with = "os_text")] PathBuf),
    /// This descriptor of the shim, from 3 on.
    Descriptor(i32),
    /// This terminal, for a person. It is the controlling terminal of the process, and its standard
    /// output and standard error too.
    Terminal(#[serde(with = "os_text")] PathBuf),
}

/// The destination of standard output or standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    #[default]
    Null,
    /// Appended to this file (created with mode 0600) by the process itself, never through a pipe.
    Append(#[serde(with = "os_text")] PathBuf),
    /// The descriptor of the shim itself: see [`crate::StdoutMode`] for standard output; standard
    /// error is that of the daemon.
    Inherit,
    /// For standard error: the destination of standard output. For standard output: the same as
    /// `Inherit`.
    Stdout,
}

/// The time limits of the steps of the stop ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graces {
    /// The time after SIGINT to the agent's process group.
    #[serde(rename = "int_ms", with = "millis")]
    pub int: Duration,
    /// The time after SIGTERM to every descendant.
    #[serde(rename = "term_ms", with = "millis")]
    pub term: Duration,
    /// The time after SIGTERM to the processes that an agent left behind when it ended by itself.
    #[serde(rename = "leftover_ms", with = "millis")]
    pub leftover: Duration,
    /// How long SIGKILL is repeated before the end counts as unproven.
    #[serde(rename = "kill_ms", with = "millis")]
    pub kill: Duration,
}

impl Default for Graces {
    fn default() -> Self {
        Self {
            int: Duration::from_secs(5),
            term: Duration::from_secs(2),
            leftover: Duration::from_secs(2),
            kill: Duration::from_secs(30),
        }
    }
}

impl Graces {
    /// Returns the graces for hooks and other short commands: one second each before SIGKILL.
    pub fn short() -> Self {
        let second = Duration::from_secs(1);
        Self {
            int: second,
            term: second,
            leftover: second,
            ..Self::default()
        }
    }

    /// Returns the longest time from a stop to the shim's end.
    pub fn total(&self) -> Duration {
        self.int + self.term.max(self.leftover) + self.kill
    }
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Ok(Duration::from_millis(u64::deserialize(deserializer)?))
    }
}

/// The result of one agent and its tree. The shim writes it once no process of the tree lives any
/// more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The version of this record: 1.
    pub schema: u32,
    /// The agent's own process; `None` if it could not be started.
    pub agent: Option<ProcessId>,
    /// The boot that [`agent`](Self::agent) belongs to.
    pub boot_id: String,
    /// When the agent was started: Unix time in milliseconds.
    pub started_at_ms: u64,
    /// When the last process of the tree ended: Unix time in milliseconds.
    pub ended_at_ms: u64,
    /// The agent's exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended the agent, if one did.
    pub signal: Option<i32>,
    /// The cause of the end.
    pub cause: Cause,
    /// Why the agent could not be started, with [`Cause::SpawnFailed`].
    pub spawn_error: Option<SpawnFailure>,
    /// How many processes other than the agent the shim had to end.
    pub leftovers_killed: u32,
    /// The evidence that the tree has ended.
    pub proof: Proof,
    /// The largest resident set of any one process of the tree, in KiB.
    pub peak_rss_kb: Option<u64>,
    /// CPU time of the tree in user mode, in milliseconds.
    pub user_cpu_ms: u64,
    /// CPU time of the tree in the kernel, in milliseconds.
    pub sys_cpu_ms: u64,
    /// The limit of its sandbox that the tree exceeded, for which the shim killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrun: Option<Overrun>,
}

impl ExitRecord {
    /// Returns whether the agent ended by itself with exit code 0 and the end of its tree is
    /// proven.
    pub fn is_clean(&self) -> bool {
        self.cause == Cause::Exited && self.code == Some(0) && self.proof.is_proven()
    }
}

/// The cause of an agent's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The agent itself (also by a signal that was not the shim's).
    Exited,
    /// A stop was requested, or the shim received SIGINT or SIGTERM.
    Stopped,
    /// An immediate end was requested.
    Killed,
    /// The daemon ended, and no other one came within the [`ShimSpec::orphan_grace`].
    LifelineLost,
    /// The [`ShimSpec::lease`] ended. A version of Vik that does not know this cause cannot read the
    /// record: to it, the shim ended without one.
    LeaseLost,
    /// The agent did not start: see [`ExitRecord::spawn_error`].
    SpawnFailed,
}

/// The reason why an agent could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnFailure {
    /// The kind of failure, for decisions in code.
    pub kind: SpawnFailureKind,
    /// A message with the path that it concerns.
    pub message: String,
}

/// The kinds of [`SpawnFailure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnFailureKind {
    /// The program does not exist.
    NotFound,
    /// The program exists, but the interpreter that it names (`#!` line or dynamic loader) does
    /// not.
    InterpreterNotFound,
    /// The program may not be executed.
    PermissionDenied,
    /// The file is not a program that this machine can run.
    NotExecutable,
    /// The working directory is missing, is not a directory, or may not be entered.
    BadCwd,
    /// The file for standard input cannot be read.
    BadStdin,
    /// A file for standard output or standard error cannot be opened.
    BadOutput,
    /// The system cannot enforce the requested sandbox.
    NoSandbox,
    /// Arguments and environment together are too long.
    TooBig,
    /// The system has no processes, memory or file descriptors left.
    NoResources,
    Other,
}

/// The evidence for the end of a process tree, strongest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The shim (or, if it was lost, the daemon) inherits every orphan of the tree, and none is
    /// left.
    Subreaper,
    /// The machine was restarted: no process of an earlier boot lives.
    Reboot,
    /// The tree's own cgroup, in which every descendant is created, is empty; census and mark find
    /// no process either.
    Cgroup,
    /// No process that a lost shim had listed lives.
    Census,
    /// No process that carries the mark lives, nor any that the shim had listed.
    Mark,
    /// The agent's process group is empty and no other process was seen (macOS).
    Group,
    /// A process still lives, or the end cannot be determined.
    Unproven {
        /// The processes that were last seen alive (at most 64).
        survivors: Vec<ProcessId>,
    },
}

impl Proof {
    /// Returns whether the end of the tree is proven.
    pub fn is_proven(&self) -> bool {
        !matches!(self, Self::Unproven { .. })
    }

    /// Returns the name that records and messages use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Subreaper => "subreaper",
            Self::Reboot => "reboot",
            Self::Cgroup => "cgroup",
            Self::Census => "census",
            Self::Mark => "mark",
            Self::Group => "group",
            Self::Unproven { .. } => "unproven",
        }
    }
}

/// One line of the shim's status pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// The agent runs: its `exec` succeeded.
    Started(ProcessId),
    /// The tree has ended.
    Ended(Box<ExitRecord>),
}

#[cfg(test)]
mod tests;
