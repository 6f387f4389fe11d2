//! An issue as data.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use super::document::Document;
use super::error::BrokenFile;

/// One issue of the embedded tracker.
#[derive(Clone, Debug)]
pub struct TrackedIssue {
    /// Its id, as written.
    pub id: String,
    /// Its title; empty if missing.
    pub title: String,
    pub state: String,
    /// The text below the front matter, without the comments.
    pub description: String,
    /// The comments, oldest first.
    pub comments: Vec<Comment>,
    pub path: PathBuf,
    /// All of the front matter.
    pub front: Map<String, Value>,
    pub(super) id_line: usize,
}

/// A comment on an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comment {
    /// The time, as written in the file.
    pub at: String,
    pub author: String,
    pub text: String,
}

impl TrackedIssue {
    /// Parses a file.
    ///
    /// # Errors
    /// When it is no issue.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use vik_tracker::TrackedIssue;
    ///
    /// let text = "---\nid: 7\ntitle: A bug\nstate: todo\n---\n\nIt is wrong.\n";
    /// let issue = TrackedIssue::parse(Path::new("7.md"), text)?;
    /// assert_eq!((issue.id.as_str(), issue.title.as_str()), ("7", "A bug"));
    ///
    /// let error = TrackedIssue::parse(Path::new("7.md"), "no front matter").unwrap_err();
    /// assert_eq!(error.line, 1);
    /// # Ok::<(), vik_tracker::BrokenFile>(())
    /// ```
    pub fn parse(path: &Path, text: &str) -> Result<Self, BrokenFile> {
        Document::parse(path, text.to_owned())?.issue(path)
    }

    /// Returns the issue as the pull command prints it: the front matter with `id`, `title`,
    /// `state` and `description`, always present and always text; the comments, if there are any;
    /// and the file.
    pub fn fields(&self) -> Map<String, Value> {
        let mut fields = self.front.clone();
        for (key, text) in [("id", &self.id), ("title", &self.title), ("state", &self.state)] {
            fields.insert(key.to_owned(), Value::String(text.clone()));
        }
        let written = !self.description.is_empty();
        if written || !fields.get("description").is_some_and(Value::is_string) {
            fields.insert("description".to_owned(), Value::String(self.description.clone()));
        }
        if !self.comments.is_empty() {
            let comments = self.comments.iter().map(|comment| {
                serde_json::json!({"at": comment.at, "author": comment.author, "text": comment.text})
            });
            fields.insert("comments".to_owned(), comments.collect());
        }
        fields.insert("file".to_owned(), Value::String(self.path.display().to_string()));
        fields
    }

    /// Returns the priority, if there is one. A lower one goes first.
    pub fn priority(&self) -> Option<&Value> {
        self.front.get("priority").filter(|value| !value.is_null())
    }
}
