//! The contents of files as attempts found and left them, by hash, outside of every workspace.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vik_core::file_change::ContentHash;

use crate::fs as private;
use crate::fs::{create_private_dir_all, write_atomic_nosync};

#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// Returns the hash of some content.
pub fn hash_of(content: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(content).into())
}

impl Store {
    /// Returns the store in a folder of Vik's, which is created with the first content.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    fn path(&self, hash: ContentHash) -> PathBuf {
        let name = hash.to_string();
        self.dir.join(&name[..2]).join(&name[2..])
    }

    /// Stores some content. The file is complete even if Vik dies. A power cut may lose it, and
    /// then [`get`](Self::get) returns `None`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, content: &[u8]) -> io::Result<ContentHash> {
        let hash = hash_of(content);
        let path = self.path(hash);
        let is_kept = path
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() == content.len() as u64);
        if is_kept {
            return Ok(hash);
        }
        match write_atomic_nosync(&path, content) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(folder) = path.parent() {
                    create_private_dir_all(folder)?;
                }
                write_atomic_nosync(&path, content)?;
            }
            written => written?,
        }
        Ok(hash)
    }

    /// Returns some content; `None` if it is missing or damaged.
    pub fn get(&self, hash: ContentHash) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        let mut file = private::open(&self.path(hash)).ok()?;
        file.read_to_end(&mut content).ok()?;
        (hash_of(&content) == hash).then_some(content)
    }

    /// Returns whether some content is stored; does not check whether it is complete.
    pub fn has(&self, hash: ContentHash) -> bool {
        self.path(hash).is_file()
    }

    /// Removes all contents that are not `wanted`.
    ///
    /// # Errors
    /// When the store cannot be read, or something in it cannot be removed.
    pub fn retain(&self, wanted: impl Fn(ContentHash) -> bool) -> io::Result<()> {
        let folders = match private::list_folder(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            folders => folders?,
        };
        for folder in folders {
            let folder = folder?.path();
            let Some(prefix) = folder
                .file_name()
                .and_then(|name| name.to_str())
                .map(str::to_owned)
            else {
                continue;
            };
            for entry in private::list_folder(&folder)? {
                let entry = entry?;
                let name = entry.file_name();
                let hash = name
                    .to_str()
                    .and_then(|suffix| format!("{prefix}{suffix}").parse().ok());
                if hash.is_some_and(|hash| !wanted(hash)) {
                    std::fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }
}
