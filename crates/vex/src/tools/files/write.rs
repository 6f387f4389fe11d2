//! `write_file`: a whole file at once, for new or small files.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::text::{BOM, LineEnding, count_of_lines};
use super::{StoredFile, brief, load, path_schema, replaceable, save};
use crate::tools::memory::FileState;
use crate::tools::tool::Write as Writes;
use crate::tools::{Tool, ToolContext, ToolError, WriteOutcome};

/// Why a file is not replaced that the model has not seen.
pub(crate) const NOT_READ: &str =
    "exists and you have not read it; read it first, or change parts of it with edit_file";

#[derive(Debug, Deserialize)]
pub(crate) struct WriteFile {
    pub(crate) path: PathBuf,
    pub(crate) content: String,
}

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const ALIASES: &'static [&'static str] =
        &["write", "create_file", "create", "write_to_file", "save_file"];
    const DESCRIPTION: &'static str =
        "Write a whole file; missing directories are made. Read a file before you replace it.";
    type Kind = Writes;
    const REQUIRED: &'static [&'static str] = &["path", "content"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("file_path", "path"),
        ("file", "path"),
        ("filename", "path"),
        ("contents", "content"),
        ("text", "content"),
        ("file_text", "content"),
    ];
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"path": path_schema(), "content": {"type": "string"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<WriteOutcome, ToolError> {
        let limits = context.limits;
        let path = self.path.display();
        let place = context.root.place_to_create(&self.path)?;
        let Some(stored) = load(&place, &self.path)? else {
            let change = save(context, &place, &self.path, self.content.as_bytes(), None)?;
            let text = format!("created {path} ({})", lines(&self.content));
            return Ok(WriteOutcome::one(text, change));
        };
        let seen = replaceable(context, &place, &self.path, &stored)?;
        let fail = |reason: &str| Err(ToolError::Failed(format!("{path} {reason}")));
        if seen == FileState::Never && !stored.bytes.is_empty() {
            return fail(NOT_READ);
        }
        let most = self.content.lines().count().max(count_lines(&stored.bytes));
        if most > limits.max_lines {
            return fail(&format!(
                "is too long to be written anew ({most} lines, at most {}); use edit_file or apply_patch",
                limits.max_lines
            ));
        }
        let content = in_the_style_of(&stored, &self.content);
        if content.as_bytes() == stored.bytes {
            return fail("has this content already, so nothing was written");
        }
        let change = save(context, &place, &self.path, content.as_bytes(), Some(stored.mode))?;
        let mut text = format!("replaced {path} ({})\n", lines(&content));
        match std::str::from_utf8(&stored.bytes) {
            Ok(before) => text.push_str(&brief(before, &content)),
            Err(_) => text.push_str("[what stood there before was not UTF-8 text]\n"),
        }
        if content.as_ref() != self.content {
            text.push_str("[its line ends and byte order mark were kept]\n");
        }
        if most > limits.prefer_edit_lines {
            text.push_str("[edit_file or apply_patch is better for a file of this length]\n");
        }
        Ok(WriteOutcome::one(text, change))
    }
}

/// Returns the content with the line ends and the byte order mark of the replaced file.
fn in_the_style_of<'a>(stored: &StoredFile, content: &'a str) -> Cow<'a, str> {
    let Ok(before) = std::str::from_utf8(&stored.bytes) else {
        return Cow::Borrowed(content);
    };
    let content = match LineEnding::of(before) {
        LineEnding::CrLf if !content.contains("\r\n") => LineEnding::CrLf.on(content),
        // Some servers and models end every line with CR LF, whatever the file has.
        LineEnding::Lf if !before.contains("\r\n") && has_only_crlf(content) => LineEnding::Lf.on(content),
        _ => Cow::Borrowed(content),
    };
    if before.starts_with(BOM) && !content.starts_with(BOM) {
        return Cow::Owned(format!("{BOM}{content}"));
    }
    content
}

/// Returns whether each line of a text ends with CR LF.
fn has_only_crlf(text: &str) -> bool {
    text.matches('\n').count() == text.matches("\r\n").count()
}

fn lines(text: &str) -> String {
    count_of_lines(text.lines().count())
}

fn count_lines(bytes: &[u8]) -> usize {
    bytes.split_inclusive(|byte| *byte == b'\n').count()
}
