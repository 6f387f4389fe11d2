//! The tasks: one folder each, with the prompt, the files, and a hidden check.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use clap::ValueEnum;

use super::languages::{Language, Toolchains};
use crate::repo::{self, Context as _, TaskResult};

/// The timeout of a check, in seconds. It builds, perhaps on a loaded machine.
const TIMEOUT_S: u32 = 300;

/// A group of tasks, which is a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// One step in one or two files
    Small,
    /// Packages in four languages, with work as in an issue
    Work,
}

impl Group {
    pub const ALL: [Self; 2] = [Self::Small, Self::Work];

    fn folder(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Work => "work",
        }
    }
}

#[derive(Debug)]
pub struct Task {
    pub name: String,
    pub group: Group,
    /// The language of its package; small tasks are no packages.
    pub language: Option<Language>,
    pub prompt: String,
    /// The verify command that a user would give, if there is one.
    pub verify: Option<String>,
    pub check: String,
    /// A patch that solves it, for the test of the task.
    pub solution: Option<PathBuf>,
    files: PathBuf,
}

/// Loads the named tasks of a group, or all if none is named.
pub fn load(group: Option<Group>, names: &[String]) -> TaskResult<Vec<Task>> {
    let mut found = Vec::new();
    for one in Group::ALL {
        if group.is_none_or(|group| group == one) {
            found.extend(list(one)?);
        }
    }
    for name in names {
        if !found.iter().any(|(_, found)| found == name) {
            let all: Vec<_> = found.into_iter().map(|(_, name)| name).collect();
            return Err(format!(
                "unknown task `{name}`: expected one of {}",
                all.join(", ")
            ));
        }
    }
    found.retain(|(_, name)| names.is_empty() || names.contains(name));
    found
        .into_iter()
        .map(|(group, name)| Task::read(group, name))
        .collect()
}

fn folder(group: Group) -> PathBuf {
    repo::root().join("xtask/live").join(group.folder())
}

fn list(group: Group) -> TaskResult<Vec<(Group, String)>> {
    let folder = folder(group);
    let entries = std::fs::read_dir(&folder).context(format!("cannot list {}", folder.display()))?;
    let mut names: Vec<_> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names.into_iter().map(|name| (group, name)).collect())
}

impl Task {
    fn read(group: Group, name: String) -> TaskResult<Self> {
        let dir = folder(group).join(&name);
        let verify = dir.join("verify.sh");
        let files = dir.join("files");
        let language = match group {
            Group::Small => None,
            Group::Work => {
                let language = Language::of(&files);
                Some(language.ok_or_else(|| format!("{} has no manifest", files.display()))?)
            }
        };
        Ok(Self {
            group,
            language,
            prompt: repo::read(&dir.join("prompt.md"))?,
            check: repo::read(&dir.join("check.sh"))?,
            verify: if verify.exists() {
                Some(repo::read(&verify)?.trim_end().to_owned())
            } else {
                None
            },
            solution: Some(dir.join("solution.patch")).filter(|patch| patch.exists()),
            files,
            name,
        })
    }

    /// Returns the language whose toolchain it lacks.
    pub fn lacks(&self, toolchains: &Toolchains) -> Option<Language> {
        self.language.filter(|&language| !toolchains.has(language))
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
    pub fn is_solved(&self, place: &Path, toolchains: &Toolchains) -> bool {
        passes(&self.check, place, toolchains)
    }

    /// Returns whether its verify command passes, if it has one.
    pub fn is_verified(&self, place: &Path, toolchains: &Toolchains) -> Option<bool> {
        let verify = self.verify.as_ref()?;
        Some(passes(verify, place, toolchains))
    }
}

fn passes(script: &str, place: &Path, toolchains: &Toolchains) -> bool {
    run_script(script, place, toolchains).is_ok_and(|output| output.status.success())
}

/// Runs a check in a workspace.
pub fn run_script(script: &str, place: &Path, toolchains: &Toolchains) -> io::Result<Output> {
    let mut command = Command::new("timeout");
    command.args([&TIMEOUT_S.to_string(), "sh", "-c", script]);
    toolchains.apply(&mut command);
    command
        .current_dir(place)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
}
