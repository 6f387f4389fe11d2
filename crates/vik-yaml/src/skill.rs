//! The front matter of a SKILL.md, read leniently: files written for other agents, with small
//! mistakes, are used as far as they can be understood. Workflows and vex read it alike, so that vex
//! can use each skill that a workflow accepts.

mod restricted;

pub use restricted::without_grants;

use super::text::one_line;
use super::{Kind, Node, Sink, parse as parse_yaml};

/// The maximum size of a SKILL.md, in bytes.
pub const MAX_BYTES: u64 = 256 * 1024;

/// The maximum length of a name, in characters.
const MAX_NAME: usize = 64;

/// The maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 1024;

/// The maximum length of a field that is only shown, in characters.
const MAX_FIELD: usize = 500;

/// The maximum size of the front matter, in bytes.
const MAX_FRONT: usize = 64 * 1024;

/// A SKILL.md, split after its front matter.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The YAML between the lines `---`; empty if there are none.
    pub front: &'a str,
    /// The instructions, with the blank lines before them; the whole file if it has no front matter.
    pub body: &'a str,
    /// The number of the line on which the body starts, from 1.
    pub body_line: usize,
}

/// Splits a SKILL.md. A file whose front matter does not end has no front matter.
///
/// The caller limits the size of the text to [`MAX_BYTES`].
pub fn split(text: &str) -> Parts<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let whole = Parts {
        front: "",
        body: text,
        body_line: 1,
    };
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else {
        return whole;
    };
    let mut end = first.len();
    for (index, line) in lines.enumerate() {
        if line.trim_end() == "---" {
            return Parts {
                front: &text[first.len()..end],
                body: &text[end + line.len()..],
                body_line: index + 3,
            };
        }
        end += line.len();
    }
    whole
}

/// What a SKILL.md states about itself. Each text is one line without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// What rules and models call it: that of its folder if it states none.
    pub name: String,
    /// When it is to be used; not empty.
    pub description: String,
    pub license: Option<String>,
    pub compatibility: Option<String>,
    /// The tools that its author expects, separated by spaces.
    pub allowed_tools: Option<String>,
}

impl Manifest {
    /// Reads the front matter of a skill in a folder of this name. Returns it with warnings about
    /// deviations from the specification.
    ///
    /// # Errors
    /// When it cannot be understood or has no description.
    pub fn read(front: &str, folder: &str) -> Result<(Self, Vec<String>), String> {
        if front.trim().is_empty() {
            return Err("it has no front matter, so no description".to_owned());
        }
        if front.len() > MAX_FRONT {
            return Err(format!(
                "its front matter is larger than {} KiB",
                MAX_FRONT / 1024
            ));
        }
        let mut warnings = Vec::new();
        let root = fields(front, &mut warnings)?;
        let text = |key: &str, max| {
            let node = root.iter().find(|(name, _)| name == key);
            node.and_then(|(_, value)| plain(value))
                .map(|text| (one_line(&text, max), text.chars().nth(max).is_some()))
                .filter(|(text, _)| !text.is_empty())
        };
        let Some((description, is_long)) = text("description", MAX_DESCRIPTION) else {
            return Err("it has no description".to_owned());
        };
        if is_long {
            warnings.push(format!(
                "its description is longer than {MAX_DESCRIPTION} characters and was cut"
            ));
        }
        let folder = one_line(folder, MAX_NAME);
        let name = match text("name", MAX_NAME) {
            None => {
                warnings.push(format!("it has no name, so it is called {folder}"));
                folder
            }
            Some((name, is_long)) => {
                if is_long || !is_valid_name(&name) {
                    warnings.push(format!(
                        "its name {name} is not 1 to {MAX_NAME} lower-case letters, digits and single hyphens"
                    ));
                } else if name != folder {
                    warnings.push(format!("its name {name} is not that of its folder {folder}"));
                }
                name
            }
        };
        let short = |key: &str| text(key, MAX_FIELD).map(|(text, _)| text);
        let manifest = Self {
            name,
            description,
            license: short("license"),
            compatibility: short("compatibility"),
            allowed_tools: short("allowed-tools"),
        };
        Ok((manifest, warnings))
    }
}

