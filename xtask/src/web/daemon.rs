//! A real daemon in a folder of its own, for the checks and the pictures of the dashboard.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use vik_testkit::wait_for_value;

use crate::repo::{self, Context as _, TaskResult};

/// The timeout of starting a daemon.
const UP_WITHIN: Duration = Duration::from_secs(60);

/// The token of the API of every daemon.
pub(super) const TOKEN: &str = "the-token-of-a-test-of-the-api";

/// The name of the folder of a workflow, which the dashboard shows.
const NAME: &str = "shop";

/// What a daemon works on.
pub(super) struct Scene {
    /// The text of the workflow. Its pull command can print `issues.json`.
    pub workflow: String,
    /// The text of `issues.json`.
    pub issues: &'static str,
    /// Returns whether a status has everything that the checks need.
    pub is_ready: fn(&Value) -> bool,
}

/// A running daemon. It is stopped when dropped.
pub(super) struct Daemon {
    _temporary: tempfile::TempDir,
    folder: PathBuf,
    child: Child,
    vik: PathBuf,
    /// The address of its API.
    pub address: String,
}

impl Daemon {
    /// Builds Vik and starts a daemon.
    ///
    /// # Errors
    /// If the build fails, or the scene is not ready within a minute.
    pub fn start(scene: &Scene) -> TaskResult<Self> {
        repo::run(repo::cargo().args(["build", "--quiet", "-p", "vik"]))?;
        let vik = repo::target().join("debug/vik");
        let temporary = tempfile::tempdir().context("cannot create a folder")?;
        let folder = temporary.path().join(NAME);
        std::fs::create_dir(&folder).context("cannot create a folder")?;
        repo::write(&folder.join("workflow.yml"), &scene.workflow)?;
        repo::write(&folder.join("issues.json"), scene.issues)?;
        let child = in_folder(&vik, &folder)
            .args(["run", "--port", "0"])
            .stdout(Stdio::null())
            .spawn()
            .context(format!("cannot start {}", vik.display()))?;
        let mut daemon = Self {
            _temporary: temporary,
            folder,
            child,
            vik,
            address: String::new(),
        };
        let address = wait_for_value(UP_WITHIN, || daemon.ready(scene));
        daemon.address = address.ok_or("the daemon did not start")?;
        Ok(daemon)
    }

    /// Returns the folder of its workflow.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a command in its folder whose `vik` is in the variable `VIK`.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = in_folder(program.as_ref(), self.folder());
        command.env("VIK", &self.vik);
        command
    }

    /// Returns its address once the scene is ready.
    fn ready(&self, scene: &Scene) -> Option<String> {
        let text = repo::output(self.command(&self.vik).args(["status", "--json"])).ok()?;
        let status: Value = serde_json::from_str(&text).ok()?;
        (scene.is_ready)(&status).then(|| status["api"]["address"].as_str().map(str::to_owned))?
    }

    /// Returns a link that opens its dashboard once.
    pub fn link(&self) -> TaskResult<String> {
        let output = repo::output(self.command(&self.vik).args(["status", "--link"]))?;
        let link = output
            .split_whitespace()
            .find(|token| token.contains("/login#code="));
        link.map(str::to_owned)
            .ok_or("`vik status` prints no link".to_owned())
    }
}

fn in_folder(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .env("VIK_API_TOKEN", TOKEN)
        .stdin(Stdio::null());
    command
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = repo::run(self.command(&self.vik).args(["stop", "--timeout", "20"]));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
