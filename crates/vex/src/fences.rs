//! Changes and commands that a model writes in fences: whole files, search/replace blocks and shell
//! commands. Small models write these better than the JSON of tool calls.
//!
//! An answer is read into calls of the ordinary tools, which are permitted, run and recorded like
//! all others. Text that cannot be a change with certainty stays text.

mod marks;
mod paths;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use serde_json::{Value, json};

use crate::conversation::{Arguments, Block, StopReason, ToolCall, Turn};
use crate::tools::{EditFile, LoadSkill, RunCommand, Tool as _, ToolDefinition, WriteFile};
use marks::{OpenFences, opening, unindented};
use paths::{path_in_comment, path_of, path_of_info};

const SEARCH: &str = "<<<<<<< SEARCH";
const DIVIDER: &str = "=======";
const REPLACE: &str = ">>>>>>> REPLACE";

/// The prompt of a shell before a command.
const PROMPT: &str = "$ ";

/// Marks of a fence with a change that is not applied.
const DIFFS: [&str; 2] = ["diff", "patch"];

/// Marks of a fence with commands.
const SHELLS: [&str; 6] = ["sh", "bash", "shell", "console", "zsh", "shell-session"];

/// The start of the ids of calls that were read from fences.
const FENCE_ID: &str = "fence_";

/// The names of languages by the extensions of their files, where they differ.
const LANGUAGES: [(&str, &[&str]); 22] = [
    ("bat", &["batch"]),
    ("c", &["cpp"]),
    ("cc", &["cpp", "c++"]),
    ("cfg", &["ini", "text"]),
    ("conf", &["ini", "text"]),
    ("cpp", &["c++"]),
    ("cs", &["csharp"]),
    ("cts", &["typescript"]),
    ("h", &["c", "cpp", "c++"]),
    ("htm", &["html"]),
    ("js", &["javascript", "jsx"]),
    ("kt", &["kotlin"]),
    ("md", &["markdown"]),
    ("mjs", &["javascript", "js"]),
    ("mts", &["typescript"]),
    ("py", &["python", "python3"]),
    ("rb", &["ruby"]),
    ("rs", &["rust"]),
    ("ts", &["typescript"]),
    ("tsx", &["typescript"]),
    ("txt", &["text", "plaintext", "plain"]),
    ("yml", &["yaml"]),
];

/// The extensions of files that often contain fences.
const MARKDOWN: [&str; 3] = ["md", "mdx", "markdown"];

