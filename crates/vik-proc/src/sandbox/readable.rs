//! Computes the readable places. The kernel supports no exceptions within an allowed folder, so a
//! folder that contains something hidden is replaced by its other content.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// A folder that contains something hidden is hidden as a whole if it has more entries than this.
const MAX_ENTRIES: usize = 20_000;

/// How many links are followed for one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The folders of this system, as the search for readable places reads them.
pub(super) trait Folders {
    /// Called before a name is looked up in a folder. The path of the folder contains no links.
    fn on_lookup(&mut self, folder: &Path);

    /// Returns the entries of a folder except links; `None` if it cannot be listed or has too many.
    fn list(&mut self, folder: &Path) -> Option<Vec<Entry>>;
}

/// Reads folders when they are needed.
pub(super) struct Direct;

impl Folders for Direct {
    fn on_lookup(&mut self, _: &Path) {}

    fn list(&mut self, folder: &Path) -> Option<Vec<Entry>> {
        list_folder(folder)
    }
}

/// A folder that contains something hidden, and its other content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PartlyHidden {
    /// The folder. Its path contains no links if the path that was opened up contains none.
    pub(super) folder: PathBuf,
    pub(super) readable: Vec<Entry>,
}

impl PartlyHidden {
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.readable.iter().map(|entry| self.folder.join(&entry.name))
    }
}

/// An entry of a folder; never a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) is_folder: bool,
}

/// Returns the folders from the root on that contain something hidden, with what is readable in
/// each of them.
pub(super) fn all_but(hidden: &[PathBuf], source: &mut impl Folders) -> Vec<PartlyHidden> {
    let root = Path::new("/");
    let hidden = resolve(hidden, source);
    let below: Vec<&Path> = hidden
        .iter()
        .filter_map(|path| path.strip_prefix(root).ok())
        .collect();
    let mut folders = Vec::new();
    if !hidden.iter().any(|path| path == root) {
        open_up(root, &below, source, &mut folders);
    }
    folders
}

/// Returns the places of hidden files and folders: those of their names, and the targets of their
/// links.
pub fn hidden_places(hidden: &[PathBuf]) -> Vec<PathBuf> {
    resolve(hidden, &mut Direct)
}

fn resolve(hidden: &[PathBuf], source: &mut impl Folders) -> Vec<PathBuf> {
    let mut canonical = Canonical::new(source);
    hidden
        .iter()
        .flat_map(|path| places(path, &mut canonical))
        .collect()
}

/// Returns the places that cover a file or folder except the places of [`hidden_places`]: the path
/// itself, or the other content of the folder.
pub fn without_hidden(path: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if hidden.iter().any(|hidden| path.starts_with(hidden)) {
        return Vec::new();
    }
    let below = hidden.iter().filter_map(|hidden| hidden.strip_prefix(path).ok());
    let below: Vec<&Path> = below.collect();
    if below.is_empty() {
        return vec![path.to_owned()];
    }
    let mut folders = Vec::new();
    open_up(path, &below, &mut Direct, &mut folders);
    folders.iter().flat_map(PartlyHidden::paths).collect()
}

/// The canonical forms of paths that were resolved before, by path. Hidden places have few parents,
/// and each is resolved once.
struct Canonical<'a, F> {
    source: &'a mut F,
    known: HashMap<PathBuf, Option<PathBuf>>,
}

/// What a name in a folder is.
enum Found {
    Nothing,
    /// A file or folder.
    Place,
    Link(PathBuf),
}

impl<'a, F: Folders> Canonical<'a, F> {
    fn new(source: &'a mut F) -> Self {
        let known = HashMap::new();
        Self { source, known }
    }

