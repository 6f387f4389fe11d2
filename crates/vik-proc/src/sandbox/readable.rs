//! What may be read where most may: the kernel takes no exceptions from a folder, so a folder that holds something hidden
//! is replaced by what else is in it.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// A folder that holds more than this and something hidden is hidden as a whole.
const MAX_ENTRIES: usize = 20_000;

/// Everything, but for what is hidden.
pub(super) fn all_but(hidden: &[PathBuf]) -> Vec<PathBuf> {
    without_hidden(Path::new("/"), &hidden_places(hidden))
}

/// Where hidden files and folders are: the places of their names, and where these lead now.
pub fn hidden_places(hidden: &[PathBuf]) -> Vec<PathBuf> {
    hidden.iter().flat_map(|path| places(path)).collect()
}

/// A file or folder without what is hidden in it, by [`hidden_places`]: itself, or what else is in it.
pub fn without_hidden(path: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut open = Vec::new();
    open_up(path, hidden, &mut open);
    open
}

/// Where a path leads now, and where its name stands: it may be replaced.
fn places(path: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    places.extend(path.canonicalize().ok());
    // What is not there yet is hidden by its name in the folder that is there.
    let mut rest: Vec<&OsStr> = Vec::new();
    for folder in path.ancestors() {
        match (folder.file_name(), folder.parent().map(Path::canonicalize)) {
            (Some(name), Some(Ok(parent))) => {
                let mut place = parent.join(name);
                place.extend(rest.iter().rev());
                places.push(place);
                break;
            }
            (Some(name), _) => rest.push(name),
            (None, _) => break,
        }
    }
    places.retain(|place| !place.components().any(|part| part == Component::ParentDir));
    places.dedup();
    places
}

#[expect(
    clippy::disallowed_methods,
    reason = "lists folders; no link is entered, and their size is bounded"
)]
fn open_up(folder: &Path, hidden: &[PathBuf], readable: &mut Vec<PathBuf>) {
    if hidden.iter().any(|hidden| folder.starts_with(hidden)) {
        return;
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(folder)) {
        readable.push(folder.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let entries: Vec<_> = entries.flatten().take(MAX_ENTRIES + 1).collect();
    if entries.len() > MAX_ENTRIES {
        return;
    }
    for entry in entries {
        // A link is followed where it leads to; a rule for it would open what it leads to.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            open_up(&entry.path(), hidden, readable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_left_out_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["home/keys/deep", "home/code/src", "home/later", "data/real"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("home/file"), "").unwrap();
        std::os::unix::fs::symlink(root.join("home/keys"), root.join("home/way-in")).unwrap();
        std::os::unix::fs::symlink(root.join("data/real"), root.join("home/linked")).unwrap();
        let hidden = ["home/keys", "home/linked", "home/later/not/yet"].map(|path| root.join(path));
        let readable = all_but(&hidden);
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
        assert_eq!(all_but(&[]), [Path::new("/")]);
    }
}
