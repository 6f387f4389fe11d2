//! Trackers: the [`protocol`] that a tracker program speaks, [`github`] issues, and the embedded
//! tracker, which keeps issues as Markdown files with YAML front matter, one file each, made for
//! git.
//!
//! [`Tracker`] is a folder of issues: it lists, creates, moves and comments them. A
//! [`TrackedIssue`] is one of them, and [`TrackedIssue::fields`] what the pull command prints of it.
//!
//! The files belong to people. A change modifies only the bytes that it must: unknown keys, key
//! order, comments, line ends and manual edits stay. An issue is found by the `id` in its front
//! matter, never by a path that is built from an id. Writers wait for each other on a lock of the
//! folder, and a file is replaced in one step. If an editor saves the file in between, Vik detects
//! it and applies the change to the new content.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod conformance;
mod document;
mod error;
mod front;
pub mod github;
pub mod gitlab;
mod http;
mod issue;
mod labels;
mod lock;
mod mark;
pub mod protocol;
pub mod redmine;
mod run;
mod states;
mod store;
mod yaml;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub use error::{BrokenFile, TrackerError};
pub use http::Access;
pub use issue::{Comment, TrackedIssue};

use document::Document;
use store::{LockedStore, Store};

/// The most tries of a change while an editor saves the file at the same time.
const TRIES: usize = 10;

/// A folder of issues.
///
/// # Examples
///
/// ```
/// use vik_tracker::{NewIssue, Tracker};
///
/// let folder = tempfile::tempdir()?;
/// let tracker = Tracker::new(folder.path().join("issues"));
/// let now = jiff::Timestamp::now();
/// let issue = NewIssue {
///     title: "Fix the parser".to_owned(),
///     state: "todo".to_owned(),
///     ..NewIssue::default()
/// };
/// let id = tracker.create(&issue, now)?;
/// tracker.move_to(&id, "done", Some("todo"), None, now)?;
/// assert_eq!(tracker.show(&id)?.state, "done");
/// assert!(tracker.move_to(&id, "review", Some("todo"), None, now).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tracker {
    dir: PathBuf,
}

/// All issues of a folder, sorted by id, and the files that are none.
#[derive(Debug, Default)]
pub struct Listing {
    /// The issues; each id once.
    pub issues: Vec<TrackedIssue>,
    /// Files that cannot be parsed or repeat an id, sorted by name.
    pub broken: Vec<BrokenFile>,
}

/// The data of a new issue.
#[derive(Clone, Debug, Default)]
pub struct NewIssue {
    /// The title: one line, not empty.
    pub title: String,
    pub state: String,
    /// The description; may be empty.
    pub body: String,
    pub labels: Vec<String>,
    pub priority: Option<i64>,
    /// Ids of the issues that must be done before.
    pub blocked_by: Vec<String>,
    /// The id; the next free number if absent.
    pub id: Option<String>,
}

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub from: String,
    /// Whether the state changed.
    pub changed: bool,
}

