//! Walks the files below a directory like ripgrep: without ignored and hidden files, without links,
//! and never in `.git`.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use super::root::Root;
use super::{ToolContext, ToolError};

/// The parameters of a walk.
pub(super) struct Walk {
    /// The start, as given.
    pub(super) path: PathBuf,
    /// A pattern for the paths of files.
    pub(super) glob: Option<Pattern>,
    /// Whether hidden and ignored files are included.
    pub(super) all: bool,
    /// The only files that are passed on, by their paths below the start; all if there are none.
    pub(super) only: Vec<PathBuf>,
}

pub(super) struct FoundFile {
    /// The path as it is shown, and as other tools accept it.
    pub(super) shown: String,
    /// The path for opening.
    pub(super) path: PathBuf,
}

impl Walk {
    /// Passes each file, ordered by path, to `take` until it has enough.
    pub(super) fn files(
        &self,
        context: &ToolContext<'_>,
        mut take: impl FnMut(FoundFile) -> Result<bool, ToolError>,
    ) -> Result<(), ToolError> {
        let root = context.root;
        let start = root.resolve(&self.path)?;
        if start.symlink_metadata().is_err() {
            return Err(ToolError::Failed(format!(
                "{} is not there{}",
                self.path.display(),
                several(&self.path, root)
            )));
        }
        let only: Vec<PathBuf> = self.only.iter().map(|path| start.join(path)).collect();
        let mut builder = WalkBuilder::new(&start);
        builder
            .standard_filters(!self.all)
            // A .gitignore applies even if git is not used yet.
            .require_git(false)
            .sort_by_file_name(Ord::cmp)
            .filter_entry(move |entry| {
                let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
                let is_wanted = only.is_empty() || only.iter().any(|path| path.starts_with(entry.path()));
                entry.depth() == 0
                    || (is_wanted && entry.file_name() != ".git" && !(is_dir && is_cache(entry.path())))
            });
        for entry in builder.build() {
            if context.interrupt.is_set() {
                return Err(ToolError::Failed("interrupted".to_owned()));
            }
            // Unreadable entries are skipped, like entries that vanish meanwhile.
            let Ok(entry) = entry else { continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let path = entry.into_path();
            let below = path.strip_prefix(&start).unwrap_or(&path);
            if self
                .glob
                .as_ref()
                .is_some_and(|glob| !glob.fits(below, &path, root))
            {
                continue;
            }
            let shown = root.shown(&path);
            if !take(FoundFile { shown, path })? {
                break;
            }
        }
        Ok(())
    }
}

/// Returns a hint if several paths were given as one.
fn several(path: &Path, root: &Root) -> &'static str {
    let text = path.to_string_lossy();
    let is_there = |part: &str| {
        let found = root.resolve(Path::new(part));
        found.is_ok_and(|path| path.symlink_metadata().is_ok())
    };
    let mut parts = text.split([' ', ',']).filter(|part| !part.is_empty());
    if text.contains([' ', ',']) && parts.all(is_there) {
        ": give one path, or leave it out to search everywhere"
    } else {
        ""
    }
}

/// Returns whether a directory is marked as a cache (as cargo's `target` is).
fn is_cache(path: &Path) -> bool {
    path.join("CACHEDIR.TAG").is_file()
}

/// A glob as in ripgrep: without a slash it matches the name, with one the path.
pub(super) struct Pattern {
    matcher: GlobMatcher,
    whole: bool,
}

impl Pattern {
    pub(super) fn new(glob: &str) -> Result<Self, ToolError> {
        let bare = glob.trim().trim_start_matches("./");
        let whole = bare.contains('/');
        // `src/` is everything below.
        let bare = match bare.strip_suffix('/') {
            Some(dir) => format!("{dir}/**"),
            None => bare.to_owned(),
        };
        let matcher = GlobBuilder::new(bare.trim_start_matches('/'))
            .literal_separator(true)
            .build()
            .map_err(|error| ToolError::Failed(format!("the glob is wrong: {}", error.kind())))?
            .compile_matcher();
        Ok(Self { matcher, whole })
    }

    /// Returns whether it matches a path relative to the start of the walk, or to the workspace.
    fn fits(&self, below: &Path, path: &Path, root: &Root) -> bool {
        if self.whole {
            let inside = path.strip_prefix(root.path()).unwrap_or(path);
            self.matcher.is_match(below) || self.matcher.is_match(inside)
        } else {
            path.file_name().is_some_and(|name| self.matcher.is_match(name))
        }
    }
}
