//! The ids of tool calls, unique in a conversation.

use std::collections::HashSet;

use crate::conversation::{Message, Turn};

/// The maximum length of an id that is kept; every provider accepts that many characters.
const MAX_ID_BYTES: usize = 64;

/// The ids used in a conversation.
pub(super) struct CallIds<'a> {
    pub(super) old: HashSet<&'a str>,
    pub(super) new: HashSet<String>,
    pub(super) number: usize,
}

impl<'a> CallIds<'a> {
    pub(super) fn of(messages: &'a [Message]) -> Self {
        let turns = messages.iter().filter_map(|message| match message {
            Message::Assistant(turn) => Some(turn),
            _ => None,
        });
        let old: HashSet<_> = turns
            .flat_map(Turn::tool_calls)
            .map(|call| call.call_id.as_str())
            .collect();
        Self {
            number: old.len(),
            old,
            new: HashSet::new(),
        }
    }

    /// Returns the provider's own id if it is valid and new, else a generated one.
    pub(super) fn take(&mut self, id: Option<String>) -> String {
        let usable = |id: &String| {
            (1..=MAX_ID_BYTES).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_graphic())
                && !self.knows(id)
        };
        let id = match id.filter(usable) {
            Some(id) => id,
            None => self.made(),
        };
        self.new.insert(id.clone());
        id
    }

    fn made(&mut self) -> String {
        loop {
            self.number += 1;
            let id = format!("call_{}", self.number);
            if !self.knows(&id) {
                return id;
            }
        }
    }

    fn knows(&self, id: &str) -> bool {
        self.old.contains(id) || self.new.contains(id)
    }
}
