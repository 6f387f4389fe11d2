//! `issue.stages.S.when`: states and labels of issues.

use schemars::{Schema, SchemaGenerator, json_schema};
use vik_yaml::{Kind, Node};

use super::decode::{Cx, Decode};
use super::text::quoted;
use super::values::Text;

/// `issue.stages.S.when.state`: a state, or several.
pub(crate) struct OneOrMoreStates;

impl Decode for OneOrMoreStates {
    type Value = Vec<String>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<String>> {
        let Kind::List(items) = &node.kind else {
            return Some(vec![Text::decode(node, cx)?]);
        };
        if items.is_empty() {
            return cx.refuse(cx.error("empty_value", node, "the list of states is empty"));
        }
        let mut states: Vec<String> = Vec::with_capacity(items.len());
        for item in items {
            let state = Text::decode(item, cx)?;
            if states.contains(&state) {
                let message = format!("the state {} is listed twice", quoted(&state));
                return cx.refuse(cx.error("duplicate_state", item, message));
            }
            states.push(state);
        }
        Some(states)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string", "minLength": 1 },
                { "type": "array", "items": { "type": "string", "minLength": 1 }, "minItems": 1, "uniqueItems": true },
            ]
        })
    }
}
