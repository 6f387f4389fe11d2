//! Several daemons, one after the other, relay between an agent and the people who answer.

use proptest::prelude::*;
use serde_json::{Value, json};
use vik_core::workflow::{AgentProfile, OutputFormat, Runtime};
use vik_session_log::SessionLog;

use super::*;
use crate::attempt::follow::KeptOutput;
use crate::attempt::{AttemptCommands, AttemptHandle};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// No answer is needed.
    Free,
    /// A rule requires an approval.
    Waits,
    /// The call writes a file out of scope.
    Outside,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// The agent prints this number of further lines.
    Print(usize),
    /// A person answers the waiting request.
    Answer(bool),
    /// The daemon dies, and the next one starts.
    Die,
}

struct Scene {
    dir: tempfile::TempDir,
    lines: Vec<String>,
    printed: usize,
    daemon: Option<(ToolCallApprovals, OutputReader)>,
    _handle: AttemptHandle,
    updates: UpdateSender,
    commands: AttemptCommands,
}

fn profile() -> AgentProfile {
    AgentProfile {
        output: OutputFormat::Jsonl,
        ..AgentProfile::new(Runtime::ClaudeCode)
    }
}

impl Scene {
    fn new(calls: &[Asks]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        for file in ["raw", "stdin"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        drop(SessionLog::create(&dir.path().join("log")).unwrap());
        let mut lines = vec![
            json!({"type": "control_response", "response": {"subtype": "success", "request_id": "vik-init"}}),
        ];
        for (at, call) in calls.iter().enumerate() {
            let (tool, input) = match call {
                Asks::Free => ("Bash", json!({"command": format!("ls {at}")})),
                Asks::Waits => ("Bash", json!({"command": format!("git push {at}")})),
                Asks::Outside => ("Write", json!({"file_path": format!("docs/{at}")})),
            };
            let id = format!("t{at}");
            lines.push(json!({"type": "assistant", "message": {"content": [
                {"type": "tool_use", "id": id, "name": tool, "input": input}]}}));
            lines.push(json!({"type": "control_request", "request_id": format!("q{at}"), "request": {
                "subtype": "hook_callback", "callback_id": "vik-hook", "input": {"hook_event_name": "PreToolUse",
                "tool_name": tool, "tool_input": input, "tool_use_id": id}}}));
        }
        let (handle, link) = AttemptHandle::new();
        let mut scene = Self {
            dir,
            lines: lines.iter().map(|line| format!("{line}\n")).collect(),
            printed: 0,
            daemon: None,
            _handle: handle,
            updates: link.updates,
            commands: link.commands,
        };
        scene.start_daemon();
        scene
    }

    fn start_daemon(&mut self) {
        let path = |name: &str| self.dir.path().join(name);
        let journal = Journal::open(&path("journal")).unwrap();
        let waited = WaitTime::of(&journal);
        let journal = Arc::new(Mutex::new(journal));
        let initial_input = InitialInput {
            prompt: "Do it.",
            workdir: &path("ws"),
            resume: None,
            in_sandbox: false,
            asks: true,
        };
        let adapter = driver(Runtime::ClaudeCode)
            .interactive_adapter(&profile(), None, &initial_input)
            .unwrap();
        let log = SessionLog::reopen(&path("log")).unwrap();
        let (updates, updates_of_messages) = (self.updates.clone(), self.updates.clone());
        let kept = KeptOutput {
            files: vec![path("raw")],
            limit: None,
            discount: path("partial"),
        };
        let reader =
            OutputReader::open(&path("raw"), adapter, log.log, log.agent_events, updates, kept).unwrap();
        let policy = json!({"before": false, "after": false, "timeout": "1h", "on_timeout": "deny",
            "calls": [{"tool": [], "command": ["git push"], "path": null}]});
        let approvals = ToolCallApprovals {
            scope: Some(Scope::new(["src/**"]).unwrap()),
            policy: Some(serde_json::from_value(policy).unwrap()),
            workdir: path("ws"),
            waited,
            journal: Arc::clone(&journal),
            session: AttemptId(uuid::Uuid::nil()),
            updates: self.updates.clone(),
            input: Input::open(&path("stdin")).unwrap(),
            messages: Messages::of(journal, self.commands.clone(), updates_of_messages),
            waiting: Vec::new(),
            shown: None,
        };
        self.daemon = Some((approvals, reader));
        self.poll();
    }

    fn poll(&mut self) {
        let (approvals, reader) = self.daemon.as_mut().unwrap();
        while reader.poll().unwrap() {}
        approvals.poll(reader, None).unwrap();
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Print(count) => {
                let until = (self.printed + count).min(self.lines.len());
                let text = self.lines[self.printed..until].concat();
                self.printed = until;
                let raw = std::fs::OpenOptions::new()
                    .append(true)
                    .open(self.dir.path().join("raw"));
                std::io::Write::write_all(&mut raw.unwrap(), text.as_bytes()).unwrap();
                self.poll();
            }
            Act::Answer(yes) => {
                let (approvals, reader) = self.daemon.as_mut().unwrap();
                if let Some(request) = approvals.pending_request().map(str::to_owned) {
                    let answer = if yes {
                        Answer::Approve { message: None }
                    } else {
                        Answer::Deny { message: None }
                    };
                    let by = "ada".to_owned();
                    let answered = Answered { request, answer, by };
                    approvals.on_answer(&answered, reader).unwrap();
                }
            }
            Act::Die => {
                self.daemon = None;
                self.start_daemon();
            }
        }
    }

