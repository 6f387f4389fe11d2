//! `vik stop`: returns when no descendant of the daemon lives.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vik_api::{Response, Verb};
use vik_proc::Graces;

use super::args::StopArgs;
use super::{CliResult, client, history, print};
use crate::control::{REFUSED, STOPPING, ask};
use crate::daemon::{Instance, InstanceInfo, Presence};
use crate::host::{INSTANCE_MARK, SHIM_MARK};
use crate::report::{Exit, Failure};
use crate::workflow_file::absolute;

/// How often the lock is looked at while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long the shims of a dead daemon may take for their own stop ladder; one that is stuck or stopped is ended then.
const SHIM_GRACE: Duration = Duration::from_secs(15);

/// How long a daemon that was killed, or its shims, may take to go.
const LAST_GRACE: Duration = Duration::from_secs(45);

/// Stops the daemon, or what a dead one left.
pub fn run(workflow: &Path, args: &StopArgs) -> CliResult {
    let path = absolute(workflow);
    let instance = Instance::of(&path)?;
    if args.keep_sessions {
        return match leave(&instance, Duration::from_secs(args.timeout))? {
            Left::Agents(0) => {
                print("vik has stopped; nothing ran\n");
                Ok(Exit::Done)
            }
            Left::Agents(count) => {
                print(&format!("vik has stopped; {}\n", orphan_notice(count)));
                Ok(Exit::Done)
            }
            Left::Asked => {
                print("vik is stopping; it will end when this command has ended\n");
                Ok(Exit::Done)
            }
            Left::Nothing => Err(client::no_daemon(&path)),
        };
    }
    match stop(&instance, Duration::from_secs(args.timeout))? {
        Stopped::Daemon { forced: false } => print("vik has stopped; no process of it is left\n"),
        Stopped::Daemon { forced: true } => print("vik was made to stop; no process of it is left\n"),
        Stopped::Leftovers => {
            print("no daemon ran; what the last one left was ended, no process of it lives\n");
        }
        Stopped::Asked => print("vik is stopping; it will end when this command has ended\n"),
        Stopped::Nothing => return Err(client::no_daemon(&path)),
    }
    Ok(Exit::Done)
}

/// What came of leaving a daemon's agents alone.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    /// The daemon has ended, and so many agents go on.
    Agents(usize),
    /// A daemon that runs this very command was asked to end, and will.
    Asked,
    /// There was no daemon.
    Nothing,
}

/// Ends a daemon, and leaves its agents to their shims.
///
/// # Errors
/// When the daemon is too old to do so, or does not end in time (exit 6).
pub fn leave(instance: &Instance, timeout: Duration) -> Result<Left, Failure> {
    let info = match settled(instance, instance.glance(), timeout) {
        Presence::Running(info) => info,
        Presence::Starting => return Err(too_slow()),
        Presence::Dead(_) | Presence::None => return Ok(Left::Nothing),
    };
    // One that keeps no ledger would pass over the wish, and end them all.
    match client::request(instance, &info, Verb::Status)? {
        Some(Response::Status(status)) if status.ledger.is_some() => {}
        None => return Ok(Left::Nothing),
        Some(_) => {
            return Err(Failure::new(
                Exit::Failed,
                "daemon_too_old",
                format!(
                    "the daemon (version {}) cannot leave its agents alone",
                    info.version
                ),
            )
            .hint("wait until nothing runs (see `vik status`), or stop them too with `vik stop`"));
        }
    }
    // Gone meanwhile is what it was to be.
    client::request(instance, &info, Verb::Stop { keep_sessions: true })?;
    if is_own(instance) {
        return Ok(Left::Asked);
    }
    if wait_until_stopped(instance, Some(timeout)) {
        return Ok(Left::Agents(left_alone(instance)));
    }
    // No signal hurries it: it would end the agents.
    Err(Failure::new(
        Exit::TimedOut,
        "stop_timeout",
        "the daemon is ending, but did not in time",
    )
    .hint("it waits for hooks and checks that are under way; give it longer with --timeout SECS"))
}

/// How many agents live though their daemon does not, each with its shim. The shim of a pull or a hook, which may just be
/// ending, keeps no census.
pub fn left_alone(instance: &Instance) -> usize {
    let shims = vik_proc::sweep(SHIM_MARK, &instance.name(), &[]);
    let keeps = |path: &PathBuf| vik_proc::Census::read(path).and_then(|census| census.shim);
    let censuses = instance
        .read()
        .map_or_else(Vec::new, |info| history::censuses(&info.root));
    censuses
        .iter()
        .filter_map(keeps)
        .filter(|shim| shims.contains(shim))
        .count()
}

/// Agents without a daemon, and what can be done about them, in words.
pub fn orphan_notice(count: usize) -> String {
    let who = if count == 1 {
        "1 agent goes".to_owned()
    } else {
        format!("{count} agents go")
    };
    format!("{who} on without it: `vik run -d` takes them up, `vik stop` ends them")
}

/// What there was to stop.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A daemon ended.
    Daemon {
        /// It had to be hurried.
        forced: bool,
    },
    /// There was no daemon; what an earlier one left was ended.
    Leftovers,
    /// A daemon that runs this very command was asked to end, and will.
    Asked,
    /// There was nothing.
    Nothing,
}

