//! `issue.stages.S.when`: states and labels of issues.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use vik_yaml::{Kind, Node};

use super::decode::{Cx, Decode};
use super::text::quoted;
use super::values::{Text, list};

/// `issue.stages.S.when.state`: a state, or several.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct OneOrMoreStates(pub(crate) Vec<String>);

impl Decode for OneOrMoreStates {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let Kind::List(items) = &node.kind else {
            return Some(Self(vec![Text::decode(node, cx)?.0]));
        };
        if items.is_empty() {
            let diagnostic = cx.error("empty_value", node, "the list of states is empty");
            cx.sink.push(diagnostic);
            return None;
        }
        let mut states: Vec<String> = Vec::with_capacity(items.len());
        for item in items {
            let Text(state) = Text::decode(item, cx)?;
            if states.contains(&state) {
                let message = format!("the state {} is listed twice", quoted(&state));
                let diagnostic = cx.error("duplicate_state", item, message);
                cx.sink.push(diagnostic);
                return None;
            }
            states.push(state);
        }
        Some(Self(states))
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

/// `issue.stages.S.when.labels`: labels of issues.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Labels(pub(crate) Vec<String>);

impl Decode for Labels {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let items = list(node, cx, "a list of labels", "[agent]")?;
        let labels: Vec<_> = items.iter().map(|item| Text::decode(item, cx)).collect();
        Some(Self(labels.into_iter().flatten().map(|label| label.0).collect()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string", "minLength": 1 } })
    }
}
