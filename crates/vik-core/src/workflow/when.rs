//! Which issues a stage takes.

use serde::{Deserialize, Serialize};

/// `issue.stages.S.when`: the issues that a stage takes.
///
/// All states of a stage are one stay of an issue: moving between them starts and ends nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredWhen")]
pub struct When {
    /// `state`: at least one, compared exactly, with case.
    pub states: Vec<String>,
    /// `follow_up`: further states of the stage, in which an issue waits for what others say about the
    /// work. There a run starts only if the stage has worked on the issue and something is new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_up: Vec<String>,
    /// `labels`: the issue must have all of them, whatever their case.
    pub labels: Vec<String>,
}

/// The stored form: earlier versions had one state and nothing else.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredWhen {
    State(String),
    Whole {
        states: Vec<String>,
        #[serde(default)]
        follow_up: Vec<String>,
        labels: Vec<String>,
    },
}

impl From<StoredWhen> for When {
    fn from(stored: StoredWhen) -> Self {
        match stored {
            StoredWhen::State(state) => Self::state(state),
            StoredWhen::Whole {
                states,
                follow_up,
                labels,
            } => Self {
                states,
                follow_up,
                labels,
            },
        }
    }
}

impl When {
    /// Returns the rule that takes all issues in a state.
    pub fn state(state: impl Into<String>) -> Self {
        Self {
            states: vec![state.into()],
            follow_up: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Returns whether the stage takes an issue in this state with these labels, which are read only
    /// if that depends on them.
    pub fn takes(&self, state: &str, labels: impl FnOnce() -> Vec<String>) -> bool {
        self.has_state(state) && self.missing_labels(labels).next().is_none()
    }

    pub fn has_state(&self, state: &str) -> bool {
        self.all_states().any(|one| one == state)
    }

    /// Returns whether a run of the stage starts in this state only if something is new.
    pub fn is_follow_up(&self, state: &str) -> bool {
        self.follow_up.iter().any(|one| one == state)
    }

    /// Returns all states of the stage.
    pub fn all_states(&self) -> impl Iterator<Item = &str> {
        self.states.iter().chain(&self.follow_up).map(String::as_str)
    }

    /// Returns the required labels that an issue does not have.
    pub fn missing_labels(&self, labels: impl FnOnce() -> Vec<String>) -> impl Iterator<Item = &str> {
        // Reading the labels of an issue is expensive, and most stages require none.
        let labels: Vec<_> = match self.labels[..] {
            [] => Vec::new(),
            _ => labels().iter().map(|label| label.to_lowercase()).collect(),
        };
        let required = self.labels.iter().map(String::as_str);
        required.filter(move |label| !labels.contains(&label.to_lowercase()))
    }

    /// Returns the state that stands for all states of the stage where texts of issues are
    /// compared.
    pub fn first_state(&self) -> &str {
        self.states.first().map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_is_taken_in_any_state_with_all_labels() {
        let when = When {
            states: vec!["todo".to_owned(), "Doing".to_owned()],
            follow_up: vec!["review".to_owned()],
            labels: vec!["Backend".to_owned(), "agent".to_owned()],
        };
        let takes = |state: &str, labels: &[&str]| {
            when.takes(state, || labels.iter().map(|&label| label.to_owned()).collect())
        };
        assert!(takes("todo", &["AGENT", "backend", "x"]));
        assert!(takes("Doing", &["agent", "Backend"]));
        assert!(takes("review", &["agent", "Backend"]));
        assert!(when.is_follow_up("review") && !when.is_follow_up("todo"));
        assert!(!takes("doing", &["agent", "backend"]));
        assert!(!takes("todo", &["agent"]));
        let missing = when.missing_labels(|| vec!["agent".to_owned()]);
        assert_eq!(missing.collect::<Vec<_>>(), ["Backend"]);
    }

    #[test]
    fn stored_state_of_an_earlier_version_is_read() {
        assert_eq!(
            serde_json::from_str::<When>(r#""todo""#).unwrap(),
            When::state("todo")
        );
        let when = When::state("todo");
        let stored = serde_json::to_string(&when).unwrap();
        assert_eq!(serde_json::from_str::<When>(&stored).unwrap(), when);
    }
}