/// Ends a daemon and all that belongs to it.
///
/// # Errors
/// When something outlives it (exit 6).
pub fn stop(instance: &Instance, timeout: Duration) -> Result<Stopped, Failure> {
    let first = instance.glance();
    let was_going = matches!(first, Presence::Starting);
    let stopped = match settled(instance, first, timeout) {
        Presence::None if was_going => Stopped::Daemon { forced: false },
        Presence::None | Presence::Dead(_) => Stopped::Nothing,
        Presence::Starting => return Err(too_slow()),
        Presence::Running(info) if is_own(instance) => {
            // A hook of the daemon's: the daemon waits for its end, so it cannot wait for the daemon's.
            client::request(instance, &info, Verb::Stop { keep_sessions: false })?;
            return Ok(Stopped::Asked);
        }
        Presence::Running(info) => Stopped::Daemon {
            forced: end(instance, &info, timeout)?,
        },
    };
    // A dead daemon's shims end their trees, gently first; what they could not is found by its mark.
    let shims = stop_shims(&instance.name());
    let left = shims + end_left(instance)?;
    instance.close();
    Ok(match stopped {
        Stopped::Nothing if left > 0 => Stopped::Leftovers,
        other => other,
    })
}

/// What is there once a daemon that was just starting, or just going, has said who it is, or is gone.
fn settled(instance: &Instance, mut presence: Presence, timeout: Duration) -> Presence {
    let deadline = Instant::now() + timeout;
    while matches!(presence, Presence::Starting) && Instant::now() < deadline {
        std::thread::sleep(POLL_INTERVAL);
        presence = instance.glance();
    }
    presence
}

fn end(instance: &Instance, info: &InstanceInfo, timeout: Duration) -> Result<bool, Failure> {
    match ask(&info.socket, Verb::Stop { keep_sessions: false }) {
        // It will not be stopped by one of its own agents: then nothing else is tried either.
        Ok(Response::Error(body)) if body.code == REFUSED => return Err(body.into()),
        // It is ending already; a signal would hurry it.
        Ok(Response::Error(body)) if body.code == STOPPING => {}
        Ok(Response::Error(_)) | Err(_) => signal(info, Signal::SIGTERM),
        Ok(_) => {}
    }
    if wait_until_stopped(instance, Some(timeout)) {
        return Ok(false);
    }
    // The second signal skips the grace of the stop ladder.
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

/// Whether this process was started by the instance's own daemon.
fn is_own(instance: &Instance) -> bool {
    std::env::var_os(INSTANCE_MARK).is_some_and(|name| name == instance.name().as_str())
}

fn signal(info: &InstanceInfo, signal: Signal) {
    // The pid may have been reused since: the start time tells.
    if info.process.is_alive() {
        let _ = kill(Pid::from_raw(info.process.pid), signal);
    }
}

/// Waits until no daemon is there; `None` is for ever.
pub fn wait_until_stopped(instance: &Instance, timeout: Option<Duration>) -> bool {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        if matches!(instance.glance(), Presence::None | Presence::Dead(_)) {
            return true;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Asks the shims of the instance, which may be waiting for a next daemon, to end their agents, and so themselves. Returns
/// how many there were.
fn stop_shims(instance: &str) -> usize {
    let deadline = Instant::now() + SHIM_GRACE;
    let mut seen = HashSet::new();
    loop {
        let shims = vik_proc::sweep(SHIM_MARK, instance, &[]);
        if shims.is_empty() || Instant::now() >= deadline {
            return seen.len();
        }
        for shim in shims {
            // One that would wait for the next daemon is told that none comes; one that ends its agent already goes on.
            if seen.insert(shim) {
                shim.terminate();
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Ends all that carries the instance's mark, or stands in a census of its attempts. Returns how many there were.
fn end_left(instance: &Instance) -> Result<usize, Failure> {
    let name = instance.name();
    let graces = Graces {
        term: Duration::from_secs(5),
        kill: LAST_GRACE,
        ..Graces::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| Failure::failed("runtime", "cannot start", &error))?;
    let end = |mark| runtime.block_on(vik_proc::end_marked(mark, &name, &[], &graces));
    // A stuck shim first: what it owns may otherwise be started anew, or inherited, while it is ended.
    let (_, mut left) = end(SHIM_MARK);
    let (found, others) = end(INSTANCE_MARK);
    left.extend(others);
    // What took off its mark, and outlived its shim, only its census knows, or the cgroup that this names.
    let censuses = instance
        .read()
        .map_or_else(Vec::new, |info| history::censuses(&info.root));
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
        "still_alive",
        format!("processes live on: {}", pids.join(", ")),
    )
    .hint("they may be stuck in the kernel; look with `ps -o pid,stat,wchan,cmd -p PID`"))
}

fn too_slow() -> Failure {
    Failure::new(Exit::TimedOut, "stop_timeout", "the daemon did not end in time")
        .hint("give it longer with --timeout SECS")
}

/// For `uninstall` and `restart`: stops if there is anything to stop.
///
/// # Errors
/// As [`stop`].
pub fn quietly(workflow: &Path, timeout: u64) -> Result<(Instance, Stopped), Failure> {
    let instance = Instance::of(&absolute(workflow))?;
    match stop(&instance, Duration::from_secs(timeout))? {
        Stopped::Asked => Err(own_daemon()),
        stopped => Ok((instance, stopped)),
    }
}

/// This command runs in a hook of the daemon that it is to wait for.
pub fn own_daemon() -> Failure {
    Failure::new(
        Exit::Failed,
        "own_daemon",
        "the daemon was asked to stop, but this command is one of its own and cannot wait for its end",
    )
    .hint("run it from outside of the daemon's hooks")
}
