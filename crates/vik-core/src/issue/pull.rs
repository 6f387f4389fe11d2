//! Reads the output of the pull command.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::{Expected, FieldWarning};
use super::{Issue, MAX_ID_BYTES, ReadOnce};
use crate::ids::IssueId;

/// The result of a pull: the issues in pull order, and the invalid items.
#[derive(Clone, Debug, Default)]
pub struct Pull {
    /// The valid wanted items, the first of each id.
    pub issues: Vec<Issue>,
    /// The number of valid items, wanted or not.
    pub count: usize,
    /// The invalid items, which are reported and skipped.
    pub skipped: Vec<Skipped>,
    /// The fields of kept issues with values of another type.
    pub warnings: Vec<FieldWarning>,
    /// Valid items whose state differs from a wanted one only by case; limited to the first ones.
    pub misspelled: Vec<Misspelled>,
}

/// An issue whose state differs from a wanted one only by case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misspelled {
    pub id: IssueId,
    pub state: String,
    pub wanted: Arc<str>,
}

/// The number of misspelled states that are kept of one pull.
const MOST_MISSPELLED: usize = 20;

/// A filter for the issues of a pull: most of thousands are of no interest and would only use
/// memory.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Issues in one of these states are kept.
    pub states: Vec<Arc<str>>,
    /// Issues that are kept in any state; known and unchanged ones are not parsed again.
    pub known: HashMap<IssueId, Option<Issue>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its index in the array, from 0.
    pub index: usize,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// The reason as text.
    pub reason: String,
}

/// The id for an entry of `blocked_by` that is no id. It never counts as closed, so the entry
/// blocks the issue.
pub const UNREADABLE_BLOCKER: &str = "an invalid entry in `blocked_by`";

/// The error for output of a pull that is no list of issues.
#[derive(Debug, thiserror::Error)]
#[error("the pull command did not print a JSON array of issues")]
pub struct ParsePullError(#[from] serde_json::Error);

impl ParsePullError {
    pub fn into_json(self) -> serde_json::Error {
        self.0
    }
}

/// The fields that Vik itself uses.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    identifier: Option<&'a RawValue>,
    #[serde(borrow, default)]
    title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    state: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    priority: Option<&'a RawValue>,
    #[serde(borrow, default)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow, default)]
    blocked_by: Option<&'a RawValue>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    desc: Option<&'a RawValue>,
    #[serde(borrow, default)]
    labels: Option<&'a RawValue>,
    #[serde(borrow, default)]
    url: Option<&'a RawValue>,
    #[serde(borrow, default)]
    comments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    checks: Option<&'a RawValue>,
}

impl Pull {
    /// Parses the output of a pull command: a JSON array of items, each parsed separately.
    ///
    /// # Errors
    /// Returns an error if the output is not a JSON array.
    pub fn parse(output: &[u8]) -> Result<Self, ParsePullError> {
        Self::read(output, None)
    }

    /// Like [`Pull::parse`], but keeps only the wanted issues; the others are checked and counted.
    ///
    /// # Errors
    /// Returns an error if the output is not a JSON array.
    pub fn parse_wanted(output: &[u8], wanted: &Wanted) -> Result<Self, ParsePullError> {
        Self::read(output, Some(wanted))
    }

    fn read(output: &[u8], wanted: Option<&Wanted>) -> Result<Self, ParsePullError> {
        // Some programs write a byte order mark.
        let output = output.strip_prefix(b"\xef\xbb\xbf").unwrap_or(output);
        let mut items = serde_json::Deserializer::from_slice(output);
        let reader = Reader {
            wanted,
            seen: HashMap::new(),
            pull: Self::default(),
        };
        let pull = items.deserialize_seq(reader)?;
        items.end()?;
        Ok(pull)
    }
}

/// Reads the items one by one, so that they need not all be in memory.
struct Reader<'a, 'w> {
    wanted: Option<&'w Wanted>,
    /// Valid items, each with its source text.
    seen: HashMap<Cow<'a, str>, &'a str>,
    pull: Pull,
}

