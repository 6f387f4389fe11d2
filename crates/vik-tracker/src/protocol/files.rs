//! The embedded tracker of Markdown files, as the protocol sees it.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use super::Protocol;
use super::error::{CallError, answer};
use super::messages::{Capabilities, Changed, Comment, Created, CreatedIssue, Moved};
use super::request::Request;
use crate::{BrokenFile, NewIssue, Tracker, TrackerError};

/// The state of a created issue whose creator names none. A person reads it first.
const NEW_STATE: &str = "triage";

/// The issues of a folder.
pub struct FilesTracker {
    folder: Tracker,
    author: String,
    on_broken: Box<dyn Fn(&BrokenFile)>,
}

impl fmt::Debug for FilesTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesTracker")
            .field("folder", &self.folder)
            .field("author", &self.author)
            .finish_non_exhaustive()
    }
}

impl FilesTracker {
    /// Creates the tracker of a folder. `author` writes the comments, and `on_broken` is called
    /// with each file that a list skips.
    pub fn new(
        folder: Tracker,
        author: impl Into<String>,
        on_broken: impl Fn(&BrokenFile) + 'static,
    ) -> Self {
        Self {
            folder,
            author: author.into(),
            on_broken: Box::new(on_broken),
        }
    }

    fn list(&self) -> Result<Vec<Value>, CallError> {
        let listing = self.folder.list()?;
        for broken in &listing.broken {
            (self.on_broken)(broken);
        }
        if listing.issues.is_empty() && !listing.broken.is_empty() {
            return Err(CallError::Failed("no file is an issue".to_owned()));
        }
        let fields = listing.issues.iter().map(|issue| Value::Object(issue.fields()));
        Ok(fields.collect())
    }
}

impl Protocol for FilesTracker {
    fn call(&self, request: &Request) -> Result<Value, CallError> {
        request.check()?;
        let now = Timestamp::now();
        match request {
            Request::Capabilities => answer(Capabilities::new("files", &["states", "pull_request"])),
            Request::List { .. } => answer(self.list()?),
            Request::Show { id } => answer(self.folder.show(id)?.fields()),
            Request::Move { id, from, to } => match self.folder.move_to(id, to, Some(from), None, now) {
                Ok(moved) => answer(Moved {
                    moved: moved.changed,
                    state: to.clone(),
                }),
                Err(TrackerError::WrongState { actual, .. }) => answer(Moved {
                    moved: false,
                    state: actual,
                }),
                Err(error) => Err(error.into()),
            },
            Request::Comment { id, key, input } => answer(Created {
                created: self
                    .folder
                    .comment_once(id, &self.author, &input.body, key, now)?,
            }),
            Request::Comments { id } => {
                let comments = self.folder.show(id)?.comments.into_iter();
                let comments = comments.map(|comment| Comment {
                    author: comment.author,
                    body: comment.text,
                    created_at: comment.at,
                    url: None,
                    path: None,
                    line: None,
                });
                answer(comments.collect::<Vec<_>>())
            }
            Request::Label { id, add, remove } => answer(Changed {
                changed: self.folder.label(id, add, remove)?,
            }),
            Request::Create { key, input } => {
                let issue = NewIssue {
                    title: input.title.clone(),
                    body: input.body.clone(),
                    state: input.state.clone().unwrap_or_else(|| NEW_STATE.to_owned()),
                    labels: input.labels.clone(),
                    ..NewIssue::default()
                };
                let (id, created) = self.folder.create_once(&issue, Some(key), now)?;
                answer(CreatedIssue {
                    id,
                    created,
                    url: None,
                })
            }
            Request::States { .. }
            | Request::OpenPullRequest { .. }
            | Request::PullRequestStatus { .. }
            | Request::PullRequestComments { .. } => Err(CallError::unsupported(request)),
        }
    }
}

impl From<TrackerError> for CallError {
    fn from(error: TrackerError) -> Self {
        let text = vik_base::report::chain(&error);
        match error {
            TrackerError::NotFound { .. } => Self::NotFound(text),
            TrackerError::LockHeld { .. } | TrackerError::ConcurrentWrites { .. } => Self::Later {
                reason: text,
                wait: std::time::Duration::ZERO,
            },
            TrackerError::BadId { .. }
            | TrackerError::BadTitle
            | TrackerError::BadState
            | TrackerError::EmptyComment => Self::Usage(text),
            _ => Self::Failed(text),
        }
    }
}
