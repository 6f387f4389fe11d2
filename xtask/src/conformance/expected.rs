//! What is known about scenarios: which are skipped, which checks fail, and why.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::repo::{self, Context as _, TaskResult};

/// The file `tests/mcp-conformance/expected.json`. Each entry has a reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    /// By the name of a scenario, or the start of its name and `*`.
    skipped: BTreeMap<String, String>,
    /// By `SCENARIO`, or `SCENARIO:CHECK` for one of its checks.
    failing: BTreeMap<String, String>,
    /// The entries that a scenario matched.
    #[serde(skip)]
    used: RefCell<BTreeSet<String>>,
}

impl Expected {
    /// Reads the file.
    ///
    /// # Errors
    /// If it is missing or wrong.
    pub(super) fn read() -> TaskResult<Self> {
        let path = repo::root().join("tests/mcp-conformance/expected.json");
        Self::parse(&repo::read(&path)?).context(path.display())
    }

    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns why a scenario is skipped.
    pub(super) fn skipped(&self, scenario: &str) -> Option<&str> {
        let matches = |pattern: &str| match pattern.strip_suffix('*') {
            Some(start) => scenario.starts_with(start),
            None => scenario == pattern,
        };
        self.find(&self.skipped, matches)
    }

    /// Returns why a check of a scenario fails.
    pub(super) fn failing(&self, scenario: &str, check: &str) -> Option<&str> {
        self.find(&self.failing, |entry| {
            entry
                .strip_prefix(scenario)
                .is_some_and(|after| after.is_empty() || after.strip_prefix(':') == Some(check))
        })
    }

    fn find<'a>(
        &self,
        entries: &'a BTreeMap<String, String>,
        matches: impl Fn(&str) -> bool,
    ) -> Option<&'a str> {
        let (entry, reason) = entries.iter().find(|(entry, _)| matches(entry))?;
        self.used.borrow_mut().insert(entry.clone());
        Some(reason)
    }

    /// Returns the entries that nothing matched so far.
    pub(super) fn unused(&self) -> impl Iterator<Item = &str> {
        let used = self.used.borrow();
        let entries = self.skipped.keys().chain(self.failing.keys());
        let unused: Vec<&str> = entries
            .filter(|entry| !used.contains(*entry))
            .map(String::as_str)
            .collect();
        unused.into_iter()
    }
}
