//! Where a login of an agent can be detected, for `doctor`. The caller checks these places.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A sign of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginSign {
    /// This variable of the agent's environment is set and not empty.
    Variable(&'static str),
    File(PathBuf),
    /// This file contains this text. A relative path starts at the folder of the workflow.
    Setting(PathBuf, &'static str),
}

/// Returns the folder that a variable names, or a folder in the home directory.
pub(crate) fn configured_folder(
    environment: &BTreeMap<String, String>,
    variable: &str,
    below: &str,
) -> Option<PathBuf> {
    let own = environment.get(variable).filter(|value| !value.is_empty());
    own.map(PathBuf::from).or_else(|| home_folder(environment, below))
}

/// Returns a folder in the home directory.
pub(crate) fn home_folder(environment: &BTreeMap<String, String>, below: &str) -> Option<PathBuf> {
    let home = environment.get("HOME").filter(|value| !value.is_empty())?;
    Some(PathBuf::from(home).join(below))
}
