//! What stands for turns that are left out: facts taken from the messages, in a set form.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::floor;
use crate::conversation::{Message, ToolCall, ToolResult};

/// The longest text of one item, in bytes.
const MAX_ITEM_BYTES: usize = 240;
/// The most items of a kind.
const MAX_ITEMS: usize = 40;

/// Facts of the turns that are left out. Each list holds the last of its kind, oldest first, none twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// How many answers it stands for.
    pub turns: u32,
    /// The model's own summary, where it was asked for one.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none")]
    pub model_summary: Option<String>,
    /// What the model said on its way: what it decided.
    #[serde(rename = "said")]
    pub statements: Vec<String>,
    /// Files that were changed.
    pub changed: Vec<String>,
    /// Files that were read.
    pub read: Vec<String>,
    /// Commands and how they ended.
    pub commands: Vec<String>,
    /// What failed and did not work since, and what checks said last.
    pub open: Vec<OpenFailure>,
}

/// Something that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenFailure {
    /// What was tried.
    pub tried: String,
    /// What came of it.
    pub error: String,
}

impl Summary {
    /// All texts in it.
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

    /// Takes up what these messages tell, and keeps the whole below `max` bytes by forgetting the oldest.
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

    /// Puts the model's own words at the top.
    pub(crate) fn set_model_summary(&mut self, text: &str, max: usize) {
        self.model_summary = Some(text[..floor(text, max / 2)].trim().to_owned());
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
            // Only how it ended the last time counts.
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

    /// Forgets the oldest until what is left is short enough.
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

    /// The words that a model reads.
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

/// Puts an item at the end of a list that holds each only once.
fn remember(list: &mut Vec<String>, item: String) {
    list.retain(|known| *known != item);
    list.push(item);
    let over = list.len().saturating_sub(MAX_ITEMS);
    list.drain(..over);
}

/// The start of a text, on one line.
fn item(text: &str) -> String {
    let short = &text[..floor(text, MAX_ITEM_BYTES)];
    let mut line = short.replace('\n', " ");
    if short.len() < text.len() {
        line.push('…');
    }
    line
}

/// The end of a text, on one line: errors say what is wrong at their end.
fn tail(text: &str) -> String {
    let start = super::ceil(text, text.len().saturating_sub(MAX_ITEM_BYTES));
    let line = text[start..].replace('\n', " ");
    if start > 0 { format!("…{line}") } else { line }
}

/// The files that a patch names as its new ones.
fn patched(patch: &str) -> impl Iterator<Item = &str> {
    patch.lines().filter_map(|line| {
        let path = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "+++ "]
            .iter()
            .find_map(|mark| line.strip_prefix(mark))?;
        let path = path.split('\t').next().unwrap_or(path);
        Some(path.strip_prefix("b/").unwrap_or(path)).filter(|path| *path != "/dev/null")
    })
}
