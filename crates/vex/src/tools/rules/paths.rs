//! Patterns of paths.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::tools::Root;

/// Compiles a pattern; `*` matches within one folder, `**` across folders.
pub(super) fn glob(pattern: &str) -> Option<GlobMatcher> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().ok()?;
    Some(glob.compile_matcher())
}

/// All names of a path.
pub(super) struct PathForms {
    /// As written, and with its `..` resolved.
    written: Vec<PathBuf>,
    /// Without links, relative to the workspace and absolute; empty if unknown.
    real: Vec<PathBuf>,
}

impl PathForms {
    pub(super) fn of(path: &str, root: &Root) -> Self {
        let path = Path::new(path);
        let absolute = root.path().join(path);
        let plain = without_dots(&absolute);
        let mut written = vec![path.to_owned()];
        written.extend(plain.strip_prefix(root.path()).map(Path::to_owned));
        written.push(plain);
        let real = root.real(path).map_or_else(Vec::new, |real| {
            let below = real.strip_prefix(root.path()).map(Path::to_owned);
            below.into_iter().chain([real]).collect()
        });
        Self { written, real }
    }

    /// Returns whether any of the names matches; the name of a folder matches a pattern of
    /// everything in it.
    pub(super) fn any_fits(&self, pattern: &str) -> bool {
        // Without its real name a match cannot be excluded.
        self.real.is_empty() || glob(pattern).is_none_or(|glob| self.all().any(|path| is_match(&glob, path)))
    }

    /// Returns whether its real name matches.
    pub(super) fn real_fits(&self, pattern: &str) -> bool {
        glob(pattern).is_some_and(|glob| self.real.iter().any(|path| is_match(&glob, path)))
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.written.iter().chain(&self.real)
    }
}

fn is_match(glob: &GlobMatcher, path: &Path) -> bool {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    glob.is_match(path)
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}
