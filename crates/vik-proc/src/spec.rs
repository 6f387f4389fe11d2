//! What the daemon tells the shim and what the shim tells the daemon: plain data, one JSON line each.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::ProcessId;
use crate::os_text;
use crate::sandbox::{Overrun, Sandbox};

/// The argument that makes the program act as the shim: `vik __shim`.
pub const SHIM_VERB: &str = "__shim";

/// One agent (or one short command) to start, and all that the shim needs to know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimSpec {
    /// The program. Without a slash it is looked up in the absolute folders of the `PATH` in [`env`](Self::env):
    /// relative ones are passed over, as the working directory may be hostile.
    #[serde(with = "os_text::one")]
    pub program: OsString,
    /// The arguments after the program's own name.
    #[serde(with = "os_text::list", default)]
    pub args: Vec<OsString>,
    /// The working directory.
    #[serde(with = "os_text::one")]
    pub cwd: PathBuf,
    /// The whole environment: nothing else is handed on, but for [`mark`](Self::mark).
    #[serde(with = "os_text::pairs", default)]
    pub env: Vec<(OsString, OsString)>,
    /// Added to the environment, so that the processes of this tree can be found by it.
    #[serde(default)]
    pub mark: Option<Mark>,
    /// Where standard input comes from.
    #[serde(default)]
    pub stdin: Stdin,
    /// Where standard output goes.
    #[serde(default)]
    pub stdout: Output,
    /// Where standard error goes.
    #[serde(default)]
    pub stderr: Output,
    /// How long each step of the stop ladder may take.
    #[serde(default)]
    pub graces: Graces,
    /// Where the exit record is written once the whole tree is gone.
    #[serde(with = "os_text::option", default)]
    pub exit_record: Option<PathBuf>,
    /// Where the shim notes the members of the tree while it lives.
    #[serde(with = "os_text::option", default)]
    pub census: Option<PathBuf>,
    /// How long the agent may live without a daemon once the lifeline has closed. Zero: it is stopped at once.
    #[serde(rename = "orphan_grace_ms", with = "millis", default)]
    pub orphan_grace: Duration,
    /// Where the shim makes the FIFO through which a later daemon takes it over ([`crate::Supervisor::adopt`]), if
    /// there is an [`orphan_grace`](Self::orphan_grace). Made before the agent is started, removed at the end.
    #[serde(with = "os_text::option", default)]
    pub control: Option<PathBuf>,
    /// The soft limit of open files for the agent; `None` leaves the shim's own. [`crate::raise_file_limit`] lifts the
    /// daemon's limit, which programs that still use `select` must not inherit: [`crate::Supervisor`] fills this in.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// The umask of the agent; `None` leaves the shim's own. [`crate::keep_files_private`] tightens the daemon's, which
    /// is not meant for the files of a workspace: [`crate::Supervisor`] fills this in.
    #[serde(default)]
    pub umask: Option<u32>,
    /// What the agent and all that it starts may do; `None`: whatever the user may.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// Where it is written down which hosts the sandbox has refused ([`crate::read_refusals`]).
    #[serde(with = "os_text::option", default)]
    pub refusals: Option<PathBuf>,
    /// Files outside of the sandbox that hold what the tree has printed, or what was made of that. They count for its share
    /// of the disk, which is bounded without a sandbox too.
    #[serde(with = "os_text::paths", default)]
    pub kept: Vec<PathBuf>,
}

impl ShimSpec {
    /// A spec with the defaults of an agent: no input, output thrown away, the graces of [`Graces::default`].
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: Vec::new(),
            mark: None,
            stdin: Stdin::Null,
            stdout: Output::Null,
            stderr: Output::Null,
            graces: Graces::default(),
            exit_record: None,
            census: None,
            orphan_grace: Duration::ZERO,
            control: None,
            open_files: None,
            umask: None,
            sandbox: None,
            refusals: None,
            kept: Vec::new(),
        }
    }

    /// A spec for [`crate::Supervisor::output`]: standard output goes to the daemon, the graces are short.
    pub fn command(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            stdout: Output::Inherit,
            graces: Graces::short(),
            ..Self::new(program, cwd)
        }
    }
}