/// Describes the form of an answer to the model, and how it loads skills if there are any.
pub(crate) fn description(whole_files: bool, tools: &[ToolDefinition]) -> String {
    let changes = if whole_files { WHOLE_FILES } else { BLOCKS };
    let has_skills = tools.iter().any(|tool| tool.name == LoadSkill::NAME);
    format!("{changes}{}", if has_skills { SKILLS } else { "" })
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

const SKILLS: &str = "
To load a skill, answer with nothing but its name in a fence marked load_skill. The next message has its instructions. For example:

```load_skill
NAME
```
";

/// Why a fence that may end later than it seems is not carried out; nothing after it is read.
const NO_CLEAR_END: &str = "the fence contains other fences, so its end is not clear. Write it again between lines of four marks (````)";
/// Why a command after a prompt is not carried out.
const LONG_COMMAND: &str =
    "it goes on after the line of its prompt. Write it again without prompts and without output";
/// Why a change is not carried out.
const OTHER_FORM: &str = "this form of a change is not applied. Write the file as described above";

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
    Command(Cow<'a, str>),
    /// The name of a skill to load.
    Skill(&'a str),
    /// A change or a command that is not carried out.
    Unclear(Unclear<'a>),
}

/// A fence that is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unclear<'a> {
    /// The path of its file; `None` for a command.
    path: Option<&'a str>,
    raw: &'a str,
    /// What the model is to do instead.
    reason: &'static str,
}

impl Unclear<'_> {
    /// Returns a call that is not run, and whose result asks for the fence once more.
    fn call(self, id: String) -> ToolCall {
        let (tool, subject) = match self.path {
            Some(path) => (WriteFile::NAME, path),
            None => (RunCommand::NAME, "the command"),
        };
        let reason = format!("{subject}: {}", self.reason);
        let raw = self.path.map_or(String::new(), |path| format!("{path}\n")) + self.raw;
        ToolCall::new(id, tool, Arguments::Broken { raw, reason })
    }
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
            let id = format!("{FENCE_ID}{number}_{}", count + 1);
            let call = match part {
                Part::Text(text) => {
                    if !text.trim().is_empty() {
                        blocks.push(Block::text(text));
                    }
                    continue;
                }
                Part::Write { path, content } if (path, content) == EXAMPLE => continue,
                Part::Write { path, content } => {
                    ToolCall::new(id, WriteFile::NAME, json!({"path": path, "content": content}))
                }
                Part::Edit { path, old, new } => {
                    let input = json!({"path": path, "old": old, "new": new});
                    ToolCall::new(id, EditFile::NAME, input)
                }
                Part::Command(line) => ToolCall::new(id, RunCommand::NAME, json!({"command": line.trim()})),
                Part::Skill(name) => ToolCall::new(id, LoadSkill::NAME, json!({"name": name})),
                Part::Unclear(unclear) => unclear.call(id),
            };
            count += 1;
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
    let input = match &call.input {
        Arguments::Json(input) => input,
        Arguments::Broken { raw, .. } => return call.call_id.starts_with(FENCE_ID).then(|| raw.clone()),
    };
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    match call.tool.as_str() {
        WriteFile::NAME => Some(format!("{}\n{}", text("path")?, fenced("", text("content")?))),
        EditFile::NAME => {
            let (old, new) = (text("old")?, text("new")?);
            let block = format!("{SEARCH}\n{}{DIVIDER}\n{}{REPLACE}\n", lines(old), lines(new));
            Some(format!("{}\n{}", text("path")?, fenced("", &block)))
        }
        RunCommand::NAME => Some(fenced("sh", text("command")?)),
        LoadSkill::NAME => Some(fenced(LoadSkill::NAME, text("name")?)),
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
/// file must not replace a whole one. Nothing is read after a fence whose end is not certain.
fn parts<'a>(text: &'a str, only_file: Option<&'a str>, is_cut: bool) -> Vec<Part<'a>> {
    let only_file = only_file.filter(|path| has_one_file(text, path));
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
        if !fence.is_certain || may_go_on(text, fence.end, &found) {
            let raw = &text[fence.start..];
            let path = path_in(&found);
            let reason = NO_CLEAR_END;
            parts.push(Part::Unclear(Unclear { path, raw, reason }));
            return parts;
        }
        parts.extend(found);
        text_from = fence.end;
    }
    parts.push(Part::Text(&text[text_from..]));
    parts
}

/// Returns whether an answer has exactly one fence that can be the content of a file without a path
/// above it: code that only explains is often in one, too.
fn has_one_file(text: &str, path: &str) -> bool {
    let (mut count, mut at) = (0, 0);
    while let Some(fence) = Fence::find(text, at) {
        if fence.named(&text[at..fence.start]).0.is_some() {
            return false;
        }
        let mark = fence.mark();
        if !mark.is_empty() && !SHELLS.contains(&mark) {
            count += 1;
            if !is_language_of(mark, path) {
                return false;
            }
        }
        at = fence.end;
    }
    count == 1
}

/// Returns whether a file can be in the language of the mark of a fence.
fn is_language_of(mark: &str, path: &str) -> bool {
    let path = Path::new(path);
    let own = path.extension().or(path.file_name()).unwrap_or_default();
    let own = own.to_string_lossy().to_ascii_lowercase();
    let mark = mark.to_ascii_lowercase();
    let languages = LANGUAGES.iter().find(|(extension, _)| *extension == own);
    mark == own || languages.is_some_and(|(_, names)| names.contains(&mark.as_str()))
}

/// Returns the path of the file that a fence changes.
fn path_in<'a>(found: &[Part<'a>]) -> Option<&'a str> {
    found.iter().find_map(|part| match part {
        Part::Write { path, .. } | Part::Edit { path, .. } => Some(*path),
        Part::Unclear(unclear) => unclear.path,
        _ => None,
    })
}

