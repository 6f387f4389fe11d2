//! The tracker: issues that people and agents change, and pulls that may be old, incomplete or
//! wrong.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use vik_core::ids::IssueId;
use vik_core::issue::{Issue, Pull, Wanted};

use crate::policy::STATES;
use crate::rng::Rng;

/// The number of old snapshots that it can return.
const KEPT: usize = 4;

/// The scopes of issues: disjoint, nested, crossing, with an exclusion, none, and an invalid one.
const SCOPES: [&[&str]; 9] = [
    &[],
    &["a"],
    &["b"],
    &["a/x"],
    &["**/x"],
    &["**", "!a"],
    &["b/y", "a/y"],
    &["c"],
    &["../c"],
];

/// The authors of issues; the first one is always trusted.
pub const AUTHORS: [&str; 2] = ["member", "stranger"];

/// The author of comments that Vik itself wrote.
pub const VIK: &str = "vik";

/// One issue as the tracker returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The number, which is also the id.
    pub issue: usize,
    pub state: &'static str,
    /// The number of its title.
    pub title: u32,
    /// The number of its description.
    pub description: u32,
    /// The issues that block it.
    pub blocked_by: Vec<usize>,
    pub scope: &'static [&'static str],
    pub author: &'static str,
    pub priority: Option<u8>,
    /// The number and the author of each comment.
    pub comments: Vec<(u32, &'static str)>,
    /// The number of the run of CI, and its state.
    pub check: Option<(u32, &'static str)>,
    /// The day of January 2026 on which it was created.
    pub created: Option<u8>,
    /// The JSON of a pull.
    text: Arc<str>,
}

impl Item {
    pub fn new(issue: usize, state: &'static str) -> Self {
        let mut item = Self {
            issue,
            state,
            title: 0,
            description: 0,
            blocked_by: Vec::new(),
            scope: &[],
            author: AUTHORS[0],
            priority: None,
            comments: Vec::new(),
            check: None,
            created: None,
            text: "".into(),
        };
        item.write("");
        item
    }

    /// Returns the item with this change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self.write("");
        self
    }

    /// Returns the item without its blockers.
    pub fn without_blockers(&self) -> Arc<Self> {
        Arc::new(self.clone().with(|item| item.blocked_by.clear()))
    }

    /// Returns the item without its scope, written by a trusted author.
    pub fn without_scope(&self) -> Arc<Self> {
        let changed = self.clone();
        Arc::new(changed.with(|item| (item.scope, item.author) = (&[], AUTHORS[0])))
    }

    /// Returns the item with comments of members only.
    pub fn with_members(&self) -> Arc<Self> {
        let changed = self.clone();
        Arc::new(changed.with(|item| {
            for (_, author) in &mut item.comments {
                *author = AUTHORS[0];
            }
        }))
    }

    /// Returns the item in another state.
    pub fn in_state(&self, state: &'static str) -> Arc<Self> {
        Arc::new(self.clone().with(|item| item.state = state))
    }

    /// Returns the item with a mark in its title.
    pub fn with_mark(&self, mark: u32) -> Arc<Self> {
        let mut item = self.clone();
        item.write(&format!("~{mark}"));
        Arc::new(item)
    }

    /// Returns the parsed issue.
    pub fn parsed(&self) -> Option<Issue> {
        Issue::parse(&self.text).ok()
    }

    fn write(&mut self, mark: &str) {
        let mut text = format!(
            r#"{{"id":"{}","state":"{}","title":"t{}{mark}","description":"d{}""#,
            self.issue, self.state, self.title, self.description
        );
        if let Some(priority) = self.priority {
            let _ = write!(text, r#","priority":{priority}"#);
        }
        if let Some(created) = self.created {
            let _ = write!(text, r#","created_at":"2026-01-{created:02}T00:00:00Z""#);
        }
        if !self.blocked_by.is_empty() {
            let ids: Vec<String> = self.blocked_by.iter().map(usize::to_string).collect();
            let _ = write!(text, r#","blocked_by":[{}]"#, ids.join(","));
        }
        if !self.scope.is_empty() {
            let _ = write!(text, r#","owned_scope":{:?}"#, self.scope);
        }
        let _ = write!(text, r#","author":"{}""#, self.author);
        if !self.comments.is_empty() {
            let comments: Vec<String> = self.comments.iter().map(comment).collect();
            let _ = write!(text, r#","comments":[{}]"#, comments.join(","));
        }
        if let Some((run, state)) = self.check {
            let _ = write!(
                text,
                r#","checks":[{{"name":"build","state":"{state}","url":"{run}"}}]"#
            );
        }
        text.push('}');
        self.text = text.into();
    }
}

/// Returns a comment as the tracker returns it. Vik writes under the name of a member.
fn comment((number, author): &(u32, &'static str)) -> String {
    let (author, mark) = match *author {
        VIK => (AUTHORS[0], "\\n<!-- vik:k -->"),
        author => (author, ""),
    };
    format!(r#"{{"id":{number},"author":"{author}","body":"c{number}{mark}"}}"#)
}

/// The result of a pull: the items in the order of the tracker.
pub type Snapshot = Vec<Arc<Item>>;

#[derive(Clone, Debug)]
pub struct Tracker {
    items: Vec<Arc<Item>>,
    there: Vec<bool>,
    ids: Vec<IssueId>,
    old: VecDeque<Snapshot>,
}

impl Tracker {
    pub fn new(issues: usize, rng: &mut Rng) -> Self {
        let item = |issue| {
            let is_new = rng.percent(70);
            let state = if is_new { "todo" } else { rng.pick(&STATES) };
            Arc::new(Item::new(issue, state).with(|item| {
                item.scope = rng.pick(&SCOPES);
                item.priority = rng.percent(60).then(|| rng.between(1, 3) as u8);
                item.created = rng.percent(60).then(|| rng.between(1, 9) as u8);
            }))
        };
        Self {
            items: (0..issues).map(item).collect(),
            there: vec![true; issues],
            ids: (0..issues).map(|issue| IssueId::new(issue.to_string())).collect(),
            old: VecDeque::new(),
        }
    }

    /// Returns the number of issues that ever existed.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the id of an issue.
    pub fn id(&self, issue: usize) -> &IssueId {
        &self.ids[issue]
    }

    /// Returns the present state of an issue, if it exists.
    pub fn item(&self, issue: usize) -> Option<&Arc<Item>> {
        self.items.get(issue).filter(|_| self.there[issue])
    }

    /// Returns the present state of all issues.
    pub fn snapshot(&self) -> Snapshot {
        let there = self.items.iter().zip(&self.there).filter(|(_, there)| **there);
        there.map(|(item, _)| Arc::clone(item)).collect()
    }

    fn change(&mut self, issue: usize, change: impl FnOnce(&mut Item)) {
        let item = Arc::make_mut(&mut self.items[issue]);
        change(item);
        item.write("");
    }

    /// Moves an issue to a state.
    pub fn set_state(&mut self, issue: usize, state: &'static str) {
        self.change(issue, |item| item.state = state);
    }

    /// Changes an issue, and returns the name of the change.
    pub fn edit(&mut self, issue: usize, rng: &mut Rng) -> &'static str {
        match rng.weighted(&[8, 3, 2, 3, 2, 4, 2, 2, 1, 3, 2]) {
            0 => {
                let state = rng.pick(&STATES);
                self.set_state(issue, state);
                "state"
            }
            1 => {
                // It may return to an earlier title.
                let title = rng.between(0, 3) as u32;
                self.change(issue, |item| item.title = title);
                "title"
            }
            2 => {
                self.change(issue, |item| item.description += 1);
                "description"
            }
            3 => {
                let all = self.len();
                let blockers = (0..rng.below(3)).map(|_| rng.below(all + 1)).collect();
                self.change(issue, |item| item.blocked_by = blockers);
                "blockers"
            }
            4 => {
                self.change(issue, |item| item.blocked_by.clear());
                "blockers cleared"
            }
            5 => {
                self.there[issue] = !self.there[issue];
                if self.there[issue] {
                    "appears"
                } else {
                    "disappears"
                }
            }
            7 => {
                let scope = rng.pick(&SCOPES);
                self.change(issue, |item| item.scope = scope);
                "scope"
            }
            8 => {
                let author = rng.pick(&AUTHORS);
                self.change(issue, |item| item.author = author);
                "author"
            }
            9 => {
                let author = rng.pick(&[AUTHORS[0], AUTHORS[0], AUTHORS[1], VIK]);
                self.change(issue, |item| {
                    item.comments.push((item.comments.len() as u32, author));
                });
                "comment"
            }
            10 => {
                let run = rng.between(1, 3) as u32;
                let state = rng.pick(&["failed", "failed", "passed", "pending"]);
                self.change(issue, |item| item.check = Some((run, state)));
                "check"
            }
            _ => {
                let priority = rng.percent(70).then(|| rng.between(1, 3) as u8);
                self.change(issue, |item| item.priority = priority);
                "priority"
            }
        }
    }

    /// Returns the result of a pull, which is false in this percentage of cases, and the kind of
    /// falsehood.
    pub fn pulled(&mut self, lies: u64, rng: &mut Rng) -> (Snapshot, &'static str) {
        let mut snapshot = self.snapshot();
        let truth = snapshot.clone();
        let lie = if rng.percent(lies) {
            match rng.below(4) {
                0 if !self.old.is_empty() => {
                    snapshot = self.old[rng.below(self.old.len())].clone();
                    "old"
                }
                1 if !snapshot.is_empty() => {
                    snapshot.remove(rng.below(snapshot.len()));
                    "short"
                }
                2 if !snapshot.is_empty() && !self.old.is_empty() => {
                    // The same issue twice with different content: the first one counts.
                    let old = &self.old[rng.below(self.old.len())];
                    if !old.is_empty() {
                        let twin = Arc::clone(&old[rng.below(old.len())]);
                        snapshot.insert(rng.below(snapshot.len() + 1), twin);
                    }
                    "twice"
                }
                _ => {
                    rng.shuffle(&mut snapshot);
                    "other order"
                }
            }
        } else {
            ""
        };
        if self.old.len() == KEPT {
            self.old.pop_front();
        }
        self.old.push_back(truth);
        (snapshot, lie)
    }

    /// Returns an older state of an issue, if there is one.
    pub fn old_item(&self, issue: usize, rng: &mut Rng) -> Option<Arc<Item>> {
        let old = (!self.old.is_empty()).then(|| &self.old[rng.below(self.old.len())])?;
        old.iter().find(|item| item.issue == issue).cloned()
    }
}

/// Returns the output of a pull for a snapshot.
pub fn print(snapshot: &Snapshot) -> String {
    let mut text = String::with_capacity(128 * snapshot.len() + 2);
    text.push('[');
    for (at, item) in snapshot.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&item.text);
    }
    text.push(']');
    text
}

/// Parses the output as a real pull does.
pub fn read(text: &str, wanted: &Wanted) -> Vec<Issue> {
    Pull::parse_wanted(text.as_bytes(), wanted)
        .map(|pull| pull.issues)
        .unwrap_or_default()
}

/// Returns the snapshot with only the first item of each id.
pub fn distinct(snapshot: &Snapshot) -> Snapshot {
    let mut seen = BTreeSet::new();
    let first = |item: &&Arc<Item>| seen.insert(item.issue);
    snapshot.iter().filter(first).cloned().collect()
}
