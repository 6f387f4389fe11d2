//! Labels as states, for trackers that only distinguish open and closed issues: `vik:todo` is the
//! state `todo` of an open issue. One without such a label is in the state `none`.

use crate::protocol::{CallError, States};

/// The state of an open issue without a label for a state.
const NONE: &str = "none";
pub(crate) const CLOSED: &str = "closed";
/// The beginning of labels that are states.
const PREFIX: &str = "vik:";

/// How to move an issue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) add: Option<String>,
    pub(crate) remove: Vec<String>,
    /// Whether to close the issue, or to open it again.
    pub(crate) close: Option<bool>,
}

/// Returns the label of a state; `None` if the state has none.
pub(crate) fn label(state: &str) -> Option<String> {
    (![NONE, CLOSED].contains(&state)).then(|| format!("{PREFIX}{state}"))
}

/// Returns the answer about states for the labels of a project. `create` creates the label of a
/// state.
pub(crate) fn existing(
    labels: impl IntoIterator<Item = String>,
    wanted: &[String],
    create: impl Fn(&str) -> Result<(), CallError>,
) -> Result<States, CallError> {
    let mut states: Vec<String> = labels
        .into_iter()
        .filter_map(|label| label.strip_prefix(PREFIX).map(str::to_owned))
        .chain([CLOSED.to_owned(), NONE.to_owned()])
        .collect();
    let mut created = Vec::new();
    for state in wanted {
        if !states.contains(state)
            && let Some(label) = label(state)
        {
            create(&label)?;
            states.push(state.clone());
            created.push(state.clone());
        }
    }
    states.sort();
    Ok(States { states, created })
}

/// Refuses labels that are states: an issue is moved only from a known state.
pub(crate) fn refuse<'l>(labels: impl IntoIterator<Item = &'l String>) -> Result<(), CallError> {
    // Trackers ignore case in the names of labels.
    let is_state = |label: &&String| {
        let start = label.get(..PREFIX.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
    };
    match labels.into_iter().find(is_state) {
        None => Ok(()),
        Some(label) => Err(CallError::Failed(format!(
            "the label `{label}` is a state: use `move`"
        ))),
    }
}

/// Returns the state of an issue with these labels, which are sorted.
pub(crate) fn state(is_closed: bool, labels: &[String]) -> String {
    if is_closed {
        return CLOSED.to_owned();
    }
    let state = labels.iter().find_map(|label| label.strip_prefix(PREFIX));
    state.unwrap_or(NONE).to_owned()
}

impl Transition {
    /// Returns whether an issue has no label of a state but the new one, and those `before` the
    /// move. Otherwise a person has moved it at the same time.
    pub(crate) fn is_undisturbed<'l>(&self, labels: &'l [String], before: &'l [String]) -> bool {
        let is_known = |label: &&String| self.add.as_ref() == Some(*label) || before.contains(*label);
        of_states(labels).all(|label| is_known(&label))
    }
}

/// Returns the labels that are states.
fn of_states(labels: &[String]) -> impl Iterator<Item = &String> {
    labels.iter().filter(|label| label.starts_with(PREFIX))
}

/// Returns how to move an issue; `None` if it is not in the first state, or stays in it.
pub(crate) fn transition(is_closed: bool, labels: &[String], from: &str, to: &str) -> Option<Transition> {
    // An interrupted move can leave the labels of both states.
    let has_label = label(from).is_some_and(|label| !is_closed && labels.contains(&label));
    let is_there = has_label || state(is_closed, labels) == from;
    let add = label(to);
    (is_there && from != to).then(|| Transition {
        remove: of_states(labels)
            .filter(|label| Some(*label) != add.as_ref())
            .cloned()
            .collect(),
        close: (is_closed != (to == CLOSED)).then_some(to == CLOSED),
        add,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn first_label_is_the_state_of_an_open_issue() {
        assert_eq!(state(false, &labels(&["bug"])), "none");
        assert_eq!(state(false, &labels(&["bug", "vik:a b", "vik:c"])), "a b");
        assert_eq!(state(true, &labels(&["vik:a"])), "closed");
    }

    #[test]
    fn labels_of_states_are_refused() {
        assert!(refuse(&labels(&["bug", "vi", "états"])).is_ok());
        assert!(refuse(&labels(&["bug", "VIK:todo"])).is_err());
    }

    #[test]
    fn transition_replaces_all_labels_of_states() {
        let found = |is_closed, given: &[&str], from: &str, to: &str| {
            let found = transition(is_closed, &labels(given), from, to);
            found.map(|found| (found.add.unwrap_or_default(), found.remove.join(" "), found.close))
        };
        let expected = |add: &str, remove: &str, close| Some((add.to_owned(), remove.to_owned(), close));
        let given = ["bug", "vik:a", "vik:b"];
        assert_eq!(
            found(false, &given, "a", "c"),
            expected("vik:c", "vik:a vik:b", None)
        );
        assert_eq!(found(false, &given, "b", "a"), expected("vik:a", "vik:b", None));
        assert_eq!(
            found(false, &given, "a", "closed"),
            expected("", "vik:a vik:b", Some(true))
        );
        assert_eq!(
            found(false, &given, "a", "none"),
            expected("", "vik:a vik:b", None)
        );
        assert_eq!(
            found(true, &given, "closed", "a"),
            expected("vik:a", "vik:b", Some(false))
        );
        assert_eq!(found(true, &given, "a", "b"), None);
        assert_eq!(found(false, &given, "c", "a"), None);
        assert_eq!(found(false, &given, "none", "a"), None);
        assert_eq!(found(false, &given, "a", "a"), None);
        assert_eq!(found(false, &["bug"], "none", "a"), expected("vik:a", "", None));
    }
}