    /// Returns the canonical form of a path that exists.
    fn of(&mut self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let found = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => {
                let parent = self.of(parent);
                parent.and_then(|parent| self.walk(parent, Path::new(name)))
            }
            _ => path
                .is_absolute()
                .then(|| self.walk(PathBuf::from("/"), path))
                .flatten(),
        };
        self.known.insert(path.to_owned(), found.clone());
        found
    }

    /// Resolves a path component by component from a folder, so that each lookup is reported. It
    /// has no recursion: an agent may have made the links.
    fn walk(&mut self, folder: PathBuf, path: &Path) -> Option<PathBuf> {
        let mut place = folder;
        let (mut parts, mut links) = (Vec::new(), 0);
        push_parts(path, &mut parts);
        while let Some(part) = parts.pop() {
            let Some(name) = part else {
                place.pop();
                continue;
            };
            match self.look_up(&place, &name) {
                Found::Nothing => return None,
                Found::Place => place.push(name),
                Found::Link(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return None;
                    }
                    if target.is_absolute() {
                        place = PathBuf::from("/");
                    }
                    push_parts(&target, &mut parts);
                }
            }
        }
        Some(place)
    }

    fn look_up(&mut self, folder: &Path, name: &OsStr) -> Found {
        self.source.on_lookup(folder);
        let place = folder.join(name);
        match place.symlink_metadata() {
            Ok(facts) if facts.is_symlink() => place.read_link().map_or(Found::Nothing, Found::Link),
            Ok(_) => Found::Place,
            Err(_) => Found::Nothing,
        }
    }
}

/// Adds the names of a path in reverse order. `None` is the parent folder.
fn push_parts(path: &Path, parts: &mut Vec<Option<OsString>>) {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(Some(name.to_owned())),
        Component::ParentDir => Some(None),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.extend(names);
}

/// Returns the current target of a path, and the place of its name, as the link may be replaced.
fn places(path: &Path, canonical: &mut Canonical<'_, impl Folders>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    places.extend(canonical.of(path));
    // A path that does not exist yet is hidden by its name in the closest existing folder.
    let mut missing: Vec<&OsStr> = Vec::new();
    for folder in path.ancestors() {
        match (
            folder.file_name(),
            folder.parent().map(|parent| canonical.of(parent)),
        ) {
            (Some(name), Some(Some(parent))) => {
                let mut place = parent.join(name);
                place.extend(missing.iter().rev());
                places.push(place);
                break;
            }
            (Some(name), _) => missing.push(name),
            (None, _) => break,
        }
    }
    places.retain(|place| !place.components().any(|part| part == Component::ParentDir));
    places.dedup();
    places
}

/// Adds a folder that contains something hidden, and those below it. `hidden` are its places below
/// the folder.
fn open_up(folder: &Path, hidden: &[&Path], source: &mut impl Folders, folders: &mut Vec<PartlyHidden>) {
    let mut by_name: HashMap<&OsStr, Vec<&Path>> = HashMap::new();
    for hidden in hidden {
        let mut parts = hidden.components();
        if let Some(name) = parts.next() {
            by_name.entry(name.as_os_str()).or_default().push(parts.as_path());
        }
    }
    let Some(entries) = source.list(folder) else {
        return;
    };
    let mut readable = Vec::new();
    for entry in entries {
        match by_name.get(&*entry.name) {
            None => readable.push(entry),
            Some(below) if below.iter().any(|below| below.as_os_str().is_empty()) => {}
            Some(below) if entry.is_folder => {
                open_up(&folder.join(&entry.name), below, source, folders);
            }
            Some(_) => {}
        }
    }
    folders.push(PartlyHidden {
        folder: folder.to_owned(),
        readable,
    });
}

