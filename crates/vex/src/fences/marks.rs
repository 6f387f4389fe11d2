//! The lines that open and close fences.

use std::borrow::Cow;

/// Returns a text whose fences start at the margin: in a list they are indented, with their content.
pub(super) fn unindented(text: &str) -> Cow<'_, str> {
    let margin = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_indented = |line: &str| margin(line) > 0 && opening(&line[margin(line)..]).is_some();
    if !text.lines().any(is_indented) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    // The indentation of the fence that is open, and the fences in it.
    let mut open: Option<(usize, OpenFences<'_>)> = None;
    for line in text.split_inclusive('\n') {
        let indentation = margin(line);
        let inner = &line[indentation..];
        let Some((removed, fences)) = &mut open else {
            let is_fence = opening(inner).is_some();
            if let Some((count, _)) = opening(inner) {
                open = Some((indentation, OpenFences::new(&inner[..count])));
            }
            result.push_str(if is_fence { inner } else { line });
            continue;
        };
        let line = &line[indentation.min(*removed)..];
        result.push_str(line);
        if fences.are_closed_by(line) {
            open = None;
        }
    }
    Cow::Owned(result)
}

/// The marks of the fences that are open at a line, the outermost first. A fence in another one of
/// the same marks is recognized by what follows its opening marks.
pub(super) struct OpenFences<'a> {
    marks: Vec<&'a str>,
    /// Whether there was a fence in the outermost one.
    pub(super) had_inner: bool,
}

impl<'a> OpenFences<'a> {
    pub(super) fn new(marks: &'a str) -> Self {
        Self {
            marks: vec![marks],
            had_inner: false,
        }
    }

    /// Reads the next line. Returns whether it closes the outermost fence.
    pub(super) fn are_closed_by(&mut self, line: &'a str) -> bool {
        let Some(marks) = self.marks.last() else {
            return true;
        };
        if is_closing(line, marks) {
            self.marks.pop();
            return self.marks.is_empty();
        }
        if let Some((count, info)) = opening(line)
            && !info.is_empty()
            && line.starts_with(marks)
        {
            self.marks.push(&line[..count]);
            self.had_inner = true;
        }
        false
    }
}

/// Returns the number of marks of an opening fence, and what follows them.
pub(super) fn opening(line: &str) -> Option<(usize, &str)> {
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
