//! Reads the intent of an issue: from fields of the item, else from the front matter of its
//! description.

use serde_json::{Map, Value};
use vik_scope::Scope;
use vik_yaml::{Kind, Node, Sink};

use super::{BadIntent, IssueIntent};

/// The names of the fields.
const KEYS: [&str; 3] = ["owned_scope", "constraints", "acceptance"];

/// The maximum number of texts in a field, and the maximum length of a text in bytes, because every
/// prompt contains them.
const MAX_TEXTS: usize = 50;
const MAX_TEXT_BYTES: usize = 2000;

/// The maximum length of parsed front matter, in bytes.
const MAX_FRONT_BYTES: usize = 32 * 1024;

/// Returns whether an item can declare an intent: most of thousands do not, and need no parsing.
pub(crate) fn may_have_intent(payload: &str) -> bool {
    KEYS.iter().any(|key| payload.contains(key))
}

impl IssueIntent {
    pub(crate) fn read(fields: &Map<String, Value>) -> Result<Self, BadIntent> {
        let description = fields.get("description").and_then(Value::as_str);
        let front = front(description.unwrap_or_default())?;
        // Fewer people may be able to set fields of an item than to write its text.
        let field = |key: &'static str| {
            let of_item = texts(key, fields.get(key))?;
            if of_item.is_empty() {
                texts(key, front.get(key))
            } else {
                Ok(of_item)
            }
        };
        let globs = field("owned_scope")?;
        let scope = if globs.is_empty() {
            None
        } else {
            Some(Scope::new(globs).map_err(BadIntent::Glob)?)
        };
        Ok(Self {
            scope,
            constraints: field("constraints")?,
            acceptance: field("acceptance")?,
        })
    }
}

/// Returns a list of texts, or the lines of a text. Trackers print empty ones for unset fields.
fn texts(key: &'static str, value: Option<&Value>) -> Result<Vec<String>, BadIntent> {
    let bad = |why| Err(BadIntent::Field { key, why });
    let texts: Vec<&str> = match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => text.lines().collect(),
        Some(Value::Array(items)) => {
            let texts: Option<_> = items.iter().map(Value::as_str).collect();
            let Some(texts) = texts else {
                return bad("contains entries that are not strings");
            };
            texts
        }
        Some(_) => return bad("is neither a string nor a list of strings"),
    };
    let texts: Vec<String> = texts
        .into_iter()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    if texts.len() > MAX_TEXTS {
        return bad("has more than 50 entries");
    }
    if texts.iter().any(|text| text.len() > MAX_TEXT_BYTES) {
        return bad("has an entry that is longer than 2000 bytes");
    }
    Ok(texts)
}

/// Returns the front matter of a description, empty if it has none of interest. A line `---` is
/// also how people draw a rule, so the front matter must be valid only if it names a field.
fn front(description: &str) -> Result<Map<String, Value>, BadIntent> {
    let Some(block) = block(description) else {
        return Ok(Map::new());
    };
    let names = |line: &str| {
        KEYS.iter()
            .any(|key| line.trim_start_matches(['"', '\'']).starts_with(key))
    };
    if !block.lines().any(names) {
        return Ok(Map::new());
    }
    if block.len() > MAX_FRONT_BYTES {
        return Err(BadIntent::FrontMatter("the front matter is too long".to_owned()));
    }
    front_matter(block).map_err(BadIntent::FrontMatter)
}

/// Returns the text between a leading `---` and the next one.
fn block(description: &str) -> Option<&str> {
    let text = description.strip_prefix('\u{feff}').unwrap_or(description);
    let (first, remaining) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut end = 0;
    for line in remaining.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return Some(&remaining[..end]);
        }
        end += line.len();
    }
    None
}

/// Parses front matter: a map of texts and lists of texts. Other values become values of another
/// type than text.
fn front_matter(text: &str) -> Result<Map<String, Value>, String> {
    let mut sink = Sink::default();
    let root = vik_yaml::parse(text, &mut sink);
    let (Some(root), None) = (root, sink.first_error()) else {
        let why = sink.first_error().unwrap_or("the front matter is empty");
        return Err(why.to_owned());
    };
    let Kind::Map(entries) = root.kind else {
        return Err("the front matter is not a map".to_owned());
    };
    let entries = entries.into_iter();
    Ok(entries.map(|entry| (entry.key, json(&entry.value))).collect())
}

fn json(node: &Node) -> Value {
    match &node.kind {
        Kind::Scalar(_) if node.is_null() => Value::Null,
        Kind::Scalar(scalar) => Value::String(scalar.text.clone()),
        Kind::List(items) => items.iter().map(json).collect(),
        Kind::Map(_) => Value::Object(Map::new()),
    }
}
