//! Scopes: which paths of a workspace an attempt may change.
//!
//! A scope is what the daemon decides by, what vex and the hooks of other agents refuse by, and what the end of an attempt
//! is judged by. So there is one matcher, without I/O, in a crate of its own. It works on the parts of a path and never on
//! its text: `src/a` has nothing to do with `src/ab`.

mod list;
mod pattern;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use list::List;

pub use pattern::{BadGlob, MAX_GLOB_BYTES};

/// The most globs of one list: each is compared with each of another scope.
pub const MAX_GLOBS: usize = 64;

/// The paths that may be changed: those that *each* of its lists of globs takes.
///
/// A list is read in order, and the last glob that takes a path decides: `!` in front of it leaves the path out. A glob is
/// anchored at the workspace root; one that names a folder takes all that is in it; `**` stands for any number of folders. A
/// list that only leaves out begins with everything. What git keeps in `.git` is in no scope, at any depth.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<String>>", into = "Vec<Vec<String>>")]
pub struct Scope {
    /// Never empty.
    lists: Vec<Arc<List>>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.globs()).finish()
    }
}

impl Scope {
    /// A scope of one list of globs.
    ///
    /// # Errors
    /// Where one of them is none, or there is none, or too many.
    pub fn new<G: AsRef<str>>(globs: impl IntoIterator<Item = G>) -> Result<Self, BadGlob> {
        let list = List::new(globs.into_iter().map(|glob| glob.as_ref().to_owned()).collect())?;
        Ok(Self {
            lists: vec![Arc::new(list)],
        })
    }

    /// A scope that takes nothing.
    pub fn nothing() -> Self {
        Self {
            lists: vec![Arc::new(List::nothing())],
        }
    }

    /// What both of them take.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut lists = self.lists.clone();
        let more = other.lists.iter().filter(|list| !self.lists.contains(list));
        lists.extend(more.cloned());
        Self { lists }
    }

    /// Its lists of globs, as they were written.
    pub fn globs(&self) -> impl Iterator<Item = &[String]> {
        self.lists.iter().map(|list| list.globs())
    }

    /// Whether the file or folder at this path of the workspace may be changed. A path that is absolute, empty, goes up by
    /// `..` or lies in a `.git` is in no scope.
    pub fn matches(&self, path: impl AsRef<Path>) -> bool {
        let Some(parts) = parts(path.as_ref()) else {
            return false;
        };
        self.lists.iter().all(|list| list.matches(&parts))
    }

    /// Whether some path may be in both. May say yes where there is none; never says no where there is one.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.lists
            .iter()
            .all(|own| other.lists.iter().all(|theirs| own.overlaps(theirs)))
    }

    /// Whether it can be seen that no path is in it: two of its lists have nothing in common.
    pub fn is_empty(&self) -> bool {
        let mut lists = self.lists.iter();
        while let Some(list) = lists.next() {
            if !list.overlaps(list) || lists.clone().any(|other| !list.overlaps(other)) {
                return true;
            }
        }
        false
    }

    /// Files and folders, relative to the workspace, outside of which nothing is in the scope: for a sandbox that knows
    /// files and folders only. The empty path is the workspace itself. They need not exist.
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
                // What takes nothing is written so, and only here.
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

/// The parts of a path below the workspace; `None` where it is not there, or in a `.git`.
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

/// Some file systems do not tell upper from lower case.
fn is_git(part: &OsStr) -> bool {
    part.eq_ignore_ascii_case(".git")
}

/// What lies in both lists of folders.
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

/// Without those that lie in others.
fn outermost(mut roots: Vec<PathBuf>) -> Vec<PathBuf> {
    roots.sort();
    roots.dedup();
    let all = roots.clone();
    roots.retain(|root| !all.iter().any(|other| other != root && root.starts_with(other)));
    roots
}
