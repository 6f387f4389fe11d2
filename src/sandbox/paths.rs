//! The paths that a workflow writes.

use std::path::{Path, PathBuf};

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
}