/// A variable in the environment of every process of one tree, for example `VIK_ATTEMPT_ID` and a uuid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The variable's name.
    pub name: String,
    /// Its value: unique for this tree.
    pub value: String,
}

impl Mark {
    /// The mark `name=value`.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// Where standard input comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// `/dev/null`.
    #[default]
    Null,
    /// The content of this file, through a pipe that the shim feeds and then closes.
    File(#[serde(with = "os_text::one")] PathBuf),
    /// The content of this file and what is appended to it while the agent lives, with or without a daemon. A NUL byte in it
    /// closes the input: nothing behind it is read.
    Follow(#[serde(with = "os_text::one")] PathBuf),
}

/// Where standard output or standard error goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// `/dev/null`.
    #[default]
    Null,
    /// Appended to this file (made with mode 0600) by the process itself; never through a pipe.
    Append(#[serde(with = "os_text::one")] PathBuf),
    /// What the shim itself was given: see [`crate::StdoutMode`] for standard output; standard error is the daemon's.
    Inherit,
    /// For standard error: wherever standard output goes. For standard output: the same as `Inherit`.
    Stdout,
}

/// How long each step of the stop ladder may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graces {
    /// After SIGINT to the agent's process group.
    #[serde(rename = "int_ms", with = "millis")]
    pub int: Duration,
    /// After SIGTERM to every descendant.
    #[serde(rename = "term_ms", with = "millis")]
    pub term: Duration,
    /// After SIGTERM to what an agent that ended by itself left behind.
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
    /// For hooks and other short commands: one second each before SIGKILL.
    pub fn short() -> Self {
        let second = Duration::from_secs(1);
        Self {
            int: second,
            term: second,
            leftover: second,
            ..Self::default()
        }
    }

    /// The longest time from a stop to the shim's end.
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

/// How one agent and its tree ended. Written by the shim when nothing of the tree lives any more.
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
    /// When the tree was gone: Unix time in milliseconds.
    pub ended_at_ms: u64,
    /// The agent's exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended the agent, if one did.
    pub signal: Option<i32>,
    /// Who wanted the end.
    pub cause: Cause,
    /// Why the agent could not be started, with [`Cause::SpawnFailed`].
    pub spawn_error: Option<SpawnFailure>,
    /// How many processes other than the agent had to be ended by the shim.
    pub leftovers_killed: u32,
    /// How the end of the tree is known.
    pub proof: Proof,
    /// The largest resident set of any one process of the tree, in KiB.
    pub peak_rss_kb: Option<u64>,
    /// CPU time of the tree in user mode, in milliseconds.
    pub user_cpu_ms: u64,
    /// CPU time of the tree in the kernel, in milliseconds.
    pub sys_cpu_ms: u64,
    /// The limit of its sandbox that the tree was over: for this the shim has killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrun: Option<Overrun>,
}

impl ExitRecord {
    /// Whether the agent ended by itself with exit code 0 and the end of its tree is proven.
    pub fn is_clean(&self) -> bool {
        self.cause == Cause::Exited && self.code == Some(0) && self.proof.is_proven()
    }
}

/// Who wanted the end of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The agent itself (also by a signal that was not the shim's).
    Exited,
    /// A stop was asked for, or the shim got SIGINT or SIGTERM.
    Stopped,
    /// An immediate end was asked for.
    Killed,
    /// The daemon went away, and none came back within the [`ShimSpec::orphan_grace`].
    LifelineLost,
    /// It never began: see [`ExitRecord::spawn_error`].
    SpawnFailed,
}

/// Why an agent could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnFailure {
    /// The kind of failure, for decisions.
    pub kind: SpawnFailureKind,
    /// The failure in words, with the path that it is about.
    pub message: String,
}

/// The kinds of [`SpawnFailure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnFailureKind {
    /// There is no such program.
    NotFound,
    /// The program is there, but the interpreter that it names (`#!` line or dynamic loader) is not.
    InterpreterNotFound,
    /// The program may not be executed.
    PermissionDenied,
    /// The file is no program that this machine can run.
    NotExecutable,
    /// The working directory is missing, is no directory, or may not be entered.
    BadCwd,
    /// The file for standard input cannot be read.
    BadStdin,
    /// A file for standard output or standard error cannot be opened.
    BadOutput,
    /// The system does not uphold the sandbox that is asked for.
    NoSandbox,
    /// Arguments and environment are too long together.
    TooBig,
    /// The system has no processes, memory or file descriptors left.
    NoResources,
    /// Anything else.
    Other,
}

