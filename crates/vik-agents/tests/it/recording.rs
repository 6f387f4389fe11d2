//! Recordings: files with the output of an agent and what follows from it; see
//! `fixtures/README.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use vik_agents::{Adapter, AgentRequest, Conclusion, Exit, Verdict};
use vik_core::event::Event;
use vik_core::workflow::Runtime;

use crate::{adapter, interactive, profile};

/// The start of a line that starts a section.
const SECTION: &str = "=== ";

/// What the result of a recording contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// The number of events of each kind.
    Counts,
    /// All events, and the requests of an interactive session.
    Requests,
}

#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// The path below the fixtures, without its ending.
    pub(crate) name: String,
    pub(crate) exit: Exit,
    /// What must be concluded, if it is beyond doubt: the outcome and the failure class.
    pub(crate) expected: Option<String>,
    pub(crate) show: Show,
    pub(crate) stderr: String,
    pub(crate) stdout: String,
    path: PathBuf,
    header: String,
    result: String,
}

/// What a recording gives.
pub(crate) struct Replay {
    pub(crate) conclusion: Conclusion,
    pub(crate) events: Vec<Value>,
    /// The kinds of the lines that gave no event.
    pub(crate) silent: Vec<String>,
    open_before_end: usize,
    log: String,
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let paths = entries.flat_map(|path| if path.is_dir() { paths(&path) } else { vec![path] });
    paths.collect()
}

pub(crate) fn recordings() -> Vec<Recording> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let paths = paths(&root).into_iter();
    let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "recording"));
    let mut recordings: Vec<Recording> = paths.map(|path| Recording::read(&root, path)).collect();
    recordings.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(
        recordings.len() > 200,
        "only {} recordings found",
        recordings.len()
    );
    recordings
}

/// Returns the recordings of sessions in which the agent asks nothing.
pub(crate) fn plain_recordings() -> Vec<Recording> {
    let mut recordings = recordings();
    recordings.retain(|recording| recording.show == Show::Counts);
    recordings
}

pub(crate) fn find(name: &str) -> Recording {
    let found = recordings().into_iter().find(|recording| recording.name == name);
    found.unwrap_or_else(|| panic!("no recording {name}"))
}

impl Recording {
    fn read(root: &Path, path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().with_extension("");
        let mut sections: BTreeMap<&str, String> = BTreeMap::new();
        let mut section = "header";
        for line in text.split_inclusive('\n') {
            match line.strip_prefix(SECTION) {
                Some(next) => section = next.trim_end(),
                None => sections.entry(section).or_default().push_str(line),
            }
        }
        let mut take = |section: &str| sections.remove(section).unwrap_or_default();
        let header = take("header");
        let field = |key: &str| {
            let mut lines = header.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        let exit = field("exit").unwrap_or_else(|| panic!("{} has no `exit`", path.display()));
        let exit = match exit.strip_prefix("signal ") {
            Some(signal) => Exit::Signal(signal.parse().unwrap()),
            None => Exit::Code(exit.parse().unwrap()),
        };
        let recording = Self {
            name: name.to_str().unwrap().to_owned(),
            exit,
            expected: field("expected").map(str::to_owned),
            show: if field("show") == Some("requests") {
                Show::Requests
            } else {
                Show::Counts
            },
            result: take("result"),
            stderr: take("stderr"),
            stdout: take("stdout"),
            header,
            path,
        };
        assert!(
            sections.is_empty(),
            "unknown sections in {}: {sections:?}",
            recording.name
        );
        recording
    }

    /// Returns the agent's name, which is the folder of its recordings.
    pub(crate) fn agent(&self) -> &str {
        self.name.split('/').next().unwrap()
    }

    pub(crate) fn runtime(&self) -> Runtime {
        match self.agent() {
            "codex" => Runtime::Codex,
            "claude" => Runtime::ClaudeCode,
            "vex" => Runtime::Vex,
            _ => Runtime::Command,
        }
    }

    /// Returns the lines that are JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn replay(&self) -> Replay {
        self.replay_with(match self.show {
            Show::Counts => adapter(&profile(self.runtime())),
            Show::Requests => interactive(self.runtime()),
        })
    }

