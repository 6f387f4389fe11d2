//! The files of one attempt.

use std::path::PathBuf;

use serde_json::Value;

use super::text;

/// The files of one attempt.
#[derive(Debug)]
pub struct Session {
    pub(super) stem: String,
}

impl Session {
    pub fn file(&self, suffix: &str) -> PathBuf {
        PathBuf::from(format!("{}{suffix}", self.stem))
    }

    pub fn text(&self, suffix: &str) -> String {
        text(&self.file(suffix))
    }

    /// Returns the id of the attempt, which hooks and agents have as `VIK_ATTEMPT_ID`.
    pub fn id(&self) -> &str {
        &self.stem[self.stem.len() - 36..]
    }

    /// Returns the lines of the journal.
    pub fn steps(&self) -> Vec<Value> {
        let journal = self.text(".steps.jsonl");
        journal
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }

    /// Returns the raw output of the agent.
    pub fn raw(&self) -> Vec<u8> {
        std::fs::read(self.file(".raw.jsonl")).unwrap()
    }

    /// Returns the current lines of the session log.
    pub fn events(&self) -> Vec<Value> {
        let log = self.text(".jsonl");
        log.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }

    pub fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.events()
            .into_iter()
            .filter(|event| event["kind"] == kind)
            .collect()
    }

    /// Returns the texts of all messages.
    pub fn messages(&self) -> Vec<String> {
        self.of_kind("message")
            .iter()
            .map(|event| event["text"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns the last line. Checks that only this line is `ended`, and that the numbers have no
    /// gap.
    #[track_caller]
    pub fn ended(&self) -> Value {
        let events = self.events();
        for (at, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], at + 1, "{event}");
            assert_eq!(
                event["kind"] == "ended",
                at + 1 == events.len(),
                "line {}: {event}",
                at + 1
            );
        }
        events
            .last()
            .unwrap_or_else(|| panic!("{} is empty", self.stem))
            .clone()
    }

    #[track_caller]
    pub fn expect(&self, outcome: &str, class: Option<&str>) -> Value {
        let ended = self.ended();
        assert_eq!(
            (ended["outcome"].as_str(), ended["failure_class"].as_str()),
            (Some(outcome), class),
            "{ended}"
        );
        ended
    }
}
