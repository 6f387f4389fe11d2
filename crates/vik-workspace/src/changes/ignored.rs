//! The rules for files of a workspace that are left out: its `.gitignore` files.
//!
//! The rules are read before the agent runs and apply until it has ended: a `.gitignore` that it
//! writes does not hide its changes. Nor does it hide those of later attempts: while a rules file
//! is as an attempt left it, the rules from before that attempt apply, until a hook or a person has
//! changed the file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::{Deserialize, Serialize};
use vik_core::file_change::RelPath;

/// The texts of all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The texts of the `.gitignore` files, by folder.
    folders: BTreeMap<RelPath, String>,
    /// The text of the repository's own list. The `.gitignore` files override it.
    exclude: Option<String>,
}

impl Rules {
    /// Sets the rules of a folder.
    pub fn set(&mut self, folder: &[u8], text: &[u8]) {
        let text = String::from_utf8_lossy(text).into_owned();
        self.folders.insert(RelPath::new(folder), text);
    }

    /// Sets the repository's own list.
    pub fn set_exclude(&mut self, text: Option<&str>) {
        self.exclude = text.map(str::to_owned);
    }

    /// Returns the rules of a folder as text.
    pub fn text(&self, folder: &[u8]) -> Option<&str> {
        self.folders.get(&RelPath::new(folder)).map(String::as_str)
    }

    /// Returns the repository's own list.
    pub fn exclude(&self) -> Option<&str> {
        self.exclude.as_deref()
    }

    /// Returns the compiled rules of a folder.
    pub fn of(&self, folder: &[u8]) -> Option<Gitignore> {
        let exclude = self.exclude().filter(|_| folder.is_empty());
        let texts = exclude.into_iter().chain(self.text(folder));
        let mut builder = GitignoreBuilder::new(Path::new("."));
        for line in texts.flat_map(str::lines) {
            // A line that is no pattern is ignored, as in git.
            let _ = builder.add_line(None, line);
        }
        builder.build().ok().filter(|rules| !rules.is_empty())
    }
}

/// The rules of all folders from the root to the current one.
#[derive(Default)]
pub struct Stack(Vec<(usize, Gitignore)>);

impl Stack {
    /// Adds the rules of a folder. `path_len` is the length of the folder's path with its last `/`.
    pub fn push(&mut self, path_len: usize, rules: Gitignore) {
        self.0.push((path_len, rules));
    }

    /// Returns the number of rules, for [`cut`](Self::cut).
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the rules of folders that the walk has left.
    pub fn cut(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Returns whether the innermost rule that matches the path leaves it out.
    pub fn hides(&self, path: &[u8], is_folder: bool) -> bool {
        for (len, rules) in self.0.iter().rev() {
            let below = Path::new(OsStr::from_bytes(path.get(*len..).unwrap_or_default()));
            match rules.matched(below, is_folder) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}
