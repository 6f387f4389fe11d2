//! Decides which issues are trusted, by their author and labels.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::issue::{Issue, author_of};
use crate::workflow::{TrustPolicy, Untrusted};

/// The origin of an issue, as far as the tracker reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `author`, or its `login` or `username`; else those of `user`. Never a name that people
    /// choose for display.
    pub author: Option<Arc<str>>,
    pub labels: Vec<String>,
}

/// The trust level of the text of an issue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TrustView")]
pub enum Trust {
    /// Prompts contain the text unchanged.
    #[default]
    Trusted,
    /// Prompts contain the text as fenced data.
    Fenced,
    /// The issue does not start.
    Held,
}

impl Origin {
    pub(crate) fn read(fields: &Map<String, Value>, labels: Vec<String>) -> Self {
        Self {
            author: author_of(fields),
            labels,
        }
    }
}

impl TrustPolicy {
    /// Returns how far the text of an issue is trusted. Names must match exactly.
    pub fn judge(&self, issue: &Issue) -> Trust {
        let origin = issue.origin();
        let by_author = self.knows(origin.author.as_deref());
        let by_label = origin.labels.iter().any(|label| self.labels.contains(label));
        match self.untrusted {
            _ if by_author || by_label => Trust::Trusted,
            Untrusted::Fence => Trust::Fenced,
            Untrusted::Hold => Trust::Held,
        }
    }

    /// Returns whether this is one of `authors`. The labels of an issue say nothing about its
    /// comments.
    pub fn knows(&self, author: Option<&str>) -> bool {
        author.is_some_and(|author| self.authors.iter().any(|known| **known == *author))
    }
}