impl Tracker {
    /// Returns the tracker in this folder; does not access the folder yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads all issues. Broken files and repeated ids are in the listing.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Listing, TrackerError> {
        let store = Store::open(&self.dir)?;
        let mut listing = Listing::default();
        let mut seen: std::collections::HashMap<String, OsString> = std::collections::HashMap::new();
        for name in store.names()? {
            match store
                .read(&name)
                .and_then(|text| TrackedIssue::parse(&store.path(&name), &text))
            {
                Ok(issue) => match seen.entry(issue.id.clone()) {
                    std::collections::hash_map::Entry::Vacant(free) => {
                        free.insert(name);
                        listing.issues.push(issue);
                    }
                    std::collections::hash_map::Entry::Occupied(first) => {
                        let first = first.get().display();
                        let reason = format!("the id {:?} is already used by {first}", issue.id);
                        let (path, hint) = (store.path(&name), "change one of the ids");
                        listing
                            .broken
                            .push(BrokenFile::new(&path, issue.id_line, reason, hint));
                    }
                },
                Err(broken) => listing.broken.push(broken),
            }
        }
        listing
            .issues
            .sort_by(|a, b| natural_key(&a.id).cmp(&natural_key(&b.id)));
        Ok(listing)
    }

    /// Returns the issue with this id.
    ///
    /// # Errors
    /// When there is none, more than one, or its file is broken.
    pub fn show(&self, id: &str) -> Result<TrackedIssue, TrackerError> {
        let store = Store::open(&self.dir)?;
        let (name, text) = find(&store, id)?;
        Ok(TrackedIssue::parse(&store.path(&name), &text)?)
    }

    /// Creates an issue, and the folder if it is missing, and returns the id.
    ///
    /// # Errors
    /// When the id or the title is invalid, the id is in use, or the file cannot be written.
    pub fn create(&self, issue: &NewIssue, now: Timestamp) -> Result<String, TrackerError> {
        self.create_once(issue, None, now).map(|(id, _)| id)
    }

    /// Creates an issue unless there is one that was created with the same key. Returns the id, and
    /// whether the issue was created.
    ///
    /// # Errors
    /// As [`Tracker::create`].
    pub fn create_once(
        &self,
        issue: &NewIssue,
        key: Option<&str>,
        now: Timestamp,
    ) -> Result<(String, bool), TrackerError> {
        let title = issue.title.trim();
        if title.is_empty() || title.contains(['\n', '\r']) {
            return Err(TrackerError::BadTitle);
        }
        if issue.state.trim().is_empty() {
            return Err(TrackerError::BadState);
        }
        if let Some(id) = &issue.id {
            check_new_id(id)?;
        }
        let store = Store::create(&self.dir)?.lock()?;
        let survey = Survey::of(&store, issue.id.as_deref(), key)?;
        if let Some(id) = survey.marked {
            return Ok((id, false));
        }
        let id = match (&issue.id, survey.taken) {
            (Some(id), Some(path)) => return Err(TrackerError::IdInUse { id: id.clone(), path }),
            (Some(id), None) => id.clone(),
            (None, _) => survey.highest.saturating_add(1).to_string(),
        };
        let mut text = format!(
            "---\nid: {}\ntitle: {}\nstate: {}\ncreated_at: {}\n",
            yaml::plain_number(&id).unwrap_or_else(|| yaml::scalar(&id)),
            yaml::scalar(title),
            yaml::scalar(&issue.state),
            now.strftime("%Y-%m-%dT%H:%M:%SZ")
        );
        if let Some(priority) = issue.priority {
            text.push_str(&format!("priority: {priority}\n"));
        }
        for (key, list) in [("labels", &issue.labels), ("blocked_by", &issue.blocked_by)] {
            if !list.is_empty() {
                text.push_str(&format!("{key}: {}\n", yaml::list(list)));
            }
        }
        text.push_str("---\n");
        let body = issue.body.trim_end();
        let body = document::escaped(&key.map_or_else(|| body.to_owned(), |key| mark::marked(body, key)));
        if !body.is_empty() {
            text.push_str(&format!("\n{body}\n"));
        }
        store.create_file(&file_name(&id, title), &text)?;
        Ok((id, true))
    }

    /// Moves an issue to a state; with `from`, only if it is in that state. The reason becomes a
    /// comment.
    ///
    /// # Errors
    /// When the issue does not exist, is not in `from`, or cannot be written.
    pub fn move_to(
        &self,
        id: &str,
        state: &str,
        from: Option<&str>,
        reason: Option<(&str, &str)>,
        now: Timestamp,
    ) -> Result<Moved, TrackerError> {
        if state.trim().is_empty() || state.contains(['\n', '\r']) {
            return Err(TrackerError::BadState);
        }
        self.change(id, |document, path| {
            let issue = document.issue(path)?;
            if let Some(expected) = from
                && issue.state != expected
            {
                return Err(TrackerError::WrongState {
                    id: id.to_owned(),
                    expected: expected.to_owned(),
                    actual: issue.state,
                });
            }
            let changed = issue.state != state;
            if changed {
                document.set("state", state, path)?;
                if let Some((author, reason)) = reason {
                    let text = format!("{} → {state}: {reason}", issue.state);
                    document.comment(author, &text, now);
                }
            }
            Ok(Moved {
                from: issue.state,
                changed,
            })
        })
    }

    /// Appends a comment.
    ///
    /// # Errors
    /// When the issue does not exist, the text is empty, or the file cannot be written.
    pub fn comment(&self, id: &str, author: &str, text: &str, now: Timestamp) -> Result<(), TrackerError> {
        if text.trim().is_empty() {
            return Err(TrackerError::EmptyComment);
        }
        self.change(id, |document, _| {
            document.comment(author, text, now);
            Ok(())
        })
    }

    /// Appends a comment unless there is one that was written with the same key. Returns whether it
    /// was added.
    ///
    /// # Errors
    /// As [`Tracker::comment`].
    pub fn comment_once(
        &self,
        id: &str,
        author: &str,
        text: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<bool, TrackerError> {
        if text.trim().is_empty() {
            return Err(TrackerError::EmptyComment);
        }
        self.change(id, |document, path| {
            let comments = document.issue(path)?.comments;
            if comments.iter().any(|comment| mark::is_marked(&comment.text, key)) {
                return Ok(false);
            }
            document.comment(author, &mark::marked(text, key), now);
            Ok(true)
        })
    }

    /// Adds and removes labels. Returns whether the labels changed.
    ///
    /// # Errors
    /// When the issue does not exist, its labels are no list of texts, or it cannot be written.
    pub fn label(&self, id: &str, add: &[String], remove: &[String]) -> Result<bool, TrackerError> {
        self.change(id, |document, path| {
            let before = document.text().to_owned();
            document.label(add, remove, path)?;
            Ok(document.text() != before)
        })
    }

    /// Applies a change to the current content of the file of an issue, under the lock.
    fn change<T>(
        &self,
        id: &str,
        mut edit: impl FnMut(&mut Document, &Path) -> Result<T, TrackerError>,
    ) -> Result<T, TrackerError> {
        let store = Store::open(&self.dir)?.lock()?;
        let (name, mut text) = find(&store, id)?;
        let path = store.path(&name);
        for _ in 0..TRIES {
            let mut document = Document::parse(&path, text.clone())?;
            let done = edit(&mut document, &path)?;
            if document.text() == text || store.replace(&name, &text, document.text())? {
                return Ok(done);
            }
            // An editor has saved it since: apply the change to the new content.
            text = store.read(&name)?;
        }
        Err(TrackerError::ConcurrentWrites { path })
    }
}

