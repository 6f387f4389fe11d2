//! One issue file: front matter, description and comments, as ranges of the text on disk.

use std::ops::Range;
use std::path::Path;

use jiff::Timestamp;
use vik_yaml::Entry;

use super::error::{BrokenFile, TrackerError};
use super::front;
use super::issue::{Comment, TrackedIssue};
use super::labels;

const COMMENTS: &str = "## Comments";
/// The separator between the time and the author of a comment.
const MARK: &str = " · ";

/// A parsed file. Changes are made to its text, and keep all other bytes.
#[derive(Clone, Debug)]
pub(super) struct Document {
    text: String,
    front: Range<usize>,
    front_line: usize,
    body: usize,
    entries: Vec<Entry>,
}

/// Returns the byte range of the front matter, the line that it starts on, and the start of the
/// body.
fn split(text: &str) -> Result<(Range<usize>, usize, usize), (usize, &'static str)> {
    let bom = if text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        0
    };
    let mut at = bom;
    let mut lines = text[bom..].split_inclusive('\n').enumerate();
    match lines.next() {
        Some((_, first)) if first.trim_end() == "---" => at += first.len(),
        _ => return Err((1, "the file does not start with front matter")),
    }
    let start = at;
    for (_, line) in lines {
        if line.trim_end() == "---" || line.trim_end() == "..." {
            return Ok((start..at, 2, at + line.len()));
        }
        at += line.len();
    }
    Err((1, "the front matter is not closed"))
}

/// Returns whether the text could be an issue with this id. A cheap check: `false` is always right.
pub(super) fn may_have_id(text: &str, id: &str) -> bool {
    match split(text) {
        // With an escape or a fold, an id can be written in another way.
        Ok((front, _, _)) => {
            let front = &text[front];
            front.contains(id) || front.contains(['\\', '\'']) || id.contains(char::is_whitespace)
        }
        Err(_) => false,
    }
}

