//! `vik stop`: stops the daemon and returns when none of its descendants lives.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vik_api::Action;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_client::{ClientError, Endpoint, blocking};
use vik_daemon::{Instance, InstanceInfo, Presence};
use vik_proc::Graces;
use vik_session::host::{INSTANCE_MARK, SHIM_MARK};
use vik_workflow::absolute;

use super::positional::Positional;
use super::{CliResult, client, print, runtime};

/// `vik stop`
#[derive(Debug, Args)]
pub struct StopArgs {
    #[command(flatten)]
    pub workflow: Positional,
    /// Seconds to wait before killing the daemon
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub timeout: u64,
    /// Keep agents running for up to `loop.orphan_grace`, so that the next daemon can adopt them
    #[arg(long)]
    pub keep_sessions: bool,
}

const ASKED: &str = "vik is stopping and will exit after this command has ended\n";

/// How often the lock is checked while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long the shims of a dead daemon may take for their own stop ladder. A shim that is stuck or
/// suspended is ended after that.
const SHIM_GRACE: Duration = Duration::from_secs(15);

/// How long a killed daemon or its shims may take to exit.
const LAST_GRACE: Duration = Duration::from_secs(45);

/// Stops the daemon, or ends the processes of a dead one.
pub fn run(workflow: &Path, args: &StopArgs) -> CliResult {
    let path = absolute(workflow);
    let instance = Instance::of(&path)?;
    if args.keep_sessions {
        match stop_and_keep_agents(&instance, Duration::from_secs(args.timeout))? {
            DetachOutcome::Agents(0) => print("vik stopped; no agent was running\n"),
            DetachOutcome::Agents(count) => print(&format!("vik stopped; {}\n", orphan_notice(count))),
            DetachOutcome::Asked => print(ASKED),
            DetachOutcome::Nothing => return Err(client::no_daemon(&path)),
        }
        return Ok(Exit::Done);
    }
    match stop(&instance, Duration::from_secs(args.timeout))? {
        Stopped::Daemon { forced: false } => print("vik stopped; all of its processes have exited\n"),
        Stopped::Daemon { forced: true } => {
            print("vik was forced to stop after the timeout; all of its processes have exited\n");
        }
        Stopped::Leftovers => {
            print("no daemon was running; stopped the processes that the last one left\n");
        }
        Stopped::Asked => print(ASKED),
        Stopped::Nothing => return Err(client::no_daemon(&path)),
    }
    Ok(Exit::Done)
}

/// The result of stopping a daemon without its agents.
#[derive(Debug, PartialEq, Eq)]
pub enum DetachOutcome {
    /// The daemon has ended. Holds the number of agents that continue.
    Agents(usize),
    /// This command runs under the daemon. The daemon was asked to stop and will.
    Asked,
    Nothing,
}

/// Ends a daemon and leaves its agents to their shims.
///
/// # Errors
/// If the daemon refuses, or does not end in time (exit 6).
pub fn stop_and_keep_agents(instance: &Instance, timeout: Duration) -> Result<DetachOutcome, Failure> {
    let info = match wait_while_starting(instance, instance.presence_now(), timeout) {
        Presence::Running(info) => info,
        Presence::Starting => return Err(too_slow()),
        Presence::Dead(_) | Presence::None => return Ok(DetachOutcome::Nothing),
    };
    request_stop(instance, &info, true)?;
    if is_own(instance) {
        return Ok(DetachOutcome::Asked);
    }
    if wait_until_stopped(instance, Some(timeout)) {
        return Ok(DetachOutcome::Agents(count_orphaned_agents(instance)));
    }
    // A signal would not speed it up but end the agents.
    Err(Failure::new(
        Exit::TimedOut,
        ErrorCode::StopTimeout,
        "the daemon is stopping but did not exit in time",
    )
    .hint("it waits for running hooks and checks; allow more time with --timeout SECS"))
}

