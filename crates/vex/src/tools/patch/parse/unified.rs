//! Unified diffs, as made by git, diff and models.

use super::hunk::{anchor, finish, header, is_stray, push};
use super::{Action, FileChange, Hunk, LineKind, Lines, ParseError, wrong};

/// The lines before the hunks of a file.
#[derive(Default)]
struct Head {
    old: Option<String>,
    new: Option<String>,
    from: Option<String>,
    to: Option<String>,
    git: Option<(String, String)>,
    is_new: bool,
    is_deleted: bool,
}

pub(super) fn read(mut lines: Lines<'_, '_>) -> Result<Vec<FileChange>, ParseError> {
    let mut changes = Vec::new();
    let mut head = Head::default();
    let mut at = 0;
    while let Some((number, line)) = lines.next() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            changes.extend(headed(std::mem::take(&mut head), at, Vec::new())?);
            head.git = git_names(names.trim_end());
            at = number;
        } else if let Some(path) = line.strip_prefix("--- ")
            && lines.peek().is_some_and(|next| next.starts_with("+++ "))
        {
            if head.old.is_some() {
                changes.extend(headed(std::mem::take(&mut head), at, Vec::new())?);
            }
            at = number;
            head.old = Some(file_name(path));
            if let Some((_, next)) = lines.next() {
                head.new = Some(file_name(&next[4..]));
            }
            let hunks = unified_hunks(&mut lines)?;
            changes.extend(headed(std::mem::take(&mut head), at, hunks)?);
        } else if line.starts_with("@@") {
            return wrong(
                number,
                "a hunk without the names of its file (--- a/file and +++ b/file) before it",
            );
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return wrong(number, "binary changes cannot be applied");
        } else if head.git.is_some() {
            let value = |prefix: &str| line.strip_prefix(prefix).map(|path| unquote(path.trim_end()));
            if let Some(path) = value("rename from ") {
                head.from = Some(path);
            } else if let Some(path) = value("rename to ") {
                head.to = Some(path);
            } else if line.starts_with("copy from ") {
                return wrong(number, "copies cannot be applied; add the file");
            }
            head.is_new |= line.starts_with("new file mode ");
            head.is_deleted |= line.starts_with("deleted file mode ");
        }
        // Other text before a file, such as the mail of a patch, is skipped.
    }
    changes.extend(headed(head, at, Vec::new())?);
    Ok(changes)
}

/// Combines the header of a file and its hunks. Returns `None` if only the mode changes.
fn headed(head: Head, line: usize, hunks: Vec<Hunk>) -> Result<Option<FileChange>, ParseError> {
    let change = |path: String, action| Ok(Some(FileChange { path, action }));
    if let (Some(from), Some(to)) = (head.from, head.to) {
        return change(from, Action::Update { to: Some(to), hunks });
    }
    let (old, new) = match (head.old, head.new, head.git) {
        (Some(old), Some(new), _) => (old, new),
        (_, _, Some((old, new))) if head.is_new || head.is_deleted => (old, new),
        _ => return Ok(None),
    };
    let absent = |path: &str| path == "/dev/null";
    if absent(&old) && absent(&new) {
        return wrong(line, "both names are /dev/null");
    }
    if head.is_new || absent(&old) {
        let new = if absent(&new) { old } else { new };
        return change(stripped(&new, 'b'), Action::Add(content(hunks, line)?));
    }
    if head.is_deleted || absent(&new) {
        return change(stripped(&old, 'a'), Action::Delete);
    }
    if hunks.is_empty() {
        return wrong(line, "no hunk (@@ -1,2 +1,2 @@) follows");
    }
    let (old, new) = match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
        (Some(old), Some(new)) => (old.to_owned(), new.to_owned()),
        (Some(bare), None) if bare == new => (new.clone(), new),
        (None, Some(bare)) if bare == old => (old.clone(), old),
        _ => (old, new),
    };
    // Without a header about a rename, the old name may be that of a backup: GNU diff compares
    // `file.orig` and `file`.
    let to = (old != new && !new.is_empty()).then_some(new);
    match to {
        Some(new) if old == format!("{new}.orig") => change(new, Action::Update { to: None, hunks }),
        to => change(old, Action::Update { to, hunks }),
    }
}

fn stripped(path: &str, side: char) -> String {
    let stripped = path
        .strip_prefix(side)
        .and_then(|stripped| stripped.strip_prefix('/'));
    stripped.unwrap_or(path).to_owned()
}

/// The lines of a new file.
fn content(hunks: Vec<Hunk>, at: usize) -> Result<String, ParseError> {
    let mut content = String::new();
    for line in hunks.into_iter().flat_map(|hunk| hunk.lines) {
        if line.kind != LineKind::Add {
            return wrong(at, "a new file has only lines with +");
        }
        content.push_str(&line.text);
        if line.ended {
            content.push('\n');
        }
    }
    Ok(content)
}

