//! The form `*** Begin Patch`.

use super::hunk::{anchor, finish, header, push};
use super::{Action, FileChange, Hunk, Lines, ParseError, wrong};

pub(super) enum Section<'a> {
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
    Move(&'a str),
    EndOfFile,
    EndOfPatch,
}

pub(super) fn section(line: &str) -> Option<Section<'_>> {
    let heading = line.strip_prefix("*** ")?.trim_end();
    let after = |keyword: &str| heading.strip_prefix(keyword).map(str::trim);
    if let Some(path) = after("Add File:") {
        Some(Section::Add(path))
    } else if let Some(path) = after("Delete File:") {
        Some(Section::Delete(path))
    } else if let Some(path) = after("Update File:") {
        Some(Section::Update(path))
    } else if let Some(path) = after("Move to:") {
        Some(Section::Move(path))
    } else {
        match heading {
            "End of File" => Some(Section::EndOfFile),
            "End Patch" => Some(Section::EndOfPatch),
            _ => None,
        }
    }
}

pub(super) fn read(mut lines: Lines<'_, '_>) -> Result<Vec<FileChange>, ParseError> {
    let mut changes = Vec::new();
    while let Some((number, line)) = lines.next() {
        let (path, action) = match section(line) {
            Some(Section::Add(path)) => (path, Action::Add(added(&mut lines)?)),
            Some(Section::Delete(path)) => (path, Action::Delete),
            Some(Section::Update(path)) => {
                let to = match lines.peek().and_then(section) {
                    Some(Section::Move(to)) => {
                        lines.next();
                        Some(to.to_owned())
                    }
                    _ => None,
                };
                let hunks = section_hunks(&mut lines)?;
                if hunks.is_empty() && to.is_none() {
                    return wrong(number, format!("nothing changes in {path}"));
                }
                (path, Action::Update { to, hunks })
            }
            Some(Section::EndOfPatch) => break,
            Some(Section::Move(_) | Section::EndOfFile) => {
                return wrong(number, "it must stand within *** Update File");
            }
            None if line.trim().is_empty() => continue,
            None => {
                return wrong(
                    number,
                    format!(
                        "{line:?} is none of *** Add File:, *** Update File:, *** Delete File:, *** End Patch"
                    ),
                );
            }
        };
        if path.is_empty() {
            return wrong(number, "the path is missing");
        }
        changes.push(FileChange {
            path: path.to_owned(),
            action,
        });
    }
    Ok(changes)
}

/// The lines of a new file.
fn added(lines: &mut Lines<'_, '_>) -> Result<String, ParseError> {
    let mut content = String::new();
    while let Some((number, line)) = lines.next_if(|line| section(line).is_none()) {
        match line.strip_prefix('+') {
            Some(line) => {
                content.push_str(line);
                content.push('\n');
            }
            None if line.trim().is_empty() => {
                // Between two sections; within a file it is a line that lost its sign.
                if lines.peek().is_some_and(|next| next.starts_with('+')) {
                    content.push('\n');
                }
            }
            None => return wrong(number, "each line of a new file must begin with +"),
        }
    }
    Ok(content)
}

fn section_hunks(lines: &mut Lines<'_, '_>) -> Result<Vec<Hunk>, ParseError> {
    let mut hunks = Vec::new();
    let mut hunk = Hunk::default();
    while let Some((number, line)) =
        lines.next_if(|line| matches!(section(line), None | Some(Section::EndOfFile)))
    {
        if let Some(Section::EndOfFile) = section(line) {
            hunk.at_end = true;
        } else if let Some(text) = line.strip_prefix("@@") {
            finish(&mut hunk, &mut hunks);
            match header(line) {
                Some(header) => hunk.line = Some(header.line),
                None => hunk.anchors.extend(anchor(text)),
            }
        } else {
            push(&mut hunk, number, line)?;
        }
    }
    finish(&mut hunk, &mut hunks);
    Ok(hunks)
}
