//! Applies hunks to a text: exactly, except for their positions and white space at line ends.

use super::parse::{Hunk, HunkLine, LineKind};
use crate::tools::files::explain;
use crate::tools::files::text::LineEnding;

/// Why a hunk does not apply.
#[derive(Debug, thiserror::Error)]
#[error("hunk {number} of {total} does not fit: {reason}")]
pub struct HunkMismatch {
    number: usize,
    total: usize,
    reason: String,
}

/// Lines of the old text and their replacement.
struct Edit {
    start: usize,
    end: usize,
    new: Vec<String>,
}

/// Where a hunk applies.
struct HunkMatch {
    start: usize,
    /// Whether its lines are equal to the last byte.
    exact: bool,
}

/// Returns the text with all hunks applied. Each must match exactly one place, all of them in the
/// old text.
///
/// # Errors
/// When one does not apply.
pub fn apply(text: &str, hunks: &[Hunk]) -> Result<String, HunkMismatch> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut edits: Vec<Edit> = Vec::with_capacity(hunks.len());
    let mut drift = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let misfit = |reason| HunkMismatch {
            number: index + 1,
            total: hunks.len(),
            reason,
        };
        let after = edits.last().map_or(0, |edit| edit.end);
        let old: Vec<&HunkLine> = hunk
            .lines
            .iter()
            .filter(|line| line.kind != LineKind::Add)
            .collect();
        let fit = if old.is_empty() {
            HunkMatch {
                start: insertion(&lines, hunk).map_err(misfit)?,
                exact: hunk.lines.iter().any(|line| line.text.ends_with('\r')),
            }
        } else {
            let expected = hunk
                .line
                .and_then(|line| line.saturating_sub(1).checked_add_signed(drift));
            find(&lines, hunk, &old, expected, after)
                .map_err(|miss| misfit(miss.message(text, hunk, &old)))?
        };
        if let (Some(line), false) = (hunk.line, old.is_empty()) {
            drift = fit.start.cast_signed() - line.saturating_sub(1).cast_signed();
        }
        let end = fit.start + old.len();
        let overlaps = |edit: &Edit| {
            (fit.start < edit.end && edit.start < end)
                || (fit.start == edit.start && end == edit.end && end > fit.start)
        };
        if edits.iter().any(overlaps) {
            return Err(misfit("it changes lines that an earlier hunk changes".to_owned()));
        }
        edits.push(Edit {
            start: fit.start,
            end,
            new: replacement(text, &lines, hunk, &fit),
        });
    }
    edits.sort_by_key(|edit| (edit.start, edit.end));
    Ok(joined(text, &lines, edits))
}

fn joined(text: &str, lines: &[&str], edits: Vec<Edit>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut push = |line: &str| {
        // The former last line, without a line feed, is no longer the last one.
        if !out.is_empty() && !out.ends_with('\n') {
            out.push_str(if LineEnding::of(text) == LineEnding::CrLf {
                "\r\n"
            } else {
                "\n"
            });
        }
        out.push_str(line);
    };
    let mut at = 0;
    for edit in edits {
        lines[at..edit.start.max(at)].iter().for_each(|line| push(line));
        edit.new.iter().for_each(|line| push(line));
        at = edit.end.max(at);
    }
    lines[at..].iter().for_each(|line| push(line));
    out
}

/// Returns the new lines: context is kept as in the file.
fn replacement(text: &str, lines: &[&str], hunk: &Hunk, fit: &HunkMatch) -> Vec<String> {
    let mut at = fit.start;
    let mut new = Vec::with_capacity(hunk.lines.len());
    for line in &hunk.lines {
        match line.kind {
            LineKind::Keep => {
                new.push(lines[at].to_owned());
                at += 1;
            }
            LineKind::Remove => at += 1,
            LineKind::Add if fit.exact => {
                let end = if line.ended { "\n" } else { "" };
                new.push(format!("{}{end}", line.text));
            }
            LineKind::Add => {
                // The patch does not contain line ends: they follow the adjacent lines.
                let beside = lines[fit.start..at].last().or_else(|| lines.get(at));
                let crlf = match beside {
                    Some(beside) if beside.ends_with('\n') => beside.ends_with("\r\n"),
                    _ => LineEnding::of(text) == LineEnding::CrLf,
                };
                let end = match (line.ended, crlf) {
                    (false, _) => "",
                    (true, true) => "\r\n",
                    (true, false) => "\n",
                };
                new.push(format!("{}{end}", line.text.trim_end_matches('\r')));
            }
        }
    }
    new
}

