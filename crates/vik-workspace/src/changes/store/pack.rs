//! Packs: many contents in one file, with an index. A first snapshot of a large workspace finds so
//! many new contents that a file for each would take most of its time.
//!
//! `ID.pack` has the contents one after the other, and `ID.index` their hashes, in order, with
//! their places. The index is written last: without it, a pack is incomplete and counts for
//! nothing.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use vik_core::file_change::ContentHash;

use crate::changes::store::hash_of;
use crate::fs::{self as private, create_new_private, create_private_dir_all, write_atomic_nosync};

const MAGIC: &[u8; 8] = b"vikpack1";
const HASH_BYTES: usize = 32;
/// A hash, a start and a length.
const ENTRY_BYTES: usize = HASH_BYTES + 8 + 4;
/// The magic number and the length of the pack.
const HEADER_BYTES: usize = 16;
const BUFFER_BYTES: usize = 1024 * 1024;

/// The place of a content in its pack.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    bytes: u32,
}

/// A pack with its index, whose entries are in the order of their hashes.
#[derive(Debug)]
struct Pack {
    pack: PathBuf,
    index: PathBuf,
    bytes: u64,
    entries: Vec<(ContentHash, Place)>,
}

/// All complete packs of a store.
#[derive(Debug, Default)]
pub struct Packs(Vec<Pack>);

