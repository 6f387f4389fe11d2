//! The summary that replaces dropped turns: facts taken from the messages, in a fixed form.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::{Message, ToolCall, ToolResult};

/// The maximum length of one item, in bytes.
const MAX_ITEM_BYTES: usize = 240;
/// The maximum number of items per list.
const MAX_ITEMS: usize = 40;

/// Facts of the dropped turns. Each list holds the latest entries of its kind, oldest first,
/// without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The number of answers that it replaces.
    pub turns: u32,
    /// The model's own summary, if one was requested.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none")]
    pub model_summary: Option<String>,
    /// What the model wrote between its calls, such as its decisions.
    #[serde(rename = "said")]
    pub statements: Vec<String>,
    pub changed: Vec<String>,
    pub read: Vec<String>,
    /// Commands and how they ended.
    pub commands: Vec<String>,
    /// What failed and has not succeeded since, and the latest results of checks.
    pub open: Vec<OpenFailure>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenFailure {
    pub tried: String,
    pub error: String,
}

impl Summary {
    pub(super) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let open = self
            .open
            .iter_mut()
            .flat_map(|open| [&mut open.tried, &mut open.error]);
        self.model_summary
            .iter_mut()
            .chain(&mut self.statements)
            .chain(&mut self.changed)
            .chain(&mut self.read)
            .chain(&mut self.commands)
            .chain(open)
    }

    /// Adds the facts of these messages and removes the oldest facts until the summary fits into
    /// `max` bytes.
    pub(super) fn absorb(&mut self, messages: &[Message], max: usize) {
        let mut calls: Vec<&ToolCall> = Vec::new();
        for message in messages {
            match message {
                Message::User { text } => self.record_failure("a check", text),
                Message::Assistant(turn) => {
                    self.turns += 1;
                    let text = turn.text();
                    if !text.trim().is_empty() {
                        remember(&mut self.statements, item(text.trim()));
                    }
                    calls = turn.tool_calls().collect();
                }
                Message::Tool(result) => {
                    if let Some(call) = calls.iter().find(|call| call.call_id == result.call_id) {
                        self.record_call(call, result);
                    }
                }
            }
        }
        self.bound(max);
    }

    /// Puts the model's own summary at the start.
    pub(crate) fn set_model_summary(&mut self, text: &str, max: usize) {
        self.model_summary = Some(text[..text.floor_char_boundary(max / 2)].trim().to_owned());
        self.bound(max);
    }

    fn record_call(&mut self, call: &ToolCall, result: &ToolResult) {
        let Some(input) = call.input.json() else { return };
        let text = |keys: &[&str]| keys.iter().find_map(|key| input.get(key).and_then(Value::as_str));
        let path = text(&["path", "file_path", "file", "filename"]);
        let command = text(&["command", "cmd"]);
        let writes = ["content", "new", "new_string", "replace_all"]
            .iter()
            .any(|key| input.get(key).is_some());
        let tried = item(&format!(
            "{} {}",
            call.tool,
            command.or(path).unwrap_or_default().trim()
        ));
        if let Some(command) = command {
            let ended = match result.exit_code {
                Some(code) => format!("exit {code}"),
                None if result.is_error => "failed".to_owned(),
                None => "started".to_owned(),
            };
            // Only the last result of a command counts.
            let command = format!("{} -> ", item(command));
            self.commands.retain(|known| !known.starts_with(&command));
            remember(&mut self.commands, command + &ended);
        }
        if result.is_error {
            return self.record_failure(&tried, result.output.trim());
        }
        self.open.retain(|open| open.tried != tried);
        match path {
            Some(path) if writes => remember(&mut self.changed, item(path)),
            Some(path) if command.is_none() => remember(&mut self.read, item(path)),
            _ => {}
        }
        for path in text(&["patch", "diff", "input"]).into_iter().flat_map(patched) {
            remember(&mut self.changed, item(path));
        }
    }

    fn record_failure(&mut self, tried: &str, error: &str) {
        self.open.retain(|open| open.tried != tried);
        self.open.push(OpenFailure {
            tried: tried.to_owned(),
            error: tail(error),
        });
        let over = self.open.len().saturating_sub(MAX_ITEMS / 4);
        self.open.drain(..over);
    }

    /// Removes the oldest facts until the summary fits into `max` bytes.
    fn bound(&mut self, max: usize) {
        while self.render().len() > max {
            let lists = [
                &mut self.read,
                &mut self.statements,
                &mut self.commands,
                &mut self.changed,
            ];
            match lists.into_iter().max_by_key(|list| list.len()) {
                Some(longest) if !longest.is_empty() => drop(longest.remove(0)),
                _ if !self.open.is_empty() => drop(self.open.remove(0)),
                _ => {
                    self.model_summary = None;
                    return;
                }
            }
        }
    }

    /// Returns the text for the model.
    pub fn render(&self) -> String {
        let mut text = format!(
            "[To save room, {} earlier answers are left out here. This is what they did; go on from here. \
             Read a file again before you rely on it.]\n",
            self.turns
        );
        if let Some(model_summary) = &self.model_summary {
            text.push_str(model_summary);
            text.push('\n');
        }
        for (title, list) in [("Files changed", &self.changed), ("Files read", &self.read)] {
            if !list.is_empty() {
                text.push_str(&format!("{title}: {}\n", list.join(", ")));
            }
        }
        for (title, list) in [("Commands", &self.commands), ("Said", &self.statements)] {
            if !list.is_empty() {
                text.push_str(&format!("{title}:\n- {}\n", list.join("\n- ")));
            }
        }
        if !self.open.is_empty() {
            text.push_str("Failed and not yet mended:\n");
            for open in &self.open {
                text.push_str(&format!("- {}: {}\n", open.tried, open.error));
            }
        }
        text
    }
}

/// Appends an item to a list without duplicates.
fn remember(list: &mut Vec<String>, item: String) {
    list.retain(|known| *known != item);
    list.push(item);
    let over = list.len().saturating_sub(MAX_ITEMS);
    list.drain(..over);
}

/// Returns the start of a text on one line.
fn item(text: &str) -> String {
    let short = &text[..text.floor_char_boundary(MAX_ITEM_BYTES)];
    let mut line = short.replace('\n', " ");
    if short.len() < text.len() {
        line.push('…');
    }
    line
}

/// Returns the end of a text on one line: errors give their cause at the end.
fn tail(text: &str) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_ITEM_BYTES));
    let line = text[start..].replace('\n', " ");
    if start > 0 { format!("…{line}") } else { line }
}

/// Returns the new paths that a patch names.
fn patched(patch: &str) -> impl Iterator<Item = &str> {
    patch.lines().filter_map(|line| {
        let path = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "+++ "]
            .iter()
            .find_map(|mark| line.strip_prefix(mark))?;
        let path = path.split('\t').next().unwrap_or(path);
        Some(path.strip_prefix("b/").unwrap_or(path)).filter(|path| *path != "/dev/null")
    })
}
