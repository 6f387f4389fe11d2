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

/// A grace that a test does not wait for: a step that is taken too early fails an assertion, and a
/// wait for such a step runs into the test's deadline.
pub(crate) const LONG: Duration = Duration::from_secs(300);
pub(crate) const SHORT: Duration = Duration::from_millis(50);

pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) mark: Mark,
    pub(crate) supervisor: Supervisor,
    /// Whether the agents run in namespaces of bubblewrap.
    walled: bool,
}

impl Scene {
    /// Creates a scene whose agents run in namespaces, with their folder writable. Returns `None`,
    /// and prints that, without bubblewrap.
    pub(crate) fn with_bubblewrap(test: &str) -> Option<Self> {
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

    /// Returns a mark for the shims of this scene alone.
    pub(crate) fn shim_mark(&self) -> Mark {
        Mark::new("VIK_PROC_TEST_SHIM", &self.mark.value)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a spec of the test program with these arguments (separated by spaces; `@name` is a
    /// path in the folder) and output to files.
    pub(crate) fn spec(&self, args: &str) -> ShimSpec {
        let mut spec = ShimSpec::new(PROGRAM, self.folder.path());
        spec.args = args
            .split_ascii_whitespace()
            .map(|arg| match arg.strip_prefix('@') {
                Some(name) => self.path(name).into(),
                None => arg.into(),
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
            ..self.sandbox()
        });
        spec
    }

    /// Returns a sandbox that opens the folder of the scene.
    pub(crate) fn sandbox(&self) -> Sandbox {
        Sandbox {
            write: vec![self.folder.path().to_owned(), "/dev/null".into()],
            read: Reads::AllBut {
                hidden: Vec::new(),
                shown: vec![PROGRAM.into()],
            },
            calls: Some(Calls::default()),
            ..Sandbox::default()
        }
    }

    /// Like [`spec`](Self::spec), with an agent that outlives its daemon.
    pub(crate) fn spec_with_grace(&self, args: &str, orphan_grace: Duration) -> ShimSpec {
        let mut spec = self.spec(args);
        spec.control = Some(self.path("control"));
        spec.orphan_grace = orphan_grace;
        spec
    }

    pub(crate) async fn start(&self, spec: &ShimSpec) -> Supervised {
        within(self.supervisor.spawn(spec, None, StdoutMode::Null))
            .await
            .unwrap()
    }

    /// Starts an agent that reports `up`.
    pub(crate) async fn up(&self, spec: &ShimSpec) -> (Supervised, ProcessId) {
        (self.start(spec).await, self.ready("up").await)
    }

    /// Starts a daemon with an agent that reports `up`.
    pub(crate) async fn daemon_up(&self, spec: &ShimSpec) -> (Daemon, ProcessId) {
        (self.daemon("daemon", spec).await, self.ready("up").await)
    }

    pub(crate) async fn adopt(
        &self,
        spec: &ShimSpec,
        shim: ProcessId,
        agent: Option<ProcessId>,
    ) -> Supervised {
        within(self.supervisor.adopt(spec, shim, agent)).await.unwrap()
    }

    /// Returns the record that a shim writes without a daemon.
    pub(crate) async fn record(&self) -> ExitRecord {
        eventually("the exit record", || {
            vik_proc::read_exit_record(&self.path("exit.json")).ok()
        })
        .await
    }

    /// Waits until a process of the scene has written its pid to this file, and returns its
    /// identity.
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

    /// Returns the pid of a process of the scene outside of its namespace.
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

    /// Returns the best proof of an end after the shim's death that this system supports.
    pub(crate) fn best_grade(&self) -> Proof {
        match self.census().cgroup {
            Some(_) => Proof::Cgroup,
            None => Proof::Mark,
        }
    }

    /// Runs the test program as a daemon: `daemon` starts the spec, `adopt` takes over what an
    /// earlier one started. Returns the daemon once it watches the shim.
    pub(crate) async fn daemon(&self, verb: &str, spec: &ShimSpec) -> Daemon {
        let (file, note) = (self.path("spec.json"), self.path("shim.json"));
        write(&file, &serde_json::to_vec(spec).unwrap());
        let watched = note.with_extension("watched");
        let _ = std::fs::remove_file(&watched);
        let mut command = std::process::Command::new(PROGRAM);
        command.arg(verb).args([&file, &note]);
        let child = command.spawn().unwrap();
        until("the daemon watches its shim", || watched.exists()).await;
        let shim = serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
        Daemon { child, shim }
    }

    pub(crate) fn out(&self) -> String {
        std::fs::read_to_string(self.path("out")).unwrap_or_default()
    }

    /// Waits for the end of a shim. Checks that its record is on the disk, and the census is
    /// removed.
    pub(crate) async fn end(&self, supervised: &Supervised) -> ExitRecord {
        let record = within(supervised.wait()).await.unwrap();
        assert_eq!(record.proof, Proof::Subreaper, "{record:?}");
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

    /// Asserts that no process with the mark of this scene is alive.
    pub(crate) fn assert_nothing_left(&self) {
        let left = marked(&self.mark);
        assert!(left.is_empty(), "left over: {left:?}");
    }
}

/// A daemon in a separate process, and its shim.
pub(crate) struct Daemon {
    child: std::process::Child,
    pub(crate) shim: ProcessId,
}

impl Daemon {
    pub(crate) fn process(&self) -> ProcessId {
        ProcessId::of(i32::try_from(self.child.id()).unwrap()).unwrap()
    }

    /// Kills the daemon like `kill -9`.
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

/// Returns whether bubblewrap works here. Otherwise it prints that the test is skipped, or fails if
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
    // The test runner captures `eprintln!`, but not this.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {error}");
    false
}

/// Searches the process table independently of the tested code.
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

/// Polls until the function returns a value.
pub(crate) async fn eventually<T>(description: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = poll() {
            return seen;
        }
        assert!(Instant::now() < deadline, "never: {description}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Polls until the condition is true.
pub(crate) async fn until(description: &str, mut condition: impl FnMut() -> bool) {
    eventually(description, || condition().then_some(())).await;
}

pub(crate) async fn wait_for_exit(process: ProcessId) {
    until(&format!("{process:?} is gone"), || !process.is_alive()).await;
}

pub(crate) fn send(process: ProcessId, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), signal).unwrap();
}

pub(crate) fn write(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
}
