//! The files of the workspace at one time, to which a further try returns.
//!
//! The files are kept in a git repository of its own, outside of the workspace, with git's rules
//! about ignored files: what is ignored, such as the output of a build, is neither kept nor restored. If
//! the workspace is a repository, its branch and index return too; new branches, tags and objects
//! stay.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use nix::fcntl::{Flock, FlockArg};

use crate::git;

/// Bytes are kept as they are, whatever the attributes in the workspace say.
const ATTRIBUTES: &str = "* -text -filter -ident -working-tree-encoding\n";

/// Why files cannot be kept or restored.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("cannot keep the files of the workspace: {0}")]
    Io(#[from] io::Error),
    /// git failed, and says why.
    #[error("cannot keep the files of the workspace: git {command}: {error}")]
    Git { command: String, error: String },
}

/// The files of a workspace at one time.
#[derive(Debug)]
pub struct Snapshot {
    root: PathBuf,
    /// The repository with the kept files; removed when dropped.
    store: PathBuf,
    /// Locked while the run lives.
    _lock: Flock<File>,
    tree: String,
    repository: Option<Repository>,
}

/// The state of the workspace's own repository.
#[derive(Debug)]
struct Repository {
    /// The branch, unless HEAD is detached.
    branch: Option<String>,
    head: String,
    index: PathBuf,
    /// The copy of the index, if there was one.
    kept_index: Option<PathBuf>,
}