fn unified_hunks(lines: &mut Lines<'_, '_>) -> Result<Vec<Hunk>, ParseError> {
    let mut hunks = Vec::new();
    while let Some((number, line)) = lines.next_if(|line| line.starts_with("@@")) {
        let header = header(line);
        let mut hunk = Hunk {
            line: header.as_ref().map(|header| header.line),
            ..Hunk::default()
        };
        if header.is_none() {
            hunk.anchors.extend(anchor(&line[2..]));
        }
        let header_counts = header.as_ref().is_some_and(|header| header.old > 0);
        let mut left = header.map(|header| (header.old, header.new));
        loop {
            // A line feed at the end of a line is removed by a following note; it counts for
            // nothing.
            let note = lines.peek().is_some_and(|line| line.starts_with('\\'));
            if left == Some((0, 0)) && !note && !overruns(*lines) {
                break;
            }
            if !note && ends(*lines, left) {
                break;
            }
            let Some((number, line)) = lines.next() else { break };
            push(&mut hunk, number, line)?;
            if let (false, Some((old, new))) = (note, &mut left) {
                let first = line.chars().next().unwrap_or(' ');
                *old = old.saturating_sub(usize::from(first != '+'));
                *new = new.saturating_sub(usize::from(first != '-'));
            }
        }
        // If the counts were right, an empty line at the end is a context line that lost its space.
        if left == Some((0, 0)) {
            for stray in hunk.lines.iter_mut().rev().take_while(|line| is_stray(line)) {
                stray.ended = true;
            }
        }
        // If the header counts old lines and none are given, new lines come before the line that it
        // names.
        if header_counts && hunk.lines.iter().all(|line| line.kind == LineKind::Add) {
            hunk.line = hunk.line.map(|line| line.saturating_sub(1));
        }
        let before = hunks.len();
        finish(&mut hunk, &mut hunks);
        if hunks.len() == before {
            return wrong(number, "an empty hunk");
        }
    }
    Ok(hunks)
}

/// Returns whether a hunk continues although its counts are used up.
fn overruns(lines: Lines<'_, '_>) -> bool {
    match lines.peek() {
        // `-- ` ends a patch that came by mail.
        Some(line) => line.starts_with([' ', '+', '-']) && line.trim_end() != "--" && !names_ahead(lines),
        None => false,
    }
}

/// Returns whether a hunk ends here although its counts, if there are any, are not used up.
fn ends(lines: Lines<'_, '_>, left: Option<(usize, usize)>) -> bool {
    let Some(line) = lines.peek() else { return true };
    if line.starts_with("@@") || line.starts_with("diff --git ") {
        return true;
    }
    // Two lines `-- …` and `++ …` within the counts look like the names of a file.
    names_ahead(lines)
        && left != Some((1, 1))
        && left.is_none_or(|(old, new)| {
            old == 0 || new == 0 || lines.ahead(2).is_some_and(|line| line.starts_with("@@"))
        })
}

/// Returns whether the names of another file follow.
fn names_ahead(lines: Lines<'_, '_>) -> bool {
    lines.ahead(0).is_some_and(|old| old.starts_with("--- "))
        && lines.ahead(1).is_some_and(|new| new.starts_with("+++ "))
}

/// Returns the name in `--- name`, without the time that may follow.
fn file_name(text: &str) -> String {
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.starts_with('"') {
        return unquote(text);
    }
    text.split('\t').next().unwrap_or(text).to_owned()
}

/// Returns the two names of `diff --git`, needed only if no others follow: then both are the same.
fn git_names(text: &str) -> Option<(String, String)> {
    if let Some(inner) = text.strip_prefix('"') {
        let end = inner.find("\" \"").map(|at| at + 2)?;
        return Some((unquote(&text[..end]), unquote(&text[end + 1..])));
    }
    // `a/x b/x`: the name may contain spaces, so the halves are compared.
    let middle = text.len() / 2;
    match (text.get(..middle), text.get(middle + 1..)) {
        (Some(old), Some(new)) => Some((old.to_owned(), new.to_owned())),
        _ => None,
    }
}

/// Removes the quotes that git puts around unusual names.
fn unquote(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut remaining = inner.bytes().peekable();
    while let Some(byte) = remaining.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match remaining.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(first @ b'0'..=b'7') => {
                let mut code = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(next) = remaining.next_if(|byte| (b'0'..=b'7').contains(byte)) else {
                        break;
                    };
                    code = code * 8 + u32::from(next - b'0');
                }
                bytes.push(code as u8);
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
