//! Markdown files and the paths that comments name.

use std::collections::BTreeMap;
use std::path::Path;

/// The longest line of prose, in characters.
const MAX_COLUMNS: usize = 100;

/// The folders that a path in a comment or document begins with.
const FOLDERS: &[&str] = &[
    "src/",
    "crates/",
    "tests/",
    "docs/",
    "adr/",
    "xtask/",
    "examples/",
    "fuzz/",
    "benches/",
];

/// The endings of files that comments and documents name.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".yml", ".sql", ".mjs", ".js"];

/// Returns the lines of prose that are too long. Tables, code blocks, headings and lines that cannot
/// be broken may be longer.
pub fn check_width(text: &str) -> Vec<(usize, String)> {
    let long = |line: &str| {
        let prose = line.trim_start().trim_start_matches(['-', '*', '>', ' ']);
        let columns = line.chars().count();
        // A link or code span has no place to break.
        let breakable = without_spans(prose).trim().contains(' ');
        columns > MAX_COLUMNS && breakable && !line.trim_start().starts_with(['|', '#', '<'])
    };
    prose_lines(text)
        .filter(|(_, line)| long(line))
        .map(|(number, line)| {
            let columns = line.chars().count();
            (
                number,
                format!("line of {columns} columns, the maximum is {MAX_COLUMNS}"),
            )
        })
        .collect()
}

/// Returns the paths in a document or in the comments of a source file that do not exist.
pub fn check_paths(path: &Path, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<(usize, String)> {
    let is_source = path.extension().is_some_and(|end| end == "rs");
    let comments = text.lines().enumerate().filter_map(|(index, line)| {
        let comment = line.trim_start().strip_prefix("//")?;
        Some((index + 1, comment))
    });
    let lines: Vec<(usize, &str)> = if is_source {
        comments.collect()
    } else {
        prose_lines(text).collect()
    };
    let mut findings = Vec::new();
    for (number, line) in lines {
        for named in paths(line) {
            let bases = [Some(Path::new("")), path.parent(), crate_of(path)];
            let found = bases.into_iter().flatten().any(|base| exists(&base.join(named)));
            if !found {
                findings.push((number, format!("no file `{named}`")));
            }
        }
    }
    findings
}

/// Returns the terms that the glossary defines more than once.
pub fn check_glossary(text: &str) -> Vec<(usize, String)> {
    let mut seen = BTreeMap::new();
    let mut findings = Vec::new();
    for (number, line) in prose_lines(text) {
        let line = line.trim_start().trim_start_matches(['-', '|', ' ']);
        let Some((term, _)) = line.strip_prefix("**").and_then(|line| line.split_once("**")) else {
            continue;
        };
        if let Some(first) = seen.insert(term.to_lowercase(), number) {
            findings.push((number, format!("`{term}` is already defined in line {first}")));
        }
    }
    findings
}

/// Returns the numbered lines outside of code blocks and generated parts.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut in_code, mut is_generated) = (false, false);
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        is_generated = (is_generated || line.starts_with("<!-- begin:")) && !line.starts_with("<!-- end:");
        let is_code = in_code || is_fence || line.starts_with("    ");
        (!is_code && !is_generated).then_some((index + 1, line))
    })
}

/// Returns the line with each code span and link as one word.
fn without_spans(line: &str) -> String {
    let mut text = String::new();
    let mut depth = 0_usize;
    let mut in_code = false;
    for c in line.chars() {
        match c {
            '`' => in_code = !in_code,
            '[' | '(' if !in_code => depth += 1,
            ']' | ')' if !in_code => depth = depth.saturating_sub(1),
            ' ' if in_code || depth > 0 => continue,
            _ => {}
        }
        text.push(c);
    }
    text
}

/// Returns the paths in a line that name a file of this repository.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    line.split(move |c: char| !is_part(c)).filter_map(|token| {
        let token = token.trim_end_matches('.');
        let is_ours = FOLDERS.iter().any(|folder| token.starts_with(folder));
        (is_ours && ENDINGS.iter().any(|end| token.ends_with(end))).then_some(token)
    })
}

/// Returns the folder of the crate that contains a file.
fn crate_of(path: &Path) -> Option<&Path> {
    path.ancestors().find(|folder| {
        folder
            .parent()
            .is_some_and(|parent| parent == Path::new("crates"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prose_is_found_but_not_tables_code_and_links() {
        let long = "word ".repeat(30);
        let generated = format!("<!-- begin: x -->\n{long}\n<!-- end: x -->");
        let text = format!(
            "# {long}\n\n{long}\n\n| {long} |\n\n```text\n{long}\n```\n\n    {long}\n{generated}\n{long}\n"
        );
        assert_eq!(
            check_width(&text)
                .into_iter()
                .map(|(line, _)| line)
                .collect::<Vec<_>>(),
            [3, 15]
        );
        assert_eq!(check_width(&format!("- [{long}](a.md)\n")), []);
        assert_eq!(check_width(&format!("`{long}`\n")), []);
    }

    #[test]
    fn missing_path_is_found_in_comments_and_prose() {
        let exists = |path: &Path| path == Path::new("src/a.rs") || path == Path::new("crates/x/src/b.rs");
        let text = "// src/a.rs and src/b.rs\nlet c = \"src/c.rs\";\n";
        let found = check_paths(Path::new("crates/x/src/a.rs"), text, exists);
        assert_eq!(found, []);
        let found = check_paths(Path::new("src/x.rs"), text, exists);
        assert_eq!(found, [(1, "no file `src/b.rs`".to_owned())]);
        let found = check_paths(Path::new("README.md"), "see [a](src/a.rs), src/d.rs.\n", exists);
        assert_eq!(found, [(1, "no file `src/d.rs`".to_owned())]);
    }

    #[test]
    fn second_definition_is_found() {
        let text = "- **run**: one.\n- **Stage**: two.\n\n**stage** three\n";
        assert_eq!(
            check_glossary(text),
            [(4, "`stage` is already defined in line 2".to_owned())]
        );
    }
}
