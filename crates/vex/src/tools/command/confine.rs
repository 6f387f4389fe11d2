//! Where a command may write, and what upholds it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use vik_proc::{Fence, Reads, Sandbox};

use crate::tools::Permission;

/// What programs write to that keeps nothing.
const DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

/// The confinement of all commands of a run; made when the first one is run or when somebody asks.
#[derive(Debug)]
pub(crate) struct Confinement {
    permission: Permission,
    writable: Vec<PathBuf>,
    fence: OnceLock<Result<Fence, String>>,
}

impl Confinement {
    /// Looks at the workspace before anything has run in it.
    pub(crate) fn new(permission: Permission, root: &Path, more: &[PathBuf]) -> Self {
        let mut writable: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
        writable.push(std::env::temp_dir());
        if permission == Permission::WorkspaceWrite {
            writable.push(root.to_owned());
            writable.extend(git_folder(root));
            writable.extend(more.iter().map(|path| root.join(path)));
        }
        Self {
            permission,
            writable,
            fence: OnceLock::new(),
        }
    }

    /// What is put around each command: `Ok(None)` where nothing is wanted; the error says why nothing can be.
    pub(crate) fn fence(&self) -> Result<Option<&Fence>, &str> {
        if self.permission == Permission::Full {
            return Ok(None);
        }
        let made = self.fence.get_or_init(|| {
            let sandbox = Sandbox {
                write: self.writable.clone(),
                read: Reads::All,
            };
            sandbox
                .fence()
                .map_err(|error| match std::error::Error::source(&error) {
                    Some(source) => format!("{error}: {source}"),
                    None => error.to_string(),
                })
        });
        made.as_ref().map(Some).map_err(String::as_str)
    }

    /// In a few words, for `session_start` and the doctor.
    pub(crate) fn told(&self) -> String {
        match self.fence() {
            Ok(Some(fence)) => format!("landlock {}", fence.abi()),
            Ok(None) => "none: the permission is full".to_owned(),
            Err(why) => format!("none: {why}"),
        }
    }
}

/// Where git keeps what a commit in this workspace writes, where that is not below it: the folder of the repository
/// above it, or, for a linked work tree, that of its main repository.
///
/// What a workspace says of itself is not believed: a linked work tree must be known to its repository.
fn git_folder(root: &Path) -> Option<PathBuf> {
    let git = root
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.symlink_metadata().is_ok())?;
    let kind = git.symlink_metadata().ok()?.file_type();
    if kind.is_dir() {
        return (git.parent() != Some(root)).then_some(git);
    }
    if !kind.is_file() {
        return None;
    }
    let text = std::fs::read_to_string(&git).ok()?;
    let named = Path::new(text.strip_prefix("gitdir:")?.trim());
    let own = git.parent()?.join(named).canonicalize().ok()?;
    let back = std::fs::read_to_string(own.join("gitdir")).ok()?;
    if own.join(back.trim()).canonicalize().ok()? != git.canonicalize().ok()? {
        return None;
    }
    let worktrees = own.parent().filter(|folder| folder.ends_with("worktrees"))?;
    let common = worktrees.parent()?;
    let is_repository = common.join("HEAD").is_file() && common.join("objects").is_dir();
    is_repository.then(|| common.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(dir: &Path, line: &str) {
        let done = std::process::Command::new("sh")
            .args(["-ec", line])
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    #[test]
    fn a_linked_work_tree_has_its_repository_and_a_forged_one_has_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        git(
            &dir,
            "git init -q main; cd main; git -c user.name=n -c user.email=e commit -q --allow-empty -m x; \
             git worktree add -q ../linked; mkdir sub; mkdir ../victim ../forged ../forged/own; \
             echo \"gitdir: $PWD/../victim\" > ../forged/.git",
        );
        assert_eq!(git_folder(&dir.join("main")), None);
        assert_eq!(git_folder(&dir.join("main/sub")), Some(dir.join("main/.git")));
        assert_eq!(git_folder(&dir.join("linked")), Some(dir.join("main/.git")));
        assert_eq!(git_folder(&dir.join("forged")), None);
        // Another work tree's name does not help.
        std::fs::write(
            dir.join("forged/.git"),
            format!("gitdir: {}\n", dir.join("main/.git/worktrees/linked").display()),
        )
        .unwrap();
        assert_eq!(git_folder(&dir.join("forged")), None);
    }
}
