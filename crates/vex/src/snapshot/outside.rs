//! A repository whose own folder is outside of the workspace: that of a linked work tree, or of a
//! folder above.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{SnapshotError, at};
use crate::git;

/// Arguments for the present commit.
const HEAD: [&str; 4] = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];

/// The state of such a repository. Its other branches may belong to other work trees, so they are
/// left as they are.
#[derive(Debug)]
pub(super) struct OutsideRepository {
    /// Its folder. git is never asked for it again, since the workspace could name another one.
    folder: PathBuf,
    /// Whether its work tree contains the workspace as a folder.
    pub(super) is_above: bool,
    /// The branch, unless HEAD is detached.
    branch: Option<String>,
    /// The commit; `None` on a branch without one.
    head: Option<String>,
    /// The content of the index, if there was one.
    index: Option<Vec<u8>>,
}

impl OutsideRepository {
    /// Returns the state of the repository of the workspace `root`; `None` if there is none or it is
    /// inside.
    pub(super) fn of(root: &Path) -> Result<Option<Self>, SnapshotError> {
        let Some(folder) = output(git::command(root).args(["rev-parse", "--absolute-git-dir"])) else {
            return Ok(None);
        };
        let folder = PathBuf::from(folder);
        let root = root.canonicalize().map_err(at(root))?;
        if folder.canonicalize().map_err(at(&folder))?.starts_with(&root) {
            return Ok(None);
        }
        let index = match fs::read(folder.join("index")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(at(&folder))?),
        };
        let prefix = output(git::command(&root).args(["rev-parse", "--show-prefix"]));
        let mut found = Self {
            is_above: prefix.is_some_and(|prefix| !prefix.is_empty()),
            branch: None,
            head: None,
            index,
            folder,
        };
        found.branch = output(found.git(&root).args(["symbolic-ref", "--quiet", "HEAD"]));
        found.head = output(found.git(&root).args(HEAD));
        Ok(Some(found))
    }

    fn git(&self, root: &Path) -> Command {
        let mut command = git::command(root);
        command.env("GIT_DIR", &self.folder).env("GIT_WORK_TREE", root);
        command
    }

    /// Returns the present commit.
    pub(super) fn head(&self) -> String {
        output(self.git(&self.folder).args(HEAD)).unwrap_or_default()
    }

    /// Returns HEAD, its branch and the index to their state.
    pub(super) fn restore(&self, root: &Path) -> Result<(), SnapshotError> {
        let run = |args: &[&str]| {
            let done = self.git(root).args(args).stderr(Stdio::piped()).output();
            let done = done.map_err(at(&self.folder))?;
            if done.status.success() {
                return Ok(());
            }
            Err(SnapshotError::Git {
                command: args.join(" "),
                error: String::from_utf8_lossy(&done.stderr).trim().to_owned(),
            })
        };
        match (&self.branch, &self.head) {
            (Some(branch), head) => {
                run(&["symbolic-ref", "HEAD", branch])?;
                match head {
                    Some(head) => run(&["update-ref", branch, head])?,
                    None => run(&["update-ref", "-d", branch])?,
                }
            }
            (None, Some(head)) => run(&["update-ref", "--no-deref", "HEAD", head])?,
            (None, None) => {}
        }
        let index = self.folder.join("index");
        match &self.index {
            Some(content) => {
                let new = self.folder.join(format!("index.{}.vex", uuid::Uuid::now_v7()));
                fs::write(&new, content).map_err(at(&new))?;
                fs::rename(&new, &index).map_err(at(&index))
            }
            None => match fs::remove_file(&index) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&index)(error)),
                _ => Ok(()),
            },
        }
    }
}

/// Returns what a command printed, if it succeeded.
fn output(command: &mut Command) -> Option<String> {
    let done = command.output().ok()?;
    let text = String::from_utf8(done.stdout).ok()?;
    done.status.success().then(|| text.trim_end().to_owned())
}
