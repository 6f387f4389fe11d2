//! Reads the file of outputs, and holds it against what the stage allows. All that is wrong is told at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{MAX_BODY, MAX_FILE_BYTES, MAX_NAME, MAX_OUTPUTS, MAX_TITLE};
use super::{Output, OutputKey, OutputKind, OutputPolicy, Pursuit};
use crate::visible::{is_visible, visible};

/// How much of a text of the agent's stands in a refusal, in characters.
const SHOWN: usize = 80;

/// One output, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its line in the file, from 1.
    pub number: usize,
    /// What is asked for.
    pub output: Output,
    /// By what it is known again.
    pub key: OutputKey,
}

/// A rule that an output broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The file is too large.
    TooLarge,
    /// The file is no UTF-8.
    NotText,
    /// The line is no JSON.
    NotJson,
    /// The line is not of the schema.
    Schema,
    /// A value is empty.
    Empty,
    /// A value is too long.
    TooLong,
    /// A value holds a character, or begins with one, that it must not.
    Character,
    /// The stage does not allow it.
    NotAllowed,
    /// There are more than the stage allows.
    TooMany,
    /// It is asked for twice.
    Twice,
    /// It holds a secret.
    Secret,
}

impl Rule {
    /// Its name, as it is told.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::NotText => "not_text",
            Self::NotJson => "not_json",
            Self::Schema => "schema",
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::Character => "character",
            Self::NotAllowed => "not_allowed",
            Self::TooMany => "too_many",
            Self::Twice => "twice",
            Self::Secret => "secret",
        }
    }
}

/// Why the outputs of an attempt are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The line; `None`: the file as a whole.
    pub line: Option<usize>,
    /// Its kind, where that is known.
    pub kind: Option<OutputKind>,
    /// The rule.
    pub rule: Rule,
    /// What is wrong, in a person's words.
    pub detail: String,
}

impl Refusal {
    /// One about the file as a whole.
    pub fn of_file(rule: Rule, detail: impl Into<String>) -> Self {
        Self {
            line: None,
            kind: None,
            rule,
            detail: detail.into(),
        }
    }