impl<'a> Visitor<'a> for Reader<'a, '_> {
    type Value = Pull;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of issues")
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut items: A) -> Result<Pull, A::Error> {
        let mut index = 0;
        while let Some(item) = items.next_element::<&'a RawValue>()? {
            self.item(index, item.get());
            index += 1;
        }
        self.blockers();
        Ok(self.pull)
    }
}

impl<'a> Reader<'a, '_> {
    fn item(&mut self, index: usize, text: &'a str) {
        let skipped = match Item::read(text) {
            Err((id, reason)) => Skipped { index, id, reason },
            Ok(item) if self.seen.contains_key(&item.id) => Skipped {
                index,
                id: Some(item.id.into_owned()),
                reason: "an earlier item has the same id".to_owned(),
            },
            Ok(item) => {
                self.pull.count += 1;
                let issue = item.wanted(self.wanted);
                if let Some(issue) = &issue {
                    self.pull.warnings.extend(item.warnings(&issue.id));
                }
                self.pull.issues.extend(issue);
                if self.pull.misspelled.len() < MOST_MISSPELLED {
                    self.pull.misspelled.extend(item.misspelled(self.wanted));
                }
                self.seen.insert(item.id, text);
                return;
            }
        };
        self.pull.skipped.push(skipped);
    }

    /// Keeps the blockers of the kept issues too, whatever their state.
    fn blockers(&mut self) {
        if self.wanted.is_none() || self.pull.issues.iter().all(|issue| issue.blocked_by.is_empty()) {
            return;
        }
        let mut kept: HashSet<IssueId> = self.pull.issues.iter().map(|issue| issue.id.clone()).collect();
        let mut at = 0;
        while let Some(issue) = self.pull.issues.get(at) {
            for id in Arc::clone(&issue.blocked_by).iter() {
                if let Some(text) = self.seen.get(id.as_str())
                    && kept.insert(id.clone())
                    && let Ok(blocker) = Issue::parse(text)
                {
                    self.pull.issues.push(blocker);
                }
            }
            at += 1;
        }
    }
}

/// The fields of one item that Vik itself uses, borrowed from its text where possible.
pub(super) struct Item<'a> {
    text: &'a str,
    id: Cow<'a, str>,
    title: Cow<'a, str>,
    state: Cow<'a, str>,
    priority_milli: Option<i64>,
    created_at: Option<&'a RawValue>,
    blocked_by: Vec<Cow<'a, str>>,
    /// The fields of another type, each with its warning.
    odd: Vec<(&'static str, String)>,
}

