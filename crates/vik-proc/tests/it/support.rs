//! A folder, a mark and a supervisor for one test.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vik_proc::{
    Backend, Calls, Census, ExitRecord, Graces, Mark, Output, ProcessId, Proof, Reads, SHIM_VERB, Sandbox,
    ShimSpec, StdoutMode, Supervised, Supervisor,
};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_vik-shim-test");
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
const MARK: &str = "VIK_PROC_TEST";

/// Graces that a test does not want to wait for: a step that is taken too early fails an assertion, one that is waited
/// for in vain runs into the test's deadline.
pub(crate) const LONG: Duration = Duration::from_secs(300);
pub(crate) const SHORT: Duration = Duration::from_millis(50);

pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) mark: Mark,
    pub(crate) supervisor: Supervisor,
    /// Whether its agents are in namespaces of bubblewrap.
    walled: bool,
}

impl Scene {
    /// A scene whose agents are in namespaces, with their folder writable. `None`, and said aloud, where there is no
    /// bubblewrap.
    pub(crate) fn walled(test: &str) -> Option<Self> {
        bubblewrap(test).then(|| {
            let mut scene = Self::new();
            scene.walled = true;
            scene
        })
    }

    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self {
            folder: tempfile::tempdir().unwrap(),
            mark: Mark::new(MARK, unique),
            supervisor: Supervisor::new(PROGRAM, [OsString::from(SHIM_VERB)]).unwrap(),
            walled: false,
        }
    }

    /// For the shims of this scene alone.
    pub(crate) fn shim_mark(&self) -> Mark {
        Mark::new("VIK_PROC_TEST_SHIM", &self.mark.value)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The test program with these words (separated by spaces; `@name` is a path in the folder), output to files.
    pub(crate) fn spec(&self, words: &str) -> ShimSpec {
        let mut spec = ShimSpec::new(PROGRAM, self.folder.path());
        spec.args = words
            .split_ascii_whitespace()
            .map(|word| match word.strip_prefix('@') {
                Some(name) => self.path(name).into(),
                None => word.into(),
            })
            .collect();
        spec.env = vec![("PATH".into(), std::env::var_os("PATH").unwrap())];
        spec.mark = Some(self.mark.clone());
        spec.stdout = Output::Append(self.path("out"));
        spec.stderr = Output::Append(self.path("err"));
        spec.exit_record = Some(self.path("exit.json"));
        spec.census = Some(self.path("census"));
        spec.graces = Graces {
            int: LONG,
            term: LONG,
            leftover: LONG,
            kill: DEADLINE,
        };
        spec.sandbox = self.walled.then(|| Sandbox {
            backend: Backend::Bubblewrap,
            write: vec![self.folder.path().to_owned(), "/dev/null".into()],
            read: Reads::AllBut {
                hidden: Vec::new(),
                shown: vec![PROGRAM.into()],
            },
            calls: Some(Calls::default()),
            ..Sandbox::default()
        });
        spec
    }

    /// As [`spec`](Self::spec), with an agent that outlives its daemon.
    pub(crate) fn lasting(&self, words: &str, orphan_grace: Duration) -> ShimSpec {
        let mut spec = self.spec(words);
        spec.control = Some(self.path("control"));
        spec.orphan_grace = orphan_grace;
        spec
    }

    pub(crate) async fn start(&self, spec: &ShimSpec) -> Supervised {
        within(self.supervisor.spawn(spec, None, StdoutMode::Null))
            .await
            .unwrap()
    }

    /// Waits until a process of the scene wrote its pid to this file, and gives its identity.
    pub(crate) async fn ready(&self, name: &str) -> ProcessId {
        let path = self.path(name);
        let pid = eventually(&format!("{name} is written"), || {
            std::fs::read_to_string(&path)
                .ok()
                .and_then(|text| text.parse::<i32>().ok())
        })
        .await;
        let pid = if self.walled { self.outside(pid) } else { pid };
        ProcessId::of(pid).unwrap_or(ProcessId { pid, start_time: 0 })
    }

    /// The pid by which a process of the scene is known outside of its namespace.
    fn outside(&self, inside: i32) -> i32 {
        let last = |pid: i32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let pids = status
                .lines()
                .find_map(|line| line.strip_prefix("NSpid:"))?
                .trim();
            pids.rsplit_once('\t')?.1.parse::<i32>().ok()
        };
        let all = marked(&self.mark).into_iter().map(|process| process.pid);
        all.into_iter()
            .find(|&pid| last(pid) == Some(inside))
            .unwrap_or(-1)
    }

    pub(crate) fn census(&self) -> Census {
        Census::read(&self.path("census")).unwrap()
    }

    /// The best proof for the end of a tree whose shim dies, as far as this system goes.
    pub(crate) fn best_grade(&self) -> Proof {
        match self.census().cgroup {
            Some(_) => Proof::Cgroup,
            None => Proof::Mark,
        }
    }

    /// Runs the test program as a daemon: `daemon` starts the spec, `adopt` takes over what an earlier one started.
    /// Gives the daemon when it watches the shim.
    pub(crate) async fn daemon(&self, verb: &str, spec: &ShimSpec) -> Daemon {
        let (file, note) = (self.path("spec.json"), self.path("shim.json"));
        write(&file, &serde_json::to_vec(spec).unwrap());
        let watched = note.with_extension("watched");
        let _ = std::fs::remove_file(&watched);
        let mut command = std::process::Command::new(PROGRAM);
        command.arg(verb).args([&file, &note]);
        let child = command.spawn().unwrap();
        eventually("the daemon watches its shim", || watched.exists().then_some(())).await;
        let shim = serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
        Daemon { child, shim }
    }

    pub(crate) fn out(&self) -> String {
        std::fs::read_to_string(self.path("out")).unwrap_or_default()
    }

    /// The end of a shim: its record, which must also stand on disk, and no census.
    pub(crate) async fn end(&self, supervised: &Supervised) -> ExitRecord {
        let record = within(supervised.wait()).await.unwrap();
        assert_eq!(
            vik_proc::read_exit_record(&self.path("exit.json")).unwrap(),
            record
        );
        assert!(
            !self.path("census").exists(),
            "the census goes when the end is proven"
        );
        assert!(!supervised.shim().is_alive());
        self.assert_nothing_left();
        record
    }

    /// Nothing with the mark of this scene is alive.
    pub(crate) fn assert_nothing_left(&self) {
        let left = marked(&self.mark);
        assert!(left.is_empty(), "left over: {left:?}");
    }
}