    /// One about an output.
    pub fn of(line: &Line, rule: Rule, detail: impl Into<String>) -> Self {
        Self {
            line: Some(line.number),
            kind: Some(line.output.kind()),
            rule,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{} ({})", self.detail, self.rule.as_str())
    }
}

/// Reads the file. Lines without anything are passed over.
///
/// # Errors
/// With all lines that are no outputs.
pub fn read(file: &[u8], pursuit: &Pursuit<'_>) -> Result<Vec<Line>, Vec<Refusal>> {
    if file.len() > MAX_FILE_BYTES {
        let detail = format!("the file has more than {MAX_FILE_BYTES} bytes");
        return Err(vec![Refusal::of_file(Rule::TooLarge, detail)]);
    }
    let Ok(text) = std::str::from_utf8(file) else {
        return Err(vec![Refusal::of_file(Rule::NotText, "the file is no UTF-8")]);
    };
    let written = text.split('\n').enumerate();
    let written: Vec<_> = written.filter(|(_, line)| !line.trim().is_empty()).collect();
    if written.len() > MAX_OUTPUTS as usize {
        let detail = format!("the file has more than {MAX_OUTPUTS} lines");
        return Err(vec![Refusal::of_file(Rule::TooMany, detail)]);
    }
    let (mut lines, mut refusals) = (Vec::new(), Vec::new());
    for (at, text) in written {
        match serde_json::from_str::<Output>(text) {
            Ok(output) => {
                let key = pursuit.key(&output);
                let line = Line {
                    number: at + 1,
                    output,
                    key,
                };
                refusals.extend(unfit(&line));
                lines.push(line);
            }
            Err(error) => {
                let (rule, problem) = if error.is_data() {
                    (Rule::Schema, "this is no output")
                } else {
                    (Rule::NotJson, "this is no line of JSON")
                };
                refusals.push(Refusal {
                    line: Some(at + 1),
                    kind: None,
                    rule,
                    detail: format!("{problem}: {}", clipped(&error.to_string(), 2 * SHOWN)),
                });
            }
        }
    }
    if refusals.is_empty() {
        Ok(lines)
    } else {
        Err(refusals)
    }
}

/// What is wrong with the values of an output, whatever the stage allows.
fn unfit(line: &Line) -> Vec<Refusal> {
    let output = &line.output;
    let mut refusals = Vec::new();
    let mut refuse = |rule, detail: String| refusals.push(Refusal::of(line, rule, detail));
    for (name, value) in output.fields() {
        let max = if name == "title" { MAX_TITLE } else { MAX_NAME };
        let is_long = value.chars().count() > max as usize;
        if value.trim().is_empty() {
            refuse(Rule::Empty, format!("`{name}` is empty"));
        } else if is_long {
            refuse(Rule::TooLong, format!("`{name}` has more than {max} characters"));
        } else if value.chars().any(char::is_control) || !is_visible(value) {
            refuse(
                Rule::Character,
                format!("`{name}` holds a character that is not seen: {}", shown(value)),
            );
        } else if value.starts_with('-') || value.trim() != value {
            // A program may take it for an option.
            refuse(
                Rule::Character,
                format!("`{name}` begins with `-`, or begins or ends with a space"),
            );
        }
    }
    let body = output.body();
    if output.kind() == OutputKind::Comment && body.trim().is_empty() {
        refuse(Rule::Empty, "`body` is empty".to_owned());
    }
    if body.chars().count() > MAX_BODY as usize {
        refuse(
            Rule::TooLong,
            format!("`body` has more than {MAX_BODY} characters"),
        );
    } else if !is_visible(body) {
        let hidden = body.lines().find(|line| !is_visible(line)).unwrap_or("");
        refuse(
            Rule::Character,
            format!("`body` holds a character that is not seen: {}", shown(hidden)),
        );
    }
    refusals
}

/// What the stage does not allow. `earlier` is what earlier attempts of the run did, or may have done: it counts too.
pub fn check(
    lines: &[Line],
    policy: &OutputPolicy,
    earlier: &BTreeMap<OutputKey, OutputKind>,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut seen = BTreeSet::new();
    let mut counts: BTreeMap<OutputKind, u32> = BTreeMap::new();
    let asked: BTreeSet<&OutputKey> = lines.iter().map(|line| &line.key).collect();
    for (_, kind) in earlier.iter().filter(|(key, _)| !asked.contains(key)) {
        *counts.entry(*kind).or_default() += 1;
    }
    for line in lines {
        let (kind, output) = (line.output.kind(), &line.output);
        let mut refuse = |rule, detail: String| refusals.push(Refusal::of(line, rule, detail));
        let Some(rule) = policy.rules.get(&kind) else {
            refuse(Rule::NotAllowed, format!("this stage takes no `{kind}`"));
            continue;
        };
        if !seen.insert(&line.key) {
            refuse(
                Rule::Twice,
                format!("this `{kind}` is asked for on an earlier line"),
            );
            continue;
        }
        if let Some(value) = output.allowed_value()
            && !rule.allow.as_ref().is_some_and(|allow| allow.allows(value))
        {
            let name = kind.allows().unwrap_or_default();
            let detail = match &rule.allow {
                Some(allow) => format!(
                    "the {name} {} is none of {}",
                    shown(value),
                    allow.globs().join(", ")
                ),
                None => format!("this stage lets nobody choose the `{name}`"),
            };
            refuse(Rule::NotAllowed, detail);
        }
        let count = counts.entry(kind).or_default();
        *count += 1;
        if *count > rule.max {
            let of_earlier = earlier.values().filter(|earlier| **earlier == kind).count();
            let more = match of_earlier {
                0 => String::new(),
                count => format!(", and earlier attempts have had {count}"),
            };
            refuse(
                Rule::TooMany,
                format!("this stage takes {} `{kind}` in a run{more}", rule.max),
            );
        }
    }
    refusals
}

/// A value of the agent's in a sentence.
fn shown(text: &str) -> String {
    format!("`{}`", clipped(text, SHOWN))
}

/// Text of the agent's on one line.
fn clipped(text: &str, max: usize) -> String {
    let mut short: String = text.chars().take(max).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    let line = short.replace(['\n', '\r', '\t'], " ");
    visible(&line).into_owned()
}
