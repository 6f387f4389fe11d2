//! `edit_file`: replaces one exact text by another.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::text::{adapted, short_line};
use super::{WriteFile, brief, explain, load, path_schema, replaceable, save};
use crate::tools::memory::{FileState, digest};
use crate::tools::tool::Write as Writes;
use crate::tools::{Tool, ToolContext, ToolError, WriteOutcome};

/// How much of a line is shown, in bytes.
const MAX_LINE: usize = 100;

/// The maximum size of a file that is shown whole to a model that guessed its content, in bytes.
const MAX_SHOWN: usize = 2 * 1024;

#[derive(Debug, Deserialize)]
pub(crate) struct EditFile {
    pub(crate) path: PathBuf,
    pub(crate) old: String,
    pub(crate) new: String,
    #[serde(default)]
    pub(crate) replace_all: bool,
}

impl Tool for EditFile {
    const NAME: &'static str = "edit_file";
    const ALIASES: &'static [&'static str] = &["edit", "str_replace", "replace", "replace_in_file"];
    const DESCRIPTION: &'static str =
        "Replace an exact text, which must stand in the file exactly once (or set replace_all).";
    type Kind = Writes;
    const REQUIRED: &'static [&'static str] = &["path", "old", "new"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("file_path", "path"),
        ("file", "path"),
        ("filename", "path"),
        ("old_string", "old"),
        ("old_str", "old"),
        ("old_text", "old"),
        ("new_string", "new"),
        ("new_str", "new"),
        ("new_text", "new"),
    ];
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"path": path_schema(), "old": {"type": "string"}, "new": {"type": "string"},
               "replace_all": {"type": "boolean"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<WriteOutcome, ToolError> {
        let path = self.path.display();
        let fail = |reason: String| Err(ToolError::Failed(format!("{path}: {reason}")));
        if self.old.is_empty() {
            let place = context.root.place_to_create(&self.path)?;
            return match load(&place, &self.path)? {
                Some(stored) if !stored.bytes.is_empty() => {
                    fail("`old` is empty, but the file is not; give the lines to replace".to_owned())
                }
                _ => WriteFile {
                    path: self.path,
                    content: self.new,
                }
                .run(context),
            };
        }
        if self.old == self.new {
            return fail("`old` and `new` are the same, so nothing would change".to_owned());
        }
        let place = context.root.place_to_change(&self.path)?;
        let Some(stored) = load(&place, &self.path)? else {
            return fail("there is no such file; use write_file for a new one".to_owned());
        };
        let seen = replaceable(context, &place, &self.path, &stored)?;
        let text = match std::str::from_utf8(&stored.bytes) {
            Ok(text) if !text.contains('\0') => text,
            _ => return fail("it is not UTF-8 text, so it is not edited".to_owned()),
        };
        let (old, new) = adapted(text, &self.old, &self.new);
        let found = text.matches(old.as_ref()).count();
        match found {
            0 if seen == FileState::Never && text.len() <= MAX_SHOWN => {
                context.files.remember(&place.resolved, digest(&stored.bytes));
                return fail(format!(
                    "`old` does not stand in the file, nothing was changed. You had not read it; it is:\n{text}"
                ));
            }
            0 => {
                return fail(format!(
                    "`old` does not stand in the file, nothing was changed: {}",
                    explain(text, &self.old)
                ));
            }
            1 => {}
            _ if self.replace_all => {}
            _ => {
                return fail(format!(
                    "`old` stands there {found} times, nothing was changed. Give more of the line that is meant, so that it fits \
                 one place only:\n{}",
                    places(text, &old)
                ));
            }
        }
        let edited = text.replace(old.as_ref(), &new);
        if edited == text {
            return fail("nothing would change".to_owned());
        }
        let change = save(context, &place, &self.path, edited.as_bytes(), Some(stored.mode))?;
        let times = if found == 1 {
            "once".to_owned()
        } else {
            format!("{found} times")
        };
        Ok(WriteOutcome::one(
            format!("edited {path}: replaced {times}\n{}", brief(text, &edited)),
            change,
        ))
    }
}

/// Returns the first ten lines in which a text starts.
fn places(text: &str, sought: &str) -> String {
    let mut lines: Vec<String> = text
        .match_indices(sought)
        .take(11)
        .map(|(at, _)| {
            let number = text[..at].matches('\n').count();
            let line = text.lines().nth(number).unwrap_or_default();
            format!("line {}: {}", number + 1, short_line(line.trim(), MAX_LINE))
        })
        .collect();
    if lines.len() > 10 {
        lines[10] = "…".to_owned();
    }
    lines.join("\n")
}
