//! What an attempt is to do, and where: its intent.
//!
//! The stage says it, and the issue may say more. What an issue says is text of strangers: it can make the scope narrower
//! and never wider, and where it cannot be read the issue is held.

mod read;

use serde::{Deserialize, Serialize};
use vik_scope::{BadGlob, Scope};

use crate::issue::Issue;
use crate::workflow::{OnViolation, Stage};

pub(crate) use read::may_have_intent;

/// The intent of one attempt, as it was checked out at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Intent {
    /// What may be changed; `None`: nothing is claimed, and nothing forbidden.
    pub scope: Option<Scope>,
    /// What must hold while it is done.
    pub constraints: Vec<Clause>,
    /// What must hold when it is done.
    pub acceptance: Vec<Clause>,
    /// What happens to changes out of scope.
    pub on_violation: OnViolation,
}

/// One sentence of an intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clause {
    /// What it says.
    pub text: String,
    /// Whether the issue says it, and not the stage.
    #[serde(default)]
    pub from_issue: bool,
}

/// What an issue says of its intent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssueIntent {
    /// `owned_scope`
    pub scope: Option<Scope>,
    /// `constraints`
    pub constraints: Vec<String>,
    /// `acceptance`
    pub acceptance: Vec<String>,
}

/// Why an issue has no intent that can be worked by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadIntent {
    /// A glob of its scope is none.
    #[error("its `owned_scope`: {0}")]
    Glob(BadGlob),
    /// A field is neither a text nor a list of texts, or too long.
    #[error("its `{key}` {why}")]
    Field {
        /// Which.
        key: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The front matter of its description names one of the fields and cannot be read.
    #[error("the front matter of its description cannot be read: {0}")]
    FrontMatter(String),
    /// Stage and issue agree on no path at all.
    #[error("its scope ({issue}) and that of the stage ({stage}) have no path in common")]
    Disjoint {
        /// The issue's.
        issue: String,
        /// The stage's.
        stage: String,
    },
}

impl Intent {
    /// The intent of an attempt at this issue in this stage.
    ///
    /// # Errors
    /// Where the issue says something that cannot be followed.
    pub fn resolve(stage: &Stage, issue: &Issue) -> Result<Self, BadIntent> {
        let scope = Self::scope(stage, issue)?;
        let clauses = |of_stage: &[String], of_issue: &[String]| {
            let clause = |from_issue| {
                move |text: &String| Clause {
                    text: text.clone(),
                    from_issue,
                }
            };
            let stage = of_stage.iter().map(clause(false));
            stage.chain(of_issue.iter().map(clause(true))).collect()
        };
        let own = &stage.intent;
        let nothing = IssueIntent::default();
        let declared = if own.from_issue {
            issue.intent().as_ref().map_err(Clone::clone)?
        } else {
            &nothing
        };
        Ok(Self {
            scope,
            constraints: clauses(&own.constraints, &declared.constraints),
            acceptance: clauses(&own.acceptance, &declared.acceptance),
            on_violation: own.on_violation,
        })
    }

    /// Its scope alone.
    ///
    /// # Errors
    /// As [`Intent::resolve`].
    pub fn scope(stage: &Stage, issue: &Issue) -> Result<Option<Scope>, BadIntent> {
        let own = stage.intent.scope.as_ref();
        if !stage.intent.from_issue {
            return Ok(own.cloned());
        }
        let declared = issue.intent().as_ref().map_err(Clone::clone)?;
        match (own, &declared.scope) {
            (None, declared) => Ok(declared.clone()),
            (own, None) => Ok(own.cloned()),
            (Some(own), Some(declared)) => issue.joined(own, || join(own, declared)).map(Some),
        }
    }

    /// One that forbids everything, for where there should be one and is none.
    pub(crate) fn nothing() -> Self {
        Self {
            scope: Some(Scope::nothing()),
            ..Self::default()
        }
    }

    /// Whether it says anything at all.
    pub fn is_empty(&self) -> bool {
        self.scope.is_none() && self.constraints.is_empty() && self.acceptance.is_empty()
    }
}

fn join(stage: &Scope, issue: &Scope) -> Result<Scope, BadIntent> {
    let both = stage.and(issue);
    if both.is_empty() {
        return Err(BadIntent::Disjoint {
            issue: issue.to_string(),
            stage: stage.to_string(),
        });
    }
    Ok(both)
}

#[cfg(test)]
mod tests;
