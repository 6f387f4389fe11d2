//! The paths that a workflow writes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::ConfineError;

/// The most links on the way to one place, as in the kernel.
const MAX_LINKS: usize = 40;

/// What in a path begins a pattern.
const PATTERN: [char; 4] = ['*', '?', '[', '{'];

/// The place of a path that is relative to the workspace, absolute, or below the home directory. Of a pattern, the folder
/// before the first part that is one.
pub(super) fn resolve(workdir: &Path, home: Option<&Path>, path: &str) -> PathBuf {
    let plain: PathBuf = Path::new(path)
        .components()
        .take_while(|part| !part.as_os_str().to_string_lossy().contains(PATTERN))
        .collect();
    match (plain.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => workdir.join(plain),
    }
}

/// The same, for what may be written: a path of the workspace must not lead out of it, whatever its agents have put there.
pub(super) fn below(workdir: &Path, home: Option<&Path>, path: &str) -> Option<PathBuf> {
    let place = resolve(workdir, home, path);
    if !place.starts_with(workdir) {
        return Some(place);
    }
    let root = workdir.canonicalize().ok()?;
    let found = match place.canonicalize() {
        Ok(found) => found,
        // A folder that is named is made: the kernel can only open what is there.
        Err(_) => {
            let there = place.ancestors().find_map(|folder| folder.canonicalize().ok())?;
            if !there.starts_with(&root) {
                return None;
            }
            let is_file = Path::new(path).extension().is_some();
            let folder = if is_file { place.parent()? } else { &place };
            std::fs::create_dir_all(folder).ok()?;
            folder.canonicalize().ok()?
        }
    };
    found.starts_with(&root).then_some(found)
}

/// Where a path leads, without a link that an agent could have put on the way.
///
/// `writable` are the folders in which agents write: a link in one of them is an agent's, whoever made it, and followed only
/// where the way ends within `workdir`, which is open anyway. The result has no links left, so that it can be opened without
/// following any; the part of it that does not exist yet stays as it is written.
///
/// # Errors
/// When there is such a link, or a circle of links.
pub(super) fn follow(path: &Path, workdir: &Path, writable: &[PathBuf]) -> Result<PathBuf, ConfineError> {
    let words = |path: &Path| -> Vec<OsString> {
        let parts = path
            .components()
            .filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut rest: VecDeque<OsString> = words(path).into();
    let (mut place, mut links) = (PathBuf::from("/"), 0);
    let mut planted = None;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            place.pop();
            continue;
        }
        let next = place.join(name);
        let Ok(target) = std::fs::read_link(&next) else {
            place = next;
            continue;
        };
        links += 1;
        if links > MAX_LINKS || writable.iter().any(|folder| place.starts_with(folder)) {
            planted = planted.or(Some(next));
        }
        if links > MAX_LINKS {
            break;
        }
        if target.is_absolute() {
            place = PathBuf::from("/");
        }
        words(&target)
            .into_iter()
            .rev()
            .for_each(|word| rest.push_front(word));
    }
    match planted {
        Some(link) if links > MAX_LINKS || !place.starts_with(workdir) => Err(ConfineError::PlantedLink {
            path: path.to_owned(),
            link,
        }),
        _ => Ok(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_where_it_says() {
        let (workdir, home) = (Path::new("/w"), Some(Path::new("/h")));
        for (written, place) in [
            ("src", "/w/src"),
            ("src/**/*.rs", "/w/src"),
            ("**", "/w"),
            ("/abs/x*", "/abs"),
            ("~/.cache/tool", "/h/.cache/tool"),
            ("~", "/h"),
            ("./a/./b", "/w/a/b"),
        ] {
            assert_eq!(resolve(workdir, home, written), Path::new(place), "{written}");
        }
    }

    #[test]
    fn what_is_written_in_the_workspace_stays_in_it() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("w"), root.path().join("out"));
        std::fs::create_dir_all(inside.join("src")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("trap")).unwrap();
        let inside = inside.canonicalize().unwrap();
        let may = |path: &str| below(&inside, None, path);
        assert_eq!(may("src/**"), Some(inside.join("src")));
        assert_eq!(may("new/deep/**"), Some(inside.join("new/deep")));
        assert_eq!(may("docs/page.md"), Some(inside.join("docs")));
        assert_eq!(may("trap"), None);
        assert_eq!(may("trap/new/*"), None);
        assert!(!outside.join("new").exists());
    }

    #[test]
    fn links_of_the_user_are_followed_and_those_of_agents_are_not() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["home/.ssh", "data/cache", "home/open/deep", "work/real"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (target, link) in [
            ("data/cache", "home/.cache"),
            ("home", "data/cache/pip"),
            ("home/.ssh", "home/open/deep/keys"),
            ("work/real", "work/alias"),
            ("home/.ssh", "work/out"),
            ("loop", "loop"),
        ] {
            std::os::unix::fs::symlink(root.join(target), root.join(link)).unwrap();
        }
        std::os::unix::fs::symlink("deep/../../.ssh", root.join("home/open/relative")).unwrap();
        let writable = ["data/cache", "home/open", "work"].map(|path| root.join(path));
        let find = |path: &str| follow(&root.join(path), &root.join("work"), &writable).ok();
        for (path, place) in [
            ("home/.cache", "data/cache"),
            ("home/.cache/new/deep", "data/cache/new/deep"),
            ("home/open/deep", "home/open/deep"),
            ("work/alias", "work/real"),
            ("work/../home", "home"),
        ] {
            assert_eq!(find(path), Some(root.join(place)), "{path}");
        }
        for path in [
            "home/.cache/pip",
            "home/.cache/pip/.ssh",
            "home/open/deep/keys",
            "home/open/relative",
            "work/out",
            "loop/x",
        ] {
            assert_eq!(find(path), None, "{path}");
        }
    }
}
