//! The tasks: one folder each, with the prompt, the files, and a hidden check.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::repo::{self, Context as _, TaskResult};

#[derive(Debug)]
pub struct Task {
    pub name: String,
    pub prompt: String,
    /// The verify command that a user would give, if there is one.
    pub verify: Option<String>,
    check: String,
    files: PathBuf,
}

/// Loads the named tasks, or all if none is named.
pub fn load(names: &[String]) -> TaskResult<Vec<Task>> {
    let root = repo::root().join("xtask/live");
    let folders = std::fs::read_dir(&root).context(format!("cannot list {}", root.display()))?;
    let mut found: Vec<_> = folders
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    for name in names {
        if !found.contains(name) {
            return Err(format!(
                "unknown task `{name}`: expected one of {}",
                found.join(", ")
            ));
        }
    }
    found.retain(|name| names.is_empty() || names.contains(name));
    found.into_iter().map(|name| Task::read(&root, name)).collect()
}

impl Task {
    fn read(root: &Path, name: String) -> TaskResult<Self> {
        let dir = root.join(&name);
        let verify = dir.join("verify.sh");
        Ok(Self {
            prompt: repo::read(&dir.join("prompt.md"))?,
            check: repo::read(&dir.join("check.sh"))?,
            verify: if verify.exists() {
                Some(repo::read(&verify)?.trim_end().to_owned())
            } else {
                None
            },
            files: dir.join("files"),
            name,
        })
    }

    /// Creates the workspace of the agent: a git repository with one commit.
    pub fn lay_out(&self, place: &Path) -> TaskResult {
        let script = "set -e; mkdir -p \"$1\"; if [ -d \"$2\" ]; then cp -R \"$2/.\" \"$1\"; fi; cd \"$1\"; git init -q .; \
             git config user.name Tester; git config user.email tester@localhost; git add -A; \
             git commit -q --allow-empty -m 'The beginning'";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(place).arg(&self.files);
        repo::run(&mut command)
    }

    /// Returns whether the task is solved.
    pub fn is_solved(&self, place: &Path) -> bool {
        let status = Command::new("timeout")
            .args(["30", "sh", "-c", &self.check])
            .current_dir(place)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }
}