    pub(crate) fn replay_with(&self, mut adapter: Box<dyn Adapter>) -> Replay {
        let adapter = adapter.as_mut();
        let (mut events, mut silent, mut log) = (Vec::new(), Vec::new(), String::new());
        log_requests(adapter, &mut log);
        for line in self.stdout.lines().filter(|line| !line.is_empty()) {
            let before = events.len();
            adapter.line(line.as_bytes(), &mut |event: Event<'_>| {
                let text = serde_json::to_string(&event).unwrap();
                writeln!(log, "  {}", &text[..text.floor_char_boundary(300)]).unwrap();
                events.push(serde_json::to_value(&event).unwrap());
            });
            if events.len() == before {
                let value: Value = serde_json::from_str(line).unwrap_or_default();
                silent.push(value["type"].as_str().unwrap_or_default().to_owned());
            }
            log_requests(adapter, &mut log);
        }
        let open_before_end = adapter.open_tools();
        let tail = self.stderr.len().saturating_sub(8192);
        let tail = &self.stderr[self.stderr.ceil_char_boundary(tail)..];
        Replay {
            conclusion: adapter.conclude(self.exit, tail),
            events,
            silent,
            open_before_end,
            log,
        }
    }

    /// Compares the result in the file with what the replay gives. With the variable
    /// `UPDATE_RECORDINGS`, writes it to the file.
    pub(crate) fn check_result(&self, replay: &Replay) {
        let result = replay.describe(self.show);
        if std::env::var_os("UPDATE_RECORDINGS").is_some() && result != self.result {
            let mut text = format!("{}{SECTION}result\n{result}", self.header);
            for (section, content) in [("stderr", &self.stderr), ("stdout", &self.stdout)] {
                if !content.is_empty() {
                    write!(text, "{SECTION}{section}\n{content}").unwrap();
                }
            }
            std::fs::write(&self.path, text).unwrap();
        } else {
            assert_eq!(result, self.result, "{} has another result", self.name);
        }
    }
}

impl Replay {
    /// Returns the outcome with its failure class, as in the header of a recording.
    pub(crate) fn outcome(&self) -> String {
        match self.conclusion.failure_class {
            None => "succeeded".to_owned(),
            Some(class) => format!("failed {class}"),
        }
    }

    fn describe(&self, show: Show) -> String {
        let mut text = String::new();
        let c = &self.conclusion;
        let usage = c.usage;
        writeln!(
            text,
            "{}{} in={} cached={} written={} out={} {} open={} id={}",
            self.outcome(),
            if c.over_budget { " over_budget" } else { "" },
            usage.input_tokens,
            usage.cached_input_tokens,
            usage.cache_write_input_tokens,
            usage.output_tokens,
            c.cost_usd.map_or("-".to_owned(), |cost| format!("${cost:.9}")),
            self.open_before_end,
            c.provider_session_id
                .as_deref()
                .map_or("-", |id| &id[..id.len().min(8)]),
        )
        .unwrap();
        match show {
            Show::Counts => {
                let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
                for event in &self.events {
                    *kinds.entry(event["kind"].as_str().unwrap()).or_default() += 1;
                }
                let kinds = kinds.iter().map(|(kind, count)| format!("{kind}:{count}"));
                writeln!(text, "{}", kinds.collect::<Vec<_>>().join(" ")).unwrap();
            }
            Show::Requests => text.push_str(&self.log),
        }
        let short = |text: &str| -> String { text.replace('\n', "⏎").chars().take(150).collect() };
        for (label, value) in [("said", &c.last_message), ("why", &c.reason)] {
            if let Some(value) = value {
                writeln!(text, "{label}: {}", short(value)).unwrap();
            }
        }
        text
    }
}

/// Logs requests and answers. Calls on paths with `secret` are refused.
fn log_requests(adapter: &mut dyn Adapter, log: &mut String) {
    let send = |log: &mut String, line: &str| {
        let _: Value = serde_json::from_str(line).unwrap();
        writeln!(log, "> {line}").unwrap();
    };
    for request in adapter.take_requests() {
        match &request {
            AgentRequest::Approval(approval) => {
                let call = serde_json::to_string(&approval.call).unwrap();
                writeln!(log, "? {call} writes={}", approval.writes).unwrap();
                let verdict = if approval.call.paths.iter().any(|path| path.contains("secret")) {
                    Verdict::Refuse("\"secret\" is out of scope.\nWrite elsewhere.")
                } else {
                    Verdict::Allow
                };
                let lines = adapter.answer(approval, verdict);
                let last = lines.last().unwrap();
                assert!(last.starts_with(&approval.answer_prefix), "{lines:?}");
                lines.iter().for_each(|line| send(log, line));
            }
            AgentRequest::Send(line) => send(log, line),
            AgentRequest::TurnEnded { .. } => writeln!(log, "TurnEnded").unwrap(),
            request => writeln!(log, "{request:?}").unwrap(),
        }
    }
}
