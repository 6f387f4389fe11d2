//! The snapshot of a workspace: taken by open folders, without following a link, without running
//! anything.

mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Read};
use std::ops::Bound;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use ring::digest::{Context, SHA256};
use vik_core::file_change::{ContentHash, RelPath, Side};
use vik_proc::untrusted;

use super::ignored::{Rules, Stack};
use super::store::{Batch, Store, from_digest, hash_of};
use crate::fs::{FOLDER, file_type};

pub use self::snapshot::{Bounds, Mark, MarkKind, Snapshot, SnapshotEntry, Stamp};

/// The options of a snapshot.
pub struct SnapshotOptions<'a> {
    /// The store for contents.
    pub store: &'a Store,
    /// An earlier snapshot: files that were not touched since are not read again.
    pub earlier: Option<&'a Snapshot>,
    /// Files that are included although rules leave them out, as are those of the earlier
    /// snapshot.
    pub tracked: BTreeSet<Vec<u8>>,
    /// The rules that apply; `None` for those in the workspace.
    pub rules: Option<&'a Rules>,
    /// The repository's own ignore list, if it has one.
    pub exclude: Option<String>,
    pub bounds: Bounds,
}

impl SnapshotOptions<'_> {
    /// Takes the snapshot. Blocks.
    ///
    /// # Errors
    /// When the folder itself cannot be read, or contents cannot be stored.
    pub fn take(self, workspace: impl AsFd) -> io::Result<Snapshot> {
        let mut found = Snapshot {
            marks: Some(BTreeMap::new()),
            rules: self.rules.cloned().unwrap_or_default(),
            taken_at: now(),
            ..Snapshot::default()
        };
        let hash = self.exclude.as_ref().map(|text| hash_of(text.as_bytes()));
        found.exclude = hash;
        if self.rules.is_none() {
            // If the list is as an attempt left it, the one from before that attempt applies.
            let unchanged = self
                .earlier
                .filter(|earlier| hash.is_some() && earlier.exclude == hash);
            let text = unchanged.map_or(self.exclude.as_deref(), |earlier| earlier.rules.exclude());
            found.rules.set_exclude(text);
        }
        let dir = openat(workspace, ".", FOLDER, Mode::empty())?;
        let mut walk = Walk {
            contents: self.store.batch(self.bounds.own_files),
            options: self,
            found,
            rules: Stack::default(),
            files: Vec::new(),
            path: Vec::new(),
            buffer: Vec::new(),
            entries: 0,
            kept: 0,
        };
        walk.folder(&dir, 0, false)?;
        walk.contents.finish()?;
        Ok(Snapshot {
            files: walk.files.into_iter().collect(),
            ..walk.found
        })
    }
}

/// The name of a rules file.
const RULES: &[u8] = b".gitignore";

/// The size limit of a rules file. A larger one counts as missing.
const MAX_RULES_BYTES: u64 = 1024 * 1024;

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

struct Walk<'a> {
    options: SnapshotOptions<'a>,
    contents: Batch<'a>,
    /// The snapshot without its files.
    found: Snapshot,
    files: Vec<(RelPath, SnapshotEntry)>,
    rules: Stack,
    /// The path of the current entry.
    path: Vec<u8>,
    /// The content of a file.
    buffer: Vec<u8>,
    entries: usize,
    kept: u64,
}

