//! Where in a workspace a path of an agent's leads.

use std::path::{Component, Path, PathBuf};

/// Where in the workspace a path may lead, as its text says and as the links on its way do; `None` where one of these is
/// not in the workspace. The workspace may change before the call is made: what was changed is judged again at the end.
pub(super) fn places(workdir: &Path, path: &str) -> Option<Vec<PathBuf>> {
    let written = workdir.join(path);
    let plain = plain(&written)?;
    let root = workdir.canonicalize().ok()?;
    let near = plain
        .strip_prefix(workdir)
        .or_else(|_| plain.strip_prefix(&root))
        .ok()?
        .to_owned();
    let mut places = vec![near];
    // `a/link/..` is another folder for who follows links than for who reads it as text; agents do either.
    for from in [&plain, &written] {
        let far = led(from)?.strip_prefix(&root).ok()?.to_owned();
        if !places.contains(&far) {
            places.push(far);
        }
    }
    Some(places)
}

/// Without `.` and `..`, as text.
fn plain(path: &Path) -> Option<PathBuf> {
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

/// With all links followed, as far as it exists.
fn led(path: &Path) -> Option<PathBuf> {
    let mut rest = Vec::new();
    let mut there = path;
    loop {
        match there.canonicalize() {
            Ok(mut found) => {
                found.extend(rest.iter().rev());
                return Some(found);
            }
            // A link that leads nowhere yet: what is made through it would lie who knows where.
            Err(_) if there.is_symlink() => return None,
            Err(_) => {
                // A `..` behind what is not there has no meaning.
                rest.push(there.file_name()?);
                there = there.parent()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let ws = folder.path().join("ws");
        std::fs::create_dir_all(ws.join("src/deep")).unwrap();
        std::fs::create_dir_all(folder.path().join("other")).unwrap();
        symlink("src", ws.join("link")).unwrap();
        symlink("src/deep", ws.join("deep")).unwrap();
        symlink("../other", ws.join("out")).unwrap();
        symlink("nowhere", ws.join("dead")).unwrap();
        std::fs::write(ws.join("file"), "").unwrap();
        let led = |path: &str| {
            let places = places(&ws, path)?;
            Some(
                places
                    .iter()
                    .map(|place| place.to_str().unwrap().to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let some = |paths: &[&str]| Some(paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(led("src/a"), some(&["src/a"]));
        assert_eq!(led("./src/../new/deep/er"), some(&["new/deep/er"]));
        assert_eq!(led(ws.join("src/a").to_str().unwrap()), some(&["src/a"]));
        assert_eq!(led("link/a"), some(&["link/a", "src/a"]));
        // As text `b`, through the link `src/b`.
        assert_eq!(led("deep/../b"), some(&["b", "src/b"]));
        for outside in [
            "../x",
            "/etc/passwd",
            "out/x",
            "src/../../x",
            "dead",
            "dead/x",
            "/../x",
        ] {
            assert_eq!(led(outside), None, "{outside}");
        }
        assert_eq!(led("file"), some(&["file"]));
        // The workspace itself.
        assert_eq!(led("."), some(&[""]));
    }
}