/// Returns whether the mark at `end` may be the start of a fence in a Markdown file instead of the
/// end of the file: text follows at once, and the next fence belongs to nothing.
fn may_go_on(text: &str, end: usize, found: &[Part<'_>]) -> bool {
    let is_markdown = |end: &OsStr| MARKDOWN.iter().any(|known| end == *known);
    let [Part::Write { path, .. }] = found else {
        return false;
    };
    let first = text[end..].lines().next().unwrap_or_default();
    if first.trim().is_empty() || !Path::new(path).extension().is_some_and(is_markdown) {
        return false;
    }
    Fence::find(text, end).is_some_and(|next| {
        let is_change = next.changes(&text[end..next.start], None).is_some();
        next.info.is_empty() && !is_change
    })
}

/// Returns the text before a fence without the line that names the file of the fence.
fn without_path_line<'a>(before: &'a str, found: &[Part<'_>]) -> &'a str {
    let path = path_in(found);
    let trimmed = before.trim_end();
    let line = trimmed.lines().next_back().unwrap_or_default();
    match path {
        Some(path) if line.contains(path) && path_of(line).is_some() => {
            trimmed[..trimmed.len() - line.len()].trim_end()
        }
        _ => trimmed,
    }
}

/// A fence with its content.
struct Fence<'a> {
    /// The start of its first line.
    start: usize,
    /// The end of its last line.
    end: usize,
    raw: &'a str,
    /// What follows the opening marks.
    info: &'a str,
    content: &'a str,
    /// Whether no inner fence makes it doubtful where it ends.
    is_certain: bool,
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
        let mut fences = OpenFences::new(marks);
        let mut at = content;
        while let Some(line) = text[at..].split_inclusive('\n').next() {
            // Fences in a block are a part of it.
            if let Some(block) = EditBlock::at_start(&text[at..]) {
                at += block.length;
                continue;
            }
            let next = at + line.len();
            if fences.are_closed_by(line) {
                return Some(Self {
                    start,
                    end: next,
                    raw: &text[start..next],
                    info,
                    content: &text[content..at],
                    is_certain: true,
                });
            }
            at = next;
        }
        Some(Self {
            start,
            end: text.len(),
            raw: &text[start..],
            info,
            content: &text[content..],
            is_certain: !fences.had_inner,
        })
    }

    /// Returns the first word after its opening marks.
    fn mark(&self) -> &'a str {
        self.info.split_whitespace().next().unwrap_or_default()
    }

    /// Returns the path of its file as far as the model wrote one, and the content without it.
    fn named(&self, before: &'a str) -> (Option<&'a str>, &'a str) {
        let above = before.trim_end().lines().next_back().unwrap_or_default();
        match path_of(above).or_else(|| path_of_info(self.info)) {
            Some(path) => (Some(path), self.content),
            None => match path_in_comment(self.content) {
                Some((path, content)) => (Some(path), content),
                None => (None, self.content),
            },
        }
    }

    /// Returns the changes or the command in the fence, if it is certain what it is.
    fn changes(&self, before: &'a str, only_file: Option<&'a str>) -> Option<Vec<Part<'a>>> {
        let mark = self.mark();
        if mark == LoadSkill::NAME {
            let name = match self.content.trim() {
                "" => self.info[mark.len()..].trim(),
                name => name,
            };
            return (!name.is_empty()).then(|| vec![Part::Skill(name)]);
        }
        let above = before.trim_end().lines().next_back().unwrap_or_default();
        let (named, content) = self.named(before);
        let is_shell = SHELLS.contains(&mark) || (mark.is_empty() && SHELLS.contains(&above.trim()));
        if is_shell && !named.is_some_and(is_script) {
            // The mark once more, as the first line.
            let first = self.content.lines().next().unwrap_or_default().trim();
            let line = if SHELLS.contains(&first) {
                &self.content[self.content.find('\n')? + 1..]
            } else {
                self.content
            };
            if line.trim().is_empty() {
                return None;
            }
            let command =
                without_prompts(line).map_or_else(|| self.unclear(None, LONG_COMMAND), Part::Command);
            return Some(vec![command]);
        }
        let path = named.or(only_file.filter(|_| !mark.is_empty()))?;
        if content.contains(SEARCH) {
            return edits(path, content);
        }
        if DIFFS.contains(&mark) || has_other_marks(content) {
            return Some(vec![self.unclear(Some(path), OTHER_FORM)]);
        }
        Some(vec![Part::Write { path, content }])
    }

    fn unclear(&self, path: Option<&'a str>, reason: &'static str) -> Part<'a> {
        Part::Unclear(Unclear {
            path,
            raw: self.raw,
            reason,
        })
    }
}

/// Returns the commands of a terminal session: the lines after its prompts, if it has any. Returns
/// `None` if a command goes on in the next line, which could also be output.
fn without_prompts(lines: &str) -> Option<Cow<'_, str>> {
    let is_command = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    if !lines
        .lines()
        .find(is_command)
        .is_some_and(|line| line.starts_with(PROMPT))
    {
        return Some(Cow::Borrowed(lines));
    }
    let commands: Vec<&str> = lines
        .lines()
        .filter_map(|line| line.strip_prefix(PROMPT))
        .collect();
    let goes_on = |command: &&str| command.contains("<<") || command.trim_end().ends_with('\\');
    (!commands.iter().any(goes_on)).then(|| Cow::Owned(commands.join("\n")))
}

/// Returns whether a content has marks of a replacement in another form.
fn has_other_marks(content: &str) -> bool {
    let starts = |mark: &str| content.lines().any(|line| line.starts_with(mark));
    starts("<<<<<") && starts(">>>>>")
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
        let EditBlock { old, new, length } = EditBlock::at_start(&left[at..])?;
        // Nothing to find: the tool then only creates a file.
        let old = if old.trim().is_empty() { "" } else { old };
        found.push(Part::Edit { path, old, new });
        left = &left[at + length..];
    }
    (!found.is_empty()).then_some(found)
}

/// One replacement in a fence: the lines between its three marks.
struct EditBlock<'a> {
    old: &'a str,
    new: &'a str,
    /// The number of bytes from the start of its first line to the end of its last one.
    length: usize,
}

impl<'a> EditBlock<'a> {
    /// Reads the block at the start of a text; `None` if there is none, or it is not complete before
    /// the next one starts.
    fn at_start(text: &'a str) -> Option<Self> {
        let old_from = text.starts_with(SEARCH).then(|| text.find('\n'))?? + 1;
        let divider = old_from + line_start(&text[old_from..], DIVIDER)?;
        let new_from = divider + text[divider..].find('\n')? + 1;
        let end = new_from + line_start(&text[new_from..], REPLACE)?;
        let last = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        let is_one = line_start(&text[old_from..end], SEARCH).is_none();
        is_one.then_some(Self {
            old: &text[old_from..divider],
            new: &text[new_from..end],
            length: last,
        })
    }
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
