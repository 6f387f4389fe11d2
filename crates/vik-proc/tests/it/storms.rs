//! Programs that fork as fast as they can, in every known way: their trees end, the end is proven,
//! and other programs can start processes meanwhile. Each test runs in a cgroup that limits it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::RwLock;
use vik_proc::{Backend, ExitRecord, Graces, Overrun, ProcessId, Proof, ShimSpec};

use crate::support::*;

/// The limit on the tasks in the cgroup of a test.
const ROOM: u32 = 2000;
/// The longest time that the end of a tree may take.
const IN_TIME: Duration = Duration::from_secs(30);

/// Held exclusively by a test whose limit depends on the tasks of the whole machine, as other
/// storms would raise it.
static STORMS: RwLock<()> = RwLock::const_new(());

/// A cgroup that limits the number of tasks of one test. All its processes are killed at the end.
struct Bounded(PathBuf);

impl Bounded {
    /// Creates the cgroup. Returns `None`, and prints that, if it cannot be created.
    fn new(test: &str) -> Option<Self> {
        let name = format!("vik-test-{}-{test}", std::process::id());
        for root in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"] {
            let folder = Path::new(root).join(&name);
            if std::fs::create_dir(&folder).is_ok() {
                let group = Self(folder);
                if std::fs::write(group.0.join("pids.max"), ROOM.to_string()).is_ok() {
                    return Some(group);
                }
            }
        }
        // The test runner captures `eprintln!`, but not this.
        let text = format!("skipped: storms::{test}: no cgroup that bounds tasks can be made here\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        None
    }

