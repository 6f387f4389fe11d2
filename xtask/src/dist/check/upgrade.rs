//! An upgrade below a running daemon, and a ledger that a newer version has changed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::{Release, Target, copy, empty, stage, system};
use super::install;
use super::program::{Home, both_outputs};
use crate::repo::{self, Context as _, TaskResult};

/// The version of the package before, where none is given.
const LOWER: &str = "0.0.1";

/// The timeout for a daemon to reach a state.
const WITHIN: Duration = Duration::from_secs(60);

/// The agent prints its id and works until there is a file `finish`.
const WORKFLOW: &str = "
workspace: {root: home}
agents:
  slow:
    runtime: command
    sandbox: off
    command: [sh, -c, 'echo $$ >> ../../../../../pids; until [ -e ../../../../../finish ]; do sleep 0.1; done']
issues: {pull: {command: cat issues.json, idle_sec: 1}}
issue:
  stages:
    implement: {when: {state: todo}, agent: slow, prompt: do it, retry: {max_attempts: 1}}
";

const ISSUES: &str = r#"[{"id": "1", "title": "Work while the program is replaced", "state": "todo"}]"#;

pub fn check(release: &Release, target: Target, folder: &Path, before: Option<&Path>) -> TaskResult {
    let new = install::deb_file(release, target)?;
    let old = match before {
        Some(path) => path.to_owned(),
        None => lower(release, target)?,
    };
    let root = folder.join("root");
    empty(&root)?;
    install::install_deb(&old, &root)?;
    let home = Home::new(&folder.join("home"), &root.join("usr/bin/vik"))?;
    let project = folder.join("project");
    repo::write(&project.join("workflow.yml"), WORKFLOW)?;
    repo::write(&project.join("issues.json"), ISSUES)?;
    let daemon = Daemon { home, project };
    daemon.output(&["run", "-d"])?;
    let agent = daemon.until("its agent runs", |_| daemon.agents().pop())?;
    let version = daemon.status()?["version"].clone();
    install::install_deb(&new, &root)?;
    daemon.expect_warning(version.as_str().unwrap_or_default())?;
    daemon.output(&["restart", "--keep-sessions"])?;
    daemon.expect_adopted(release, &agent)?;
    repo::write(&daemon.project.join("finish"), "")?;
    daemon.until("the agent has ended", |status| {
        status["sessions"].as_array()?.is_empty().then_some(())
    })?;
    daemon.expect_success()?;
    daemon.output(&["stop"])?;
    daemon.expect_newer_ledger_is_refused()
}

/// Makes a package of this source with a lower version.
fn lower(release: &Release, target: Target) -> TaskResult<PathBuf> {
    eprintln!("Building this source with version {LOWER}, as the version before");
    let source = release.empty_folder("before/source")?;
    for path in repo::files()? {
        copy(&repo::root().join(&path), &source.join(&path))?;
    }
    let manifest = source.join("Cargo.toml");
    let own = format!("\nversion = \"{}\"\n", release.version);
    let text = repo::read(&manifest)?;
    if !text.contains(&own) {
        return Err(format!("the manifest has no version {}", release.version));
    }
    repo::write(
        &manifest,
        &text.replace(&own, &format!("\nversion = \"{LOWER}\"\n")),
    )?;
    let build = repo::target().join("dist-before");
    let mut cargo = repo::cargo();
    cargo
        .current_dir(&source)
        .args(["build", "--quiet", "--package", "vik", "--bin", "vik"])
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_PROFILE_DEV_DEBUG", "false");
    repo::run(&mut cargo)?;
    let before = Release {
        version: LOWER.to_owned(),
        epoch: release.epoch,
        out: release.empty_folder("before/out")?,
    };
    let tree = stage::tree(&before, target, &build.join("debug/vik"))?;
    system::deb(&before, target, &tree)
}

/// A detached daemon. It is stopped when dropped.
struct Daemon {
    home: Home,
    project: PathBuf,
}

impl Daemon {
    fn output(&self, args: &[&str]) -> TaskResult<String> {
        repo::output(self.home.vik(&self.project).args(args))
    }

    fn status(&self) -> TaskResult<Value> {
        let text = self.output(&["status", "--json"])?;
        serde_json::from_str(&text).context("`vik status --json`")
    }

    /// Returns the ids of the agents that have started.
    fn agents(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.project.join("pids")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Polls the status until `reached` returns a value.
    fn until<T>(&self, name: &str, reached: impl Fn(&Value) -> Option<T>) -> TaskResult<T> {
        let until = Instant::now() + WITHIN;
        loop {
            let status = self.status()?;
            if let Some(value) = reached(&status) {
                return Ok(value);
            }
            if Instant::now() > until {
                return Err(format!("not reached in {WITHIN:?}: {name}\n{status:#}"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Checks that `vik doctor` names both versions and the command that replaces the daemon.
    fn expect_warning(&self, old: &str) -> TaskResult {
        let text = both_outputs(self.home.vik(&self.project).arg("doctor"))?;
        for expected in [
            format!("has version {old}"),
            "vik restart --keep-sessions".to_owned(),
        ] {
            if !text.contains(&expected) {
                return Err(format!("expected `{expected}` from `vik doctor`:\n{text}"));
            }
        }
        Ok(())
    }

    fn expect_adopted(&self, release: &Release, agent: &str) -> TaskResult {
        let status = self.status()?;
        let sessions = status["sessions"].as_array().map_or(0, Vec::len);
        if status["version"] != release.version.as_str() || sessions != 1 {
            return Err(format!("the new daemon has not adopted the agent:\n{status:#}"));
        }
        let is_alive = Path::new("/proc").join(agent).exists();
        if is_alive && self.agents() == [agent] {
            return Ok(());
        }
        Err(format!(
            "agent {agent} was not kept: started were {:?}",
            self.agents()
        ))
    }

    /// Checks that one attempt was made and succeeded.
    fn expect_success(&self) -> TaskResult {
        let text = self.output(&["runs", "--json"])?;
        let runs: Value = serde_json::from_str(&text).context("`vik runs`")?;
        let runs = runs.as_array().cloned().unwrap_or_default();
        match runs.as_slice() {
            [run] if run["outcome"] == "succeeded" => Ok(()),
            _ => Err(format!("expected one success:\n{text}")),
        }
    }

    /// Marks the ledger as one of a newer version. The program must refuse it and change no byte.
    fn expect_newer_ledger_is_refused(&self) -> TaskResult {
        let ledger = self.ledger()?;
        let failed = |error| format!("{}: {error}", ledger.display());
        let database = rusqlite::Connection::open(&ledger).map_err(failed)?;
        database
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 9999")
            .map_err(failed)?;
        database.close().map_err(|(_, error)| failed(error))?;
        let bytes = || std::fs::read(&ledger).context(ledger.display());
        let old = bytes()?;
        let mut run = self.home.vik(&self.project);
        let text = both_outputs(run.args(["run", "-d"]))?;
        if !text.contains("use the newer version of Vik; the file was not changed") {
            return Err(format!("a newer ledger is not refused:\n{text}"));
        }
        if bytes()? != old {
            return Err("a newer ledger was changed".to_owned());
        }
        Ok(())
    }

    fn ledger(&self) -> TaskResult<PathBuf> {
        let mut folders = vec![self.project.join("home")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_name() == "vik.db" {
                    return Ok(path);
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                }
            }
        }
        Err("there is no ledger".to_owned())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = both_outputs(self.home.vik(&self.project).args(["stop", "--timeout", "20"]));
    }
}
