//! An issue as data.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use super::document::Document;
use super::error::Broken;

/// One issue of the embedded tracker.
#[derive(Clone, Debug)]
pub struct TrackedIssue {
    /// Its id, as written.
    pub id: String,
    /// Its title, "" when absent.
    pub title: String,
    /// Its state.
    pub state: String,
    /// The text below the front matter, without the comments.
    pub description: String,
    /// The comments, oldest first.
    pub comments: Vec<Comment>,
    /// Its file.
    pub path: PathBuf,
    /// All of the front matter.
    pub front: Map<String, Value>,
    pub(super) id_line: usize,
}

/// A comment on an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comment {
    /// When it was written, as it stands there.
    pub at: String,
    /// Who wrote it.
    pub author: String,
    /// What it says.
    pub text: String,
}

impl TrackedIssue {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is no issue.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Broken> {
        Document::parse(path, text.to_owned())?.issue(path)
    }

    /// The issue as the pull command prints it: the front matter, with `id`, `title`, `state` and `description`
    /// always there and always text, the comments where there are any, and the file.
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

    /// Lower goes first; `None` where it says nothing.
    pub fn priority(&self) -> Option<&Value> {
        self.front.get("priority").filter(|value| !value.is_null())
    }
}
