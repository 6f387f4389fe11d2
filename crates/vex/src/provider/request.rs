//! Common parts of the requests of all protocols.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::conversation::{Arguments, Block, Message, ToolResult, Turn};

/// Replaces an empty answer or task: no provider accepts an empty message.
pub(crate) const NOTHING: &str = "(nothing)";

/// Returns the output of a tool as text.
pub(crate) fn output(result: &ToolResult) -> &str {
    if result.output.is_empty() {
        NOTHING
    } else {
        &result.output
    }
}

/// How much of broken arguments is sent to the model, in bytes.
const MAX_BROKEN_BYTES: usize = 2000;

/// A request: fields in a fixed order, then the conversation as the last one. Each field and each
/// entry is serialised once, from borrowed data.
pub(crate) struct Body<'a> {
    /// Configured fields, which take precedence.
    extra: &'a Map<String, Value>,
    /// The names of the fields so far.
    names: Vec<&'static str>,
    /// The fields that are sent, each followed by a comma.
    fields: Vec<u8>,
    list: &'static str,
    /// The entries, separated by commas.
    entries: Vec<u8>,
}

impl<'a> Body<'a> {
    /// Creates a request whose conversation is the field `list`. Fields of `extra` replace others of
    /// the same name; null removes them.
    pub(crate) fn new(list: &'static str, extra: &'a Map<String, Value>) -> Self {
        Self {
            extra,
            names: Vec::new(),
            fields: Vec::new(),
            list,
            entries: Vec::new(),
        }
    }

    /// Adds a field after the others, unless `extra` removes it.
    pub(crate) fn set(&mut self, name: &'static str, value: &impl Serialize) {
        self.names.push(name);
        match self.extra.get(name) {
            Some(Value::Null) => {}
            Some(own) => append_field(&mut self.fields, name, own),
            None => append_field(&mut self.fields, name, value),
        }
    }

    /// Appends an entry of the conversation.
    pub(crate) fn push(&mut self, entry: &impl Serialize) {
        let before = self.entries.len();
        if before > 0 {
            self.entries.push(b',');
        }
        // Only maps with keys that are not strings, and types that refuse, can fail here: there are
        // none.
        if serde_json::to_writer(&mut self.entries, entry).is_err() {
            self.entries.truncate(before);
        }
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        for (name, value) in self.extra {
            let name = name.as_str();
            if !value.is_null() && name != self.list && !self.names.contains(&name) {
                append_field(&mut self.fields, name, value);
            }
        }
        let list = format!("\"{}\":[", self.list);
        let parts: [&[u8]; 5] = [b"{", &self.fields, list.as_bytes(), &self.entries, b"]}"];
        parts.concat()
    }
}

fn append_field(fields: &mut Vec<u8>, name: &str, value: &impl Serialize) {
    let before = fields.len();
    // As for an entry, this cannot fail.
    let written = serde_json::to_writer(&mut *fields, name).and_then(|()| {
        fields.push(b':');
        serde_json::to_writer(&mut *fields, value)
    });
    match written {
        Ok(()) => fields.push(b','),
        Err(_) => fields.truncate(before),
    }
}

/// All content of one role until the other role answers.
pub(crate) enum Entry<'a> {
    /// The results of the previous answer, then the text of the user.
    Input {
        results: Vec<&'a ToolResult>,
        text: Option<Cow<'a, str>>,
    },
    /// An answer, and which of its calls have a result. The others are never sent.
    Answer {
        turn: &'a Turn,
        answered: HashSet<&'a str>,
    },
}

/// Returns the conversation in alternating entries. Each call that is sent has its result right
/// after it, and each result its call right before it.
pub(crate) fn entries(messages: &[Message]) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut remaining = messages;
    let mut asked: HashSet<&str> = HashSet::new();
    while let Some((first, after)) = remaining.split_first() {
        if let Message::Assistant(turn) = first {
            asked = turn.tool_calls().map(|call| call.call_id.as_str()).collect();
            entries.push(Entry::Answer {
                turn,
                answered: HashSet::new(),
            });
            remaining = after;
            continue;
        }
        let end = remaining
            .iter()
            .position(|message| matches!(message, Message::Assistant(_)))
            .unwrap_or(remaining.len());
        let (input, after) = remaining.split_at(end);
        remaining = after;
        let mut results = Vec::new();
        let mut texts = Vec::new();
        for message in input {
            match message {
                Message::Tool(result) if asked.remove(result.call_id.as_str()) => results.push(result),
                Message::User { text } => texts.push(text.as_str()),
                _ => {}
            }
        }
        if let Some(Entry::Answer { answered, .. }) = entries.last_mut() {
            *answered = results.iter().map(|result| result.call_id.as_str()).collect();
        }
        entries.push(Entry::Input {
            text: joined(&texts, results.is_empty()),
            results,
        });
    }
    entries
}

