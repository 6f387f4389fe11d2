//! Formats the input and the output of a tool as lines.

use serde_json::{Map, Value};
use vik_core::approval::mcp_name;
use vik_core::event::{RawJson, ToolOutput};

use super::body::{diff, is_diff, shortened, truncate_body};
use super::{Mark, truncate};
use crate::line::Piece;
use crate::{Line, TextStyle, one_line};

/// How many lines of a tool's input are shown: the first and the last ones.
const INPUT: (usize, usize) = (8, 2);

/// The same for its output. The end of a failure is more informative.
pub(super) const OUTPUT: (usize, usize) = (4, 3);
pub(super) const FAILURE: (usize, usize) = (3, 9);

/// The maximum length of a value beside others, in characters.
const MAX_INLINE_CHARS: usize = 60;

const PATHS: [&str; 5] = ["file_path", "path", "notebook_path", "file", "filename"];
const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
const BEFORE: [&str; 5] = ["old_string", "old_str", "old_text", "old", "search"];
const AFTER: [&str; 5] = ["new_string", "new_str", "new_text", "new", "replace"];
const PATCHES: [&str; 3] = ["patch", "diff", "input"];
const CONTENTS: [&str; 3] = ["content", "file_text", "contents"];
const TEXTS: [&str; 6] = ["text", "content", "output", "stdout", "stderr", "message"];

/// How many characters of a call the label of its result repeats.
const LABEL: usize = 60;

/// A tool call: short values for the line of the tool's name, and a body below.
#[derive(Debug, Default)]
pub struct ToolCall {
    /// Connects the call with its result.
    pub id: String,
    pub tool: String,
    /// The most informative value, such as the command or the file.
    pub summary: String,
    /// The values beside it, as `name=value`.
    pub more: String,
    body: Vec<Piece>,
}

/// The end of a tool call.
#[derive(Debug)]
pub struct ToolResult {
    /// The call that it answers.
    pub id: String,
    pub is_error: bool,
    /// The exit code, where the tool is a command.
    pub exit_code: Option<i64>,
    output: Vec<Piece>,
}

impl ToolCall {
    pub(super) fn new(id: String, tool: String, input: Option<&RawJson<'_>>) -> Self {
        let mut call = Self {
            id,
            // As rules and the files of the workflow name it, whatever the agent is.
            tool: mcp_name(&tool).unwrap_or(tool),
            ..Self::default()
        };
        match input.map(RawJson::value) {
            None | Some(Value::Null) => {}
            Some(Value::Object(fields)) => call.fields(fields),
            Some(Value::Array(items)) => call.summary = list(&items),
            Some(value) => call.text(&text(&value)),
        }
        call
    }

    /// Returns the lines, with the tool's name first.
    pub fn lines(&self, full: bool) -> Vec<Line> {
        let mut first = Line::of(TextStyle::Bold, &self.tool);
        if !self.summary.is_empty() {
            first = first
                .and(TextStyle::Plain, "  ")
                .and(TextStyle::Plain, &self.summary);
        }
        if !self.more.is_empty() {
            first = first.and(TextStyle::Plain, "  ").and(TextStyle::Dim, &self.more);
        }
        let mut lines = vec![first];
        lines.extend(
            shortened(&self.body, INPUT, full)
                .into_iter()
                .map(|line| line.indented(2)),
        );
        lines
    }

    /// Returns the lines below the tool's name.
    pub fn body(&self) -> impl Iterator<Item = Line> {
        self.body.iter().map(|(style, text)| Line::of(*style, text))
    }

    /// Returns a short text that names the call.
    pub fn label(&self) -> String {
        let label = format!("{} {}", self.tool, one_line(&self.summary, LABEL));
        label.trim_end().to_owned()
    }

    pub(super) fn truncate(&mut self, max_bytes: usize) {
        for text in [&mut self.id, &mut self.tool, &mut self.summary, &mut self.more] {
            truncate(text, max_bytes);
        }
        truncate_body(&mut self.body, max_bytes);
    }

    /// Adds a text without a field name.
    fn text(&mut self, text: &str) {
        if is_diff(text) {
            self.body.extend(diff(text));
            return;
        }
        let mut lines = text.trim_end().lines();
        self.summary = lines.next().unwrap_or("").to_owned();
        self.body
            .extend(lines.map(|line| (TextStyle::Plain, line.to_owned())));
    }

    fn fields(&mut self, mut fields: Map<String, Value>) {
        let path = take(&mut fields, &PATHS).map(|path| text(&path));
        if let Some(command) = take(&mut fields, &COMMANDS) {
            match &command {
                Value::Array(items) => self.summary = list(items),
                command => self.text(&text(command)),
            }
            if let Some(path) = &path {
                self.more = path.clone();
            }
        } else if let Some(path) = path {
            self.edit(&mut fields);
            self.summary = path;
        }
        for name in PATCHES {
            if fields.get(name).and_then(Value::as_str).is_some_and(is_diff)
                && let Some(patch) = fields.remove(name)
            {
                self.body.extend(diff(&text(&patch)));
            }
        }
        for (name, value) in fields {
            let text = text(&value);
            if text.chars().count() <= MAX_INLINE_CHARS && !text.contains('\n') {
                let gap = if self.more.is_empty() { "" } else { "  " };
                // The description of a command needs no field name.
                let value = match name.as_str() {
                    "description" => format!("# {text}"),
                    name => format!("{name}={text}"),
                };
                self.more = format!("{}{gap}{value}", self.more);
            } else {
                self.body.push((TextStyle::Dim, format!("{name}:")));
                self.body.extend(
                    text.trim_end()
                        .lines()
                        .map(|line| (TextStyle::Plain, format!("  {line}"))),
                );
            }
        }
    }

