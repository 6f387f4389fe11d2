//! An isolated environment for one test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::leftovers::{Leftover, leftovers_of};
use crate::tracker::FakeTracker;
use crate::{bins, wait_for};

/// A temporary root with its own HOME, state folder and PATH. All its processes carry its mark.
///
/// Dropping it kills the processes that the test left, and fails the test if there were any.
///
/// | below the root | |
/// | --- | --- |
/// | `bin` | first on PATH: `codex`, `claude`, `vik-scripted-agent` (all the scripted agent), `vik-fake-tracker`, `vik` |
/// | `home` | HOME, with a `.gitconfig` that has a name and a mail address |
/// | `state` | `XDG_STATE_HOME` |
/// | `tmp` | TMPDIR |
/// | `work` | where commands run and workflows are written |
pub struct TestEnv {
    folder: tempfile::TempDir,
    vik: PathBuf,
    mark: String,
    allows_leftovers: bool,
    worker: std::cell::Cell<Option<i32>>,
}

impl TestEnv {
    /// The variable that marks every process of a test. Agents get it if the workflow passes it
    /// (`env_pass`); they are also found by HOME and by their folder.
    pub const MARK: &'static str = "VIK_TEST_ENV";

    /// Creates an environment. `vik` is the program under test, `env!("CARGO_BIN_EXE_vik")` in its
    /// own tests.
    ///
    /// # Panics
    ///
    /// Panics if the folders cannot be created.
    #[must_use]
    pub fn new(vik: impl Into<PathBuf>) -> Self {
        Self::below(&std::env::temp_dir(), vik)
    }

    /// Creates an environment below a folder other than that for temporary files, which some
    /// sandboxes hide.
    ///
    /// # Panics
    ///
    /// Like [`new`](Self::new).
    pub fn below(parent: &Path, vik: impl Into<PathBuf>) -> Self {
        // A short name, because paths of sockets must be short.
        let folder = tempfile::Builder::new()
            .prefix("vk-")
            .tempdir_in(parent)
            .expect("a temporary folder");
        let mark = folder
            .path()
            .file_name()
            .expect("a temporary folder has a name")
            .to_string_lossy()
            .into_owned();
        let env = Self {
            folder,
            vik: vik.into(),
            mark: format!("mark-{mark}"),
            allows_leftovers: false,
            worker: std::cell::Cell::default(),
        };
        for name in ["bin", "home", "state", "tmp", "work"] {
            std::fs::create_dir(env.root().join(name)).expect("a folder in the root");
        }
        let gitconfig = "[user]\n\tname = Test\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n\
            [commit]\n\tgpgsign = false\n[safe]\n\tdirectory = *\n[advice]\n\tdetachedHead = false\n";
        env.write("home/.gitconfig", gitconfig);
        let agent = bins::scripted_agent();
        for name in ["codex", "claude", "vik-scripted-agent"] {
            env.link(name, &agent);
        }
        env.link("vik-fake-tracker", &bins::fake_tracker());
        env.link("vik", &env.vik);
        env
    }

