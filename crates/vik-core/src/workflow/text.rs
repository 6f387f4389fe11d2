//! Helpers for untrusted text: lines, escapes, suggestions.

use std::fmt::Write as _;

/// The maximum length of quoted text in a message, in characters.
const MAX_QUOTED: usize = 60;

/// Returns the lines of a text as in YAML, which end with `
/// `, `\r
/// ` or a lone `\r`.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut remaining = Some(text);
    std::iter::from_fn(move || {
        let here = remaining?;
        let Some(end) = here.find(['\n', '\r']) else {
            remaining = None;
            return Some(here);
        };
        let after = if here[end..].starts_with("\r\n") {
            end + 2
        } else {
            end + 1
        };
        remaining = Some(&here[after..]);
        Some(&here[..end])
    })
}

/// Returns line `number` (from 1), "" if there is none. A byte order mark is not part of the first
/// line.
pub(crate) fn line(text: &str, number: u32) -> &str {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (number as usize)
        .checked_sub(1)
        .and_then(|index| lines(text).nth(index))
        .unwrap_or("")
}

/// Returns whether a character must not be sent to a terminal: controls, direction marks and
/// invisible characters.
pub(crate) fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Appends a character, escaped if it is hostile.
pub(crate) fn push_escaped(out: &mut String, c: char) {
    if is_hostile(c) {
        // Writing to a String does not fail.
        let _ = write!(out, "\\u{{{:x}}}", c as u32);
    } else {
        out.push(c);
    }
}

/// Returns text of the file in backticks for a message, escaped and cut.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("`");
    for (count, c) in text.chars().enumerate() {
        if count == MAX_QUOTED {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => push_escaped(&mut out, c),
        }
    }
    out.push('`');
    out
}

/// Returns the most similar candidate, if one is similar enough.
pub(crate) fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > 100 {
        return None;
    }
    let fold = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let name = fold(name);
    candidates
        .into_iter()
        .map(|candidate| {
            let folded = fold(candidate);
            let similarity = strsim::jaro_winkler(&name, &folded);
            let edits = strsim::damerau_levenshtein(&name, &folded);
            // All short names are similar by Jaro-Winkler, so few edits are required as well.
            let near = edits <= (folded.chars().count().max(3) / 3) || similarity >= 0.9;
            (candidate, similarity, near)
        })
        .filter(|&(_, _, near)| near)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, _, _)| candidate)
}

/// Returns ``did you mean `x`?`` for the most similar candidate.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(name, candidates).map(|candidate| format!("did you mean {}?", quoted(candidate)))
}

/// Returns a list such as `a`, `b` or `c`.
pub(crate) fn choices<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(quoted).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_yaml_ends_them() {
        assert_eq!(lines("a\nb\r\nc\rd").collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(lines("a\n").collect::<Vec<_>>(), ["a", ""]);
        assert_eq!(line("\u{feff}a\nb", 1), "a");
        assert_eq!(line("a", 2), "");
        assert_eq!(line("a", 0), "");
    }

    #[test]
    fn quoted_text_is_escaped_and_cut() {
        assert_eq!(quoted("a\u{1b}[31m\u{202e}b"), "`a\\u{1b}[31m\\u{202e}b`");
        assert_eq!(quoted(&"x".repeat(500)).chars().count(), 63);
    }

    #[test]
    fn suggestions_are_near() {
        assert_eq!(closest("plannr", ["builder", "planner"]), Some("planner"));
        assert_eq!(
            closest("max-iterations", ["max_iterations"]),
            Some("max_iterations")
        );
        assert_eq!(
            closest("idle_seconds", ["command", "idle_sec", "timeout"]),
            Some("idle_sec")
        );
        assert_eq!(closest("zzz", ["root"]), None);
        assert_eq!(closest("env", ["args", "model"]), None);
        assert_eq!(choices(["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
