//! Finds the place most similar to a text that was not found: help for the model, never a reason to
//! write there.

use std::collections::HashSet;

use super::text::short_line;

/// The maximum number of compared lines; larger files get no help.
const MAX_WORK: usize = 4_000_000;
/// The maximum number of lines shown of a place.
const MAX_SHOWN: usize = 12;
/// The minimum length of a text that is searched without regard to lines, in bytes: a shorter one
/// occurs in too many places.
const SHORTEST_BROKEN: usize = 8;
/// How much of a line is shown, in bytes.
const MAX_LINE_BYTES: usize = 200;

/// A place similar to the wanted text.
#[derive(Debug, PartialEq, Eq)]
enum Near {
    /// Equal except for white space; its first line, from 0.
    Space(usize),
    /// Equal except for white space and line breaks; its first line, from 0, and the number of
    /// lines.
    Breaks(usize, usize),
    /// Some of its lines are equal, or its first line is similar.
    Alike(usize),
}

/// Describes the place in the text that is most similar to `wanted`.
pub(crate) fn explain(text: &str, wanted: &str) -> String {
    if let Some(hint) = slip(text, wanted) {
        return hint.to_owned();
    }
    let have: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = wanted.trim_matches(['\n', '\r']).lines().collect();
    match nearest(&have, &wanted) {
        None => format!(
            "nothing in its {} lines is like it. To add lines, give a line that is there as `old`, and as `new` that line \
             with the new ones",
            have.len()
        ),
        Some(Near::Space(first)) => {
            let place = place(first, wanted.len(), have.len());
            let indents = have[first..]
                .iter()
                .zip(&wanted)
                .enumerate()
                .find(|(_, (have, wanted))| have.trim() == wanted.trim() && have != wanted)
                .map_or(String::new(), |(at, (have, wanted))| {
                    let (there, given) = (indent(have), indent(wanted));
                    format!(
                        "; line {} begins with {there} there, with {given} in what you gave",
                        first + at + 1
                    )
                });
            format!(
                "at {place} it differs in white space only{indents}. There stands:\n{}",
                quote(&have, first, wanted.len())
            )
        }
        Some(Near::Breaks(first, lines)) => format!(
            "at {} it is broken into other lines. There stands:\n{}",
            place(first, lines, have.len()),
            quote(&have, first, lines)
        ),
        Some(Near::Alike(first)) => {
            let differs = have[first..]
                .iter()
                .zip(&wanted)
                .position(|(have, wanted)| have != wanted)
                .map_or(String::new(), |at| {
                    format!(", first difference in line {}", first + at + 1)
                });
            format!(
                "the nearest is {}{differs}. There stands:\n{}",
                place(first, wanted.len(), have.len()),
                quote(&have, first, wanted.len())
            )
        }
    }
}

/// Recognises common mistakes of models: line breaks as two characters, line numbers left in.
fn slip(text: &str, wanted: &str) -> Option<&'static str> {
    if wanted.contains("\\n") && text.contains(&wanted.replace("\\n", "\n")) {
        return Some(
            "it holds `\\n` as two characters where the file has line breaks; send real line breaks",
        );
    }
    let numberless: Option<Vec<&str>> = wanted.lines().map(without_number).collect();
    match numberless {
        Some(lines) if !lines.is_empty() && text.contains(&lines.join("\n")) => {
            Some("it begins with line numbers, which do not stand in the file; leave them out")
        }
        _ => None,
    }
}

fn without_number(line: &str) -> Option<&str> {
    let tail = line.trim_start();
    let after = tail.trim_start_matches(|c: char| c.is_ascii_digit());
    if after.len() == tail.len() {
        return None;
    }
    let after = after.strip_prefix([':', '\t', '|', '-', '→'])?;
    Some(after.strip_prefix(' ').unwrap_or(after))
}

fn nearest(have: &[&str], wanted: &[&str]) -> Option<Near> {
    if wanted.is_empty() || have.is_empty() || have.len().saturating_mul(wanted.len()) > MAX_WORK {
        return None;
    }
    same_but_space(have, wanted)
        .map(Near::Space)
        .or_else(|| same_but_breaks(have, wanted).map(|(first, lines)| Near::Breaks(first, lines)))
        .or_else(|| most_same_lines(have, wanted).map(Near::Alike))
        .or_else(|| alike_line(have, wanted).map(Near::Alike))
}

