//! Which files of a workspace are left out: those that its `.gitignore` files name.
//!
//! The rules are read before the agent runs and hold until it has ended: what it writes into a `.gitignore` hides nothing
//! that it does.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::{Deserialize, Serialize};
use vik_core::file_change::RelPath;

/// The texts of the rules, by the folder in which they hold; each text may stand for several files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rules(BTreeMap<RelPath, Vec<String>>);

impl Rules {
    /// Adds rules that hold in a folder. Of two texts the later one decides.
    pub fn add(&mut self, folder: &[u8], text: &[u8]) {
        let text = String::from_utf8_lossy(text).into_owned();
        self.0.entry(RelPath::new(folder)).or_default().push(text);
    }

    /// The rules of a folder, ready to be asked.
    pub fn of(&self, folder: &[u8]) -> Option<Gitignore> {
        let texts = self.0.get(&RelPath::new(folder))?;
        let mut builder = GitignoreBuilder::new(Path::new("."));
        for line in texts.iter().flat_map(|text| text.lines()) {
            // A line that is no pattern is none for git either.
            let _ = builder.add_line(None, line);
        }
        builder.build().ok()
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