    /// Returns the root; all files of the test are below it.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder in which commands run and workflows are written.
    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    pub fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    /// Returns a path below the root.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root().join(relative)
    }

    /// Returns the value of [`TestEnv::MARK`].
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Puts a program on the PATH under a name, in place of a previous one.
    ///
    /// # Panics
    ///
    /// Panics if the link cannot be created.
    pub fn link(&self, name: &str, program: &Path) {
        let link = self.root().join("bin").join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(program, &link).expect("a link in bin");
    }

    /// Removes a program from the PATH.
    pub fn unlink(&self, name: &str) {
        let _ = std::fs::remove_file(self.root().join("bin").join(name));
    }

    /// Returns a `vik` command with these arguments.
    pub fn vik<I>(&self, args: I) -> Command
    where
        I: IntoIterator,
        I::Item: AsRef<std::ffi::OsStr>,
    {
        let mut command = self.command(&self.vik);
        command.args(args);
        command
    }

    /// Returns a command that runs in `work`, with only the environment of this test.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.work())
            .env_clear()
            .envs(self.environment());
        command
    }

    /// Returns the environment of all commands. `VIK_HOME` is not set.
    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.display().to_string();
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
        vec![
            (
                "PATH".to_owned(),
                format!("{}:{path}", text(self.root().join("bin"))),
            ),
            ("HOME".to_owned(), text(self.home())),
            ("XDG_STATE_HOME".to_owned(), text(self.state())),
            ("TMPDIR".to_owned(), text(self.root().join("tmp"))),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("TZ".to_owned(), "UTC".to_owned()),
            (Self::MARK.to_owned(), self.mark.clone()),
        ]
    }

    /// Writes a file below the root, and creates its folders.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be written.
    pub fn write(&self, relative: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(relative);
        std::fs::create_dir_all(path.parent().expect("a file below the root"))
            .expect("a folder below the root");
        std::fs::write(&path, text).expect("a file below the root");
        path
    }

    /// Reads a file below the root; empty if it does not exist.
    pub fn read(&self, relative: impl AsRef<Path>) -> String {
        let bytes = std::fs::read(self.root().join(relative)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Reads the number in a file below the root, as `pidfile` writes it.
    pub fn read_pid(&self, relative: impl AsRef<Path>) -> Option<i32> {
        self.read(relative).trim().parse().ok()
    }

    pub fn workflow(&self, yaml: &str) -> PathBuf {
        self.write("work/workflow.yml", yaml)
    }

    /// Writes `work/issues.json`; the pull command for it is `cat issues.json`.
    pub fn issues(&self, json: &serde_json::Value) -> PathBuf {
        self.write("work/issues.json", json.to_string())
    }

    /// Creates a tracker with these issues (id, state) in `work/tracker.json`.
    pub fn tracker(&self, issues: &[(&str, &str)]) -> FakeTracker {
        FakeTracker::create(self.work().join("tracker.json"), issues)
    }

    /// Notes the process of a worker: it is not left over, nor is the template of its shims.
    pub fn set_worker(&self, pid: i32) {
        self.worker.set(Some(pid));
    }

    /// Returns the live processes of this environment.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let mut leftovers = leftovers_of(self.root(), &self.mark);
        if let Some(worker) = self.worker.get() {
            leftovers.retain(|left| left.pid != worker && !left.is_template_of(worker));
        }
        leftovers
    }

    /// Fails the test if a process of this environment is alive now, without a grace period.
    ///
    /// # Panics
    ///
    /// Panics if there is one.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let left = self.leftovers();
        assert!(left.is_empty(), "processes were left:\n{}", lines(&left));
    }

    /// Kills all processes of this environment and waits until they have exited. Returns whether
    /// they have.
    pub fn kill_all(&self) -> bool {
        wait_for(Duration::from_secs(10), || {
            let left = self.leftovers();
            for process in &left {
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
            }
            left.is_empty()
        })
    }

    /// Allows live processes at the end of the test (as after a `kill -9` of the daemon). They are
    /// still killed.
    pub fn allow_leftovers(&mut self) {
        self.allows_leftovers = true;
    }

    /// Keeps the folder after the test, for inspection.
    pub fn keep(&mut self) {
        self.folder.disable_cleanup(true);
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        // A process that is just exiting is not a leftover.
        wait_for(Duration::from_secs(1), || {
            self.allows_leftovers || self.leftovers().is_empty()
        });
        let left = self.leftovers();
        let all_killed = self.kill_all();
        if std::thread::panicking() || self.allows_leftovers {
            return;
        }
        assert!(
            left.is_empty(),
            "the test left processes (they were killed):\n{}",
            lines(&left)
        );
        assert!(all_killed, "processes of the test cannot be killed");
    }
}

fn lines(left: &[Leftover]) -> String {
    left.iter().map(|process| format!("  {process}\n")).collect()
}