/// Finds the lines that are equal without any white space.
fn same_but_breaks(have: &[&str], wanted: &[&str]) -> Option<(usize, usize)> {
    let wanted: String = wanted.iter().flat_map(|line| line.split_whitespace()).collect();
    if wanted.len() < SHORTEST_BROKEN {
        return None;
    }
    // The end of each line in the text without white space.
    let mut ends = Vec::with_capacity(have.len());
    let mut text = String::new();
    for line in have {
        text.extend(line.split_whitespace());
        ends.push(text.len());
    }
    let start = text.find(&wanted)?;
    let first = ends.partition_point(|&end| end <= start);
    let last = ends.partition_point(|&end| end < start + wanted.len());
    Some((first, last - first + 1))
}

fn same_but_space(have: &[&str], wanted: &[&str]) -> Option<usize> {
    let squeeze = |line: &&str| line.split_whitespace().collect::<String>();
    let wanted: Vec<String> = wanted.iter().map(squeeze).collect();
    if wanted.iter().all(String::is_empty) {
        return None;
    }
    let have: Vec<String> = have.iter().map(squeeze).collect();
    let last = wanted.len() - 1;
    have.windows(wanted.len()).position(|window| {
        window.iter().zip(&wanted).enumerate().all(|(i, (have, wanted))| {
            // A text may start and end in the middle of a line.
            match (i == 0, i == last) {
                (true, true) => have.contains(wanted.as_str()),
                (true, false) => have.ends_with(wanted.as_str()),
                (false, true) => have.starts_with(wanted.as_str()),
                (false, false) => have == wanted,
            }
        })
    })
}

/// Finds the place with the most lines that are equal except for their indentation.
fn most_same_lines(have: &[&str], wanted: &[&str]) -> Option<usize> {
    let same = |first: usize| {
        have[first..]
            .iter()
            .zip(wanted)
            .filter(|(have, wanted)| wanted.trim().len() > 2 && have.trim() == wanted.trim())
            .count()
    };
    let (mut best, mut most) = (None, 0);
    for first in 0..have.len() {
        let count = same(first);
        if count > most {
            (best, most) = (Some(first), count);
        }
    }
    best
}

/// Finds the line that shares the most words with the first non-empty wanted line.
fn alike_line(have: &[&str], wanted: &[&str]) -> Option<usize> {
    fn words(line: &str) -> HashSet<&str> {
        line.split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .collect()
    }
    let (at, sought) = wanted
        .iter()
        .map(|line| words(line))
        .enumerate()
        .find(|(_, words)| !words.is_empty())?;
    let (mut best, mut most) = (None, 0.5);
    for (i, line) in have.iter().enumerate() {
        let line = words(line);
        let common = sought.intersection(&line).count();
        let likeness = 2.0 * common as f64 / (sought.len() + line.len()) as f64;
        if likeness > most {
            (best, most) = (Some(i.saturating_sub(at)), likeness);
        }
    }
    best
}

fn place(first: usize, lines: usize, total: usize) -> String {
    match (first + 1, (first + lines).min(total)) {
        (from, to) if from >= to => format!("line {from}"),
        (from, to) => format!("lines {from} to {to}"),
    }
}

fn quote(have: &[&str], first: usize, lines: usize) -> String {
    let shown = lines.min(MAX_SHOWN);
    let lines: Vec<_> = have[first..]
        .iter()
        .take(shown)
        .map(|line| short_line(line, MAX_LINE_BYTES))
        .collect();
    lines.join("\n")
}

fn indent(line: &str) -> String {
    let space = &line[..line.len() - line.trim_start().len()];
    let count = |c, name: &str| match space.matches(c).count() {
        0 => None,
        1 => Some(format!("1 {name}")),
        n => Some(format!("{n} {name}s")),
    };
    let shown: Vec<_> = [count('\t', "tab"), count(' ', "space")]
        .into_iter()
        .flatten()
        .collect();
    if shown.is_empty() {
        "no white space".to_owned()
    } else {
        shown.join(" and ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn main() {\n\tlet a = first(1);\n\tlet b = second(a, 2);\n}\n\nfn other() {}\n";

    #[test]
    fn explain_names_the_nearest_place_and_the_difference() {
        let shown: Vec<_> = [
            "    let a = first(1);\n    let b = second(a, 2);",
            "first( 1 )",
            "fn main() {\n\tlet a = first(2);\n\tlet b = second(a, 2);\n}",
            "fn main() { let a = first(1); let b",
            "let b = second(a, b, 2);",
            "struct Unknown;",
            "fn main() {\\n\tlet a",
            "1: fn main() {\n2: \tlet a = first(1);",
            "\n",
        ]
        .iter()
        .map(|wanted| explain(TEXT, wanted))
        .collect();
        insta::assert_snapshot!(shown.join("\n--\n"));
    }

    #[test]
    fn explain_skips_huge_files() {
        let text = "x y\n".repeat(100_000);
        let wanted = "x z\n".repeat(100);
        assert!(explain(&text, &wanted).starts_with("nothing in its 100000 lines"));
    }
}
