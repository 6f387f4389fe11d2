//! The rules of Landlock.

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    Scope, path_beneath_rules,
};

use crate::sandbox::readable::all_but;
use crate::sandbox::{Backend, Reads, Sandbox};

/// The newest version whose rights are known here; an older kernel gets what it has.
const NEWEST: ABI = ABI::V7;

pub(super) fn rules(sandbox: &Sandbox) -> Result<Option<OwnedFd>, RulesetError> {
    let (writing, reading) = (AccessFs::from_write(NEWEST), AccessFs::from_read(NEWEST));
    let (handled, readable) = match &sandbox.read {
        Reads::AllBut { hidden, .. } if hidden.is_empty() => (writing, Vec::new()),
        Reads::AllBut { hidden, shown } => {
            let mut readable = all_but(hidden);
            readable.extend(shown.iter().cloned());
            (writing | reading, readable)
        }
        Reads::Only(paths) => (writing | reading, paths.clone()),
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)?;
    if sandbox.calls.is_some() {
        ruleset = ruleset.scope(Scope::from_all(NEWEST))?;
    }
    let rules = ruleset
        .create()?
        .add_rules(path_beneath_rules(&sandbox.write, handled))?
        .add_rules(path_beneath_rules(&readable, handled & reading))?;
    // Within namespaces what is hidden is covered, so that folders can be listed; what takes its place later cannot be read.
    let listing = handled & AccessFs::ReadDir;
    if sandbox.backend == Backend::Bubblewrap && !listing.is_empty() {
        return Ok(rules.add_rules(path_beneath_rules(["/"], listing))?.into());
    }
    Ok(rules.into())
}
