//! Resolves the paths in a workflow.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::ConfineError;

/// The maximum number of links in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The characters that start a pattern.
const PATTERN: [char; 4] = ['*', '?', '[', '{'];

/// Returns the place of a path that is relative to the workspace, absolute, or below the home
/// directory. For a pattern, returns the folder before the first component with a pattern.
pub(super) fn resolve(workdir: &Path, home: Option<&Path>, path: &str) -> PathBuf {
    let plain: PathBuf = Path::new(path)
        .components()
        .take_while(|part| !part.as_os_str().to_string_lossy().contains(PATTERN))
        .collect();
    match (plain.strip_prefix("~"), home) {
        (Ok(relative), Some(home)) => home.join(relative),
        _ => workdir.join(plain),
    }
}

/// Does the same for a writable path: a path of the workspace must not lead out of it, whatever its
/// agents have created there.
pub(super) fn below(workdir: &Path, home: Option<&Path>, path: &str) -> Option<PathBuf> {
    let place = resolve(workdir, home, path);
    if !place.starts_with(workdir) {
        return Some(place);
    }
    let root = workdir.canonicalize().ok()?;
    let found = match place.canonicalize() {
        Ok(found) => found,
        // A folder that is named is created: the kernel can only open existing files.
        Err(_) => {
            let existing = place.ancestors().find_map(|folder| folder.canonicalize().ok())?;
            if !existing.starts_with(&root) {
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

/// Resolves a path without following links that an agent could have created.
///
/// `writable` are the folders that agents can write. A link in one of them is treated as an
/// agent's, whoever created it, and is followed only if the path ends within `workdir`, which is
/// open anyway. The result contains no links, so that it can be opened without following any; the
/// part of it that does not exist yet is kept as written.
///
/// # Errors
/// When there is such a link, or a cycle of links.
pub(super) fn follow(path: &Path, workdir: &Path, writable: &[PathBuf]) -> Result<PathBuf, ConfineError> {
    let components = |path: &Path| -> Vec<OsString> {
        let parts = path
            .components()
            .filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut pending: VecDeque<OsString> = components(path).into();
    let (mut place, mut links) = (PathBuf::from("/"), 0);
    let mut planted = None;
    while let Some(name) = pending.pop_front() {
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
        components(&target)
            .into_iter()
            .rev()
            .for_each(|component| pending.push_front(component));
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
    fn paths_resolve_against_workdir_and_home() {
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
    fn writable_path_stays_inside_the_workspace() {
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
    fn links_of_the_user_are_followed_but_not_those_of_agents() {
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
