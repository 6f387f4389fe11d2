//! Parses the file of outputs, and checks it against the rules of the stage. All errors are
//! reported at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    MAX_BODY, MAX_FILE_BYTES, MAX_NAME, MAX_OUTPUTS, MAX_TITLE, Output, OutputKey, OutputKind, OutputPolicy,
    Pursuit,
};
use crate::visible::{is_visible, visible};

/// The maximum length of agent text in a refusal, in characters.
const SHOWN: usize = 80;

/// One output and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The line in the file, from 1.
    pub number: usize,
    pub output: Output,
    pub key: OutputKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Rule {
    /// The file is too large.
    TooLarge,
    /// The file is not UTF-8.
    NotText,
    /// The line is not JSON.
    NotJson,
    /// The line does not match the schema.
    Schema,
    /// A value is empty.
    Empty,
    /// A value is too long.
    TooLong,
    /// A value contains, or starts with, a forbidden character.
    Character,
    /// The stage does not allow the output.
    NotAllowed,
    /// There are more outputs than the stage allows.
    TooMany,
    /// The output is requested twice.
    Twice,
    /// The output contains a secret.
    Secret,
}

impl Rule {
    /// Returns the name used in messages.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Why the outputs of an attempt are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The line; `None` for the whole file.
    pub line: Option<usize>,
    /// The kind, where known.
    pub kind: Option<OutputKind>,
    pub rule: Rule,
    /// What is wrong, as text.
    pub detail: String,
}

impl Refusal {
    /// Creates a refusal of the whole file.
    pub fn of_file(rule: Rule, detail: impl Into<String>) -> Self {
        Self {
            line: None,
            kind: None,
            rule,
            detail: detail.into(),
        }
    }

    /// Creates a refusal of one output.
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

/// Parses the file. Empty lines are skipped.
///
/// # Errors
/// Returns the refusals of all lines that are no outputs.
pub fn read(file: &[u8], pursuit: &Pursuit<'_>) -> Result<Vec<Line>, Vec<Refusal>> {
    let written = written(file, MAX_FILE_BYTES).map_err(|refusal| vec![refusal])?;
    if written.len() > MAX_OUTPUTS as usize {
        let detail = format!("the file has more than {MAX_OUTPUTS} lines");
        return Err(vec![Refusal::of_file(Rule::TooMany, detail)]);
    }
    let (mut lines, mut refusals) = (Vec::new(), Vec::new());
    for (number, text) in written {
        match serde_json::from_str::<Output>(text) {
            Ok(output) => {
                let key = pursuit.key(&output);
                let line = Line { number, output, key };
                refusals.extend(unfit(&line));
                lines.push(line);
            }
            Err(error) => {
                let (rule, problem) = if error.is_data() {
                    (Rule::Schema, "not a valid output")
                } else {
                    (Rule::NotJson, "not valid JSON")
                };
                refusals.push(Refusal {
                    line: Some(number),
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

/// Returns a file from which [`read`] reads these lines again, with their numbers. They must be in the
/// order of their numbers.
pub fn to_text(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut next = 1;
    for line in lines {
        let empty = line.number.saturating_sub(next);
        text.extend(std::iter::repeat_n('\n', empty));
        // An output always has a form in JSON.
        text.push_str(&serde_json::to_string(&line.output).unwrap_or_default());
        text.push('\n');
        next += empty + 1;
    }
    text
}

/// Returns the lines of an agent's file with their numbers, from 1, without the empty ones.
pub(crate) fn written(file: &[u8], max_bytes: usize) -> Result<Vec<(usize, &str)>, Refusal> {
    if file.len() > max_bytes {
        let detail = format!("the file has more than {max_bytes} bytes");
        return Err(Refusal::of_file(Rule::TooLarge, detail));
    }
    let Ok(text) = std::str::from_utf8(file) else {
        return Err(Refusal::of_file(Rule::NotText, "the file is not valid UTF-8"));
    };
    let lines = (1..).zip(text.split('\n'));
    Ok(lines.filter(|(_, line)| !line.trim().is_empty()).collect())
}

/// Returns the invalid values of an output, whatever the stage allows.
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
                format!("`{name}` contains an invisible character: {}", shown(value)),
            );
        } else if value.starts_with('-') || value.trim() != value {
            // A program may parse it as an option.
            refuse(
                Rule::Character,
                format!("`{name}` starts with `-`, or starts or ends with a space"),
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
            format!("`body` contains an invisible character: {}", shown(hidden)),
        );
    }
    refusals
}

/// Returns the violations of the rules of the stage. `earlier` contains the outputs that earlier
/// attempts of the run did, or may have, carried out: they count too.
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
            refuse(Rule::NotAllowed, format!("this stage does not permit `{kind}`"));
            continue;
        };
        if !seen.insert(&line.key) {
            refuse(Rule::Twice, format!("an earlier line requests the same `{kind}`"));
            continue;
        }
        if let Some(value) = output.allowed_value()
            && !rule.allow.as_ref().is_some_and(|allow| allow.allows(value))
        {
            let name = kind.allows().unwrap_or_default();
            let detail = match &rule.allow {
                Some(allow) => format!(
                    "the {name} {} does not match {}",
                    shown(value),
                    allow.globs().join(", ")
                ),
                None => format!("this stage does not permit a `{name}`"),
            };
            refuse(Rule::NotAllowed, detail);
        }
        let count = counts.entry(kind).or_default();
        *count += 1;
        if *count > rule.max {
            let of_earlier = earlier.values().filter(|earlier| **earlier == kind).count();
            let more = match of_earlier {
                0 => String::new(),
                count => format!("; earlier attempts used {count}"),
            };
            refuse(
                Rule::TooMany,
                format!("this stage permits {} `{kind}` per run{more}", rule.max),
            );
        }
    }
    refusals
}

/// Returns agent text for use in a sentence.
fn shown(text: &str) -> String {
    format!("`{}`", clipped(text, SHOWN))
}

/// Returns agent text cut to one line.
fn clipped(text: &str, max: usize) -> String {
    let mut short: String = text.chars().take(max).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    let line = short.replace(['\n', '\r', '\t'], " ");
    visible(&line).into_owned()
}
