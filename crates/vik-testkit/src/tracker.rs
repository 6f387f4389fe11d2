//! A tracker in one JSON file, for the `vik-fake-tracker` program and for tests.

use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tracker with its issues in a file, which the daemon's hooks and the test change concurrently.
#[derive(Clone, Debug)]
pub struct FakeTracker {
    path: PathBuf,
}

/// One issue of the tracker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrackedIssue {
    pub id: String,
    pub title: String,
    pub state: String,
    /// Anything else, also shown by `list`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The content of the file: the issues, and the log of calls.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    issues: Vec<TrackedIssue>,
    /// `list`, `move 1 done`, …, oldest first.
    calls: Vec<String>,
}

impl FakeTracker {
    /// Creates a tracker in a new file.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be written.
    pub fn create(path: impl Into<PathBuf>, issues: &[(&str, &str)]) -> Self {
        let tracker = Self { path: path.into() };
        tracker.update_file(|content| {
            content.issues = issues
                .iter()
                .map(|(id, state)| TrackedIssue {
                    id: (*id).to_owned(),
                    title: format!("Issue {id}"),
                    state: (*state).to_owned(),
                    extra: Map::new(),
                })
                .collect();
        });
        tracker
    }

    /// Opens the tracker in an existing file.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the pull command, for `issues.pull.command`.
    pub fn pull_command(&self) -> String {
        format!("vik-fake-tracker {} list", self.path.display())
    }

    /// Returns the command that moves the issue of a template, for a hook.
    pub fn move_command(&self, state: &str) -> String {
        format!(
            "vik-fake-tracker {} move {{{{ issue.id }}}} {state}",
            self.path.display()
        )
    }

    /// Returns the output of `list`, and counts as a call.
    pub fn list(&self) -> String {
        self.update_file(|content| {
            content.calls.push("list".to_owned());
            serde_json::to_string(&content.issues).unwrap()
        })
    }

    pub fn issues(&self) -> Vec<TrackedIssue> {
        self.update_file(|content| content.issues.clone())
    }

    /// Returns the state of one issue.
    pub fn state(&self, id: &str) -> Option<String> {
        self.issues()
            .into_iter()
            .find(|issue| issue.id == id)
            .map(|issue| issue.state)
    }

    /// Returns the calls, oldest first.
    pub fn calls(&self) -> Vec<String> {
        self.update_file(|content| content.calls.clone())
    }

    /// Returns the number of `list` calls, which is the number of pulls.
    pub fn pulls(&self) -> usize {
        self.calls().iter().filter(|call| *call == "list").count()
    }

    /// Moves an issue. Returns `false` if there is none with this id.
    pub fn move_to(&self, id: &str, state: &str) -> bool {
        self.update_issue(id, &format!("move {id} {state}"), |issue| {
            issue.state = state.to_owned();
        })
    }

    /// Sets a field (`title`, `state` or any other) of an issue.
    pub fn set(&self, id: &str, field: &str, value: Value) -> bool {
        self.update_issue(id, &format!("set {id} {field}"), |issue| match (field, value) {
            ("title", Value::String(text)) => issue.title = text,
            ("state", Value::String(text)) => issue.state = text,
            (_, value) => drop(issue.extra.insert(field.to_owned(), value)),
        })
    }

    pub fn add(&self, id: &str, title: &str, state: &str) {
        let issue = TrackedIssue {
            id: id.to_owned(),
            title: title.to_owned(),
            state: state.to_owned(),
            extra: Map::new(),
        };
        self.update_file(|content| content.issues.push(issue));
    }

    pub fn remove(&self, id: &str) {
        self.update_file(|content| content.issues.retain(|issue| issue.id != id));
    }

    fn update_issue(&self, id: &str, call: &str, change: impl FnOnce(&mut TrackedIssue)) -> bool {
        self.update_file(|content| {
            content.calls.push(call.to_owned());
            content
                .issues
                .iter_mut()
                .find(|issue| issue.id == id)
                .map(change)
                .is_some()
        })
    }

    /// Reads, changes and writes the file under its lock.
    fn update_file<T>(&self, change: impl FnOnce(&mut Content) -> T) -> T {
        let mut options = std::fs::OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&self.path);
        let file = file.unwrap_or_else(|e| panic!("{}: {e}", self.path.display()));
        let mut file = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, e)| e)
            .expect("a lock");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("a tracker file");
        let mut content: Content = if text.is_empty() {
            Content::default()
        } else {
            serde_json::from_str(&text).expect("a tracker file")
        };
        let before = serde_json::to_string(&content).unwrap();
        let result = change(&mut content);
        let after = serde_json::to_string(&content).unwrap();
        if before != after || text.is_empty() {
            // In one write over the old content, padded with blanks: a killed tracker must not
            // leave an empty file.
            let whole = after.clone() + &" ".repeat(text.len().saturating_sub(after.len()));
            file.rewind()
                .and_then(|()| file.write_all(whole.as_bytes()))
                .and_then(|()| file.set_len(whole.len() as u64))
                .expect("a tracker file");
        }
        result
    }
}