/// How the end of a process tree is known, best first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Every orphan of the tree is inherited by the shim (or, when it was lost, by the daemon), and none is left.
    Subreaper,
    /// The machine was started anew: nothing of an earlier boot lives.
    Reboot,
    /// The tree's own cgroup, which every descendant is born into, is empty; census and mark find nothing either.
    Cgroup,
    /// Nothing that a lost shim had noted lives.
    Census,
    /// Nothing that carries the mark lives, nor anything that the shim had noted.
    Mark,
    /// The agent's process group is empty and nothing else was seen (macOS).
    Group,
    /// Something still lives, or its end cannot be known.
    Unproven {
        /// What was last seen alive (at most 64).
        survivors: Vec<ProcessId>,
    },
}

impl Proof {
    /// Whether the tree is known to be gone.
    pub fn is_proven(&self) -> bool {
        !matches!(self, Self::Unproven { .. })
    }

    /// Its name in records and messages.
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
    /// The tree is gone.
    Ended(Box<ExitRecord>),
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use proptest::prelude::*;

    use super::*;

    fn os_text() -> impl Strategy<Value = OsString> {
        prop_oneof![
            ".*".prop_map(OsString::from),
            any::<Vec<u8>>().prop_map(OsString::from_vec)
        ]
    }

    proptest! {
        /// What the shim reads is what the daemon meant, in one line, whatever bytes are in it.
        #[test]
        fn a_spec_survives_its_line(
            program in os_text(),
            args in prop::collection::vec(os_text(), 0..4),
            env in prop::collection::vec((os_text(), os_text()), 0..4),
            path in os_text(),
            int in 0..1_000_000_u64,
        ) {
            let mut spec = ShimSpec::new(program, path.clone());
            (spec.args, spec.env) = (args, env);
            spec.stdin = if int % 2 == 0 {
                Stdin::File(path.clone().into())
            } else {
                Stdin::Follow(path.clone().into())
            };
            spec.stdout = Output::Append(path.clone().into());
            spec.exit_record = Some(path.clone().into());
            spec.control = Some(path.into());
            spec.orphan_grace = Duration::from_millis(int);
            spec.mark = Some(Mark::new("NAME", "value"));
            spec.graces.int = Duration::from_millis(int);
            spec.sandbox = Some(Sandbox {
                write: vec![spec.cwd.clone()],
                ..Sandbox::default()
            });
            let line = serde_json::to_string(&spec).unwrap();
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<ShimSpec>(&line).unwrap(), spec);
        }
    }

    #[test]
    fn the_form_of_a_record_is_stable() {
        let record = ExitRecord {
            schema: 1,
            agent: Some(ProcessId {
                pid: 7,
                start_time: 8,
            }),
            boot_id: "boot".to_owned(),
            started_at_ms: 1,
            ended_at_ms: 2,
            code: None,
            signal: Some(9),
            cause: Cause::LifelineLost,
            spawn_error: None,
            leftovers_killed: 3,
            proof: Proof::Unproven {
                survivors: vec![ProcessId {
                    pid: 5,
                    start_time: 6,
                }],
            },
            peak_rss_kb: Some(4),
            user_cpu_ms: 5,
            sys_cpu_ms: 6,
            overrun: None,
        };
        let json = concat!(
            r#"{"ended":{"schema":1,"agent":{"pid":7,"start_time":8},"boot_id":"boot","started_at_ms":1,"#,
            r#""ended_at_ms":2,"code":null,"signal":9,"cause":"lifeline_lost","spawn_error":null,"#,
            r#""leftovers_killed":3,"proof":{"unproven":{"survivors":[{"pid":5,"start_time":6}]}},"#,
            r#""peak_rss_kb":4,"user_cpu_ms":5,"sys_cpu_ms":6}}"#
        );
        let status = Status::Ended(Box::new(record));
        assert_eq!(serde_json::to_string(&status).unwrap(), json);
        assert_eq!(serde_json::from_str::<Status>(json).unwrap(), status);
    }
}