    fn pids(&self) -> Vec<i32> {
        let list = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        list.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Starts a program in the cgroup.
    #[allow(unsafe_code)]
    fn start(&self, command: &mut Command) -> Child {
        let procs = std::fs::File::options()
            .write(true)
            .open(self.0.join("cgroup.procs"))
            .unwrap();
        let enter = move || nix::unistd::write(&procs, b"0").map(drop).map_err(Into::into);
        // SAFETY: one write to a file that is open already.
        unsafe { command.pre_exec(enter) }.spawn().unwrap()
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        let until = Instant::now() + DEADLINE;
        // No more processes can be created in it.
        let _ = std::fs::write(self.0.join("pids.max"), "0");
        while !self.pids().is_empty() && Instant::now() < until {
            for pid in self.pids() {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        while std::fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

/// Creates the cgroup of a test, or ends the test with a message that it was skipped.
macro_rules! bounded {
    ($test:literal) => {
        match Bounded::new($test) {
            Some(group) => group,
            None => return,
        }
    };
}

/// Lets the agent run until it is ready or exceeds a limit, stops it, and waits for its end, which
/// must come in time and be proven.
async fn run_storm(label: &str, group: &Bounded, scene: &Scene, spec: &ShimSpec) -> ExitRecord {
    run_storm_as(label, group, scene, spec, &[]).await
}

/// Like [`run_storm`], with arguments before the program of the daemon.
async fn run_storm_as(
    label: &str,
    group: &Bounded,
    scene: &Scene,
    spec: &ShimSpec,
    before: &[&str],
) -> ExitRecord {
    let path = |name: &str| scene.path(name);
    for name in ["up", "stop", "note", "exit.json", "shim.json", "shim.watched"] {
        let _ = std::fs::remove_file(path(name));
    }
    let mut other = Command::new(PROGRAM);
    let mut other = group.start(other.arg("fork-steadily").args([path("stop"), path("note")]));
    write(&path("spec.json"), &serde_json::to_vec(spec).unwrap());
    // A user who may not read the folder of the test program has a copy of it.
    let own = path("program");
    let program = if own.exists() {
        own.to_str().unwrap()
    } else {
        PROGRAM
    };
    let args = [before, &[program]].concat();
    let mut daemon = Command::new(args[0]);
    daemon
        .args(&args[1..])
        .arg("daemon")
        .args([path("spec.json"), path("shim.json")]);
    let mut daemon = group.start(&mut daemon);
    until("the daemon watches its shim", || path("shim.watched").exists()).await;
    let shim: ProcessId = serde_json::from_slice(&std::fs::read(path("shim.json")).unwrap()).unwrap();
    until("the storm is there, or over", || {
        path("up").exists() || path("exit.json").exists()
    })
    .await;
    // The storm runs for a moment, as it would until a timeout.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = Instant::now();
    shim.terminate();
    let record = scene.record().await;
    let took = before.elapsed();
    daemon.wait().unwrap();
    write(&path("stop"), b"");
    other.wait().unwrap();
    assert_eq!(group.pids(), [0; 0], "left over");
    let note = std::fs::read_to_string(path("note")).unwrap();
    let (done, failed) = note.split_once(' ').unwrap();
    assert_eq!(failed, "0", "of {done} other processes could not be started");
    assert_ne!(done, "0");
    assert_eq!(record.proof, Proof::Subreaper, "{label}: {record:?}");
    assert!(took < IN_TIME, "{label}: {took:?}");
    println!("{label}: {took:?}");
    record
}

/// Returns a spec with short graces, and without a cgroup of version 2 for the tree.
fn bare(scene: &Scene, args: &str) -> ShimSpec {
    let mut spec = scene.spec(&format!("ignore SIGINT ignore SIGTERM {args}"));
    spec.census = None;
    spec.graces = Graces {
        int: SHORT,
        term: SHORT,
        leftover: SHORT,
        kill: IN_TIME,
    };
    spec
}

fn confined(scene: &Scene, mut spec: ShimSpec, processes: u32) -> ShimSpec {
    let mut sandbox = scene.sandbox();
    sandbox.limits.processes = Some(processes);
    spec.sandbox = Some(sandbox);
    spec
}

#[tokio::test]
async fn fork_chains_of_every_kind_are_ended() {
    let _others = STORMS.read().await;
    let group = bounded!("fork_chains_of_every_kind_are_ended");
    for kind in [
        "plain", "setsid", "sibling", "silent", "vfork", "double", "thread",
    ] {
        for reaper in ["", "reaper"] {
            let scene = Scene::new();
            let spec = bare(&scene, &format!("{reaper} comets {kind} 40 ready @up hang"));
            run_storm(&format!("{kind} {reaper}"), &group, &scene, &spec).await;
            let with_census = ShimSpec {
                census: Some(scene.path("census")),
                ..spec
            };
            let label = format!("{kind} {reaper}, with a census");
            run_storm(&label, &group, &scene, &with_census).await;
        }
    }
}

#[tokio::test]
async fn trees_that_only_take_room_are_ended() {
    let _others = STORMS.read().await;
    let group = bounded!("trees_that_only_take_room_are_ended");
    for args in [
        "reaper also s 5 reaper comets setsid 20 hang comets plain 20 ready @up hang",
        "zombies 5000 ready @up hang",
        "reaper zombies 800 comets setsid 20 ready @up hang",
        "stopped 100 ready @up hang",
        "threads 5000 ready @up hang",
    ] {
        let scene = Scene::new();
        run_storm(args, &group, &scene, &bare(&scene, args)).await;
    }
}

#[tokio::test]
async fn fork_chains_in_a_pid_namespace_are_ended() {
    let _others = STORMS.read().await;
    let group = bounded!("fork_chains_in_a_pid_namespace_are_ended");
    let scene = Scene::new();
    let mut spec = bare(&scene, "");
    spec.program = "unshare".into();
    spec.args = [
        "-p", "-f", PROGRAM, "ignore", "SIGTERM", "comets", "setsid", "30", "ready",
    ]
    .map(Into::into)
    .to_vec();
    spec.args.extend([scene.path("up").into(), "hang".into()]);
    run_storm("unshare -p", &group, &scene, &spec).await;
}

/// An ordinary user has no cgroup here. The kernel limits the number of the user's tasks.
#[tokio::test]
async fn storms_of_an_ordinary_user_are_ended() {
    use std::os::unix::fs::PermissionsExt;

    let _alone = STORMS.write().await;
    let group = bounded!("storms_of_an_ordinary_user_are_ended");
    for args in [
        "comets setsid 40 ready @up hang",
        "reaper comets plain 40 ready @up hang",
        "reaper comets double 40 ready @up hang",
        "zombies 5000 ready @up hang",
        "threads 5000 ready @up hang",
    ] {
        let scene = Scene::new();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(scene.folder.path(), open).unwrap();
        let program = scene.path("program");
        std::fs::copy(PROGRAM, &program).unwrap();
        let mut spec = bare(&scene, args);
        spec.program = program.into();
        let nobody = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"];
        run_storm_as(args, &group, &scene, &spec, &nobody).await;
    }
}

#[tokio::test]
async fn fork_chains_in_a_sandbox_are_ended() {
    let _others = STORMS.read().await;
    let group = bounded!("fork_chains_in_a_sandbox_are_ended");
    let mut backends = vec![Backend::Landlock];
    backends.extend(bubblewrap("storms::fork_chains_in_a_sandbox_are_ended").then_some(Backend::Bubblewrap));
    for backend in backends {
        for args in [
            "reaper comets setsid 40 ready @up hang",
            "comets double 40 ready @up hang",
            "reaper zombies 5000 ready @up hang",
        ] {
            let scene = Scene::new();
            let mut spec = confined(&scene, bare(&scene, args), 4096);
            spec.sandbox.as_mut().unwrap().backend = backend;
            run_storm(&format!("{backend:?}: {args}"), &group, &scene, &spec).await;
        }
    }
}

#[tokio::test]
async fn zombies_count_against_the_process_limit() {
    let _others = STORMS.read().await;
    let group = bounded!("zombies_count_against_the_process_limit");
    let scene = Scene::new();
    let spec = confined(&scene, bare(&scene, "zombies 900 ready @up hang"), 300);
    let record = run_storm("zombies in a sandbox", &group, &scene, &spec).await;
    let Some(Overrun::Processes { used, limit: 300 }) = record.overrun else {
        panic!("{record:?}");
    };
    assert!(used > 300);
}

#[tokio::test]
async fn tree_may_take_half_of_the_free_tasks() {
    let _others = STORMS.read().await;
    let group = bounded!("tree_may_take_half_of_the_free_tasks");
    for args in ["zombies 5000 ready @up hang", "threads 5000 ready @up hang"] {
        let scene = Scene::new();
        // The limit is more than the system has room for, as the default of `pids` is in a small
        // container.
        for spec in [bare(&scene, args), confined(&scene, bare(&scene, args), 4096)] {
            let record = run_storm(args, &group, &scene, &spec).await;
            let Some(Overrun::Tasks { used, limit }) = record.overrun else {
                panic!("{args}: {record:?}");
            };
            assert!(used >= limit && limit < u64::from(ROOM / 2), "{used} {limit}");
        }
    }
}

#[tokio::test]
async fn sandboxed_agent_cannot_become_a_subreaper() {
    let scene = Scene::new();
    let mut spec = confined(&scene, scene.spec("reaper"), 300);
    scene.end(&scene.start(&spec).await).await;
    assert_eq!(scene.out(), "reaper EPERM: Operation not permitted\n");
    let calls = spec.sandbox.as_mut().and_then(|sandbox| sandbox.calls.as_mut());
    calls.unwrap().subreaper = true;
    scene.end(&scene.start(&spec).await).await;
    assert!(scene.out().ends_with("\nreaper\n"), "{}", scene.out());
}
