//! The fail points and the clock of a world, which only processes with `VIK_CRASH_DIR` have.

use std::path::PathBuf;

use crate::support::*;

impl World {
    /// Returns the folder for `VIK_CRASH_DIR`.
    pub fn crash_dir(&self) -> PathBuf {
        let folder = self.env.path("crash");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Starts a command of `vik` that has the fail points and the clock.
    pub fn start_with_points(&self, args: &[&str]) -> Running {
        let mut command = self.env.vik(args);
        command.env("VIK_CRASH_DIR", self.crash_dir());
        self.start_command(command)
    }

    /// Makes the next process that reaches this point stop there.
    pub fn arm(&self, point: &str) {
        std::fs::write(self.crash_dir().join(format!("{point}.armed")), "").unwrap();
    }

    /// Waits until a process has stopped at this point.
    #[track_caller]
    pub fn wait_for_point(&self, point: &str) {
        let hit = self.crash_dir().join(format!("{point}.hit"));
        eventually(&format!("a process is at `{point}`"), || hit.exists());
    }

    /// Forgets that a process has stopped at this point, so that it can continue.
    pub fn leave_point(&self, point: &str) {
        let _ = std::fs::remove_file(self.crash_dir().join(format!("{point}.hit")));
    }

    /// Starts `vik run --once`, and kills it at this point.
    #[track_caller]
    pub fn kill_once_at(&self, point: &str) {
        self.arm(point);
        let daemon = self.start_with_points(&["run", "--once"]);
        self.wait_for_point(point);
        daemon.kill();
    }

    /// Sets the wall clock off by this number of seconds.
    pub fn jump(&self, seconds: i64) {
        let draft = self.crash_dir().join("clock.new");
        std::fs::write(&draft, seconds.to_string()).unwrap();
        std::fs::rename(draft, self.crash_dir().join("clock")).unwrap();
    }
}