    fn lines_of(&self, file: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join(file)).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn calls() -> impl Strategy<Value = Vec<Asks>> {
    let call = prop_oneof![Just(Asks::Free), Just(Asks::Waits), Just(Asks::Outside)];
    prop::collection::vec(call, 0..6)
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (1..4_usize).prop_map(Act::Print),
        2 => any::<bool>().prop_map(Act::Answer),
        1 => Just(Act::Die),
    ];
    prop::collection::vec(act, 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whenever daemons die and people answer: each question is answered once, exactly as decided;
    /// a waiting request is on record before, and no event is written twice.
    #[test]
    fn question_is_answered_once_across_crashes(calls in calls(), acts in acts()) {
        let mut scene = Scene::new(&calls);
        for act in acts {
            scene.act(act);
        }
        scene.act(Act::Print(usize::MAX / 2));
        for _ in &calls {
            scene.act(Act::Answer(true));
        }
        let (approvals, reader) = scene.daemon.take().unwrap();
        prop_assert!(approvals.pending_request().is_none());
        reader.detach().unwrap();

        let sent = scene.lines_of("stdin");
        prop_assert_eq!(sent.len(), 2 + calls.len(), "{:?}", sent);
        let journal = scene.lines_of("journal");
        for (at, call) in calls.iter().enumerate() {
            let answer = sent.iter().find(|line| line["response"]["request_id"] == format!("q{at}"));
            let response = answer.unwrap()["response"]["response"].to_string();
            let id = format!("{}.q{at}", uuid::Uuid::nil());
            let asked: Vec<_> = journal.iter().filter(|step| step["request"]["id"] == id).collect();
            let answers: Vec<_> = journal.iter().filter(|step| step["request"] == id).collect();
            match call {
                Asks::Free => prop_assert!(response.contains("continue") && asked.is_empty()),
                Asks::Outside => prop_assert!(response.contains("out_of_scope") && asked.is_empty()),
                Asks::Waits => {
                    prop_assert_eq!((asked.len(), answers.len()), (1, 1));
                    let allowed = answers[0]["answer"]["answer"] == "approve";
                    prop_assert_eq!(response.contains("continue"), allowed, "{}", response);
                }
            }
        }
        let events = scene.lines_of("log");
        let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
        let of = |wanted: Asks| calls.iter().filter(|call| **call == wanted).count();
        prop_assert_eq!(count("tool_call"), calls.len());
        prop_assert_eq!(count("approval"), 2 * of(Asks::Waits) + of(Asks::Outside));
        prop_assert!(events.iter().enumerate().all(|(at, event)| event["seq"] == at + 1));
    }
}

#[test]
fn wait_time_counts_overlapping_questions_once() {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let mut waited = WaitTime::default();
    waited.start(at(10));
    waited.start(at(12));
    waited.end(at(15));
    assert_eq!(waited.total(at(17)), Duration::from_secs(7));
    waited.end(at(20));
    assert_eq!(waited.total(at(100)), Duration::from_secs(10));
    waited.start(at(200));
    assert_eq!(waited.total(at(201)), Duration::from_secs(11));
    // A clock that was set back adds nothing.
    assert_eq!(waited.total(at(50)), Duration::from_secs(10));
}
