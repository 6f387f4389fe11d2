//! Checks the children of this process. The test has its own binary, as it looks at all of them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::ffi::OsString;
use std::future::poll_fn;
use std::path::Path;
use std::task::Poll;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getsid};
use vik_proc::{ProcessId, Proof, SHIM_VERB, ShimSpec, StdoutMode, Supervisor};

const PROGRAM: &str = env!("CARGO_BIN_EXE_vik-shim-test");
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the pids of all children.
fn all_children() -> Vec<String> {
    let me = std::process::id();
    let tasks = std::fs::read_dir(format!("/proc/{me}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    pids.collect()
}

/// Returns the pids of the children other than the template, which is in the session of this
/// process.
fn children() -> String {
    let is_template = |pid: &String| {
        let pid = Pid::from_raw(pid.parse().unwrap());
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        getsid(Some(pid)) == getsid(None) && arguments.windows(8).any(|part| part == b"template")
    };
    let mut children = all_children();
    children.retain(|pid| !is_template(pid));
    children.join(" ")
}

async fn eventually<T>(description: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = poll() {
            return seen;
        }
        assert!(
            Instant::now() < deadline,
            "never: {description}; children: {}",
            children()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn ready(path: &Path) -> ProcessId {
    let pid = eventually("the agent is ready", || {
        std::fs::read_to_string(path).ok()?.parse().ok()
    })
    .await;
    ProcessId::of(pid).unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn supervisor_leaves_no_child_process() {
    let supervisor = Supervisor::new(PROGRAM, [OsString::from(SHIM_VERB)]).unwrap();
    callers_that_give_up_while_a_shim_is_started(&supervisor).await;
    assert!(vik_proc::adopt_orphans());
    leftovers_of_a_lost_shim_come_to_the_daemon(&supervisor).await;
    assert_eq!(all_children().len(), 1);
    let other = supervisor.clone();
    supervisor.close();
    assert_eq!(all_children(), [""; 0]);
    drop(other);
}

async fn callers_that_give_up_while_a_shim_is_started(supervisor: &Supervisor) {
    let mut spec = ShimSpec::new(PROGRAM, "/");
    spec.args = vec!["hang".into()];
    // A signal that the ladder sends to an agent during its start must not get lost.
    spec.graces.int = Duration::from_secs(300);
    let mut seen = false;
    for polls in (1..40).chain([1; 10]) {
        let mut spawning = Box::pin(supervisor.spawn(&spec, None, StdoutMode::Null));
        for _ in 0..polls {
            if poll_fn(|context| Poll::Ready(spawning.as_mut().poll(context).is_ready())).await {
                break;
            }
            tokio::task::yield_now().await;
            seen |= !children().is_empty();
        }
        drop(spawning);
    }
    eventually("a shim was started", || {
        seen |= !children().is_empty();
        seen.then_some(())
    })
    .await;
    eventually("all shims are gone and reaped", || {
        children().is_empty().then_some(())
    })
    .await;
}

async fn leftovers_of_a_lost_shim_come_to_the_daemon(supervisor: &Supervisor) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let spec = |args: &str| {
        let mut spec = ShimSpec::new(PROGRAM, folder.path());
        spec.args = args.split(' ').map(Into::into).collect();
        spec
    };
    let bystander = supervisor
        .spawn(&spec("ready bystander hang"), None, StdoutMode::Null)
        .await
        .unwrap();
    let bystanding = ready(&path("bystander")).await;
    // The tool has removed everything that could identify it.
    let args = "also scd 3 ready tool hang ready agent hang";
    let supervised = supervisor
        .spawn(&spec(args), None, StdoutMode::Null)
        .await
        .unwrap();
    let (tool, agent) = (ready(&path("tool")).await, ready(&path("agent")).await);
    kill(Pid::from_raw(supervised.shim().pid), Signal::SIGKILL).unwrap();
    // The shim's children become children of this process once its last thread has ended. No other
    // code of this task runs in between, so the supervisor has not noticed the end yet: the
    // processes may use the API at this moment.
    let shim = Id::Pid(Pid::from_raw(supervised.shim().pid));
    waitid(shim, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
    for left in [tool, agent] {
        assert_eq!(vik_proc::descends_from(left.pid, &[]), Some(true));
    }
    assert_eq!(vik_proc::descends_from(bystanding.pid, &[]), Some(false));
    let lost = tokio::time::timeout(DEADLINE, supervised.wait())
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(*lost.proof(), Proof::Subreaper);
    assert!(lost.found.contains(&tool), "{lost:?}");
    assert!(!tool.is_alive() && !agent.is_alive());
    assert!(bystanding.is_alive() && bystander.shim().is_alive());
    bystander.stop();
    tokio::time::timeout(DEADLINE, bystander.wait())
        .await
        .unwrap()
        .unwrap();
    // Zombies of the lost tree are reaped with it.
    eventually("nothing is left", || children().is_empty().then_some(())).await;
}
