//! Ordered globs, of which the last match decides.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::MAX_GLOBS;
use super::pattern::{BadGlob, Pattern};

/// One list of globs.
#[derive(Clone, Debug)]
pub(super) struct List {
    globs: Vec<String>,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Pattern,
    /// Whether it starts with `!`.
    excludes: bool,
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.globs == other.globs
    }
}

impl Eq for List {}

impl List {
    pub(super) fn new(globs: Vec<String>) -> Result<Self, BadGlob> {
        if globs.is_empty() {
            return Err(BadGlob::Empty);
        }
        if globs.len() > MAX_GLOBS {
            return Err(BadGlob::TooMany);
        }
        let mut rules = Vec::with_capacity(globs.len() + 1);
        for glob in &globs {
            let (pattern, excludes) = match glob.strip_prefix('!') {
                Some(excluded) => (excluded, true),
                None => (glob.as_str(), false),
            };
            rules.push(Rule {
                pattern: Pattern::new(pattern)?,
                excludes,
            });
        }
        if rules.iter().all(|rule| rule.excludes) {
            let everything = Rule {
                pattern: Pattern::everything(),
                excludes: false,
            };
            rules.insert(0, everything);
        }
        Ok(Self { globs, rules })
    }

    pub(super) fn nothing() -> Self {
        Self {
            globs: Vec::new(),
            rules: Vec::new(),
        }
    }

    pub(super) fn globs(&self) -> &[String] {
        &self.globs
    }

    pub(super) fn matches(&self, parts: &[&OsStr]) -> bool {
        let last = self.rules.iter().rev().find(|rule| rule.pattern.matches(parts));
        last.is_some_and(|rule| !rule.excludes)
    }

    /// Returns whether a glob of each list may match the same path that no later glob of either
    /// list excludes.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.takers().any(|(at, own)| {
            other.takers().any(|(their_at, theirs)| {
                own.overlaps(theirs)
                    && !self.leaves_out(at, [own, theirs])
                    && !other.leaves_out(their_at, [own, theirs])
            })
        })
    }

    fn takers(&self) -> impl Iterator<Item = (usize, &Pattern)> {
        let rules = self.rules.iter().enumerate();
        rules
            .filter(|(_, rule)| !rule.excludes)
            .map(|(at, rule)| (at, &rule.pattern))
    }

    /// Returns whether later globs exclude everything that both of these match. A still later glob
    /// that includes it again is compared separately.
    fn leaves_out(&self, at: usize, both: [&Pattern; 2]) -> bool {
        let later = self.rules.iter().skip(at + 1).filter(|rule| rule.excludes);
        later
            .into_iter()
            .any(|rule| both.iter().any(|pattern| rule.pattern.covers(pattern)))
    }

    pub(super) fn roots(&self) -> Vec<PathBuf> {
        self.takers().map(|(_, pattern)| pattern.root()).collect()
    }
}