/// Returns the number of agents that live without a daemon, each with its shim. The shim of a pull
/// or a hook has no census, and may be exiting.
pub fn count_orphaned_agents(instance: &Instance) -> usize {
    let shims = vik_proc::sweep(SHIM_MARK, &instance.name(), &[]);
    let shim_of = |path: &PathBuf| vik_proc::Census::read(path).and_then(|census| census.shim);
    let censuses = instance
        .read()
        .map_or_else(Vec::new, |info| vik_workspace::censuses(&info.root));
    censuses
        .iter()
        .filter_map(shim_of)
        .filter(|shim| shims.contains(shim))
        .count()
}

/// Returns a notice about agents without a daemon and how to proceed.
pub fn orphan_notice(count: usize) -> String {
    let subject = if count == 1 {
        "1 agent keeps".to_owned()
    } else {
        format!("{count} agents keep")
    };
    format!("{subject} running without a daemon: adopt with `vik run -d`, or stop with `vik stop`")
}

/// The result of stopping a daemon.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    Daemon {
        /// Whether it had to be forced after the timeout.
        forced: bool,
    },
    /// No daemon ran; processes of an earlier one were ended.
    Leftovers,
    /// This command runs under the daemon. The daemon was asked to stop and will.
    Asked,
    Nothing,
}

/// Ends a daemon and all its processes.
///
/// # Errors
/// If a process survives (exit 6).
pub fn stop(instance: &Instance, timeout: Duration) -> Result<Stopped, Failure> {
    let presence = instance.presence_now();
    let was_starting = matches!(presence, Presence::Starting);
    let stopped = match wait_while_starting(instance, presence, timeout) {
        Presence::None if was_starting => Stopped::Daemon { forced: false },
        Presence::None | Presence::Dead(_) => Stopped::Nothing,
        Presence::Starting => return Err(too_slow()),
        Presence::Running(info) if is_own(instance) => {
            // This is a hook of the daemon. The daemon waits for the hook, so the hook cannot wait
            // for the daemon.
            request_stop(instance, &info, false)?;
            return Ok(Stopped::Asked);
        }
        Presence::Running(info) => Stopped::Daemon {
            forced: end(instance, &info, timeout)?,
        },
    };
    // The shims of a dead daemon end their trees, gently first. Processes that they miss are found
    // by their mark.
    let shims = stop_shims(&instance.name());
    let leftovers = shims + end_leftovers(instance)?;
    instance.close();
    Ok(match stopped {
        Stopped::Nothing if leftovers > 0 => Stopped::Leftovers,
        other => other,
    })
}

/// Waits while a daemon is starting or exiting, and returns its presence after that.
fn wait_while_starting(instance: &Instance, mut presence: Presence, timeout: Duration) -> Presence {
    let deadline = Instant::now() + timeout;
    while matches!(presence, Presence::Starting) && Instant::now() < deadline {
        std::thread::sleep(POLL_INTERVAL);
        presence = instance.presence_now();
    }
    presence
}

fn end(instance: &Instance, info: &InstanceInfo, timeout: Duration) -> Result<bool, Failure> {
    let action = Action::Stop { keep_sessions: false };
    let daemon = Endpoint::Unix(info.socket.clone());
    match blocking(&daemon, async |client| client.act(&action).await) {
        Ok(_) => {}
        // The daemon refuses a stop by its own agents: then no signal is sent either.
        Err(ClientError::Refused(problem)) if problem.code == ErrorCode::Refused.as_str() => {
            return Err(client::refused(*problem));
        }
        // It is already stopping; a signal would force it.
        Err(ClientError::Refused(problem)) if problem.code == ErrorCode::Stopping.as_str() => {}
        Err(_) => signal(info, Signal::SIGTERM),
    }
    if wait_until_stopped(instance, Some(timeout)) {
        return Ok(false);
    }
    // The second signal skips the graces of the stop ladder.
    signal(info, Signal::SIGTERM);
    if wait_until_stopped(instance, Some(LAST_GRACE)) {
        return Ok(true);
    }
    signal(info, Signal::SIGKILL);
    if wait_until_stopped(instance, Some(LAST_GRACE)) {
        Ok(true)
    } else {
        Err(too_slow())
    }
}

/// Requests a stop. A daemon that has exited meanwhile needs none.
fn request_stop(instance: &Instance, info: &InstanceInfo, keep_sessions: bool) -> Result<(), Failure> {
    let action = Action::Stop { keep_sessions };
    client::request(instance, info, async |client| client.act(&action).await).map(drop)
}

