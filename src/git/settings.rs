//! Settings of git, as text.

use std::fmt::Write as _;

/// A file of settings that is being written.
#[derive(Default)]
pub struct Settings(String);

impl Settings {
    /// Adds a setting; `key` is `section.name` or `section.subsection.name`, as git prints it.
    pub fn add(&mut self, key: &str, value: &str) {
        let Some((section, rest)) = key.split_once('.') else {
            return;
        };
        let (subsection, name) = match rest.rsplit_once('.') {
            Some((subsection, name)) => (Some(subsection), name),
            None => (None, rest),
        };
        let _ = match subsection {
            Some(subsection) => writeln!(self.0, "[{section} {}]", quoted(subsection)),
            None => writeln!(self.0, "[{section}]"),
        };
        let _ = writeln!(self.0, "\t{name} = {}", quoted(value));
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.0
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars().filter(|letter| *letter != '\0') {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// The settings that `git config --list -z` printed, keys as git writes them.
pub fn parse(list: &[u8]) -> Vec<(String, String)> {
    let entries = list.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let pair = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry);
        match text.split_once('\n') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            // A key without a value is `true`.
            None => (text.into_owned(), "true".to_owned()),
        }
    };
    entries.map(pair).collect()
}
