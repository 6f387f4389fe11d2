//! Keeps the readable places of sandboxes open between starts. The template of shims lists the
//! partly hidden folders once and opens what is readable in them; each shim inherits the
//! descriptors, and only makes rules of them.
//!
//! A folder is listed again when the kernel has reported a change of its names, which it does before
//! the change returns to whoever made it. Everything is listed again after a change of mounts. Where
//! changes are not reported, nothing is kept, and the shim lists the folders itself.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use super::changes::{ChangeWatch, Changes};
use super::files::{self, Place};
use crate::sandbox::readable::{Entry, Folders, PartlyHidden, all_but, list_folder};
use crate::sandbox::{Backend, Reads, Sandbox};
use crate::sys;

/// The longest list that is sent to the template, in bytes.
pub(crate) const MAX_LIST: usize = 64 * 1024;
/// How many lists of hidden places are in use at a time: usually one for each kind of agent.
const MAX_LISTS: usize = 8;
/// The share of the descriptors of a process that may be kept open.
const DESCRIPTOR_SHARE: u64 = 4;

/// The hidden places of a sandbox as they are sent to the template: each path ends with a NUL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HiddenList(Vec<u8>);

impl HiddenList {
    /// Returns the list of a sandbox whose shim needs the readable places.
    pub(crate) fn of(sandbox: &Sandbox) -> Option<Self> {
        let Reads::AllBut { hidden, .. } = &sandbox.read else {
            return None;
        };
        if sandbox.backend != Backend::Landlock || hidden.is_empty() {
            return None;
        }
        let mut list = Vec::new();
        for path in hidden {
            let path = path.as_os_str().as_bytes();
            // Such a path does not exist, and would be read as two.
            if path.contains(&0) {
                return None;
            }
            list.extend_from_slice(path);
            list.push(0);
        }
        (list.len() <= MAX_LIST).then_some(Self(list))
    }

    /// Returns the list that was received, if there is one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        (bytes.last() == Some(&0)).then(|| Self(bytes.to_owned()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn paths(&self) -> Vec<PathBuf> {
        let paths = self.0.split_inclusive(|&byte| byte == 0);
        let path = |bytes: &[u8]| OsString::from_vec(bytes.strip_suffix(b"\0").unwrap_or(bytes).to_owned());
        paths.map(|bytes| PathBuf::from(path(bytes))).collect()
    }
}

/// The readable places of one list, in a shim that was forked from the template. The descriptors
/// that were kept for all lists are closed with it.
#[derive(Debug)]
pub(crate) struct OpenedPlaces {
    kept: Option<Box<KeptPlaces>>,
    list: HiddenList,
}

impl OpenedPlaces {
    /// Returns the readable places if they are those of this sandbox.
    pub(super) fn of(&self, sandbox: &Sandbox) -> Option<&[Rc<Place>]> {
        let places = self.kept.as_ref()?.lists.get(&self.list)?.as_ref()?;
        (HiddenList::of(sandbox).as_ref() == Some(&self.list)).then_some(places)
    }
}

impl Drop for OpenedPlaces {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            kept.close_in_child();
        }
    }
}

/// What the template keeps open.
#[derive(Debug)]
pub(crate) struct KeptPlaces {
    watch: Option<ChangeWatch>,
    folders: HashMap<PathBuf, KeptFolder>,
    /// The readable places of each list; `None` where they cannot be kept.
    lists: HashMap<HiddenList, Option<Vec<Rc<Place>>>>,
    /// The descriptors that are open, as ranges of numbers.
    open: Vec<(RawFd, RawFd)>,
    max_descriptors: usize,
}

/// A listed folder, and those of its entries that are open, by name.
#[derive(Debug)]
struct KeptFolder {
    entries: Vec<Entry>,
    opened: HashMap<OsString, Rc<Place>>,
}

