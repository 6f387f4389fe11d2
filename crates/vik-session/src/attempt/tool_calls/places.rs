//! Resolves an agent's path to places in its workspace.

use std::path::{Component, Path, PathBuf};

/// Returns the places in the workspace to which a path may lead, as text and by following links;
/// `None` if one of them is outside of the workspace. The workspace may change before the call
/// runs: the changes are checked again at the end.
pub(super) fn places(workdir: &Path, path: &str) -> Option<Vec<PathBuf>> {
    let written = workdir.join(path);
    let plain = normalize(&written)?;
    let root = workdir.canonicalize().ok()?;
    let relative = plain
        .strip_prefix(workdir)
        .or_else(|_| plain.strip_prefix(&root))
        .ok()?
        .to_owned();
    let mut places = vec![relative];
    // `a/link/..` is a different folder with links followed than as text; agents use either.
    for from in [&plain, &written] {
        let resolved = follow_links(from)?.strip_prefix(&root).ok()?.to_owned();
        if !places.contains(&resolved) {
            places.push(resolved);
        }
    }
    Some(places)
}

/// Returns the path without `.` and `..`, as text.
fn normalize(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Some(plain)
}

/// Returns the path with all links followed, as far as it exists.
fn follow_links(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match existing.canonicalize() {
            Ok(mut found) => {
                found.extend(missing.iter().rev());
                return Some(found);
            }
            // A dangling link: the location of a file created through it is unknown.
            Err(_) if existing.is_symlink() => return None,
            Err(_) => {
                // A `..` after a missing component has no meaning.
                missing.push(existing.file_name()?);
                existing = existing.parent()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn places_follow_links_and_exclude_outside_paths() {
        let folder = tempfile::tempdir().unwrap();
        let ws = folder.path().join("ws");
        std::fs::create_dir_all(ws.join("src/deep")).unwrap();
        std::fs::create_dir_all(folder.path().join("other")).unwrap();
        symlink("src", ws.join("link")).unwrap();
        symlink("src/deep", ws.join("deep")).unwrap();
        symlink("../other", ws.join("out")).unwrap();
        symlink("nowhere", ws.join("dead")).unwrap();
        std::fs::write(ws.join("file"), "").unwrap();
        let places_of = |path: &str| {
            let places = places(&ws, path)?;
            Some(
                places
                    .iter()
                    .map(|place| place.to_str().unwrap().to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let some = |paths: &[&str]| Some(paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(places_of("src/a"), some(&["src/a"]));
        assert_eq!(places_of("./src/../new/deep/er"), some(&["new/deep/er"]));
        assert_eq!(places_of(ws.join("src/a").to_str().unwrap()), some(&["src/a"]));
        assert_eq!(places_of("link/a"), some(&["link/a", "src/a"]));
        // `b` as text, `src/b` through the link.
        assert_eq!(places_of("deep/../b"), some(&["b", "src/b"]));
        for outside in [
            "../x",
            "/etc/passwd",
            "out/x",
            "src/../../x",
            "dead",
            "dead/x",
            "/../x",
        ] {
            assert_eq!(places_of(outside), None, "{outside}");
        }
        assert_eq!(places_of("file"), some(&["file"]));
        assert_eq!(places_of("."), some(&[""]));
    }
}
