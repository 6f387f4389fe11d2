//! A world with a workflow and a tracker, and ways to run `vik` in it and to inspect the results.

mod session;
mod world;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
pub use vik_testkit::{TestEnv, alive, assert_contains, eventually, wait_for_value};

pub use self::session::Session;
pub use self::world::{World, temporal};

/// The time limit of every command of a test, long enough for a busy machine.
pub const LONG: Duration = Duration::from_secs(90);

/// The result of a command.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "\n--- stdout\n{}\n--- stderr\n{}",
            self.out, self.err
        );
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("no JSON ({error}): {}", self.out))
    }
}

/// A `vik` that runs beside the test. Dropping it stops the process.
pub struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn err(&self) -> String {
        text(&self.err)
    }

    /// Waits for the process to exit.
    #[track_caller]
    pub fn done(mut self) -> Done {
        let status = wait_for_value(LONG, || self.child.try_wait().unwrap());
        let (out, err) = (text(&self.out), text(&self.err));
        let Some(status) = status else {
            panic!("it did not end; stdout:\n{out}\nstderr:\n{err}")
        };
        let signal = std::os::unix::process::ExitStatusExt::signal(&status).map_or(0, |signal| -signal);
        Done {
            code: status.code().unwrap_or(signal),
            out,
            err,
        }
    }

    /// Kills the process at once, and waits for it.
    #[track_caller]
    pub fn kill(self) -> Done {
        self.signal(Signal::SIGKILL);
        self.done()
    }

    /// Stops the process gracefully.
    #[track_caller]
    pub fn stop(self) -> Done {
        self.signal(Signal::SIGTERM);
        self.done()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// Returns the fields of `/proc/PID/stat`, from the state of the process on; none if it is gone.
pub fn stat_fields(pid: i32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split_whitespace().map(str::to_owned).collect()
}

/// Returns the paths in a folder, sorted; none where it is missing.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    paths.sort();
    paths
}