/// A daemon in a process of its own, and its shim.
pub(crate) struct Daemon {
    child: std::process::Child,
    pub(crate) shim: ProcessId,
}

impl Daemon {
    /// As `kill -9`.
    pub(crate) fn die(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for process in marked(&self.mark) {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(process.pid),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
    }
}

/// Whether there is a bubblewrap that works here. Where there is none the test says that it is skipped, or fails where
/// `VIK_REQUIRE_BUBBLEWRAP` is set.
pub(crate) fn bubblewrap(test: &str) -> bool {
    let sandbox = Sandbox {
        backend: Backend::Bubblewrap,
        ..Sandbox::default()
    };
    let Err(error) = sandbox.fence() else { return true };
    assert!(
        std::env::var_os("VIK_REQUIRE_BUBBLEWRAP").is_none(),
        "{test}: {error}"
    );
    // Not `eprintln!`, which the test runner keeps to itself.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {error}");
    false
}

/// An independent look at the process table.
fn marked(mark: &Mark) -> Vec<ProcessId> {
    let entry = format!("{}={}", mark.name, mark.value);
    let holds = |pid: i32| {
        std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            environment
                .split(|&byte| byte == 0)
                .any(|found| found == entry.as_bytes())
        })
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|&pid| holds(pid))
        .filter_map(ProcessId::of)
        .filter(|process| process.is_alive())
        .collect()
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future)
        .await
        .expect("the deadline of the test passed")
}

/// Looks again and again until there is something to see.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn gone(process: ProcessId) {
    eventually(&format!("{process:?} is gone"), || {
        (!process.is_alive()).then_some(())
    })
    .await;
}

pub(crate) fn send(process: ProcessId, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), signal).unwrap();
}

pub(crate) fn write(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
}
