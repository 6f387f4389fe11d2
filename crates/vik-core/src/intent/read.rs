//! What an issue says of its intent: fields of the item, else the front matter of its description.

use serde_json::{Map, Value};
use vik_scope::Scope;

use super::{BadIntent, IssueIntent};
use crate::workflow::front_matter;

/// The fields that are looked for.
const KEYS: [&str; 3] = ["owned_scope", "constraints", "acceptance"];

/// The most texts of one field, and the longest one in bytes: they stand in each prompt.
const MAX_TEXTS: usize = 50;
const MAX_TEXT_BYTES: usize = 2000;

/// The longest front matter that is looked at, in bytes.
const MAX_FRONT_BYTES: usize = 32 * 1024;

/// Whether an item can say anything of it: of thousands, most do not, and need not be read.
pub(crate) fn may_have_intent(payload: &str) -> bool {
    KEYS.iter().any(|key| payload.contains(key))
}

impl IssueIntent {
    pub(crate) fn read(fields: &Map<String, Value>) -> Result<Self, BadIntent> {
        let description = fields.get("description").and_then(Value::as_str);
        let front = front(description.unwrap_or_default())?;
        // Who may set fields of an item is often fewer than who may write its text.
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

/// A list of texts, or a text with one a line. Trackers print empty ones for a field that nobody filled in.
fn texts(key: &'static str, value: Option<&Value>) -> Result<Vec<String>, BadIntent> {
    let bad = |why| Err(BadIntent::Field { key, why });
    let texts: Vec<&str> = match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => text.lines().collect(),
        Some(Value::Array(items)) => {
            let texts: Option<_> = items.iter().map(Value::as_str).collect();
            let Some(texts) = texts else {
                return bad("is a list of something else than texts");
            };
            texts
        }
        Some(_) => return bad("is neither a list of texts nor a text"),
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

/// The front matter of a description; nothing where it has none that is of interest. A line `---` is also how people draw a
/// rule: only one that names a field must be readable.
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
        return Err(BadIntent::FrontMatter("it is too long".to_owned()));
    }
    front_matter(block).map_err(BadIntent::FrontMatter)
}

/// What stands between the `---` at the very beginning and the next one.
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
