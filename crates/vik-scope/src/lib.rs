//! Scopes: the paths of a workspace that an attempt may change.
//!
//! The daemon schedules by scopes, vex and the hooks of other agents reject calls by them, and the
//! end of an attempt is judged by them. So there is one matcher without I/O, in a crate of its own.
//! It compares the parts of a path and never its text: `src/a` is unrelated to `src/ab`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod list;
mod pattern;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use list::List;

pub use pattern::{BadGlob, MAX_GLOB_BYTES};

/// The maximum number of globs in a list, because each is compared with each of another scope.
pub const MAX_GLOBS: usize = 64;

/// The paths that may be changed: those that *each* of its lists of globs matches.
///
/// In a list the last matching glob decides; a leading `!` excludes the path. A glob is anchored at
/// the workspace root; one that names a folder matches its contents; `**` matches any number of
/// folders. A list that only excludes starts with everything. Paths in `.git` are in no scope, at
/// any depth.
///
/// # Examples
///
/// ```
/// use vik_scope::Scope;
///
/// let scope = Scope::new(["app", "!app/generated"])?;
/// assert!(scope.matches("app/api/main.rs"));
/// assert!(!scope.matches("app/generated/types.rs"));
/// assert!(!scope.matches("application/main.rs"));
/// # Ok::<(), vik_scope::BadGlob>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<String>>", into = "Vec<Vec<String>>")]
pub struct Scope {
    lists: Vec<Arc<List>>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.globs()).finish()
    }
}

impl Scope {
    /// Creates a scope from one list of globs.
    ///
    /// # Errors
    /// Returns an error if a glob is invalid, or if there are none or too many.
    pub fn new<G: AsRef<str>>(globs: impl IntoIterator<Item = G>) -> Result<Self, BadGlob> {
        let list = List::new(globs.into_iter().map(|glob| glob.as_ref().to_owned()).collect())?;
        Ok(Self {
            lists: vec![Arc::new(list)],
        })
    }

    /// Returns a scope without any path.
    pub fn nothing() -> Self {
        Self {
            lists: vec![Arc::new(List::nothing())],
        }
    }

    /// Returns the intersection of both scopes.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut lists = self.lists.clone();
        let more = other.lists.iter().filter(|list| !self.lists.contains(list));
        lists.extend(more.cloned());
        Self { lists }
    }

    /// Returns the lists of globs as written.
    pub fn globs(&self) -> impl Iterator<Item = &[String]> {
        self.lists.iter().map(|list| list.globs())
    }

    /// Returns whether the file or folder at this path of the workspace may be changed. A path that
    /// is absolute, empty, contains `..` or is in a `.git` is in no scope.
    pub fn matches(&self, path: impl AsRef<Path>) -> bool {
        let Some(parts) = parts(path.as_ref()) else {
            return false;
        };
        self.lists.iter().all(|list| list.matches(&parts))
    }

    /// Returns whether some path may be in both scopes. It may return true wrongly, but never
    /// false.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_scope::Scope;
    ///
    /// let app = Scope::new(["app"])?;
    /// assert!(app.overlaps(&Scope::new(["**/*.rs"])?));
    /// assert!(!app.overlaps(&Scope::new(["web/**"])?));
    /// # Ok::<(), vik_scope::BadGlob>(())
    /// ```
    pub fn overlaps(&self, other: &Self) -> bool {
        self.lists
            .iter()
            .all(|own| other.lists.iter().all(|theirs| own.overlaps(theirs)))
    }

    /// Returns whether the scope is recognizably empty: two of its lists have no path in common.
    pub fn is_empty(&self) -> bool {
        let mut lists = self.lists.iter();
        while let Some(list) = lists.next() {
            if !list.overlaps(list) || lists.clone().any(|other| !list.overlaps(other)) {
                return true;
            }
        }
        false
    }

    /// Returns files and folders, relative to the workspace, that contain every path of the scope,
    /// for a sandbox that knows only files and folders. The empty path is the workspace itself.
    /// They need not exist.
    pub fn write_roots(&self) -> Vec<PathBuf> {
        let mut roots: Option<Vec<PathBuf>> = None;
        for list in &self.lists {
            let own = list.roots();
            roots = Some(match roots {
                None => own,
                Some(before) => common(&before, &own),
            });
        }
        outermost(roots.unwrap_or_default())
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, globs) in self.globs().enumerate() {
            if at > 0 {
                f.write_str(" and of these ")?;
            }
            f.write_str(&globs.join(", "))?;
        }
        Ok(())
    }
}

impl TryFrom<Vec<Vec<String>>> for Scope {
    type Error = BadGlob;

    fn try_from(lists: Vec<Vec<String>>) -> Result<Self, BadGlob> {
        let lists: Vec<_> = lists
            .into_iter()
            .map(|globs| {
                // An empty scope is written like this, and only here.
                let list = if globs.is_empty() {
                    List::nothing()
                } else {
                    List::new(globs)?
                };
                Ok(Arc::new(list))
            })
            .collect::<Result<_, BadGlob>>()?;
        if lists.is_empty() {
            return Err(BadGlob::Empty);
        }
        Ok(Self { lists })
    }
}

impl From<Scope> for Vec<Vec<String>> {
    fn from(scope: Scope) -> Self {
        scope.globs().map(<[String]>::to_vec).collect()
    }
}

/// Returns the parts of a path below the workspace; `None` if it is outside, or in a `.git`.
fn parts(path: &Path) -> Option<Vec<&OsStr>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) if is_git(part) => return None,
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then_some(parts)
}

/// Returns whether a part is `.git`. Case is ignored, because some file systems ignore it.
fn is_git(part: &OsStr) -> bool {
    part.eq_ignore_ascii_case(".git")
}

/// Returns the folders that are in both lists.
fn common(a: &[PathBuf], b: &[PathBuf]) -> Vec<PathBuf> {
    let mut both = Vec::new();
    for one in a {
        for other in b {
            if one.starts_with(other) {
                both.push(one.clone());
            } else if other.starts_with(one) {
                both.push(other.clone());
            }
        }
    }
    both
}

/// Returns the folders without those inside of others.
fn outermost(mut roots: Vec<PathBuf>) -> Vec<PathBuf> {
    roots.sort();
    roots.dedup();
    let all = roots.clone();
    roots.retain(|root| !all.iter().any(|other| other != root && root.starts_with(other)));
    roots
}