/// Returns whether the instance's own daemon started this process.
fn is_own(instance: &Instance) -> bool {
    std::env::var_os(INSTANCE_MARK).is_some_and(|name| name == instance.name().as_str())
}

fn signal(info: &InstanceInfo, signal: Signal) {
    // The pid may have been reused: the start time shows whether it was.
    if info.process.is_alive() {
        let _ = kill(Pid::from_raw(info.process.pid), signal);
    }
}

/// Waits until no daemon runs and returns whether that is the case. `None` waits without a limit.
pub fn wait_until_stopped(instance: &Instance, timeout: Option<Duration>) -> bool {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        if matches!(instance.presence_now(), Presence::None | Presence::Dead(_)) {
            return true;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Asks the shims of the instance, which may be waiting for the next daemon, to end their agents
/// and exit. Returns the number of shims.
fn stop_shims(instance: &str) -> usize {
    let deadline = Instant::now() + SHIM_GRACE;
    let mut seen = HashSet::new();
    loop {
        let shims = vik_proc::sweep(SHIM_MARK, instance, &[]);
        if shims.is_empty() || Instant::now() >= deadline {
            return seen.len();
        }
        for shim in shims {
            // The signal ends the wait for the next daemon. A shim that is already ending its agent
            // continues.
            if seen.insert(shim) {
                shim.terminate();
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Ends all processes with the instance's mark or in a census of its attempts. Returns their
/// number.
fn end_leftovers(instance: &Instance) -> Result<usize, Failure> {
    let name = instance.name();
    let graces = Graces {
        term: Duration::from_secs(5),
        kill: LAST_GRACE,
        ..Graces::default()
    };
    let runtime = runtime()?;
    let end = |mark| runtime.block_on(vik_proc::end_marked(mark, &name, &[], &graces));
    // Stuck shims are ended first: otherwise they could start or inherit processes meanwhile.
    let (_, mut left) = end(SHIM_MARK);
    let (found, others) = end(INSTANCE_MARK);
    left.extend(others);
    // A process without its mark whose shim has exited is known only to its census, or to the
    // cgroup that the census names.
    let censuses = instance
        .read()
        .map_or_else(Vec::new, |info| vik_workspace::censuses(&info.root));
    let listed = || -> Vec<_> {
        let all = vik_proc::audit(&[], &censuses);
        all.into_iter().map(|audited| audited.process).collect()
    };
    let hidden = listed();
    let count = found.len() + hidden.len();
    runtime.block_on(vik_proc::end_all(hidden, &graces));
    left.extend(listed());
    left.sort_unstable();
    left.dedup();
    if left.is_empty() {
        return Ok(count);
    }
    let pids: Vec<_> = left.iter().map(|process| process.pid.to_string()).collect();
    Err(Failure::new(
        Exit::TimedOut,
        ErrorCode::StillAlive,
        format!("processes are still alive: {}", pids.join(", ")),
    )
    .hint("they may be stuck in the kernel; inspect them with `ps -o pid,stat,wchan,cmd -p PID`"))
}

fn too_slow() -> Failure {
    Failure::new(
        Exit::TimedOut,
        ErrorCode::StopTimeout,
        "the daemon did not exit in time",
    )
    .hint("allow more time with --timeout SECS")
}

/// Stops the daemon, if one runs, for `uninstall` and `restart`.
///
/// # Errors
/// The errors of [`stop`].
pub fn stop_if_running(workflow: &Path, timeout: u64) -> Result<(Instance, Stopped), Failure> {
    let instance = Instance::of(&absolute(workflow))?;
    match stop(&instance, Duration::from_secs(timeout))? {
        Stopped::Asked => Err(own_daemon()),
        stopped => Ok((instance, stopped)),
    }
}

/// Returns the error for a command that runs in a hook of the daemon that it should wait for.
pub fn own_daemon() -> Failure {
    Failure::new(
        Exit::Failed,
        ErrorCode::OwnDaemon,
        "the daemon is stopping, but this command runs in one of its hooks and cannot wait for it to exit",
    )
    .hint("run the command outside of the daemon's hooks")
}