/// Returns the place for lines without context: after the given line, after the anchors, or at the
/// end.
fn insertion(lines: &[&str], hunk: &Hunk) -> Result<usize, String> {
    if let Some(line) = hunk.line {
        return Ok(line.min(lines.len()));
    }
    if hunk.anchors.is_empty() || hunk.at_end {
        return Ok(lines.len());
    }
    match anchor(lines, &hunk.anchors) {
        Some(line) => Ok(line + 1),
        None => Err(format!(
            "the line {:?} does not stand in the file",
            hunk.anchors.join(" / ")
        )),
    }
}

/// Returns the line of the last anchor, each searched after the previous one.
fn anchor(lines: &[&str], anchors: &[String]) -> Option<usize> {
    let mut from = 0;
    let mut found = None;
    for anchor in anchors {
        let anchor = anchor.trim();
        let following = lines.get(from..)?;
        let at = following
            .iter()
            .position(|line| line.trim() == anchor)
            .or_else(|| following.iter().position(|line| line.contains(anchor)))?;
        found = Some(from + at);
        from += at + 1;
    }
    found
}

/// Why no place was found.
enum FindError {
    Nowhere,
    /// At several places, from 0.
    Several(Vec<usize>),
}

impl FindError {
    fn message(&self, text: &str, hunk: &Hunk, old: &[&HunkLine]) -> String {
        match self {
            Self::Several(places) => {
                let mut shown: Vec<_> = places.iter().take(10).map(|at| (at + 1).to_string()).collect();
                if places.len() > 10 {
                    shown.push("…".to_owned());
                }
                format!(
                    "its lines stand at {} places (lines {}); give more context, or the right line in its header",
                    places.len(),
                    shown.join(", ")
                )
            }
            Self::Nowhere => {
                let side = |kind| {
                    let lines = hunk.lines.iter().filter(move |line| line.kind != kind);
                    lines
                        .map(|line| line.text.as_str())
                        .collect::<Vec<_>>()
                        .join("\n")
                };
                let new = side(LineKind::Remove);
                let wanted = old
                    .iter()
                    .map(|line| line.text.as_str())
                    .collect::<Vec<_>>()
                    .join("\n");
                if !new.trim().is_empty() && new != wanted && text.contains(&new) {
                    return "its new lines stand in the file already; it may have been applied before"
                        .to_owned();
                }
                format!(
                    "its context and the lines with - do not stand in the file: {}",
                    explain(text, &wanted)
                )
            }
        }
    }
}

fn find(
    lines: &[&str],
    hunk: &Hunk,
    old: &[&HunkLine],
    expected: Option<usize>,
    after: usize,
) -> Result<HunkMatch, FindError> {
    for exact in [true, false] {
        let same = |(have, wanted): (&&str, &&HunkLine)| {
            let have = have.strip_suffix('\n').unwrap_or(have);
            if exact {
                have == wanted.text
            } else {
                have.trim_end() == wanted.text.trim_end()
            }
        };
        let fits = |start: usize| {
            lines
                .get(start..start + old.len())
                .is_some_and(|window| window.iter().zip(old).all(same))
        };
        let fit = |start| Ok(HunkMatch { start, exact });
        if let Some(start) = expected.filter(|start| fits(*start)) {
            return fit(start);
        }
        let places: Vec<usize> = (0..(lines.len() + 1).saturating_sub(old.len()))
            .filter(|start| fits(*start))
            .collect();
        match places.as_slice() {
            [] => continue,
            [start] => return fit(*start),
            _ => {}
        }
        if hunk.at_end
            && let Some(start) = places.iter().find(|start| **start + old.len() == lines.len())
        {
            return fit(*start);
        }
        if let Some(anchor) = anchor(lines, &hunk.anchors)
            && let Some(start) = places.iter().find(|start| **start >= anchor)
        {
            return fit(*start);
        }
        // Hunks are in the order of the file.
        let mut later = places.iter().filter(|start| after > 0 && **start >= after);
        return match (later.next(), later.next()) {
            (Some(start), None) => fit(*start),
            _ => Err(FindError::Several(places)),
        };
    }
    Err(FindError::Nowhere)
}

#[cfg(test)]
mod tests;
