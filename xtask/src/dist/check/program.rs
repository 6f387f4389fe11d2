//! An installed program, with an empty home.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::{empty, stage};
use crate::repo::{self, Context as _, TaskResult};

/// The folders of programs of the system.
const SYSTEM: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"];

/// A home that contains nothing, and the program that its user starts.
pub struct Home {
    folder: PathBuf,
    vik: PathBuf,
    path: std::ffi::OsString,
}

impl Home {
    /// Creates an empty home.
    pub fn new(folder: &Path, vik: &Path) -> TaskResult<Self> {
        empty(folder)?;
        let own = vik.parent().unwrap_or(vik).to_owned();
        // npm's launcher needs Node, wherever this machine has it.
        let node = repo::output(repo::program("node").args(["-p", "process.execPath"]));
        let node = node
            .ok()
            .and_then(|path| Some(Path::new(path.trim()).parent()?.to_owned()));
        let folders = SYSTEM.iter().map(PathBuf::from);
        let path = std::env::join_paths(std::iter::once(own).chain(node).chain(folders))
            .context("cannot set PATH")?;
        Ok(Self {
            folder: folder.to_owned(),
            vik: vik.to_owned(),
            path,
        })
    }

    /// Returns a command of the program in a folder of this home, with the environment of a new user.
    pub fn vik(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.vik);
        command
            .current_dir(folder)
            .env_clear()
            .env("HOME", &self.folder)
            .env("PATH", &self.path)
            .env("LANG", "C.UTF-8");
        command
    }

    /// Checks what `vik --version` prints.
    pub fn expect_version(&self, version: &str) -> TaskResult {
        let text = repo::output(self.vik(&self.folder).arg("--version"))?;
        if text.trim() == format!("vik {version}") {
            return Ok(());
        }
        Err(format!("expected version {version}, found `{}`", text.trim()))
    }

    /// Runs a copy of the offline example twice: it does all the work, and then finds none. Without a
    /// folder of the package, the example is that of this repository.
    pub fn run_example(&self, example: Option<&Path>) -> TaskResult {
        let folder = self.folder.join("vik");
        match example {
            Some(example) => repo::run(repo::program("cp").arg("-r").arg(example).arg(&folder))?,
            None => stage::example(&folder)?,
        }
        for expected in [" succeeded, 0 failed", "nothing to do"] {
            let mut run = self.vik(&folder);
            run.args(["run", "--once", "workflow.example.yml"]);
            let text = both_outputs(&mut run)?;
            if !text.contains(expected) {
                return Err(format!(
                    "expected `{expected}` in the output of the example:\n{text}"
                ));
            }
        }
        Ok(())
    }
}

/// Runs a command and returns what it wrote to stdout and stderr, whatever its exit code.
pub fn both_outputs(command: &mut Command) -> TaskResult<String> {
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .context(format!("cannot start {}", command.get_program().display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(text(&output.stdout) + &text(&output.stderr))
}