/// Returns whether a name fits the specification.
fn is_valid_name(name: &str) -> bool {
    name.chars().count() <= MAX_NAME
        && name.split('-').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// Returns the fields of the front matter. Values that are not quoted although YAML requires it are
/// the most common mistake, so a second attempt quotes the texts, a third uses nothing else.
fn fields(front: &str, warnings: &mut Vec<String>) -> Result<Vec<(String, Node)>, String> {
    let error = match parse(front) {
        Ok(fields) => return Ok(fields),
        Err(error) => error,
    };
    for texts_only in [false, true] {
        if let Ok(fields) = parse(&quoted(front, texts_only)) {
            warnings.push(format!("its front matter was corrected: {error}"));
            return Ok(fields);
        }
    }
    Err(format!("its front matter cannot be read: {error}"))
}

fn parse(yaml: &str) -> Result<Vec<(String, Node)>, String> {
    let mut sink = Sink::default();
    match parse_yaml(yaml, &mut sink).map(|root| root.kind) {
        Some(Kind::Map(entries)) => {
            let fields = entries.into_iter().map(|entry| (entry.key, entry.value));
            Ok(fields.collect())
        }
        Some(_) => Err("it is no map of fields".to_owned()),
        None => Err(one_line(sink.first_error().unwrap_or("it is empty"), 300)),
    }
}

/// Returns the text of a value; the items of a list are joined with spaces.
fn plain(node: &Node) -> Option<String> {
    match &node.kind {
        _ if node.is_null() => None,
        Kind::Scalar(scalar) => Some(scalar.text.clone()),
        Kind::List(items) => {
            let texts: Vec<String> = items
                .iter()
                .filter(|item| matches!(item.kind, Kind::Scalar(_)))
                .filter_map(plain)
                .collect();
            Some(texts.join(" "))
        }
        Kind::Map(_) => None,
    }
}

/// Returns the fields of the specification with their texts in quotes, and without all other
/// fields.
fn quoted(front: &str, texts_only: bool) -> String {
    let mut yaml = String::new();
    let mut lines = front.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.split_once(':').filter(|(key, _)| is_key(key)) else {
            continue;
        };
        let is_nested = |line: &&str| line.trim().is_empty() || line.starts_with([' ', '\t']);
        let mut nested = Vec::new();
        while let Some(line) = lines.next_if(is_nested) {
            nested.push(line);
        }
        match key.trim_end() {
            key @ ("name" | "description" | "license" | "compatibility") => {
                let text = joined(value, &nested);
                yaml += &format!("{key}: '{}'\n", text.replace('\'', "''"));
            }
            "allowed-tools" | "metadata" if !texts_only => {
                yaml += line;
                yaml.push('\n');
                for line in nested {
                    yaml += line;
                    yaml.push('\n');
                }
            }
            _ => {}
        }
    }
    yaml
}

