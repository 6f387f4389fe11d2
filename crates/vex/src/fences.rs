//! Changes and commands that a model writes in fences: whole files, search/replace blocks and shell
//! commands. Small models write these better than the JSON of tool calls.
//!
//! An answer is read into calls of the ordinary tools, which are permitted, run and recorded like
//! all others. Text that cannot be a change with certainty stays text.

mod paths;

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Value, json};

use crate::conversation::{Block, StopReason, ToolCall, Turn};
use crate::tools::{EditFile, RunCommand, Tool as _, WriteFile};
use paths::{path_in_comment, path_of, path_of_info};

const SEARCH: &str = "<<<<<<< SEARCH";
const DIVIDER: &str = "=======";
const REPLACE: &str = ">>>>>>> REPLACE";

/// Marks of a fence with commands.
const SHELLS: [&str; 6] = ["sh", "bash", "shell", "console", "zsh", "shell-session"];

/// Describes the form of an answer to the model.
pub(crate) fn description(whole_files: bool) -> &'static str {
    if whole_files { WHOLE_FILES } else { BLOCKS }
}

/// The path and the content of the example in the description. A model that copies it means nothing
/// by it.
const EXAMPLE: (&str, &str) = ("greet.py", "def greet(name):\n    return \"Hello, \" + name\n");

const WHOLE_FILES: &str = "\
To create or change a file, write its path on a line of its own, and after it its whole new content in a fence. A file keeps \
everything that you do not want to change. For example:

greet.py
```
def greet(name):
    return \"Hello, \" + name
```

To move or delete a file, to commit, to count or to search, write shell commands in a fence marked sh. They run one after the \
other, without a person who could answer or edit. Do not change the content of a file with them. For example:

```sh
mv old.txt new.txt
```

Say in one sentence what is to be changed. Then write all files and commands that the task needs, and nothing else.
";

const BLOCKS: &str = "\
To change a file, write its path on a line of its own, and after it a fence with the lines to find, exactly as in the file, and \
the lines that replace them. For example:

greet.py
```
<<<<<<< SEARCH
    return \"Hello\"
=======
    return \"Hello, \" + name
>>>>>>> REPLACE
```

To create a file, write its path and its whole content in a fence. To move or delete a file, to commit, to count or to search, \
write shell commands in a fence marked sh. They run one after the other, without a person who could answer or edit. For example:

```sh
mv old.txt new.txt
```

Say in one sentence what is to be changed. Then write all blocks and commands that the task needs, and nothing else.
";

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Write {
        path: &'a str,
        content: &'a str,
    },
    Edit {
        path: &'a str,
        old: &'a str,
        new: &'a str,
    },
    Command(&'a str),
}

/// Replaces the fences in the text of an answer by calls, if it contains no other calls. `only_file`
/// is the path that a fence without a path belongs to; `number` makes the ids of the calls unique.
pub(crate) fn read(mut turn: Turn, only_file: Option<&str>, number: u32) -> Turn {
    if turn.tool_calls().next().is_some() || turn.stop == StopReason::Refusal {
        return turn;
    }
    let mut blocks = Vec::with_capacity(turn.blocks.len());
    let mut count = 0;
    for block in turn.blocks {
        let Block::Text { text } = &block else {
            blocks.push(block);
            continue;
        };
        let text = unindented(text);
        for part in parts(&text, only_file, turn.stop == StopReason::MaxTokens) {
            let (tool, input) = match part {
                Part::Text(text) => {
                    if !text.trim().is_empty() {
                        blocks.push(Block::text(text));
                    }
                    continue;
                }
                Part::Write { path, content } if (path, content) == EXAMPLE => continue,
                Part::Write { path, content } => (WriteFile::NAME, json!({"path": path, "content": content})),
                Part::Edit { path, old, new } => {
                    (EditFile::NAME, json!({"path": path, "old": old, "new": new}))
                }
                Part::Command(line) => (RunCommand::NAME, json!({"command": line.trim()})),
            };
            count += 1;
            let call = ToolCall::new(format!("fence_{number}_{count}"), tool, input);
            blocks.push(Block::ToolCall(call));
        }
    }
    if count > 0 && turn.stop != StopReason::MaxTokens {
        turn.stop = StopReason::ToolUse;
    }
    turn.blocks = blocks;
    turn
}

/// Returns a call in the form that the model is to write, if it has one.
pub(crate) fn written(call: &ToolCall) -> Option<String> {
    let input = call.input.json()?;
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    match call.tool.as_str() {
        WriteFile::NAME => Some(format!("{}\n{}", text("path")?, fenced("", text("content")?))),
        EditFile::NAME => {
            let (old, new) = (text("old")?, text("new")?);
            let block = format!("{SEARCH}\n{}{DIVIDER}\n{}{REPLACE}\n", lines(old), lines(new));
            Some(format!("{}\n{}", text("path")?, fenced("", &block)))
        }
        RunCommand::NAME => Some(fenced("sh", text("command")?)),
        _ => None,
    }
}

/// Returns a text in a fence that is longer than every fence in it.
pub(crate) fn fenced(mark: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{mark}\n{}{fence}", lines(text))
}

/// Returns a text that ends with a line end, if it is not empty.
fn lines(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{text}{end}")
}

/// Splits an answer into its parts. The last fence of an answer that was cut off is dropped: half a
/// file must not replace a whole one.
fn parts<'a>(text: &'a str, only_file: Option<&'a str>, is_cut: bool) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    let mut text_from = 0;
    let mut at = 0;
    while let Some(fence) = Fence::find(text, at) {
        at = fence.end;
        if is_cut && fence.end == text.len() {
            break;
        }
        let before = &text[text_from..fence.start];
        let Some(found) = fence.changes(before, only_file) else {
            continue;
        };
        parts.push(Part::Text(without_path_line(before, &found)));
        parts.extend(found);
        text_from = fence.end;
    }
    parts.push(Part::Text(&text[text_from..]));
    parts
}