/// Returns the entries of a folder except links; `None` if it cannot be listed or has more than
/// [`MAX_ENTRIES`]. A link is readable if its target is; a rule for the link would make the target
/// readable.
#[expect(
    clippy::disallowed_methods,
    reason = "lists a folder; no link is entered, and its size is bounded"
)]
pub(super) fn list_folder(folder: &Path) -> Option<Vec<Entry>> {
    let entries: Vec<_> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .take(MAX_ENTRIES + 1)
        .collect();
    if entries.len() > MAX_ENTRIES {
        return None;
    }
    let entry = |entry: std::fs::DirEntry| {
        let kind = entry.file_type().ok().filter(|kind| !kind.is_symlink())?;
        Some(Entry {
            name: entry.file_name(),
            is_folder: kind.is_dir(),
        })
    };
    Some(entries.into_iter().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_omits_only_the_hidden_places() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["home/keys/deep", "home/code/src", "home/later", "data/real"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("home/file"), "").unwrap();
        std::os::unix::fs::symlink(root.join("home/keys"), root.join("home/way-in")).unwrap();
        std::os::unix::fs::symlink("../data/../data/./real", root.join("home/linked")).unwrap();
        for (from, to) in [("a", "home/b"), ("b", "home/a"), ("c", "home/no")] {
            std::os::unix::fs::symlink(root.join(to), root.join("home").join(from)).unwrap();
        }
        let hidden = [
            "home/keys",
            "home/linked/",
            "home/later/not/yet",
            "home/a/x",
            "home/c",
        ]
        .map(|path| root.join(path));
        let readable: Vec<PathBuf> = all_but(&hidden, &mut Direct)
            .iter()
            .flat_map(PartlyHidden::paths)
            .collect();
        let may = |path: &str| {
            let path = root.join(path);
            readable.iter().any(|open| path.starts_with(open))
        };
        for open in ["home/code/src", "home/file"] {
            assert!(may(open), "{open}");
        }
        for shut in [
            "home/keys",
            "home/keys/deep",
            "home/way-in",
            "home/linked",
            "data/real",
            "home/later/not",
            "home/new",
            "home",
        ] {
            assert!(!may(shut), "{shut}: {readable:?}");
        }
        assert!(
            readable
                .iter()
                .any(|open| Path::new("/usr/bin").starts_with(open))
        );
        assert_eq!(
            hidden_places(&[root.join("home/../data/../home/a/..")]),
            Vec::<PathBuf>::new()
        );
        assert_eq!(
            hidden_places(&[root.join("home/linked/new")]),
            [root.join("data/real/new")]
        );
        assert_eq!(all_but(&["/".into()], &mut Direct), []);
        assert_eq!(without_hidden(Path::new("/"), &[]), [Path::new("/")]);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

        #[test]
        fn file_is_readable_exactly_outside_of_hidden_places(
            picks in proptest::collection::vec((0usize..40, proptest::bool::ANY), 0..6),
            start in 0usize..40,
        ) {
            let root = tempfile::tempdir().unwrap();
            let root = root.path().canonicalize().unwrap();
            let mut all = vec![root.clone()];
            for (a, b, c) in [0, 1, 2].iter().flat_map(|a| [0, 1].map(|b| (a, b))).flat_map(|(a, b)| [0, 1].map(|c| (a, b, c))) {
                let folder = root.join(format!("d{a}/d{b}"));
                std::fs::create_dir_all(&folder).unwrap();
                let file = folder.join(format!("f{c}"));
                std::fs::write(&file, "").unwrap();
                all.extend([folder.parent().unwrap().to_owned(), folder, file]);
            }
            let hidden: Vec<PathBuf> = picks
                .iter()
                .map(|&(at, is_missing)| {
                    let path = all[at % all.len()].clone();
                    if is_missing && path.is_dir() {
                        path.join("missing")
                    } else {
                        path
                    }
                })
                .collect();
            let start = &all[start % all.len()];
            let readable = without_hidden(start, &hidden);
            for file in all.iter().filter(|path| path.is_file() && path.starts_with(start)) {
                let is_readable = readable.iter().any(|open| file.starts_with(open));
                let is_hidden = hidden.iter().any(|hidden| file.starts_with(hidden));
                proptest::prop_assert_eq!(is_readable, !is_hidden, "{}", file.display());
            }
            for open in &readable {
                proptest::prop_assert!(open.starts_with(start));
                proptest::prop_assert!(!hidden.iter().any(|hidden| hidden.starts_with(open)), "{}", open.display());
            }
        }
    }
}