fn is_key(text: &str) -> bool {
    let text = text.trim_end();
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Joins a value with the lines that continue it, without its own quotes or block indicator.
fn joined(value: &str, nested: &[&str]) -> String {
    let value = value.trim();
    let is_indicator = value.starts_with(['|', '>']) && value.len() <= 3;
    let first = (!is_indicator && !value.is_empty()).then_some(value);
    let parts = first.into_iter().chain(nested.iter().map(|line| line.trim()));
    let text = parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let unquoted = ['"', '\''].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?.strip_suffix(*quote)?;
        Some(inner.to_owned())
    });
    unquoted.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(front: &str) -> (Manifest, String) {
        let (manifest, warnings) = Manifest::read(front, "pdf-tools").unwrap();
        (manifest, warnings.join("; "))
    }

    #[test]
    fn front_matter_ends_at_the_second_line_of_dashes() {
        let parts = split("\u{feff}---\r\nname: a\r\n---\r\n\r\nBody\n---\nmore\n");
        assert_eq!(parts.front, "name: a\r\n");
        assert_eq!((parts.body, parts.body_line), ("\r\nBody\n---\nmore\n", 4));
        for text in [
            "",
            "---",
            "---\nname: a\n",
            "Body\n---\nname: a\n---\n",
            " ---\na\n---\n",
        ] {
            assert_eq!(split(text).front, "", "{text:?}");
            assert_eq!(split(text).body, text);
        }
        assert_eq!(split("---\n---").front, "");
        assert_eq!(split("---\n---").body, "");
    }

    #[test]
    fn all_fields_of_the_specification_are_read_and_others_ignored() {
        let (manifest, warnings) = read(
            "name: pdf-tools\ndescription: >\n  Fill in\n  forms.\nlicense: MIT\ncompatibility: Requires git\n\
             metadata:\n  author: someone\n  version: 1\nallowed-tools: Bash(git:*) Read\nmodel: large\nhooks: {a: [b]}\n",
        );
        assert_eq!(warnings, "");
        assert_eq!(manifest.name, "pdf-tools");
        assert_eq!(manifest.description, "Fill in forms.");
        assert_eq!(manifest.license.as_deref(), Some("MIT"));
        assert_eq!(manifest.compatibility.as_deref(), Some("Requires git"));
        assert_eq!(manifest.allowed_tools.as_deref(), Some("Bash(git:*) Read"));
        let (manifest, _) = read("description: x\nallowed-tools:\n  - Read\n  - Grep\n");
        assert_eq!(manifest.allowed_tools.as_deref(), Some("Read Grep"));
    }

    #[test]
    fn values_without_necessary_quotes_are_understood() {
        for front in [
            "name: pdf-tools\ndescription: Use this when: it's about PDFs\n",
            "name: pdf-tools\ndescription: Use this when:\n  it's about PDFs\n",
            "name: pdf-tools\ndescription: 'Use this when: it's about PDFs'\n",
            "name: pdf-tools\nargument-hint: [a] [b]\ndescription: \"Use this when: it's about PDFs\"\n",
            "name: pdf-tools\nmetadata: {a: [}\ndescription: |-\n  Use this when:\n  it's about PDFs\n",
            "name: pdf-tools\ndescription: Use this when: it's about PDFs\nallowed-tools: @all\n",
        ] {
            let (manifest, warnings) = read(front);
            assert_eq!(manifest.name, "pdf-tools", "{front}");
            assert_eq!(manifest.description, "Use this when: it's about PDFs", "{front}");
            assert!(warnings.contains("was corrected"), "{front}: {warnings}");
        }
    }

    #[test]
    fn unusual_names_are_used_with_a_warning() {
        for (front, name, warning) in [
            (
                "name: other\ndescription: x",
                "other",
                "not that of its folder pdf-tools",
            ),
            ("name: PDF_Tools\ndescription: x", "PDF_Tools", "lower-case"),
            ("name: pdf--tools\ndescription: x", "pdf--tools", "lower-case"),
            ("name: -pdf\ndescription: x", "-pdf", "lower-case"),
            ("description: x", "pdf-tools", "has no name"),
            ("name: [a, {b: c}]\ndescription: x", "a", "folder"),
            (
                "name: \"a\\u202e\\e[31m\"\ndescription: x",
                "a\\u{202e}\\u{1b}[31m",
                "lower-case",
            ),
        ] {
            let (manifest, warnings) = read(front);
            assert_eq!(manifest.name, name);
            assert!(warnings.contains(warning), "{front}: {warnings}");
        }
        let (manifest, warnings) = read(&format!(
            "name: {}\ndescription: {}",
            "n".repeat(65),
            "d".repeat(1025)
        ));
        assert_eq!(manifest.name.chars().count(), MAX_NAME);
        assert_eq!(manifest.description.chars().count(), MAX_DESCRIPTION);
        assert!(warnings.contains("64") && warnings.contains("1024"), "{warnings}");
    }

    #[test]
    fn no_description_is_an_error() {
        for front in [
            "",
            "name: a",
            "description:",
            "description: {a: b}",
            "- a",
            "text",
            "\tdescription: [",
            "a: &a [*a]",
        ] {
            Manifest::read(front, "a").unwrap_err();
        }
        let large = format!("description: x\nmetadata: {}", "y".repeat(MAX_FRONT));
        assert!(Manifest::read(&large, "a").unwrap_err().contains("64 KiB"));
    }
}
