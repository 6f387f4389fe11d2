//! Where models write the path of a file: above its fence, in the first line of the fence, or in a
//! comment that is the first line of the content.

use std::path::Path;

/// The maximum length of a line that is taken for a path, in bytes.
const MAX_PATH: usize = 200;

/// Words before the path of a file in the line above a fence.
const LABELS: [&str; 9] = [
    "file:",
    "path:",
    "file path:",
    "filename:",
    "update ",
    "updated ",
    "create ",
    "edit ",
    "change ",
];
/// What may follow the path in that line.
const SUFFIX: &str = "(updated)";

/// Parts of words that announce the content of a file in a sentence.
const ANNOUNCING: [&str; 22] = [
    "updat",
    "creat",
    "writ",
    "chang",
    "fix",
    "modif",
    "edit",
    "correct",
    "content",
    "contain",
    "replac",
    "add",
    "full",
    "complet",
    "implement",
    "rewrit",
    "sav",
    "put",
    "new",
    "version",
    "file",
    "code",
];
/// Parts of words in a sentence that announces something else than the content of the file.
const OTHER: [&str; 8] = [
    "output", "usage", "example", "run", "print", "mention", "result", "error",
];
/// The maximum number of words of a sentence that needs no announcing word, such as "In `a.py`:".
const MAX_PLAIN: usize = 2;

/// Returns the path in the line above a fence: the line is a path, announces the content of one, or
/// is hardly more than one.
pub(super) fn path_of(line: &str) -> Option<&str> {
    if let Some(path) = path_with_content(line) {
        return Some(path);
    }
    let line = without_item_mark(line.trim()).trim_end_matches(':');
    let line = line.strip_suffix(SUFFIX).unwrap_or(line);
    let line = line.trim_matches(['*', '#', ' ']).trim_end_matches(':');
    if let Some(path) = quoted_path_with_spaces(line) {
        return Some(path);
    }
    if let Some((before, quoted)) = line.strip_suffix('`').and_then(|line| line.rsplit_once('`')) {
        return Some(quoted).filter(|path| is_path(path) && announces(before));
    }
    let lower = line.to_ascii_lowercase();
    let label = LABELS.iter().find(|label| lower.starts_with(**label));
    let path = label
        .map_or(line, |label| &line[label.len()..])
        .trim()
        .trim_matches(['*', '"', '\'']);
    is_path(path).then_some(path)
}

/// Returns a line without the mark of a list item: "- a.py", "1. a.py".
fn without_item_mark(line: &str) -> &str {
    let after_number = line
        .trim_start_matches(|c: char| c.is_ascii_digit())
        .strip_prefix(". ")
        .filter(|_| line.starts_with(|c: char| c.is_ascii_digit()));
    line.strip_prefix("- ").or(after_number).unwrap_or(line)
}

/// Returns the path in a line that consists of one in quotes, if it contains spaces and has an
/// extension. A command such as `python a.py` is none: its first word can be the name of a program.
fn quoted_path_with_spaces(line: &str) -> Option<&str> {
    let quotes = ['`', '"', '\''];
    let path = quotes
        .iter()
        .find_map(|quote| line.strip_prefix(*quote)?.strip_suffix(*quote))?;
    let (first, _) = path.split_once(' ')?;
    let is_program = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    let has_name = |word: &str| !word.is_empty() && !word.starts_with('-');
    let can_be_path = !first.chars().all(is_program)
        && !first.starts_with("./")
        && path.split(' ').all(has_name)
        && has_extension(path);
    (can_be_path && is_path(&path.replace(' ', "_"))).then_some(path)
}

/// Returns whether a path after these words is that of the content that follows.
fn announces(before: &str) -> bool {
    let words: Vec<String> = before.split_whitespace().map(str::to_ascii_lowercase).collect();
    let has = |stems: &[&str]| {
        words.iter().any(|word| {
            stems.iter().any(|stem| {
                word.trim_start_matches(|c: char| !c.is_alphanumeric())
                    .starts_with(stem)
            })
        })
    };
    !has(&OTHER) && (words.len() <= MAX_PLAIN || has(&ANNOUNCING))
}

/// Returns the path in a line such as "`a.txt` should contain:".
fn path_with_content(line: &str) -> Option<&str> {
    let before = line.trim().strip_suffix(':')?;
    let is_content = |word: &str| word.starts_with("content") || word.starts_with("contain");
    let mut quoted = before.split('`').skip(1).step_by(2);
    let (path, more) = (quoted.next()?, quoted.next());
    let announces = before.split_whitespace().any(is_content);
    (announces && more.is_none() && is_path(path)).then_some(path)
}

/// Returns the path in the first line of a fence: "```python name.py", "```name.py".
pub(super) fn path_of_info(info: &str) -> Option<&str> {
    let last = info.split_whitespace().next_back()?;
    let path = last
        .rsplit_once([':', '='])
        .map_or(last, |(_, path)| path)
        .trim_matches('"');
    is_path(path).then_some(path)
}

/// Returns the path in a comment that is the first line of a content, and the content after it.
pub(super) fn path_in_comment(content: &str) -> Option<(&str, &str)> {
    let (first, after) = content.split_once('\n')?;
    let comment = ["# ", "// ", "<!-- ", "; ", "-- "]
        .iter()
        .find_map(|mark| first.strip_prefix(mark))?;
    let path = comment.trim_end_matches("-->").trim();
    (is_path(path) && path.contains(['.', '/'])).then_some((path, after))
}

/// Returns whether a text is certainly the path of a file: a name with an extension, a hidden file,
/// or a well-known name. One outside of the workspace is a path, too: the tool refuses it and says
/// why.
pub(super) fn is_path(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "._-+@/".contains(c);
    if text.is_empty() || text.len() > MAX_PATH || !text.chars().all(is_plain) {
        return false;
    }
    let path = Path::new(text);
    if text.ends_with('/') || text.contains("//") {
        return false;
    }
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let known = [
        "Makefile",
        "Dockerfile",
        "Justfile",
        "LICENSE",
        "README",
        "Gemfile",
    ];
    has_extension(name) || known.contains(&name) || text.contains('/')
}

/// Returns whether a text ends with an extension of a file.
fn has_extension(text: &str) -> bool {
    let is_extension = |end: &str| (1..=12).contains(&end.len()) && end.contains(|c: char| c.is_alphabetic());
    text.rsplit_once('.').is_some_and(|(_, end)| is_extension(end))
}
