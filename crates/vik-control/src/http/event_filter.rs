//! Selects events of a session log by their text, kind or failure.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;
use vik_core::event::EventKind;

/// A condition of the events of a log. The default one selects all.
#[derive(Debug, Default)]
pub struct EventFilter {
    text: Option<TextFilter>,
    kinds: Vec<EventKind>,
    only_failures: bool,
}

#[derive(Debug)]
struct TextFilter {
    /// The text as it is in a line of JSON, for most lines.
    in_json: Regex,
    plain: Regex,
}

/// The fields that decide whether an event is a failure.
#[derive(Deserialize)]
struct Facts<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    is_error: bool,
    ok: Option<bool>,
    #[serde(borrow)]
    outcome: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    status: Option<Cow<'a, str>>,
}

impl Facts<'_> {
    fn is_failure(&self) -> bool {
        match &*self.kind {
            "error" => true,
            "tool_result" => self.is_error,
            "completed" => self.ok == Some(false),
            "ended" => self.outcome.as_deref() != Some("succeeded"),
            "output" => !matches!(self.status.as_deref(), Some("applied" | "skipped")),
            _ => false,
        }
    }
}

impl EventFilter {
    /// Creates a filter: a text, ignoring case, kinds of which an event has one, and whether the
    /// event must be a failure.
    ///
    /// # Errors
    /// When the text is too long to search for.
    pub fn new(text: Option<&str>, kinds: Vec<EventKind>, only_failures: bool) -> Result<Self, regex::Error> {
        let pattern = |text: &str| {
            RegexBuilder::new(&regex::escape(text))
                .case_insensitive(true)
                .build()
        };
        let text = match text.filter(|text| !text.is_empty()) {
            Some(text) => {
                let json = Value::from(text).to_string();
                Some(TextFilter {
                    in_json: pattern(&json[1..json.len() - 1])?,
                    plain: pattern(text)?,
                })
            }
            None => None,
        };
        Ok(Self {
            text,
            kinds,
            only_failures,
        })
    }

    /// Returns whether a line of a log matches.
    pub fn matches(&self, line: &str) -> bool {
        self.has_facts(line) && self.text.as_ref().is_none_or(|text| text.is_in(line))
    }

    fn has_facts(&self, line: &str) -> bool {
        if self.kinds.is_empty() && !self.only_failures {
            return true;
        }
        let Ok(facts) = serde_json::from_str::<Facts<'_>>(line) else {
            // A damaged line is shown as one that is malformed.
            return !self.only_failures && self.kinds.contains(&EventKind::Malformed);
        };
        let is_wanted = |kind: &EventKind| kind.as_str() == facts.kind;
        (self.kinds.is_empty() || self.kinds.iter().any(is_wanted))
            && (!self.only_failures || facts.is_failure())
    }
}

impl TextFilter {
    /// Returns whether a value of the event contains the text. Names of fields do not count.
    fn is_in(&self, line: &str) -> bool {
        // What an agent printed may be escaped in another way.
        let is_usual = !line.contains("\\u") && !line.contains("\\/");
        if is_usual && !self.in_json.is_match(line) {
            return false;
        }
        match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(fields)) => {
                let is_text = |name: &str| !matches!(name, "seq" | "at" | "kind");
                let mut texts = fields.iter().filter(|(name, _)| is_text(name));
                texts.any(|(_, value)| self.is_in_value(value))
            }
            _ => self.plain.is_match(line),
        }
    }

    fn is_in_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.plain.is_match(text),
            Value::Array(values) => values.iter().any(|value| self.is_in_value(value)),
            Value::Object(fields) => fields.values().any(|value| self.is_in_value(value)),
            Value::Number(number) => self.plain.is_match(&number.to_string()),
            Value::Null | Value::Bool(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(filter: &EventFilter, lines: &[&str]) -> Vec<usize> {
        let matches = |(_, line): &(usize, &&str)| filter.matches(line);
        lines
            .iter()
            .enumerate()
            .filter(matches)
            .map(|(at, _)| at)
            .collect()
    }

    #[test]
    fn text_is_found_in_values_whatever_their_case_and_escapes() {
        let lines = [
            r#"{"seq":1,"kind":"message","text":"Run \"Cargo Test\"\nÄrger"}"#,
            r#"{"seq":2,"kind":"tool_call","tool":"Bash","input":{"command":["\u0063argo","test"]}}"#,
            r#"{"seq":3,"kind":"message","text":"nothing"}"#,
            "no JSON, cargo",
        ];
        let with = |text: &str| found(&EventFilter::new(Some(text), Vec::new(), false).unwrap(), &lines);
        assert_eq!(with("cargo"), [0, 1, 3]);
        assert_eq!(with("\"cargo test\"\nä"), [0]);
        assert_eq!(with("message"), [0; 0]);
        assert_eq!(with(".*"), [0; 0]);
        assert_eq!(with(""), [0, 1, 2, 3]);
    }

    #[test]
    fn kinds_and_failures_select_events() {
        let lines = [
            r#"{"kind":"tool_result","call_id":"a","is_error":true}"#,
            r#"{"kind":"tool_result","call_id":"b","is_error":false}"#,
            r#"{"kind":"error","message":"Reconnecting","fatal":false}"#,
            r#"{"kind":"completed","ok":false}"#,
            r#"{"kind":"ended","outcome":"succeeded"}"#,
            r#"{"kind":"ended","outcome":"failed"}"#,
            r#"{"kind":"output","status":"applied"}"#,
            r#"{"kind":"output","status":"failed"}"#,
            "no JSON",
        ];
        let with = |kinds: &[EventKind], only_failures| {
            found(
                &EventFilter::new(None, kinds.to_vec(), only_failures).unwrap(),
                &lines,
            )
        };
        assert_eq!(with(&[], true), [0, 2, 3, 5, 7]);
        assert_eq!(with(&[EventKind::ToolResult], false), [0, 1]);
        assert_eq!(with(&[EventKind::ToolResult, EventKind::Ended], true), [0, 5]);
        assert_eq!(with(&[EventKind::Malformed], false), [8]);
    }
}
