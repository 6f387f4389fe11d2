//! The daemon's environment, with variables that are withheld from other processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The daemon's environment. Variables with a secret are withheld from all processes that are
/// started. Cheap to clone; the clones share it.
///
/// # Examples
///
/// ```
/// use std::collections::BTreeMap;
///
/// use vik_session::host::Environment;
///
/// let variables = [("LANG", "C"), ("TRACKER_TOKEN", "a secret")];
/// let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
/// let environment = Environment::from(BTreeMap::from(variables.map(own)));
/// environment.withhold(["TRACKER_TOKEN".to_owned()]);
/// assert_eq!(environment.shared().into_keys().collect::<Vec<_>>(), ["LANG"]);
/// assert_eq!(environment.get("TRACKER_TOKEN"), Some("a secret"));
/// ```
#[derive(Clone)]
pub struct Environment(Arc<Shared>);

struct Shared {
    all: BTreeMap<String, String>,
    /// This set only grows: a secret that is removed from the workflow is still one.
    withheld: RwLock<BTreeSet<String>>,
    /// The names of secrets about which a warning was already written.
    warned: Mutex<BTreeSet<String>>,
}

impl Environment {
    /// Returns the value of a variable, withheld or not, for Vik itself.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.all.get(name).map(String::as_str)
    }

    /// Returns the variables that a child process may have.
    pub fn shared(&self) -> BTreeMap<String, String> {
        let withheld = self.0.withheld.read().unwrap_or_else(PoisonError::into_inner);
        let shared = self.0.all.iter().filter(|(name, _)| !withheld.contains(*name));
        shared
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Withholds these variables from now on.
    pub fn withhold(&self, names: impl IntoIterator<Item = String>) {
        let mut withheld = self.0.withheld.write().unwrap_or_else(PoisonError::into_inner);
        withheld.extend(names);
    }

    /// Returns whether this is the first call with this name.
    pub fn is_first_warning(&self, name: &str) -> bool {
        let mut warned = self.0.warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.insert(name.to_owned())
    }
}

impl From<BTreeMap<String, String>> for Environment {
    fn from(all: BTreeMap<String, String>) -> Self {
        Self(Arc::new(Shared {
            all,
            withheld: RwLock::default(),
            warned: Mutex::default(),
        }))
    }
}

impl fmt::Debug for Environment {
    /// Prints names only, no values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.all.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withheld_variables_reach_no_child_and_no_debug_text() {
        let all = BTreeMap::from([
            ("A".to_owned(), "1".to_owned()),
            ("TOKEN".to_owned(), "hush".to_owned()),
        ]);
        let environment = Environment::from(all);
        assert_eq!(environment.shared().len(), 2);
        environment.withhold(["TOKEN".to_owned()]);
        environment.withhold(["OTHER".to_owned()]);
        assert_eq!(environment.shared().into_keys().collect::<Vec<_>>(), ["A"]);
        assert_eq!(environment.get("TOKEN"), Some("hush"));
        assert!(!format!("{environment:?}").contains("hush"));
    }
}
