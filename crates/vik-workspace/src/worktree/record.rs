//! The record of a work tree that an agent may use, until its commits are taken over.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fs::{read_json_if_exists, write_json_atomic};

/// The state of a work tree whose commits were not taken over yet; stored where no agent can write.
/// While it exists, the separate repository is complete.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) own: PathBuf,
    /// The branch that was checked out before the agent started, and its commit.
    pub(super) branch: Option<(String, Option<String>)>,
    /// `HEAD` before the agent started.
    pub(super) head: String,
    /// `HEAD` after the agent, if it changed.
    pub(super) agent_head: Option<String>,
    /// The commits that Vik has moved refs of the main repository to, or was about to.
    pub(super) moved: BTreeMap<String, BTreeSet<String>>,
}

impl Record {
    pub(super) fn read(file: &Path) -> io::Result<Option<Self>> {
        read_json_if_exists(file)
    }

    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        write_json_atomic(file, self)
    }

    /// Returns whether this is the branch that was checked out.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.branch.as_ref().is_some_and(|(own, _)| own == name)
    }

    /// Returns the value that a ref of the main repository must have for Vik to move it; `None` if
    /// it stays as it is.
    pub(super) fn expected(&self, name: &str, known: Option<&str>) -> Option<Option<String>> {
        let is_moved = |known| self.moved.get(name).is_some_and(|moved| moved.contains(known));
        match (&self.branch, known) {
            (_, Some(known)) if is_moved(known) => Some(Some(known.to_owned())),
            (Some((own, old)), _) if own == name => Some(old.clone()),
            (_, None) => Some(None),
            // Another process created it before Vik could.
            _ if self.moved.contains_key(name) => Some(None),
            // Another branch of the user.
            _ => None,
        }
    }
}