impl Packs {
    /// Reads the indices in a folder. Packs that are incomplete or damaged are left out.
    pub fn load(folder: &Path) -> Self {
        let Ok(entries) = private::list_folder(folder) else {
            return Self::default();
        };
        let mut indices: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "index"))
            .collect();
        indices.sort();
        Self(indices.into_iter().filter_map(Pack::load).collect())
    }

    /// Returns whether some content is in a pack; does not check whether it is undamaged.
    pub fn has(&self, hash: ContentHash) -> bool {
        self.0.iter().any(|pack| pack.place(hash).is_some())
    }

    /// Returns some content, which may be damaged; `None` if no pack has it.
    pub fn get(&self, hash: ContentHash) -> Option<Vec<u8>> {
        let mut found = self.0.iter().filter_map(|pack| Some((pack, pack.place(hash)?)));
        found.find_map(|(pack, place)| read(&private::open(&pack.pack).ok()?, place).ok())
    }

    /// Removes the packs without wanted contents, replaces those that consist mostly of unwanted
    /// ones, and removes the remains of incomplete packs. Nothing may be writing a pack.
    ///
    /// # Errors
    /// When something cannot be read, written or removed.
    pub fn retain(folder: &Path, wanted: impl Fn(ContentHash) -> bool) -> io::Result<()> {
        for pack in Self::load(folder).0 {
            let kept: Vec<_> = pack.entries.iter().filter(|(hash, _)| wanted(*hash)).collect();
            let kept_bytes: u64 = kept.iter().map(|(_, place)| u64::from(place.bytes)).sum();
            if kept.len() == pack.entries.len() || kept_bytes > pack.bytes / 2 {
                continue;
            }
            if !kept.is_empty() {
                let file = private::open(&pack.pack)?;
                let mut writer = PackWriter::create(folder)?;
                for (hash, place) in kept {
                    writer.add(*hash, &read(&file, *place)?)?;
                }
                writer.finish()?;
            }
            std::fs::remove_file(&pack.index)?;
            std::fs::remove_file(&pack.pack)?;
        }
        let complete = Self::load(folder).0;
        for entry in private::list_folder(folder).into_iter().flatten() {
            let path = entry?.path();
            let is_complete = |pack: &Pack| [&pack.pack, &pack.index].contains(&&path);
            if !complete.iter().any(is_complete) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

impl Pack {
    /// Reads an index; `None` if it is damaged, or its pack is missing or has another length.
    fn load(index: PathBuf) -> Option<Self> {
        let text = private::read(&index).ok()?;
        let (body, sum) = text.split_at_checked(text.len().checked_sub(HASH_BYTES)?)?;
        let (header, entries) = body.split_at_checked(HEADER_BYTES)?;
        let (magic, bytes) = header.split_at(MAGIC.len());
        if magic != MAGIC || hash_of(body).0 != *sum {
            return None;
        }
        let bytes = u64::from_le_bytes(bytes.try_into().ok()?);
        let pack = index.with_extension("pack");
        let is_complete = pack
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() == bytes);
        let entries = entries
            .chunks_exact(ENTRY_BYTES)
            .map(entry)
            .collect::<Option<_>>()?;
        is_complete.then_some(Self {
            pack,
            index,
            bytes,
            entries,
        })
    }

    fn place(&self, hash: ContentHash) -> Option<Place> {
        let found = self.entries.binary_search_by(|(one, _)| one.cmp(&hash)).ok()?;
        self.entries.get(found).map(|(_, place)| *place)
    }
}

fn entry(bytes: &[u8]) -> Option<(ContentHash, Place)> {
    let (hash, place) = bytes.split_at_checked(HASH_BYTES)?;
    let (start, length) = place.split_at_checked(8)?;
    let place = Place {
        start: u64::from_le_bytes(start.try_into().ok()?),
        bytes: u32::from_le_bytes(length.try_into().ok()?),
    };
    Some((ContentHash(hash.try_into().ok()?), place))
}

fn read(pack: &File, place: Place) -> io::Result<Vec<u8>> {
    let length = usize::try_from(place.bytes).map_err(io::Error::other)?;
    let mut content = vec![0; length];
    pack.read_exact_at(&mut content, place.start)?;
    Ok(content)
}

/// A pack that is being written. Without [`finish`](Self::finish) it is removed.
#[derive(Debug)]
pub struct PackWriter {
    folder: PathBuf,
    id: String,
    file: BufWriter<File>,
    bytes: u64,
    entries: HashMap<ContentHash, Place>,
    is_finished: bool,
}

impl PackWriter {
    /// Starts a pack in a folder, which is created if it is missing.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(folder: &Path) -> io::Result<Self> {
        create_private_dir_all(folder)?;
        let id = uuid::Uuid::now_v7().simple().to_string();
        let file = create_new_private(&folder.join(&id).with_extension("pack"))?;
        Ok(Self {
            folder: folder.to_owned(),
            id,
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            bytes: 0,
            entries: HashMap::new(),
            is_finished: false,
        })
    }

    /// Returns whether the pack contains nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether the pack contains some content.
    pub fn has(&self, hash: ContentHash) -> bool {
        self.entries.contains_key(&hash)
    }

    /// Adds a content with its hash.
    ///
    /// # Errors
    /// When it cannot be written, or has 4 GiB or more.
    pub fn add(&mut self, hash: ContentHash, content: &[u8]) -> io::Result<()> {
        let place = Place {
            start: self.bytes,
            bytes: u32::try_from(content.len()).map_err(io::Error::other)?,
        };
        self.file.write_all(content)?;
        self.bytes += u64::from(place.bytes);
        self.entries.insert(hash, place);
        Ok(())
    }

    /// Completes the pack. As for any content, a power cut may lose it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_unstable_by_key(|(hash, _)| **hash);
        let mut index = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES + HASH_BYTES);
        index.extend_from_slice(MAGIC);
        index.extend_from_slice(&self.bytes.to_le_bytes());
        for (hash, place) in entries {
            index.extend_from_slice(&hash.0);
            index.extend_from_slice(&place.start.to_le_bytes());
            index.extend_from_slice(&place.bytes.to_le_bytes());
        }
        let sum = hash_of(&index);
        index.extend_from_slice(&sum.0);
        write_atomic_nosync(&self.path("index"), &index)?;
        self.is_finished = true;
        Ok(())
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.folder.join(&self.id).with_extension(extension)
    }
}

impl Drop for PackWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = std::fs::remove_file(self.path("pack"));
        }
    }
}