impl<'a> Item<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, (Option<String>, String)> {
        let head: Head<'_> = serde_json::from_str(text).map_err(|error| {
            (
                None,
                if text.starts_with('{') {
                    error.to_string()
                } else {
                    "it is not an object".to_owned()
                },
            )
        })?;
        let id = head
            .id
            .filter(|raw| raw.get() != "null")
            .or(head.identifier)
            .ok_or_else(|| (None, "it has no `id`".to_owned()))
            .and_then(|raw| {
                scalar(raw).ok_or_else(|| (None, "`id` is neither a string nor a number".to_owned()))
            })?;
        let fail = |reason: &str| (Some(id.clone().into_owned()), reason.to_owned());
        if id.is_empty() {
            return Err(fail("`id` is empty"));
        }
        if id.len() > MAX_ID_BYTES {
            let start: String = id.chars().take(60).collect();
            return Err((Some(start), format!("`id` is longer than {MAX_ID_BYTES} bytes")));
        }
        if id.contains('\0') {
            return Err(fail("`id` contains a NUL character"));
        }
        let state = head
            .state
            .filter(|raw| raw.get() != "null")
            .or(head.status)
            .ok_or_else(|| fail("it has no `state`"))?;
        let state = string(state).ok_or_else(|| fail("`state` is not a string"))?;
        let fields = [
            ("title", head.title, Expected::Text),
            ("description", head.description, Expected::Text),
            ("desc", head.desc, Expected::Text),
            ("url", head.url, Expected::Text),
            ("created_at", head.created_at, Expected::Text),
            ("priority", head.priority, Expected::NumberOrText),
            ("labels", head.labels, Expected::ListOfLabels),
            ("comments", head.comments, Expected::ListOfComments),
            ("checks", head.checks, Expected::ListOfChecks),
        ];
        let complaints = fields
            .into_iter()
            .filter_map(|(field, raw, expected)| Some((field, expected.complaint(raw?)?)));
        let mut odd: Vec<_> = complaints.collect();
        let title = head.title.and_then(string).unwrap_or_default();
        let blocked_by = head.blocked_by.map(ids).unwrap_or_default();
        if blocked_by.iter().any(|id| id == UNREADABLE_BLOCKER) {
            let reason = "contains an entry that is not an id (a string or a number): the issue waits until this is corrected";
            odd.push(("blocked_by", reason.to_owned()));
        }
        Ok(Self {
            text,
            id,
            title,
            state,
            priority_milli: head.priority.and_then(milli),
            created_at: head.created_at,
            blocked_by,
            odd,
        })
    }

    fn warnings(&self, issue: &IssueId) -> impl Iterator<Item = FieldWarning> {
        self.odd.iter().map(|(field, reason)| FieldWarning {
            issue: issue.clone(),
            field,
            reason: reason.clone(),
        })
    }

    fn wanted(&self, wanted: Option<&Wanted>) -> Option<Issue> {
        let Some(wanted) = wanted else {
            return Some(self.issue(None));
        };
        let state = wanted.states.iter().find(|state| ***state == *self.state);
        match wanted.known.get(&*self.id) {
            Some(Some(known)) if *known.payload == *self.text => Some(known.clone()),
            None if state.is_none() => None,
            _ => Some(self.issue(state)),
        }
    }

    fn misspelled(&self, wanted: Option<&Wanted>) -> Option<Misspelled> {
        let states = &wanted?.states;
        if states.iter().any(|state| **state == *self.state) {
            return None;
        }
        let state = self.state.to_lowercase();
        let wanted = states.iter().find(|wanted| wanted.to_lowercase() == state)?;
        Some(Misspelled {
            id: IssueId::new(&*self.id),
            state: self.state.clone().into_owned(),
            wanted: Arc::clone(wanted),
        })
    }

    /// Creates the issue. `state` is the same text where it can be shared.
    pub(super) fn issue(&self, state: Option<&Arc<str>>) -> Issue {
        Issue {
            id: IssueId::new(&*self.id),
            title: (&*self.title).into(),
            state: state.map_or_else(|| (&*self.state).into(), Arc::clone),
            priority_milli: self.priority_milli,
            created_at: self
                .created_at
                .and_then(string)
                .and_then(|text| text.parse().ok()),
            blocked_by: self.blocked_by.iter().map(|id| IssueId::new(&**id)).collect(),
            payload: self.text.into(),
            read: ReadOnce::default(),
        }
    }
}

fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    // Borrowed if there is nothing to unescape.
    serde_json::from_str::<&str>(raw.get())
        .map(Cow::Borrowed)
        .or_else(|_| serde_json::from_str::<String>(raw.get()).map(Cow::Owned))
        .ok()
}

fn milli(raw: &RawValue) -> Option<i64> {
    let number: f64 = raw.get().parse().ok()?;
    // Thousandths distinguish all priorities that people write; the cast saturates.
    number.is_finite().then_some((number * 1000.0) as i64)
}

/// Returns a list of ids, or a single one. An entry that is no id becomes [`UNREADABLE_BLOCKER`].
fn ids(raw: &RawValue) -> Vec<Cow<'_, str>> {
    let id = |raw| scalar(raw).unwrap_or(Cow::Borrowed(UNREADABLE_BLOCKER));
    match raw.get().as_bytes().first() {
        Some(b'n') => Vec::new(),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
            items.into_iter().map(id).collect()
        }
        _ => vec![id(raw)],
    }
}

fn scalar(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') => string(raw),
        Some(b'-' | b'0'..=b'9') => Some(Cow::Borrowed(text)),
        _ => None,
    }
}
