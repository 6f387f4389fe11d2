//! The content of each file that the model last saw, so that it never overwrites content that it
//! has not seen.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

pub(crate) type Digest = [u8; 32];

/// The state of a file that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    /// The model never saw it.
    Never,
    /// It is unchanged since the model last saw it.
    Same,
    /// It was changed since.
    Changed,
}

/// The hashes of the files that were read or written in this run, by their paths without links.
#[derive(Debug, Default)]
pub(crate) struct FileMemory(Mutex<HashMap<PathBuf, Digest>>);

impl FileMemory {
    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the model knows this content.
    pub(crate) fn remember(&self, resolved: &Path, digest: Digest) {
        self.known().insert(resolved.to_owned(), digest);
    }

    /// Requires that every file is read again before it is replaced.
    pub(crate) fn clear(&self) {
        self.known().clear();
    }

    /// Forgets a removed file.
    pub(crate) fn forget(&self, resolved: &Path) {
        self.known().remove(resolved);
    }

    /// Compares the content with what the model knows.
    pub(crate) fn state_of(&self, resolved: &Path, content: &[u8]) -> FileState {
        match self.known().get(resolved) {
            None => FileState::Never,
            Some(known) if *known == digest(content) => FileState::Same,
            Some(_) => FileState::Changed,
        }
    }
}

pub(crate) fn digest(content: &[u8]) -> Digest {
    Sha256::digest(content).into()
}