impl Snapshot {
    /// Keeps the files of the workspace `root` in a new folder below `place`. Commands of the model
    /// must not be able to write there: the settings of a repository can name programs. What killed
    /// runs left in `place` is removed.
    ///
    /// # Errors
    /// When git is missing or fails, or its repository cannot be written.
    pub fn take(root: &Path, place: &Path) -> Result<Self, SnapshotError> {
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700);
        builder.create(place)?;
        remove_abandoned(place)?;
        let store = place.join(uuid::Uuid::now_v7().to_string());
        let file = File::create(lock_of(&store))?;
        let lock = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
        let mut snapshot = Self {
            root: root.to_owned(),
            store,
            _lock: lock,
            tree: String::new(),
            repository: None,
        };
        builder.create(&snapshot.store)?;
        snapshot.git(&["init", "--quiet", "--template="])?;
        fs::create_dir_all(snapshot.store.join("info"))?;
        fs::write(snapshot.store.join("info/attributes"), ATTRIBUTES)?;
        snapshot.tree = snapshot.current()?;
        snapshot.repository = Repository::of(root);
        if let Some(repository) = &mut snapshot.repository {
            repository.keep_index(&snapshot.store)?;
        }
        Ok(snapshot)
    }

    /// Returns the state of the present files and of the branch: the same text for the same state.
    ///
    /// # Errors
    /// When git fails.
    pub fn state(&self) -> Result<String, SnapshotError> {
        let head = self.repository.as_ref().and_then(|_| Repository::of(&self.root));
        let head = head.map(|repository| repository.head).unwrap_or_default();
        Ok(format!("{} {head}", self.current()?))
    }

    /// Returns the tree of the present files.
    fn current(&self) -> Result<String, SnapshotError> {
        self.git(&["add", "--all", "--", "."])?;
        let tree = self.git(&["write-tree"])?;
        Ok(String::from_utf8_lossy(&tree).trim().to_owned())
    }

    /// Returns the files, and the branch and index of the repository, to the kept state.
    ///
    /// # Errors
    /// When git fails or a file cannot be written; some files may be restored then.
    pub fn restore(&self) -> Result<(), SnapshotError> {
        let now = self.current()?;
        let added = self.git(&[
            "diff-tree",
            "-r",
            "-z",
            "--name-only",
            "--diff-filter=A",
            "--no-renames",
            &self.tree,
            &now,
        ])?;
        for name in added.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            self.remove(Path::new(OsStr::from_bytes(name)))?;
        }
        self.git(&["read-tree", "--reset", &self.tree])?;
        self.git(&["checkout-index", "--all", "--force", "--quiet"])?;
        match &self.repository {
            Some(repository) => repository.restore(&self.root),
            None => Ok(()),
        }
    }

    /// Removes a file that was added, and its folders if they are empty now.
    fn remove(&self, name: &Path) -> Result<(), SnapshotError> {
        match fs::remove_file(self.root.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        for folder in name.ancestors().skip(1).filter(|folder| *folder != Path::new("")) {
            if fs::remove_dir(self.root.join(folder)).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn git(&self, args: &[&str]) -> Result<Vec<u8>, SnapshotError> {
        let mut command = git::command(&self.root);
        command
            .env("GIT_DIR", &self.store)
            .env("GIT_WORK_TREE", &self.root)
            .args(["-c", "core.autocrlf=false", "-c", "core.excludesFile=/dev/null"])
            .args(["-c", "advice.addEmbeddedRepo=false"]);
        succeeded(command.args(args).stderr(Stdio::piped()).output()?, args)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.store);
        let _ = fs::remove_file(lock_of(&self.store));
    }
}

fn lock_of(store: &Path) -> PathBuf {
    store.with_extension("lock")
}

/// Removes the folders in `place` that no living run has locked.
fn remove_abandoned(place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        if path.extension() != Some(OsStr::new("lock")) {
            continue;
        }
        // It may have been removed since.
        let Ok(file) = File::open(&path) else { continue };
        if let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            // Another run may have removed both between the opening and the lock.
            let _ = fs::remove_dir_all(path.with_extension(""));
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

impl Repository {
    /// Returns the state of the repository that contains `root`; `None` if there is none with a
    /// commit.
    fn of(root: &Path) -> Option<Self> {
        let run = |args: &[&str]| {
            let output = git::command(root).args(args).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            output.status.success().then(|| text.trim_end().to_owned())
        };
        let index = PathBuf::from(run(&[
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            "index",
        ])?);
        Some(Self {
            head: run(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?,
            branch: run(&["symbolic-ref", "--quiet", "HEAD"]),
            kept_index: None,
            index,
        })
    }

    fn keep_index(&mut self, store: &Path) -> Result<(), SnapshotError> {
        if self
            .index
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_file())
        {
            let copy = store.join("kept-index");
            fs::copy(&self.index, &copy)?;
            self.kept_index = Some(copy);
        }
        Ok(())
    }

    fn restore(&self, root: &Path) -> Result<(), SnapshotError> {
        let run = |args: &[&str]| {
            let output = git::command(root).args(args).stderr(Stdio::piped()).output()?;
            succeeded(output, args).map(drop)
        };
        match &self.branch {
            Some(branch) => {
                run(&["symbolic-ref", "HEAD", branch])?;
                run(&["update-ref", branch, &self.head])?;
            }
            None => run(&["update-ref", "--no-deref", "HEAD", &self.head])?,
        }
        match &self.kept_index {
            Some(copy) => {
                // A new file: what stands there now may be a link.
                let new = self.index.with_extension(format!("{}.vex", uuid::Uuid::now_v7()));
                fs::copy(copy, &new)?;
                fs::rename(&new, &self.index)?;
            }
            None => match fs::remove_file(&self.index) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            },
        }
        Ok(())
    }
}

fn succeeded(output: Output, args: &[&str]) -> Result<Vec<u8>, SnapshotError> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(SnapshotError::Git {
        command: args.first().copied().unwrap_or_default().to_owned(),
        error: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    fn sh(dir: &Path, script: &str) -> String {
        let done = Command::new("sh")
            .args(["-ec", script])
            .current_dir(dir)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    fn listing(dir: &Path) -> String {
        sh(
            dir,
            "find . -path ./.git -prune -o -type f -printf '%m %p ' -exec cat {} \\; -printf '\\n' | sort",
        )
    }

    const FILES: &str = "mkdir -p lib/deep; printf 'a\\r\\n' > a.txt; echo b > lib/b; echo '*.txt text eol=lf' > .gitattributes; \
                         echo out > .gitignore; mkdir out; echo o > out/o; printf '#!/bin/sh\\n' > run; chmod 755 run; ln -s a.txt link";
    const CHANGES: &str = "printf x > a.txt; rm lib/b; rmdir lib/deep; rmdir lib; echo lib > lib; mkdir new; echo n > 'new/n\\\"ä'; \
                           chmod 644 run; rm link; echo p > out/p";

    #[test]
    fn files_return_to_the_kept_state() {
        let place = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        sh(dir.path(), FILES);
        let before = listing(dir.path());
        let snapshot = Snapshot::take(dir.path(), place.path()).unwrap();
        assert_eq!(snapshot.current().unwrap(), snapshot.tree);
        sh(dir.path(), CHANGES);
        assert_ne!(snapshot.current().unwrap(), snapshot.tree);
        snapshot.restore().unwrap();
        // What git ignores stays as it is.
        fs::remove_file(dir.path().join("out/p")).unwrap();
        assert_eq!(listing(dir.path()), before);
        assert_eq!(snapshot.current().unwrap(), snapshot.tree);
        assert!(!dir.path().join("new").exists());
        assert_eq!(fs::read(dir.path().join("a.txt")).unwrap(), b"a\r\n");
        assert_eq!(
            dir.path().join("run").metadata().unwrap().permissions().mode() & 0o777,
            0o755
        );
        let store = snapshot.store.clone();
        drop(snapshot);
        assert!(!store.exists());
    }

    #[test]
    fn leftovers_of_killed_runs_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let names = || {
            let mut all: Vec<_> = fs::read_dir(place.path())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            all.sort();
            all
        };
        let alive = Snapshot::take(dir.path(), place.path()).unwrap();
        let kept = names();
        assert_eq!(kept.len(), 2);
        let killed = place.path().join("killed");
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join("HEAD"), "").unwrap();
        fs::write(lock_of(&killed), "").unwrap();
        drop(Snapshot::take(dir.path(), place.path()).unwrap());
        assert_eq!(names(), kept);
        drop(alive);
        assert!(names().is_empty());
    }

    #[test]
    fn branch_and_index_return_too() {
        let place = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        sh(
            dir.path(),
            "git init -qb main; git config user.name n; git config user.email e@e; echo 1 > a; git add .; git commit -qm first; \
             echo 2 > b; git add b",
        );
        let state = || sh(dir.path(), "git status --porcelain -b; git rev-parse HEAD");
        let before = state();
        let snapshot = Snapshot::take(dir.path(), place.path()).unwrap();
        sh(
            dir.path(),
            "git checkout -qb other; echo 3 > a; git commit -qam second; rm b",
        );
        assert_ne!(state(), before);
        snapshot.restore().unwrap();
        assert_eq!(state(), before);
        sh(dir.path(), "git commit -qm third");
        snapshot.restore().unwrap();
        assert_eq!(state(), before);
    }
}