/// Returns the file with this id, and its content.
fn find(store: &Store, id: &str) -> Result<(OsString, String), TrackerError> {
    let mut found: Option<(OsString, String)> = None;
    let mut broken = None;
    for name in store.names()? {
        let named = is_named_for(&name, id);
        let text = match store.read(&name) {
            Ok(text) => text,
            Err(error) if named => {
                broken = Some(error);
                continue;
            }
            Err(_) => continue,
        };
        if !document::may_have_id(&text, id) && !named {
            continue;
        }
        match Document::parse(&store.path(&name), text) {
            Ok(document) if document.id() == Some(id) => {
                if let Some((first, _)) = &found {
                    let paths = [store.path(first), store.path(&name)];
                    return Err(TrackerError::Ambiguous {
                        id: id.to_owned(),
                        paths: Box::new(paths),
                    });
                }
                found = Some((name, document.into_text()));
            }
            Ok(_) => {}
            Err(error) if named => broken = Some(error),
            Err(_) => {}
        }
    }
    match (found, broken) {
        (Some(found), _) => Ok(found),
        (None, Some(broken)) => Err(broken.into()),
        (None, None) => Err(TrackerError::NotFound {
            id: id.to_owned(),
            dir: store.dir().to_owned(),
        }),
    }
}

/// What the existing files mean for a new issue.
#[derive(Default)]
struct Survey {
    /// The highest number that any file uses as its id or at the start of its name.
    highest: u64,
    /// The file with the wanted id.
    taken: Option<PathBuf>,
    /// The id of the issue that was created with the key.
    marked: Option<String>,
}

impl Survey {
    fn of(store: &LockedStore, id: Option<&str>, key: Option<&str>) -> Result<Self, TrackerError> {
        let mut survey = Self::default();
        for name in store.names()? {
            let path = store.path(&name);
            let shown = name.to_string_lossy();
            let digits: String = shown.chars().take_while(char::is_ascii_digit).collect();
            survey.highest = survey.highest.max(digits.parse().unwrap_or(0));
            let Ok(text) = store.read(&name) else { continue };
            let Ok(document) = Document::parse(&path, text) else {
                continue;
            };
            let Some(used) = document.id() else { continue };
            survey.highest = survey.highest.max(used.parse().unwrap_or(0));
            if let Some(key) = key
                && document
                    .issue(&path)
                    .is_ok_and(|issue| mark::is_marked(&issue.description, key))
            {
                survey.marked = Some(used.to_owned());
            }
            if Some(used) == id {
                survey.taken = Some(path);
            }
        }
        Ok(survey)
    }
}

/// Checks a new id. It is also the start of a file name, so it must be plain. Ids in files that
/// people wrote may be anything.
fn check_new_id(id: &str) -> Result<(), TrackerError> {
    let plain = id
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if plain && (1..=100).contains(&id.len()) && id.as_bytes()[0].is_ascii_alphanumeric() {
        Ok(())
    } else {
        Err(TrackerError::BadId { id: id.to_owned() })
    }
}

/// Returns `<id>-<slug of the title>.md`.
fn file_name(id: &str, title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if slug.len() >= 50 {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() {
        format!("{id}.md")
    } else {
        format!("{id}-{slug}.md")
    }
}

/// Returns whether a file has a name that [`file_name`] gives to this id.
fn is_named_for(name: &std::ffi::OsStr, id: &str) -> bool {
    let name = name.as_encoded_bytes();
    !id.is_empty()
        && name
            .strip_prefix(id.as_bytes())
            .is_some_and(|suffix| suffix == b".md" || suffix.starts_with(b"-"))
}

/// Returns a sort key: numbers by value, before other ids.
fn natural_key(id: &str) -> (bool, u64, &str) {
    match id.parse() {
        Ok(number) => (false, number, id),
        Err(_) => (true, 0, id),
    }
}
