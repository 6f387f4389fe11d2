//! The contents of files as attempts found and left them, by hash, outside of every workspace.

mod pack;

use std::collections::HashSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{Digest, SHA256, digest};
use vik_core::file_change::ContentHash;

use self::pack::{PackWriter, Packs};
use crate::fs as private;
use crate::fs::{create_parent, if_exists, write_atomic_nosync};

/// A store of contents: each in a file of its own, or in a pack.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    /// The packs, once one of them may be needed.
    packs: Arc<Mutex<Option<Arc<Packs>>>>,
}

/// Returns the hash of some content.
pub fn hash_of(content: &[u8]) -> ContentHash {
    from_digest(&digest(&SHA256, content))
}

pub fn from_digest(digest: &Digest) -> ContentHash {
    let mut hash = ContentHash::default();
    hash.0.copy_from_slice(digest.as_ref());
    hash
}

impl Store {
    /// Returns the store in a folder of Vik's, which is created with the first content.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            packs: Arc::default(),
        }
    }

    fn path(&self, hash: ContentHash) -> PathBuf {
        let name = hash.to_string();
        self.dir.join(&name[..2]).join(&name[2..])
    }

    fn packs_dir(&self) -> PathBuf {
        self.dir.join("packs")
    }

    fn packs(&self) -> Arc<Packs> {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(packs.get_or_insert_with(|| Arc::new(Packs::load(&self.packs_dir()))))
    }

    /// Reads the packs again when they are needed next.
    fn forget_packs(&self) {
        *self.packs.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Stores some content. The file is complete even if Vik dies. A power cut may lose it, and
    /// then [`get`](Self::get) returns `None`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, content: &[u8]) -> io::Result<ContentHash> {
        let hash = hash_of(content);
        if !self.packs().has(hash) && !self.has_own_file(hash, content) {
            self.write_own_file(hash, content)?;
        }
        Ok(hash)
    }

    /// Starts to store many contents: the first new ones in files of their own, up to `own_files`,
    /// and the others in one pack.
    pub fn batch(&self, own_files: usize) -> Batch<'_> {
        Batch {
            store: self,
            packs: self.packs(),
            own_files_left: own_files,
            pack: None,
        }
    }

    fn has_own_file(&self, hash: ContentHash, content: &[u8]) -> bool {
        let meta = self.path(hash).symlink_metadata();
        meta.is_ok_and(|meta| meta.is_file() && meta.len() == content.len() as u64)
    }

    fn write_own_file(&self, hash: ContentHash, content: &[u8]) -> io::Result<()> {
        let path = self.path(hash);
        match write_atomic_nosync(&path, content) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_parent(&path)?;
                write_atomic_nosync(&path, content)
            }
            written => written,
        }
    }

    /// Returns some content; `None` if it is missing or damaged.
    pub fn get(&self, hash: ContentHash) -> Option<Vec<u8>> {
        let is_undamaged = |content: &Vec<u8>| hash_of(content) == hash;
        let own = self.read_own_file(hash).filter(is_undamaged);
        own.or_else(|| self.packs().get(hash).filter(is_undamaged))
    }

    fn read_own_file(&self, hash: ContentHash) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        let mut file = private::open(&self.path(hash)).ok()?;
        file.read_to_end(&mut content).ok()?;
        Some(content)
    }

    /// Removes all contents that are not `wanted`.
    ///
    /// # Errors
    /// When the store cannot be read, or something in it cannot be removed.
    pub fn retain(&self, wanted: impl Fn(ContentHash) -> bool) -> io::Result<()> {
        Packs::retain(&self.packs_dir(), &wanted)?;
        self.forget_packs();
        for hash in self.own_files()? {
            if !wanted(hash) {
                std::fs::remove_file(self.path(hash))?;
            }
        }
        Ok(())
    }

    /// Returns the contents that have files of their own.
    fn own_files(&self) -> io::Result<HashSet<ContentHash>> {
        let mut hashes = HashSet::new();
        for folder in if_exists(private::list_folder(&self.dir))?.into_iter().flatten() {
            let folder = folder?;
            let prefix = folder.file_name();
            let Some(prefix) = prefix.to_str().filter(|prefix| prefix.len() == 2) else {
                continue;
            };
            for entry in private::list_folder(&folder.path())? {
                let suffix = entry?.file_name();
                let hash = suffix.to_str().map(|suffix| format!("{prefix}{suffix}"));
                hashes.extend(hash.and_then(|hash| hash.parse::<ContentHash>().ok()));
            }
        }
        Ok(hashes)
    }
}

pub struct Batch<'a> {
    store: &'a Store,
    packs: Arc<Packs>,
    own_files_left: usize,
    pack: Option<BatchPack>,
}

/// The pack of a batch.
struct BatchPack {
    writer: PackWriter,
    /// The contents that had files of their own when the pack was started: asking the file system
    /// for each content would take longer.
    own_files: HashSet<ContentHash>,
}

impl Batch<'_> {
    /// Stores some content, which is kept once the batch is [finished](Self::finish).
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, content: &[u8]) -> io::Result<ContentHash> {
        let hash = hash_of(content);
        if self.packs.has(hash) {
            return Ok(hash);
        }
        let store = self.store;
        if self.pack.is_none() && self.own_files_left == 0 {
            self.pack = Some(BatchPack {
                writer: PackWriter::create(&store.packs_dir())?,
                own_files: store.own_files()?,
            });
        }
        match &mut self.pack {
            Some(pack) => {
                let has_own_file = pack.own_files.contains(&hash) && store.has_own_file(hash, content);
                if !has_own_file && !pack.writer.has(hash) {
                    pack.writer.add(hash, content)?;
                }
            }
            None if store.has_own_file(hash, content) => {}
            None => {
                self.own_files_left -= 1;
                store.write_own_file(hash, content)?;
            }
        }
        Ok(hash)
    }

    /// Returns whether some content was stored before this batch; does not check whether it is
    /// complete.
    pub fn has(&self, hash: ContentHash) -> bool {
        self.packs.has(hash) || self.store.path(hash).is_file()
    }

    /// Completes the batch.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> io::Result<()> {
        if let Some(pack) = self.pack
            && !pack.writer.is_empty()
        {
            pack.writer.finish()?;
            self.store.forget_packs();
        }
        Ok(())
    }
}
