//! A workspace that is a linked work tree. A process that can write to the main repository can
//! destroy it, so git is redirected to a separate repository while an agent runs. Afterwards Vik
//! takes over the agent's commits.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use vik_base::failpoint;

use self::record::Record;
use self::refs::{branch_of, copy, copy_refs, packed_refs};
use super::changes::small_file;
use super::fs::{FOLDER, create_private_dir_all, list_folder, write_atomic, write_private};
use super::git::is_id;
use super::removal;

mod record;
mod refs;
mod take_over;

pub use self::refs::refs;
pub use self::take_over::{TakeOverError, take_over};

/// The name of the separate repository, in the work tree's folder of the main one.
const SEPARATE: &str = "vik";

#[derive(Clone, Debug)]
pub struct LinkedTree {
    workdir: PathBuf,
    /// The folder of the work tree in the main repository.
    own: PathBuf,
    common: PathBuf,
}

impl LinkedTree {
    /// Returns the work tree in this folder, if its repository knows it. Blocks.
    pub fn of(workdir: &Path) -> Option<Self> {
        let own = vik_proc::repository_in(workdir).pop()?;
        let common = own.parent()?.parent()?.to_owned();
        Some(Self {
            workdir: workdir.to_owned(),
            own,
            common,
        })
    }

    /// Redirects git in the work tree to a separate repository, which borrows the objects of the
    /// main one and starts with its branches. Writes what was checked out to the file `record`.
    /// Blocks.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn separate(&self, record: &Path) -> io::Result<()> {
        if self.common.join("reftable").exists() {
            // Its refs are not in files that can be copied: the agent can only read the repository.
            return Ok(());
        }
        let separate = self.separate_repository();
        match Record::read(record)? {
            // An earlier attempt was interrupted: its commits are not taken over yet.
            Some(mut kept) if separate.symlink_metadata().is_ok() => {
                // Its agent may have modified the repository, which must not lead elsewhere.
                if !is_plain(&separate.join("objects"), 3)? || !separate.symlink_metadata()?.is_dir() {
                    return Err(io::Error::other(format!(
                        "{} contains links among its objects",
                        separate.display()
                    )));
                }
                if let Some(head) = kept.agent_head.clone() {
                    self.set_head(&head)?;
                    kept.agent_head = None;
                    kept.write(record)?;
                }
            }
            kept => {
                if kept.is_some() {
                    std::fs::remove_file(record)?;
                }
                remove(&self.own)?;
                self.copy_to(&separate)?;
                let head = small_file(&self.own.join("HEAD"))?;
                let branch = branch_of(&head).map(|name| (name.to_owned(), self.resolve(name)));
                let kept = Record {
                    own: self.own.clone(),
                    branch,
                    head,
                    agent_head: None,
                    moved: BTreeMap::new(),
                };
                kept.write(record)?;
            }
        }
        write_private(
            &separate.join("objects/info/alternates"),
            self.alternates().as_bytes(),
        )?;
        write_atomic(&self.own.join("commondir"), format!("{SEPARATE}\n").as_bytes())?;
        failpoint::reach("repository_separated");
        Ok(())
    }

    fn copy_to(&self, separate: &Path) -> io::Result<()> {
        for folder in [
            "objects/info",
            "objects/pack",
            "refs/heads",
            "refs/tags",
            "info",
            "logs",
        ] {
            create_private_dir_all(&separate.join(folder))?;
        }
        for file in ["config", "HEAD", "packed-refs", "shallow", "info/exclude"] {
            let from = self.common.join(file);
            if from.is_file() {
                copy(&from, &separate.join(file))?;
            }
        }
        failpoint::reach("repository_begun");
        copy_refs(&self.common.join("refs"), &separate.join("refs"))?;
        symlink(self.common.join("hooks"), separate.join("hooks"))
    }

    fn separate_repository(&self) -> PathBuf {
        self.own.join(SEPARATE)
    }

    fn set_head(&self, head: &str) -> io::Result<()> {
        write_atomic(&self.own.join("HEAD"), head.as_bytes())
    }

    /// Returns the commit of a ref, if it is known without git.
    fn resolve(&self, name: &str) -> Option<String> {
        let loose = small_file(&self.common.join(name)).ok();
        let packed = || packed_refs(&self.common.join("packed-refs")).remove(name);
        loose
            .or_else(packed)
            .map(|hash| hash.trim().to_owned())
            .filter(|hash| is_id(hash))
    }

    fn alternates(&self) -> String {
        format!("{}\n", self.common.join("objects").display())
    }
}

/// Removes the separate repository, whatever an agent made of it.
fn remove(own: &Path) -> io::Result<()> {
    let folder = nix::fcntl::open(own, FOLDER, Mode::empty())?;
    removal::remove_at(&folder, OsStr::new(SEPARATE)).map(drop)
}

/// Returns whether there are only files and folders, no deeper than git creates them.
fn is_plain(folder: &Path, depth: u32) -> io::Result<bool> {
    if depth == 0 || !folder.symlink_metadata()?.is_dir() {
        return Ok(false);
    }
    for entry in list_folder(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let fits = kind.is_file() || (kind.is_dir() && is_plain(&entry.path(), depth - 1)?);
        if !fits {
            return Ok(false);
        }
    }
    Ok(true)
}