impl KeptPlaces {
    pub(crate) fn new() -> Self {
        let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft / DESCRIPTOR_SHARE);
        Self {
            watch: None,
            folders: HashMap::new(),
            lists: HashMap::new(),
            open: Vec::new(),
            max_descriptors: usize::try_from(soft).unwrap_or(usize::MAX),
        }
    }

    /// Returns whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.open.is_empty()
    }

    /// Closes everything. An open descriptor keeps a removed file on its disk, and a file system
    /// mounted.
    pub(crate) fn clear(&mut self) {
        self.watch = None;
        self.folders = HashMap::new();
        self.lists = HashMap::new();
        self.open = Vec::new();
    }

    /// Opens the readable places of a list, or checks that they are still those that are open.
    pub(crate) fn prepare(&mut self, list: &HiddenList) {
        self.drop_changed();
        if self.lists.contains_key(list) {
            return;
        }
        if self.lists.len() >= MAX_LISTS {
            self.clear();
        }
        let places = self.open(list);
        if places.is_none() {
            self.clear();
        }
        self.find_descriptors();
        // A change during the search may or may not have been seen.
        if !self.drop_changed() {
            self.lists.insert(list.clone(), places);
        }
    }

    /// Hands the places of a list over to a shim, which is a copy of this process. Without such
    /// places, it closes what the shim has inherited.
    pub(crate) fn in_child(self: Box<Self>, list: Option<HiddenList>) -> Option<OpenedPlaces> {
        match list.filter(|list| self.lists.get(list).is_some_and(Option::is_some)) {
            Some(list) => Some(OpenedPlaces {
                kept: Some(self),
                list,
            }),
            None => {
                self.close_in_child();
                None
            }
        }
    }

    /// Closes all descriptors in a copy of this process. Memory is not freed: it is shared with the
    /// template as long as it is not written to.
    fn close_in_child(self: Box<Self>) {
        sys::close_ranges(&self.open);
        std::mem::forget(self);
    }

    /// Drops what has changed. Returns whether there was anything.
    fn drop_changed(&mut self) -> bool {
        let Some(watch) = &mut self.watch else {
            return false;
        };
        match watch.take() {
            Changes::None => return false,
            Changes::Unknown => self.clear(),
            Changes::Folders(changed) => {
                // The folders below may be others now.
                for folder in changed {
                    watch.remove_below(&folder);
                    self.folders.retain(|path, _| !path.starts_with(&folder));
                }
                self.lists.clear();
                self.find_descriptors();
            }
        }
        true
    }

    /// Returns the readable places; `None` if they cannot be kept.
    fn open(&mut self, list: &HiddenList) -> Option<Vec<Rc<Place>>> {
        if self.watch.is_none() {
            self.watch = Some(ChangeWatch::new()?);
        }
        let mut search = Search {
            watch: self.watch.as_mut()?,
            folders: &mut self.folders,
            is_complete: true,
        };
        let parts = all_but(&list.paths(), &mut search);
        if !search.is_complete {
            return None;
        }
        let mut count: usize = self.folders.values().map(|folder| folder.opened.len()).sum();
        let mut places = Vec::new();
        for PartlyHidden { folder, readable } in parts {
            let kept = self.folders.get_mut(&folder)?;
            let mut handle = None;
            for entry in readable {
                if let Some(place) = kept.opened.get(&entry.name) {
                    places.push(Rc::clone(place));
                    continue;
                }
                let handle = match &handle {
                    Some(handle) => handle,
                    None => handle.insert(files::open_place(&folder).ok()?),
                };
                let place = match files::open_entry(handle, &entry) {
                    Ok(place) => Rc::new(place),
                    // It was removed meanwhile, or may not be opened: there is no rule for it.
                    Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => continue,
                    Err(_) => return None,
                };
                count += 1;
                if count > self.max_descriptors {
                    return None;
                }
                kept.opened.insert(entry.name, Rc::clone(&place));
                places.push(place);
            }
        }
        Some(places)
    }

    fn find_descriptors(&mut self) {
        let opened = self.folders.values().flat_map(|folder| folder.opened.values());
        let opened = opened.map(|place| place.as_fd());
        let watch = self.watch.iter().flat_map(ChangeWatch::descriptors);
        self.open = ranges(opened.chain(watch).map(|fd| fd.as_raw_fd()).collect());
    }
}

/// A search for readable places in folders that are kept or have to be listed.
struct Search<'a> {
    watch: &'a mut ChangeWatch,
    folders: &'a mut HashMap<PathBuf, KeptFolder>,
    /// Whether every change of what was found would be reported.
    is_complete: bool,
}

impl Folders for Search<'_> {
    fn on_lookup(&mut self, folder: &Path) {
        self.is_complete &= self.watch.add(folder);
    }

    fn list(&mut self, folder: &Path) -> Option<Vec<Entry>> {
        // What changes after this is reported, before the folder is listed or later.
        self.on_lookup(folder);
        if let Some(kept) = self.folders.get(folder) {
            return Some(kept.entries.clone());
        }
        let Some(entries) = list_folder(folder) else {
            self.is_complete = false;
            return None;
        };
        let kept = KeptFolder {
            entries: entries.clone(),
            opened: HashMap::new(),
        };
        self.folders.insert(folder.to_owned(), kept);
        Some(entries)
    }
}

/// Returns the ranges, with both ends, that consist of these numbers.
fn ranges(mut numbers: Vec<RawFd>) -> Vec<(RawFd, RawFd)> {
    numbers.sort_unstable();
    let mut ranges: Vec<(RawFd, RawFd)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

#[cfg(test)]
#[path = "opened/tests.rs"]
mod tests;
