//! Which files of a workspace are left out: those that its `.gitignore` files name.
//!
//! The rules are read before the agent runs and hold until it has ended: what it writes into a `.gitignore` hides nothing
//! that it does. Nor does it hide what later attempts do: a file of rules that stands as an attempt left it counts as it
//! was before that one, until a hook or a person has changed it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::{Deserialize, Serialize};
use vik_core::file_change::RelPath;

/// The texts of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Of the `.gitignore` files, by the folder in which they stand.
    folders: BTreeMap<RelPath, String>,
    /// Of the repository's own list. Those of a `.gitignore` go before.
    exclude: Option<String>,
}

impl Rules {
    /// The rules of a folder are these from now on.
    pub fn set(&mut self, folder: &[u8], text: &[u8]) {
        let text = String::from_utf8_lossy(text).into_owned();
        self.folders.insert(RelPath::new(folder), text);
    }

    /// The repository's own list is this one.
    pub fn set_exclude(&mut self, text: Option<&str>) {
        self.exclude = text.map(str::to_owned);
    }

    /// The text of a folder.
    pub fn text(&self, folder: &[u8]) -> Option<&str> {
        self.folders.get(&RelPath::new(folder)).map(String::as_str)
    }

    /// The repository's own list.
    pub fn exclude(&self) -> Option<&str> {
        self.exclude.as_deref()
    }

    /// The rules of a folder, ready to be asked.
    pub fn of(&self, folder: &[u8]) -> Option<Gitignore> {
        let exclude = self.exclude().filter(|_| folder.is_empty());
        let texts = exclude.into_iter().chain(self.text(folder));
        let mut builder = GitignoreBuilder::new(Path::new("."));
        for line in texts.flat_map(str::lines) {
            // A line that is no pattern is none for git either.
            let _ = builder.add_line(None, line);
        }
        builder.build().ok().filter(|rules| !rules.is_empty())
    }
}

/// The rules of the folders on the way down to where a walk is.
#[derive(Default)]
pub struct Stack(Vec<(usize, Gitignore)>);

impl Stack {
    /// Enters a folder: `path` is that of what is in it, up to its last `/`.
    pub fn push(&mut self, path_len: usize, rules: Gitignore) {
        self.0.push((path_len, rules));
    }

    /// How many there are; to [`cut`](Self::cut) back to.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Leaves folders.
    pub fn cut(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Whether the nearest rule that knows the path leaves it out.
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