impl Document {
    pub(super) fn parse(path: &Path, text: String) -> Result<Self, BrokenFile> {
        let (front, front_line, body) = split(&text).map_err(|(line, reason)| {
            let hint = "put front matter between two lines `---` at the top of the file";
            BrokenFile::new(path, line, reason, hint)
        })?;
        let entries = front::entries(&text[front.clone()]).map_err(|error| BrokenFile {
            path: path.to_owned(),
            line: error.line as usize + front_line - 1,
            reason: error.message,
            hint: error.hint.map(Into::into),
        })?;
        Ok(Self {
            text,
            front,
            front_line,
            body,
            entries,
        })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Returns the id as written in the file.
    pub(super) fn id(&self) -> Option<&str> {
        self.entry("id")
            .and_then(|entry| front::text(&entry.value))
            .filter(|id| !id.is_empty())
    }

    /// Returns the whole file as an issue.
    pub(super) fn issue(&self, path: &Path) -> Result<TrackedIssue, BrokenFile> {
        let broken = |line, reason: String, hint| BrokenFile::new(path, line, reason, hint);
        let line = |entry: &Entry| entry.key_place.line as usize + self.front_line - 1;
        let text = |key: &'static str, hint| -> Result<Option<(String, usize)>, BrokenFile> {
            match self.entry(key) {
                None => Ok(None),
                Some(entry) if entry.value.is_null() => Ok(None),
                Some(entry) => match front::text(&entry.value) {
                    Some(text) => Ok(Some((text.to_owned(), line(entry)))),
                    None => Err(broken(line(entry), format!("`{key}` is not text"), hint)),
                },
            }
        };
        let needed = |key: &'static str, hint| match text(key, hint)? {
            Some((text, line)) if !text.trim().is_empty() => Ok((text, line)),
            Some((_, line)) => Err(broken(line, format!("`{key}` is empty"), hint)),
            None => {
                let at = self.entry(key).map_or(1, line);
                Err(broken(at, format!("it has no `{key}`"), hint))
            }
        };
        let (id, id_line) = needed("id", "add a line such as `id: 1`")?;
        let (state, _) = needed("state", "add a line such as `state: todo`")?;
        let title = text("title", "write it on one line, as `title: …`")?.map(|(title, _)| title);
        let (description, comments) = self.body_parts();
        Ok(TrackedIssue {
            id,
            title: title.unwrap_or_default(),
            state,
            description,
            comments,
            path: path.to_owned(),
            front: self
                .entries
                .iter()
                .map(|entry| (entry.key.clone(), front::json(&entry.value)))
                .collect(),
            id_line,
        })
    }

    /// Sets the value of an existing key.
    pub(super) fn set(&mut self, key: &str, value: &str, path: &Path) -> Result<(), TrackerError> {
        let front = front::set(&self.text[self.front.clone()], &self.entries, key, value);
        self.replace_front(key, front, path)
    }

    /// Adds and removes labels.
    pub(super) fn label(
        &mut self,
        add: &[String],
        remove: &[String],
        path: &Path,
    ) -> Result<(), TrackerError> {
        let front = labels::change(&self.text[self.front.clone()], &self.entries, add, remove);
        self.replace_front("labels", front, path)
    }

    fn replace_front(&mut self, key: &str, front: Option<String>, path: &Path) -> Result<(), TrackerError> {
        let front = front.ok_or_else(|| TrackerError::NotEditable {
            key: key.to_owned(),
            path: path.to_owned(),
        })?;
        let text = format!(
            "{}{front}{}",
            &self.text[..self.front.start],
            &self.text[self.front.end..]
        );
        *self = Self::parse(path, text)?;
        Ok(())
    }

    /// Appends a comment at the end of the file, with the line ends of the file.
    pub(super) fn comment(&mut self, author: &str, text: &str, now: Timestamp) {
        let newline = if self.text[..self.body].ends_with("\r\n") {
            "\r\n"
        } else {
            "\n"
        };
        let mut added = String::new();
        if !self.text.ends_with('\n') {
            added.push('\n');
        }
        if !self.text.ends_with("\n\n") && !self.text.ends_with("\n\r\n") {
            added.push('\n');
        }
        if comments_at(&self.text[self.body..]).is_none() {
            added.push_str(COMMENTS);
            added.push_str("\n\n");
        }
        let author: String = author
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let author = match author.trim() {
            "" => "unknown",
            author => author,
        };
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ");
        let text = text.trim().replace("\r\n", "\n");
        added.push_str(&format!("### {now}{MARK}{author}\n\n{}\n", escaped(&text)));
        self.text.push_str(&added.replace('\n', newline));
    }

    fn body_parts(&self) -> (String, Vec<Comment>) {
        let body = &self.text[self.body..];
        let Some(at) = comments_at(body) else {
            return (tidy(body), Vec::new());
        };
        let mut comments: Vec<Comment> = Vec::new();
        let mut current = String::new();
        for line in body[at..].split_inclusive('\n').skip(1) {
            if let Some((at, author)) = comment_heading(line) {
                if let Some(last) = comments.last_mut() {
                    last.text = unescaped(&tidy(&current));
                }
                current.clear();
                comments.push(Comment {
                    at,
                    author,
                    text: String::new(),
                });
            } else {
                current.push_str(line);
            }
        }
        if let Some(last) = comments.last_mut() {
            last.text = unescaped(&tidy(&current));
        }
        (tidy(&body[..at]), comments)
    }
}

/// Returns the start of the comments: their heading, if a comment or nothing follows it.
fn comments_at(body: &str) -> Option<usize> {
    let mut candidate = None;
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        if line.trim_end() == COMMENTS {
            candidate = Some(at);
        } else if let Some(found) = candidate
            && !line.trim().is_empty()
        {
            if comment_heading(line).is_some() {
                return Some(found);
            }
            candidate = None;
        }
        at += line.len();
    }
    candidate
}

fn comment_heading(line: &str) -> Option<(String, String)> {
    let (time, author) = line.strip_prefix("### ")?.split_once(MARK)?;
    time.parse::<Timestamp>().ok()?;
    Some((time.to_owned(), author.trim().to_owned()))
}

/// Escapes all lines that look like comments of the tracker.
pub(super) fn escaped(text: &str) -> String {
    each_line(text, |line| {
        let bare = line.trim_start_matches('\\');
        (bare.trim_end() == COMMENTS || comment_heading(bare).is_some()).then(|| format!("\\{line}"))
    })
}

fn unescaped(text: &str) -> String {
    each_line(text, |line| {
        let bare = line.strip_prefix('\\')?;
        let inner = bare.trim_start_matches('\\');
        (inner.trim_end() == COMMENTS || comment_heading(inner).is_some()).then(|| bare.to_owned())
    })
}

fn each_line(text: &str, change: impl Fn(&str) -> Option<String>) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| change(line).unwrap_or_else(|| line.to_owned()))
        .collect();
    lines.join("\n")
}

fn tidy(text: &str) -> String {
    text.trim_matches(['\n', '\r']).trim_end().replace("\r\n", "\n")
}
