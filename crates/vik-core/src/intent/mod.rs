//! The intent of an attempt: its task and its scope.
//!
//! The stage declares it, and the issue may add to it. The text of an issue is untrusted: it can
//! narrow the scope and never widen it, and the issue is held if its intent cannot be parsed.

mod read;

use serde::{Deserialize, Serialize};
use vik_scope::{BadGlob, Scope};

use crate::issue::Issue;
use crate::workflow::{OnViolation, Stage};

pub(crate) use read::may_have_intent;

/// The intent of one attempt, as resolved at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Intent {
    /// The paths that may be changed; `None` claims and forbids nothing.
    pub scope: Option<Scope>,
    /// Conditions for the work.
    pub constraints: Vec<Clause>,
    /// Conditions for the result.
    pub acceptance: Vec<Clause>,
    /// The reaction to changes out of scope.
    pub on_violation: OnViolation,
}

/// One sentence of an intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clause {
    pub text: String,
    /// Whether the issue declares it, and not the stage.
    #[serde(default)]
    pub from_issue: bool,
}

/// The intent that an issue declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssueIntent {
    pub scope: Option<Scope>,
    pub constraints: Vec<String>,
    pub acceptance: Vec<String>,
}

/// Why the intent of an issue is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadIntent {
    /// A glob of its scope is invalid.
    #[error("invalid `owned_scope` of the issue: {0}")]
    Glob(BadGlob),
    /// A field is neither a text nor a list of texts, or too long.
    #[error("`{key}` of the issue {why}")]
    Field { key: &'static str, why: &'static str },
    /// The front matter of its description names one of the fields and cannot be parsed.
    #[error("cannot parse the front matter of the issue's description: {0}")]
    FrontMatter(String),
    /// The scopes of stage and issue have no path in common.
    #[error("the scopes of the issue ({issue}) and of the stage ({stage}) have no path in common")]
    Disjoint { issue: String, stage: String },
}

impl Intent {
    /// Resolves the intent of an attempt at this issue in this stage.
    ///
    /// # Errors
    /// Returns an error if the intent of the issue is invalid.
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

    /// Resolves only the scope.
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

    /// Returns an intent that forbids everything, for use in place of an invalid one.
    pub(crate) fn nothing() -> Self {
        Self {
            scope: Some(Scope::nothing()),
            ..Self::default()
        }
    }

    /// Returns whether the intent declares nothing.
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
