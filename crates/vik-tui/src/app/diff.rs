//! The diff of an issue.

use vik_api::{DiffView, FileChange};
use vik_client::ClientError;
use vik_core::ids::IssueId;
use vik_core::plural::count;
use vik_text::optional;

use super::scroll::Scroll;
use super::{App, Screen, error_with_hint};

/// A diff and its visible part.
pub(crate) struct DiffScreen {
    pub(crate) issue_id: IssueId,
    pub(crate) loading: bool,
    pub(crate) error: Option<String>,
    /// The commit that is compared, and the size of the change.
    pub(crate) summary: String,
    pub(crate) lines: Vec<DiffLine>,
    /// The files with their first lines.
    pub(crate) files: Vec<DiffFile>,
    pub(crate) scroll: Scroll,
    /// The number of columns that are scrolled away.
    pub(crate) skip: usize,
}

/// A file of a diff.
pub(crate) struct DiffFile {
    pub(crate) path: String,
    pub(crate) change: FileChange,
    pub(crate) added: u64,
    pub(crate) removed: u64,
    /// The index of its first line.
    pub(crate) line: usize,
}

/// One line; not yet safe for a terminal.
pub(crate) struct DiffLine {
    pub(crate) kind: LineKind,
    pub(crate) text: String,
}

/// The kind of a line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    File,
    Hunk,
    Added,
    Removed,
    Context,
    Note,
}

impl DiffScreen {
    pub(crate) fn new(issue_id: &IssueId) -> Self {
        Self {
            issue_id: issue_id.clone(),
            loading: true,
            error: None,
            summary: String::new(),
            lines: Vec::new(),
            files: Vec::new(),
            scroll: Scroll::default(),
            skip: 0,
        }
    }

    fn set(&mut self, diff: DiffView) {
        self.lines.clear();
        self.files.clear();
        let (mut added, mut removed) = (0, 0);
        if let Some(note) = &diff.note {
            self.note(note);
        }
        for commit in &diff.commits {
            let id: String = commit.id.chars().take(12).collect();
            self.note(&format!("commit {id} {} ({})", commit.subject, commit.author));
        }
        if diff.commits_left_out > 0 {
            self.note(&format!(
                "{} before these",
                count(diff.commits_left_out, "commit")
            ));
        }
        let none = diff.files.is_empty() && diff.note.is_none();
        let files = diff.files.len() + diff.files_left_out;
        for file in diff.files {
            added += file.added;
            removed += file.removed;
            if !self.lines.is_empty() {
                self.push(LineKind::Context, "");
            }
            self.files.push(DiffFile {
                path: file.path.clone(),
                change: file.change,
                added: file.added,
                removed: file.removed,
                line: self.lines.len(),
            });
            let change = change_name(file.change);
            let text = format!("{}  {change}  +{} -{}", file.path, file.added, file.removed);
            self.push(LineKind::File, &text);
            match &file.patch {
                None => self.note("binary or too large to show"),
                Some(patch) => patch.lines().for_each(|line| self.push(kind(line), line)),
            }
        }
        if diff.files_left_out > 0 {
            self.push(LineKind::Context, "");
            self.note(&format!("{} more changed", count(diff.files_left_out, "file")));
        }
        if none {
            self.note("No changes.");
        }
        self.summary = match &diff.base {
            None if files == 0 => String::new(),
            None => format!("{} +{added} -{removed}", count(files, "file")),
            Some(base) => {
                let base: String = base.chars().take(12).collect();
                let branch = optional("", diff.branch, ": ");
                format!(
                    "{branch}{} +{added} -{removed} since {base}",
                    count(files, "file")
                )
            }
        };
    }

    fn note(&mut self, text: &str) {
        self.push(LineKind::Note, text);
    }

    fn push(&mut self, kind: LineKind, text: &str) {
        self.lines.push(DiffLine {
            kind,
            text: text.to_owned(),
        });
    }

    pub(super) fn lay_out(&mut self, rows: usize) {
        self.scroll.fit(self.lines.len(), rows);
    }

    /// Returns the index of the file at the top of the window.
    pub(crate) fn file(&self) -> Option<usize> {
        self.files.iter().rposition(|file| file.line <= self.scroll.top)
    }

    /// Scrolls to the next or the previous file.
    pub(super) fn jump(&mut self, forward: bool) {
        let top = self.scroll.top;
        let to = if forward {
            self.files.iter().map(|file| file.line).find(|&line| line > top)
        } else {
            self.files.iter().map(|file| file.line).rfind(|&line| line < top)
        };
        if let Some(line) = to {
            self.scroll.scroll_to(line);
        }
    }
}

/// Returns the name of a change.
pub(crate) fn change_name(change: FileChange) -> &'static str {
    match change {
        FileChange::Added => "added",
        FileChange::Modified => "modified",
        FileChange::Deleted => "deleted",
    }
}

fn kind(line: &str) -> LineKind {
    match line.as_bytes().first() {
        Some(b'@') => LineKind::Hunk,
        Some(b'+') => LineKind::Added,
        Some(b'-') => LineKind::Removed,
        Some(b'\\') => LineKind::Note,
        _ => LineKind::Context,
    }
}

impl App {
    pub(super) fn on_diff(&mut self, id: &IssueId, result: Result<DiffView, ClientError>) {
        let screen = self.screens.iter_mut().find_map(|screen| match screen {
            Screen::Diff(screen) if screen.issue_id == *id => Some(screen),
            _ => None,
        });
        let Some(screen) = screen else {
            return;
        };
        screen.loading = false;
        match result {
            Ok(diff) => {
                screen.error = None;
                screen.set(diff);
            }
            Err(error) => screen.error = Some(error_with_hint(&error)),
        }
    }
}