impl Walk<'_> {
    /// Walks through a folder. With `hidden`, rules leave it out, so only wanted files are
    /// included.
    fn folder(&mut self, dir: &OwnedFd, depth: usize, hidden: bool) -> io::Result<()> {
        let rules = self.rules.len();
        if !hidden {
            self.enter(dir);
        }
        let names = match self.names(dir) {
            Ok(names) => names,
            Err(_) if depth > 0 => {
                self.unseen();
                self.rules.cut(rules);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let len = self.path.len();
        for name in names {
            if len > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.to_bytes());
            let seen = self.entry(dir, &name, depth, hidden);
            self.path.truncate(len);
            seen?;
        }
        self.rules.cut(rules);
        Ok(())
    }

    /// Adds the rules of a folder.
    fn enter(&mut self, dir: &OwnedFd) {
        if self.options.rules.is_none()
            && let Ok(text) = untrusted::read_at(dir, Path::new(".gitignore"), MAX_RULES_BYTES)
        {
            let mut file = self.path.clone();
            if !file.is_empty() {
                file.push(b'/');
            }
            file.extend_from_slice(RULES);
            let hash = Some(hash_of(&text));
            let unchanged = self.options.earlier.filter(|earlier| {
                let file = earlier.files.get(file.as_slice());
                file.is_some_and(|found| found.side.hash == hash)
            });
            match unchanged {
                None => self.found.rules.set(&self.path, &text),
                // The file is as an attempt left it: the rules from before that attempt apply.
                Some(earlier) => {
                    if let Some(text) = earlier.rules.text(&self.path) {
                        self.found.rules.set(&self.path, text.as_bytes());
                    }
                }
            }
        }
        if let Some(rules) = self.found.rules.of(&self.path) {
            let below = self.path.len() + usize::from(!self.path.is_empty());
            self.rules.push(below, rules);
        }
    }

    /// Returns the names in a folder, sorted, without the workspace's own repository.
    fn names(&mut self, dir: &OwnedFd) -> io::Result<Vec<CString>> {
        let mut reader = Dir::from_fd(openat(dir, ".", FOLDER, Mode::empty())?)?;
        let mut names = Vec::new();
        for entry in reader.iter() {
            let entry = entry?;
            let name = entry.file_name();
            let is_own_repository = self.path.is_empty() && name.to_bytes() == b".git";
            if matches!(name.to_bytes(), b"." | b"..") || is_own_repository {
                continue;
            }
            self.entries += 1;
            if self.entries <= self.options.bounds.entries || self.is_wanted_in(name) {
                names.push(name.to_owned());
            } else {
                self.found.crowded.insert(RelPath::new(self.path.as_slice()));
            }
        }
        names.sort();
        Ok(names)
    }

    fn is_wanted_in(&mut self, name: &CStr) -> bool {
        let len = self.path.len();
        if len > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
        let wanted = self.is_wanted(false) || self.is_wanted(true);
        self.path.truncate(len);
        wanted
    }

    fn entry(&mut self, dir: &OwnedFd, name: &CStr, depth: usize, hidden: bool) -> io::Result<()> {
        let stat = match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(()),
            Err(_) => {
                self.unseen();
                return Ok(());
            }
        };
        let kind = file_type(&stat);
        // Rules cannot hide rules files.
        let is_rules = name.to_bytes() == RULES;
        let hidden = hidden || (!is_rules && self.rules.hides(&self.path, kind == SFlag::S_IFDIR));
        if hidden && !self.is_wanted(kind == SFlag::S_IFDIR) {
            return Ok(());
        }
        match kind {
            SFlag::S_IFDIR => match openat(dir, name, FOLDER, Mode::empty()) {
                Ok(_) if depth >= self.options.bounds.depth => self.unseen(),
                Ok(inner) => {
                    if !hidden {
                        self.mark_open(&inner, &stat, MarkKind::Folder);
                    }
                    return self.folder(&inner, depth + 1, hidden);
                }
                Err(_) => self.unseen(),
            },
            SFlag::S_IFREG => return self.file(dir, name, &stat),
            SFlag::S_IFLNK => match readlinkat(dir, name) {
                Ok(target) => {
                    let hash = self.contents.put(target.as_bytes())?;
                    self.add(&stat, target.len() as u64, Some(hash), true);
                }
                Err(_) => self.unseen(),
            },
            SFlag::S_IFIFO => self.mark(&stat, MarkKind::Pipe, None),
            SFlag::S_IFSOCK => self.mark(&stat, MarkKind::Socket, None),
            #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
            _ => self.mark(&stat, MarkKind::Device(stat.st_rdev as u64), None),
        }
        Ok(())
    }

    /// Returns whether a path that rules leave out is wanted, or anything below it.
    fn is_wanted(&self, is_folder: bool) -> bool {
        let tracked = &self.options.tracked;
        let earlier = self.options.earlier.map(|earlier| &earlier.files);
        if !is_folder {
            let path = self.path.as_slice();
            return tracked.contains(path) || earlier.is_some_and(|files| files.contains_key(path));
        }
        let mut below = self.path.clone();
        below.push(b'/');
        let from = (Bound::Included(below.as_slice()), Bound::Unbounded);
        let next_tracked = tracked.range::<[u8], _>(from).next().map(Vec::as_slice);
        let next_earlier = earlier.and_then(|files| files.range::<[u8], _>(from).next());
        let next_earlier = next_earlier.map(|(path, _)| path.as_bytes());
        let mut next = next_tracked.into_iter().chain(next_earlier);
        next.any(|path| path.starts_with(&below))
    }

    fn file(&mut self, dir: &OwnedFd, name: &CStr, stat: &FileStat) -> io::Result<()> {
        let stamp = Stamp::of(stat);
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let earlier = self
            .options
            .earlier
            .and_then(|earlier| Some((earlier, earlier.files.get(self.path.as_slice())?)));
        if let Some((earlier, previous)) = earlier
            && previous.stamp == stamp
            && previous.side.size == size
            && !previous.side.link
            && stamp.is_settled(earlier.taken_at)
            && self.still_kept(&previous.side)
            && let Some(marks) = &earlier.marks
        {
            let hash = previous.side.hash;
            let path = RelPath::new(self.path.as_slice());
            if let Some(mark) = marks.get(&path) {
                self.found.marks.get_or_insert_default().insert(path, *mark);
            }
            self.add(stat, size, hash, false);
            return Ok(());
        }
        let Ok((file, stat)) = untrusted::open_examined(dir, OsStr::from_bytes(name.to_bytes()), stat) else {
            self.unseen();
            return Ok(());
        };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        self.mark_open(&file, &stat, MarkKind::File);
        match self.content(file, size)? {
            Some((size, hash)) => self.add(&stat, size, hash, false),
            None => self.unseen(),
        }
        Ok(())
    }

    /// Returns whether the content is in the store, if the file is small enough to have lines.
    fn still_kept(&self, side: &Side) -> bool {
        let bounds = &self.options.bounds;
        match side.hash {
            Some(hash) if side.size <= bounds.kept => self.contents.has(hash),
            _ => true,
        }
    }

    /// Reads a file and returns its size and its hash; `None` if it cannot be read.
    fn content(
        &mut self,
        mut file: std::fs::File,
        size: u64,
    ) -> io::Result<Option<(u64, Option<ContentHash>)>> {
        let bounds = self.options.bounds;
        if size > bounds.hashed {
            return Ok(Some((size, None)));
        }
        if size <= bounds.kept {
            self.buffer.clear();
            self.buffer.reserve(usize::try_from(size).unwrap_or(0));
            if (&mut file)
                .take(bounds.kept)
                .read_to_end(&mut self.buffer)
                .is_err()
            {
                return Ok(None);
            }
            let size = self.buffer.len() as u64;
            self.kept += size;
            let hash = if self.kept <= bounds.all_kept {
                self.contents.put(&self.buffer)?
            } else {
                hash_of(&self.buffer)
            };
            return Ok(Some((size, Some(hash))));
        }
        let mut sum = Context::new(&SHA256);
        let mut buffer = vec![0; 256 * 1024];
        let mut read = 0;
        let mut file = file.take(bounds.hashed);
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(Some((read, Some(from_digest(&sum.finish()))))),
                Ok(count) => {
                    sum.update(&buffer[..count]);
                    read += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(None),
            }
        }
    }

    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    fn add(&mut self, stat: &FileStat, size: u64, hash: Option<ContentHash>, link: bool) {
        let found = SnapshotEntry {
            side: Side {
                mode: stat.st_mode as u32 & 0o7777,
                size,
                hash,
                link,
            },
            stamp: Stamp::of(stat),
        };
        self.files.push((RelPath::new(self.path.as_slice()), found));
    }

    /// Marks an open file or folder; a file only if it has extended attributes.
    fn mark_open(&mut self, open: impl AsFd, stat: &FileStat, kind: MarkKind) {
        match untrusted::attributes(open) {
            Ok(attributes) if attributes.is_empty() && kind == MarkKind::File => {}
            Ok(attributes) => {
                let hash = (!attributes.is_empty()).then(|| hash_of(&attributes));
                self.mark(stat, kind, hash);
            }
            Err(_) => self.unseen(),
        }
    }

    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    fn mark(&mut self, stat: &FileStat, kind: MarkKind, attributes: Option<ContentHash>) {
        let mode = match kind {
            MarkKind::File => 0,
            _ => stat.st_mode as u32 & 0o7777,
        };
        let mark = Mark {
            kind,
            mode,
            attributes,
        };
        let marks = self.found.marks.get_or_insert_default();
        marks.insert(RelPath::new(self.path.as_slice()), mark);
    }

    fn unseen(&mut self) {
        self.found.unseen.insert(RelPath::new(self.path.as_slice()));
    }
}