/// Joins the texts of one role. `needed` is set if the message has no other content.
fn joined<'a>(texts: &[&'a str], needed: bool) -> Option<Cow<'a, str>> {
    let texts: Vec<&str> = texts
        .iter()
        .copied()
        .filter(|text| !text.trim().is_empty())
        .collect();
    match texts[..] {
        [] if needed => Some(Cow::Borrowed(NOTHING)),
        [] => None,
        [text] => Some(Cow::Borrowed(text)),
        _ => Some(Cow::Owned(texts.join("\n\n"))),
    }
}

/// Returns the parts of an answer to send back, each with its annex.
pub(crate) fn parts<'a>(
    turn: &'a Turn,
    protocol: &'static str,
) -> impl Iterator<Item = (&'a Block, Annex<'a>)> {
    turn.blocks.iter().enumerate().filter_map(move |(at, block)| {
        let foreign = matches!(block, Block::Native { protocol: origin, .. } if origin != protocol);
        if foreign || annex(block).is_some() {
            return None;
        }
        let mut annexes = turn.blocks[at + 1..].iter().map_while(annex);
        let own = annexes.find(|(origin, _)| *origin == protocol);
        Some((block, Annex(own.and_then(|(_, annex)| annex.as_object()))))
    })
}

/// Returns what a block adds to the previous one, and the protocol that understands it.
fn annex(block: &Block) -> Option<(&str, &Value)> {
    match block {
        Block::Native { protocol, item } => Some((protocol, item.get("annex")?)),
        _ => None,
    }
}

/// Data of a part that only its protocol understands.
#[derive(Clone, Copy)]
pub(crate) struct Annex<'a>(Option<&'a Map<String, Value>>);

impl<'a> Annex<'a> {
    pub(crate) fn get(self, name: &str) -> Option<&'a Value> {
        self.0?.get(name)
    }
}

/// Returns the arguments as an object, the only form that every provider accepts back.
pub(crate) fn arguments(input: &Arguments) -> Cow<'_, Value> {
    match input {
        Arguments::Json(value) if value.is_object() => Cow::Borrowed(value),
        Arguments::Json(value) => Cow::Owned(json!({ "invalid_arguments": value })),
        Arguments::Broken { raw, .. } => {
            let end = raw.floor_char_boundary(MAX_BROKEN_BYTES);
            Cow::Owned(json!({ "invalid_arguments": raw[..end] }))
        }
    }
}

/// Returns a name of a tool that every provider accepts back; the model may have invented an
/// invalid one.
pub(crate) fn tool_name(name: &str) -> Cow<'_, str> {
    named(name, 64)
}

/// Returns a name for the wire: letters, digits, `_` and `-`.
fn named(name: &str, longest: usize) -> Cow<'_, str> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        Cow::Borrowed("unknown")
    } else if name.len() <= longest && name.chars().all(legal) {
        Cow::Borrowed(name)
    } else {
        let legal = name.chars().map(|c| if legal(c) { c } else { '_' });
        Cow::Owned(legal.take(longest).collect())
    }
}

/// Valid and unique ids for the calls of a conversation, for providers that reject some ids of
/// others.
#[derive(Default)]
pub(crate) struct WireIds<'a> {
    of: HashMap<&'a str, String>,
    taken: HashSet<String>,
}

impl<'a> WireIds<'a> {
    /// Returns the id for the wire; always the same for one id.
    pub(crate) fn get(&mut self, id: &'a str) -> &str {
        let taken = &mut self.taken;
        self.of.entry(id).or_insert_with(|| {
            let legal = named(id, 64).into_owned();
            let other = (2..).map(|number| format!("{}_{number}", &legal[..legal.len().min(50)]));
            std::iter::once(legal.clone())
                .chain(other)
                .find(|id| taken.insert(id.clone()))
                .unwrap_or_default()
        })
    }
}

/// Returns whether providers can enforce a schema strictly: each object closed, each property
/// required.
pub(crate) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => {
            let properties = object.get("properties").and_then(Value::as_object);
            let required = object.get("required").and_then(Value::as_array);
            let closed = object.get("additionalProperties") == Some(&Value::Bool(false));
            let all = properties.is_none_or(|properties| {
                closed
                    && properties.keys().all(|name| {
                        required.is_some_and(|required| required.iter().any(|given| given == name.as_str()))
                    })
            });
            let opened = object.get("type") == Some(&json!("object")) && !closed;
            all && !opened && object.values().all(is_strict)
        }
        Value::Array(list) => list.iter().all(is_strict),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
