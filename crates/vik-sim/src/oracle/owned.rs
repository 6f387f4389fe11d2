//! Checks scopes and trust, by trying paths instead of comparing globs.

use vik_core::attempt::Start;
use vik_core::scope::Scope;
use vik_core::trust::Trust;
use vik_core::workflow::{ScopeConflicts, Stage, Untrusted};

use super::{Broken, Oracle, ensure};
use crate::tracker::{AUTHORS, Item};

/// All paths of interest in the worlds.
const PATHS: [&str; 9] = ["a/x", "a/y", "a/z", "b/x", "b/y", "b/z", "c/x", "c/q", "d"];

fn has(scope: Option<&Scope>, path: &str) -> bool {
    scope.is_none_or(|scope| scope.matches(path))
}

/// Returns the scope that an issue declares; `None` if it is invalid.
fn declared_scope(item: &Item) -> Option<Option<Scope>> {
    match item.scope {
        [] => Some(None),
        globs => Scope::new(globs).ok().map(Some),
    }
}

/// Returns whether some path is allowed by both stage and issue.
pub(super) fn may_be_followed(stage: &Stage, item: &Item) -> bool {
    if !stage.intent.from_issue {
        return true;
    }
    let own = stage.intent.scope.as_ref();
    declared_scope(item).is_some_and(|declared_scope| {
        PATHS
            .iter()
            .any(|path| has(own, path) && has(declared_scope.as_ref(), path))
    })
}

impl Oracle {
    pub(super) fn trust(&self, item: &Item) -> Trust {
        match &self.policy.trust {
            None => Trust::Trusted,
            Some(_) if item.author == AUTHORS[0] => Trust::Trusted,
            Some(policy) if policy.untrusted == Untrusted::Hold => Trust::Held,
            Some(_) => Trust::Fenced,
        }
    }

    /// Checks that the attempt may change what stage and issue allow, that no other running attempt
    /// may change any of it, and that its text is trusted according to the rules.
    pub(super) fn keeps_its_scope(&self, issue: usize, start: &Start) -> Result<(), Broken> {
        let Some(item) = &self.known[issue].item else {
            return Ok(());
        };
        let trust = self.trust(item);
        ensure(
            trust != Trust::Held,
            "untrusted issues that are held do not start",
            || format!("issue {issue} by {}", item.author),
        )?;
        ensure(
            start.fenced == (trust == Trust::Fenced),
            "the text of an untrusted issue is fenced",
            || format!("issue {issue} by {}", item.author),
        )?;
        const OWNED: &str = "the scope of an attempt is what both stage and issue allow";
        ensure(may_be_followed(&start.stage, item), OWNED, || {
            format!("issue {issue} starts, but declares the scope {:?}", item.scope)
        })?;
        let scope = start.intent.scope.as_ref();
        let stage = &start.stage.intent;
        let declared_scope = declared_scope(item).flatten().filter(|_| stage.from_issue);
        for path in PATHS {
            let allowed = has(stage.scope.as_ref(), path) && has(declared_scope.as_ref(), path);
            ensure(has(scope, path) == allowed, OWNED, || {
                format!("issue {issue}, {path}: {scope:?}")
            })?;
        }
        if self.policy.issue.scope_conflicts == ScopeConflicts::Allow || scope.is_none() {
            return Ok(());
        }
        for active in self.books.active.values().filter(|active| active.issue != issue) {
            let Some(theirs) = &active.scope else { continue };
            let shared = PATHS.iter().find(|path| has(scope, path) && theirs.matches(path));
            ensure(
                shared.is_none(),
                "issues with overlapping scopes do not run at the same time",
                || format!("issue {issue} starts beside {}: {shared:?}", active.issue),
            )?;
        }
        Ok(())
    }
}
