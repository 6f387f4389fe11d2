//! The lines of a hunk, common to both forms.

use super::{Hunk, HunkLine, LineKind, ParseError, wrong};

/// `@@ -1,2 +3,4 @@`
pub(super) struct Header {
    pub(super) line: usize,
    pub(super) old: usize,
    pub(super) new: usize,
}

pub(super) fn header(line: &str) -> Option<Header> {
    let ranges = line.strip_prefix("@@ -")?;
    let (old, ranges) = ranges.split_once(" +")?;
    let (new, _) = ranges.split_once(" @@")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((line, count)) => Some((line.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let ((line, old), (_, new)) = (range(old)?, range(new)?);
    Some(Header { line, old, new })
}

/// Returns the line after `@@`, unless it is only dots.
pub(super) fn anchor(text: &str) -> Option<String> {
    let anchor = text.trim().trim_end_matches("@@").trim_end();
    (!anchor.trim_matches('.').is_empty()).then(|| anchor.to_owned())
}

/// Ends a hunk; one without lines adds its anchors to the next.
pub(super) fn finish(hunk: &mut Hunk, hunks: &mut Vec<Hunk>) {
    while hunk.lines.last().is_some_and(is_stray) {
        hunk.lines.pop();
    }
    if !hunk.lines.is_empty() {
        hunks.push(std::mem::take(hunk));
    }
}

/// Returns whether an empty line without its sign may be only space between two parts of the patch,
/// at the end of a hunk.
pub(super) fn is_stray(line: &HunkLine) -> bool {
    line.kind == LineKind::Keep && !line.ended && line.text.is_empty()
}

/// Adds a line to a hunk.
pub(super) fn push(hunk: &mut Hunk, number: usize, line: &str) -> Result<(), ParseError> {
    let mut chars = line.chars();
    let kind = match chars.next() {
        Some(' ') => LineKind::Keep,
        Some('-') => LineKind::Remove,
        Some('+') => LineKind::Add,
        Some('\\') => {
            return match hunk.lines.last_mut() {
                Some(last) => {
                    last.ended = false;
                    Ok(())
                }
                None => wrong(number, "no line stands before this one"),
            };
        }
        None | Some('\r') => {
            hunk.lines.push(HunkLine {
                kind: LineKind::Keep,
                text: String::new(),
                // Until a line follows; see `is_stray`.
                ended: false,
            });
            return Ok(());
        }
        Some(_) => {
            return wrong(number, "each line of a hunk must begin with a space, + or -");
        }
    };
    // An empty line within the hunk is a context line that lost its space.
    for stray in hunk.lines.iter_mut().rev().take_while(|line| is_stray(line)) {
        stray.ended = true;
    }
    hunk.lines.push(HunkLine {
        kind,
        text: chars.as_str().to_owned(),
        ended: true,
    });
    Ok(())
}