    /// Adds an edit of a file, as a diff if the input contains the old text.
    fn edit(&mut self, fields: &mut Map<String, Value>) {
        self.replaced(fields);
        if let Some(Value::Array(edits)) = fields.get_mut("edits") {
            for edit in edits.iter_mut().filter_map(Value::as_object_mut) {
                self.replaced(edit);
            }
            edits.retain(|edit| edit.as_object().is_none_or(|fields| !fields.is_empty()));
            if edits.is_empty() {
                fields.remove("edits");
            }
        }
        if let Some(content) = take(fields, &CONTENTS) {
            self.marked(&content, TextStyle::Green, '+');
        }
    }

    fn replaced(&mut self, fields: &mut Map<String, Value>) {
        let has = |names: &[&str]| names.iter().any(|name| fields.contains_key(*name));
        if !(has(&BEFORE) && has(&AFTER)) {
            return;
        }
        if let Some(before) = take(fields, &BEFORE) {
            self.marked(&before, TextStyle::Red, '-');
        }
        if let Some(after) = take(fields, &AFTER) {
            self.marked(&after, TextStyle::Green, '+');
        }
    }

    fn marked(&mut self, value: &Value, tone: TextStyle, mark: char) {
        let text = text(value);
        self.body.extend(
            text.trim_end()
                .lines()
                .map(|line| (tone, format!("{mark}{line}"))),
        );
    }
}

impl ToolResult {
    pub(super) fn new(
        id: String,
        is_error: bool,
        exit_code: Option<i64>,
        output: Option<&ToolOutput<'_>>,
    ) -> Self {
        let text = match output {
            None => String::new(),
            Some(ToolOutput::Text(text)) => text.to_string(),
            Some(ToolOutput::Raw(raw)) => plain(&raw.value()),
        };
        let text = text.trim_end();
        let output = if is_diff(text) {
            diff(text).collect()
        } else {
            let style = if is_error { TextStyle::Red } else { TextStyle::Dim };
            text.lines().map(|line| (style, line.to_owned())).collect()
        };
        Self {
            id,
            is_error,
            exit_code,
            output,
        }
    }

    /// Returns the lines of the output.
    pub fn output(&self) -> impl DoubleEndedIterator<Item = Line> + ExactSizeIterator {
        self.output.iter().map(|(style, text)| Line::of(*style, text))
    }

    /// Returns the mark and the lines. They begin with the label of the call, if there is one.
    pub fn lines(&self, call: Option<&str>, full: bool) -> (Mark, Vec<Line>) {
        let (mark, style) = if self.is_error {
            ('✗', TextStyle::Red)
        } else {
            ('←', TextStyle::Dim)
        };
        let ends = if self.is_error { FAILURE } else { OUTPUT };
        let mut lines = shortened(&self.output, ends, full);
        let exit = match self.exit_code {
            Some(code) if code != 0 => format!("exit {code}"),
            _ if lines.is_empty() && self.is_error => "failed".to_owned(),
            _ if lines.is_empty() => "done".to_owned(),
            _ => String::new(),
        };
        let mut heading = call.map_or_else(Line::default, |call| Line::of(TextStyle::Bold, call));
        if !exit.is_empty() {
            if call.is_some() {
                heading = heading.and(TextStyle::Plain, "  ");
            }
            heading = heading.and(style, &exit);
        }
        if !heading.is_empty() {
            if call.is_some() {
                lines = lines.into_iter().map(|line| line.indented(2)).collect();
            }
            lines.insert(0, heading);
        }
        ((style, mark), lines)
    }

    pub(super) fn truncate(&mut self, max_bytes: usize) {
        truncate(&mut self.id, max_bytes);
        truncate_body(&mut self.output, max_bytes);
    }
}

fn take(fields: &mut Map<String, Value>, names: &[&str]) -> Option<Value> {
    let name = names
        .iter()
        .find(|name| fields.get(**name).is_some_and(|value| !value.is_null()))?;
    fields.remove(*name)
}

/// Returns a value as text: a string without quotes, everything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Joins the arguments of a command, or the changed files, on one line.
fn list(items: &[Value]) -> String {
    let changed = |item: &Value| {
        let (path, kind) = (item["path"].as_str()?, item["kind"].as_str().unwrap_or("change"));
        Some(format!("{kind} {path}"))
    };
    if let Some(files) = items.iter().map(changed).collect::<Option<Vec<_>>>() {
        return files.join(", ");
    }
    items.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Returns the text of an output, which agents wrap in blocks and fields.
fn plain(value: &Value) -> String {
    match value {
        Value::Array(items) if items.iter().all(|item| item["text"].is_string()) => items
            .iter()
            .map(|item| text(&item["text"]))
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Array(items) => list(items),
        Value::Object(fields) => {
            let texts: Vec<_> = TEXTS
                .iter()
                .filter_map(|name| fields.get(*name))
                .map(|value| {
                    if value.is_array() {
                        plain(value)
                    } else {
                        text(value)
                    }
                })
                .filter(|text| !text.is_empty())
                .collect();
            if texts.is_empty() {
                text(value)
            } else {
                texts.join("\n")
            }
        }
        value => text(value),
    }
}