/// Returns the text before a fence without the line that names the file of the fence.
fn without_path_line<'a>(before: &'a str, found: &[Part<'_>]) -> &'a str {
    let path = found.iter().find_map(|part| match part {
        Part::Write { path, .. } | Part::Edit { path, .. } => Some(*path),
        _ => None,
    });
    let trimmed = before.trim_end();
    let line = trimmed.lines().next_back().unwrap_or_default();
    match path {
        Some(path) if line.contains(path) && path_of(line).is_some() => {
            trimmed[..trimmed.len() - line.len()].trim_end()
        }
        _ => trimmed,
    }
}

/// Returns a text whose fences start at the margin: in a list they are indented, with their content.
fn unindented(text: &str) -> Cow<'_, str> {
    let margin = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_indented = |line: &str| margin(line) > 0 && opening(&line[margin(line)..]).is_some();
    if !text.lines().any(is_indented) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    // The indentation and the marks of the fence that is open.
    let mut open: Option<(usize, &str)> = None;
    for line in text.split_inclusive('\n') {
        let indentation = margin(line);
        let inner = &line[indentation..];
        let Some((removed, marks)) = open else {
            let is_fence = opening(inner).is_some();
            if let Some((count, _)) = opening(inner) {
                open = Some((indentation, &inner[..count]));
            }
            result.push_str(if is_fence { inner } else { line });
            continue;
        };
        let line = &line[indentation.min(removed)..];
        result.push_str(line);
        if is_closing(line, marks) {
            open = None;
        }
    }
    Cow::Owned(result)
}

/// A fence with its content.
struct Fence<'a> {
    /// The start of its first line.
    start: usize,
    /// The end of its last line.
    end: usize,
    /// What follows the opening marks.
    info: &'a str,
    content: &'a str,
}

impl<'a> Fence<'a> {
    /// Finds the first fence after a position. A fence that is never closed ends with the text.
    fn find(text: &'a str, from: usize) -> Option<Self> {
        let mut start = from;
        let (marks, info, content) = loop {
            let line = text.get(start..)?.split_inclusive('\n').next()?;
            let next = start + line.len();
            if let Some((marks, info)) = opening(line) {
                break (&line[..marks], info, next);
            }
            start = next;
        };
        let mut at = content;
        for line in text[content..].split_inclusive('\n') {
            if is_closing(line, marks) {
                let end = at + line.len();
                let content = &text[content..at];
                return Some(Self {
                    start,
                    end,
                    info,
                    content,
                });
            }
            at += line.len();
        }
        let (end, content) = (text.len(), &text[content..]);
        Some(Self {
            start,
            end,
            info,
            content,
        })
    }

    /// Returns the changes or the command in the fence, if it is certain what it is.
    fn changes(&self, before: &'a str, only_file: Option<&'a str>) -> Option<Vec<Part<'a>>> {
        let mark = self.info.split_whitespace().next().unwrap_or_default();
        let above = before.trim_end().lines().next_back().unwrap_or_default();
        let (named, content) = match path_of(above).or_else(|| path_of_info(self.info)) {
            Some(path) => (Some(path), self.content),
            None => match path_in_comment(self.content) {
                Some((path, content)) => (Some(path), content),
                None => (None, self.content),
            },
        };
        let is_shell = SHELLS.contains(&mark) || (mark.is_empty() && SHELLS.contains(&above.trim()));
        if is_shell && !named.is_some_and(is_script) {
            // The mark once more, as the first line.
            let first = self.content.lines().next().unwrap_or_default().trim();
            let line = if SHELLS.contains(&first) {
                &self.content[self.content.find('\n')? + 1..]
            } else {
                self.content
            };
            return (!line.trim().is_empty()).then(|| vec![Part::Command(line)]);
        }
        let path = named.or(only_file.filter(|_| !mark.is_empty()))?;
        if content.contains(SEARCH) {
            return edits(path, content);
        }
        Some(vec![Part::Write { path, content }])
    }
}

/// Returns the number of marks of an opening fence, and what follows them.
fn opening(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_end();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = line.trim_start_matches(mark);
    let marks = line.len() - info.len();
    (marks >= 3 && !info.contains('`')).then_some((marks, info.trim()))
}

/// Returns whether a line closes a fence with these opening marks.
fn is_closing(line: &str, marks: &str) -> bool {
    let line = line.trim_end();
    line.len() >= marks.len() && line.chars().all(|c| marks.starts_with(c))
}

fn is_script(path: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|end| end == "sh" || end == "bash")
}

/// Reads the search/replace blocks of a fence; `None` if one is not complete.
fn edits<'a>(path: &'a str, content: &'a str) -> Option<Vec<Part<'a>>> {
    let mut found = Vec::new();
    let mut left = content;
    while let Some(at) = line_start(left, SEARCH) {
        let block = &left[at..];
        let old_from = block.find('\n')? + 1;
        let divider = old_from + line_start(&block[old_from..], DIVIDER)?;
        let new_from = divider + block[divider..].find('\n')? + 1;
        let end = new_from + line_start(&block[new_from..], REPLACE)?;
        let (old, new) = (&block[old_from..divider], &block[new_from..end]);
        // Nothing to find: the tool then only creates a file.
        let old = if old.trim().is_empty() { "" } else { old };
        found.push(Part::Edit { path, old, new });
        left = &block[end..];
        left = left.find('\n').map_or("", |next| &left[next..]);
    }
    (!found.is_empty()).then_some(found)
}

/// Returns the start of the first line that starts with `mark`.
fn line_start(text: &str, mark: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with(mark) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests;
