//! `cargo xtask tidy`: checks beyond the compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::repo::{self, TaskResult};

mod documents;
mod imports;
mod names;

/// A longer source file must be split.
const MAX_LINES: usize = 600;

/// The endings of checked files. Recordings and lock files are excluded.
const TEXT: &[&str] = &["rs", "md", "toml", "yml", "yaml", "sh", "json"];

/// Markdown files whose lines may have any length, and why.
const UNWRAPPED: &[(&str, &str)] = &[
    ("docs/reference", "generated"),
    ("examples/issues", "issues as people write them"),
    (
        "src/cli/init/templates",
        "prompts, in which a line is a paragraph",
    ),
];

/// Third-party or recorded files, which stay verbatim, and tasks, which are as other people write.
const OTHERS: &[&str] = &[
    "crates/vex/tests/corpus/",
    "crates/vik-agents/tests/fixtures/",
    "tests/agents/",
    "tests/mcp-conformance/package-lock.json",
    "tests/mcp-servers/",
    "fuzz/corpus/",
    "xtask/live/",
];

pub fn run() -> TaskResult {
    let mut findings = Vec::new();
    let files = repo::files()?;
    for path in files.iter().filter(|path| is_ours(path)) {
        let text = repo::read(&repo::root().join(path))?;
        let mut found = check_file(path, &text);
        found.extend(check_language(path, &text));
        findings.extend(
            found
                .into_iter()
                .map(|finding| format!("{}{finding}", path.display())),
        );
    }
    findings.extend(check_crates(&files)?);
    findings.extend(check_imports(&files)?);
    if findings.is_empty() {
        println!("tidy: {} files", files.len());
        return Ok(());
    }
    Err(format!("not tidy:\n  {}", findings.join("\n  ")))
}

fn is_ours(path: &Path) -> bool {
    let is_text = path
        .extension()
        .is_some_and(|end| TEXT.iter().any(|text| end == *text));
    let is_script = path.starts_with(".ci");
    (is_text || is_script) && !OTHERS.iter().any(|folder| path.starts_with(folder))
}

/// Checks that no group of files of a crate import each other.
fn check_imports(files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut crates: BTreeMap<PathBuf, Vec<(PathBuf, String)>> = BTreeMap::new();
    let is_source = |path: &&PathBuf| path.extension().is_some_and(|end| end == "rs");
    for path in files.iter().filter(is_source) {
        let mut folders = path.ancestors();
        let Some(source) = folders.find(|folder| folder.ends_with("src")) else {
            continue;
        };
        let text = repo::read(&repo::root().join(path))?;
        let relative = path.strip_prefix(source).unwrap_or(path).to_owned();
        crates
            .entry(source.to_owned())
            .or_default()
            .push((relative, text));
    }
    let findings = crates.iter().flat_map(|(source, files)| {
        imports::cycles(files).into_iter().map(move |cycle| {
            let names: Vec<_> = cycle.iter().map(|file| file.display().to_string()).collect();
            format!(
                "{}: {} files import each other, the maximum is {}: {}",
                source.display(),
                cycle.len(),
                imports::MAX_CYCLE,
                names.join(", ")
            )
        })
    });
    Ok(findings.collect())
}

/// Returns the findings of one file, with `:line` in front where it applies.
fn check_file(path: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    let is_rust = path.extension().is_some_and(|end| end == "rs");
    if is_rust && lines > MAX_LINES {
        findings.push(format!(
            ": {lines} lines, the maximum is {MAX_LINES}: split the file"
        ));
    }
    for (number, line) in text.lines().enumerate() {
        let mut found = |description: &str| findings.push(format!(":{}: {description}", number + 1));
        for note in notes() {
            if leaves_note(line, &note) {
                found("leftover note: do the work, or open an issue");
            }
        }
        for folder in machine_folders() {
            if names_folder(line, &folder) {
                found("path of a machine");
            }
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(": no newline at the end".to_owned());
    }
    findings
}

/// Returns where names, comments and documents differ from docs/style.md.
fn check_language(path: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let is = |end: &str| path.extension().is_some_and(|found| found == end);
    if is("rs") {
        match names::check(&path.to_string_lossy(), text) {
            Ok(found) => findings.extend(found),
            Err(error) => findings.push((error.span().start().line, format!("cannot parse: {error}"))),
        }
    }
    if is("rs") || is("md") {
        let exists = |path: &Path| repo::root().join(path).exists();
        findings.extend(documents::check_paths(path, text, exists));
    }
    if is("md") && !UNWRAPPED.iter().any(|(folder, _)| path.starts_with(folder)) {
        findings.extend(documents::check_width(text));
    }
    if path == Path::new("CONTEXT.md") {
        findings.extend(documents::check_glossary(text));
    }
    findings
        .into_iter()
        .map(|(line, description)| format!(":{line}: {description}"))
        .collect()
}

/// Built from parts, so that this file does not match itself.
fn notes() -> [String; 2] {
    [["TO", "DO"].concat(), ["FIX", "ME"].concat()]
}

fn machine_folders() -> Vec<String> {
    ["work/", "root/", "Users/"]
        .map(|folder| format!("/{folder}"))
        .into()
}

/// Returns whether the line has this note: at the start of a comment, or before a colon or a name.
fn leaves_note(line: &str, note: &str) -> bool {
    line.match_indices(note).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + note.len()..]);
        let is_comment = ["//", "///", "//!", "#", "<!--"]
            .iter()
            .any(|mark| before.trim_end().ends_with(mark));
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_word(before.chars().next_back())
            && (is_comment && !is_word(after.chars().next()) || after.starts_with([':', '(']))
    })
}

/// Returns whether the line has an absolute path below `folder`, not as part of a longer path.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~}*)>/".contains(c))
    })
}

/// Checks that every crate has a description and documentation at its root.
fn check_crates(files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut findings = Vec::new();
    for manifest in files
        .iter()
        .filter(|path| path.ends_with("Cargo.toml") && !path.starts_with("fuzz"))
    {
        let folder = repo::root().join(manifest.parent().unwrap_or(manifest));
        if !repo::read(&repo::root().join(manifest))?.contains("\ndescription = \"") {
            findings.push(format!("{}: no description", manifest.display()));
        }
        for root in ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)) {
            if root.is_file() && !repo::read(&root)?.starts_with("//! ") {
                findings.push(format!("{}: no documentation at the start", root.display()));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        check_file(Path::new(name), text)
    }

    #[test]
    fn findings_name_the_line() {
        let text = format!(
            "fn a() {{}}\n// {}: more\nlet b = \"{}x\";\n",
            notes()[0],
            machine_folders()[1]
        );
        let findings = found("a.rs", &text);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(
            findings[0].starts_with(":2: leftover note") && findings[1].starts_with(":3: path"),
            "{findings:?}"
        );
        assert_eq!(found("a.rs", &"x\n".repeat(MAX_LINES)), [""; 0]);
        assert_eq!(found("a.rs", &"x\n".repeat(MAX_LINES + 1)).len(), 1);
        assert_eq!(found("a.md", &"x\n".repeat(MAX_LINES + 1)), [""; 0]);
        assert_eq!(found("a.md", "x").len(), 1);
    }

    #[test]
    fn partial_matches_are_no_findings() {
        for line in [
            "../work/a",
            "{{ root }}/work/x",
            "tests/work/y",
            "/workspace",
            "TODOS:",
            "state `TODO`",
            "$HOME/work/",
        ] {
            assert_eq!(found("a.rs", &format!("{line}\n")), [""; 0], "{line}");
        }
    }
}
