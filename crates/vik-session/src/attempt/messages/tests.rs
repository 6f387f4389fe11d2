//! Several daemons, one after the other, relay messages of people to an agent.

use std::path::PathBuf;

use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::{Value, json};
use vik_agents::{InitialInput, driver};
use vik_core::workflow::{AgentProfile, Runtime};

use super::*;
use crate::attempt::follow::KeptOutput;
use crate::attempt::{AttemptHandle, AttemptUpdate};

#[derive(Clone, Copy, Debug)]
enum Act {
    /// A person sends the next message.
    Send,
    /// The agent reads its input, and ends its turn if there is nothing.
    Work,
    /// The daemon dies, and the next one starts. The scheduler delivers all waiting messages again.
    Die,
}

struct Scene {
    dir: tempfile::TempDir,
    handle: AttemptHandle,
    daemon: Option<(Messages, Input, OutputReader)>,
    /// The messages that the scheduler has: none that were reported as taken.
    waiting: Vec<Message>,
    sent: usize,
    /// The number of bytes of the input that the agent has read, and the ids that it read.
    read: usize,
    agent_read: Vec<String>,
    commands: AttemptCommands,
    updates: UpdateSender,
    ended: bool,
}

fn message(number: usize) -> Message {
    Message {
        id: MessageId(uuid::Uuid::from_u128(number as u128)),
        text: format!("Message {number}."),
        by: "a person".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        interrupt: number % 3 == 2,
    }
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in ["raw", "stdin"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        drop(SessionLog::create(&dir.path().join("log")).unwrap());
        let (handle, link) = AttemptHandle::new();
        let mut scene = Self {
            dir,
            handle,
            daemon: None,
            waiting: Vec::new(),
            sent: 0,
            read: 0,
            agent_read: Vec::new(),
            commands: link.commands,
            updates: link.updates,
            ended: false,
        };
        scene.start_daemon();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start_daemon(&mut self) {
        (self.handle, (self.commands, self.updates)) = {
            let (handle, link) = AttemptHandle::new();
            (handle, (link.commands, link.updates))
        };
        for message in &self.waiting {
            self.handle.commands.deliver(message.clone());
        }
        let profile = AgentProfile::new(Runtime::ClaudeCode);
        let input = InitialInput {
            prompt: "Do it.",
            workdir: self.dir.path(),
            resume: None,
            in_sandbox: false,
            asks: false,
        };
        let adapter = driver(profile.runtime)
            .interactive_adapter(&profile, None, &input)
            .unwrap();
        let log = SessionLog::reopen(&self.path("log")).unwrap();
        let kept = KeptOutput {
            files: vec![self.path("raw")],
            limit: None,
            discount: self.path("partial"),
        };
        let updates = self.updates.clone();
        let reader = OutputReader::open(
            &self.path("raw"),
            adapter,
            log.log,
            log.agent_events,
            updates,
            kept,
        );
        let mut reader = reader.unwrap();
        let journal = Arc::new(Mutex::new(Journal::open(&self.path("journal")).unwrap()));
        let mut messages = Messages::of(journal, self.commands.clone(), self.updates.clone());
        messages.events = MessageEvents::read(&self.path("log"));
        let mut input = Input::open(&self.path("stdin")).unwrap();
        messages.resume(&mut input, &mut reader).unwrap();
        self.daemon = Some((messages, input, reader));
        self.poll();
    }

    fn poll(&mut self) {
        let (messages, input, reader) = self.daemon.as_mut().unwrap();
        while reader.poll().unwrap() {}
        for request in reader.take_requests() {
            match request {
                AgentRequest::Send(line) => input.write_once(&line).unwrap(),
                AgentRequest::MessageTaken { id } => messages.on_taken(id, reader).unwrap(),
                AgentRequest::TurnEnded { succeeded } => messages.on_turn_ended(succeeded),
                other => panic!("{other:?}"),
            }
        }
        messages.poll(input, reader, None).unwrap();
        self.ended = input.is_ended();
        while let Some(AttemptUpdate::MessagesTaken(ids)) = self.handle.updates.next().now_or_never() {
            self.waiting.retain(|message| !ids.contains(&message.id));
        }
    }

    /// Reads the new lines of the input, and prints what Claude Code prints.
    fn work(&mut self) {
        let input = std::fs::read(self.path("stdin")).unwrap();
        let new = String::from_utf8(input[self.read..].to_vec()).unwrap();
        self.read = input.len();
        let mut lines: Vec<Value> = Vec::new();
        for line in new.trim_end_matches('\0').lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            match line["type"].as_str() {
                Some("user") => {
                    let id = line["uuid"].as_str().unwrap_or("prompt").to_owned();
                    lines.push(
                        json!({"type": "user", "message": line["message"], "uuid": id, "isReplay": true}),
                    );
                    self.agent_read.push(id);
                }
                _ => lines.push(
                    json!({"type": "control_response", "response": {"subtype": "success",
                    "request_id": line["request_id"]}}),
                ),
            }
        }
        lines.push(json!({"type": "result", "subtype": "success", "is_error": false, "result": "x"}));
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let raw = std::fs::OpenOptions::new().append(true).open(self.path("raw"));
        std::io::Write::write_all(&mut raw.unwrap(), text.as_bytes()).unwrap();
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Send => {
                let message = message(self.sent);
                self.sent += 1;
                self.waiting.push(message.clone());
                self.handle.commands.deliver(message);
                self.poll();
            }
            Act::Work if self.ended => {}
            Act::Work => {
                self.work();
                self.poll();
            }
            Act::Die => {
                self.daemon = None;
                self.start_daemon();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever happens, the agent reads each message once and in order, or it is still waiting.
    #[test]
    fn each_message_is_read_once_or_waits(
        acts in prop::collection::vec(prop_oneof![3 => Just(Act::Send), 2 => Just(Act::Work), 3 => Just(Act::Die)], 1..16),
    ) {
        let mut scene = Scene::new();
        for act in acts {
            scene.act(act);
        }
        for _ in 0..3 {
            scene.act(Act::Work);
        }
        prop_assert!(scene.ended, "an agent that waits for nothing gets the end of its input");
        prop_assert_eq!(scene.agent_read.remove(0), "prompt");
        let ids: Vec<String> = (0..scene.sent).map(|number| message(number).id.to_string()).collect();
        let read = scene.agent_read.len();
        prop_assert_eq!(&scene.agent_read[..], &ids[..read]);
        let waiting: Vec<String> = scene.waiting.iter().map(|message| message.id.to_string()).collect();
        prop_assert_eq!(&waiting[..], &ids[read..]);
        // The log has each state of each message once.
        let log = std::fs::read_to_string(scene.path("log")).unwrap();
        for id in &ids[..read] {
            for state in [SENT, TAKEN] {
                let lines = log.lines().filter(|line| line.contains(id.as_str()) && line.contains(&format!("\"state\":\"{state}\"")));
                prop_assert_eq!(lines.count(), 1, "{} {}", id, state);
            }
        }
    }
}

#[test]
fn message_that_cannot_be_sent_can_be_withdrawn() {
    let mut scene = Scene::new();
    scene.daemon.as_mut().unwrap().0.is_steerable = false;
    scene.act(Act::Send);
    assert!(scene.handle.commands.withdraw(message(0).id));
    // The end of a turn ends the input at once.
    scene.act(Act::Work);
    assert!(scene.ended);
    scene.act(Act::Send);
    assert_eq!(scene.agent_read, ["prompt"]);
    assert_eq!(scene.waiting.len(), 2);
}

#[test]
fn prompt_contains_the_waiting_messages() {
    assert_eq!(prompt_section(&[]), "");
    assert_eq!(
        prompt_section(&[message(1), message(2)]),
        "\n\n---\nVik: a person sent these messages\n\na person, 1970-01-01T00:00:00Z:\nMessage 1.\n\n\
         a person, 1970-01-01T00:00:00Z:\nMessage 2.\n"
    );
}

#[test]
fn agent_that_does_not_take_a_message_gets_the_end_of_its_input() {
    let mut scene = Scene::new();
    scene.act(Act::Send);
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "result": "x"});
    std::fs::write(scene.path("raw"), format!("{result}\n")).unwrap();
    scene.poll();
    assert!(!scene.ended, "it may still take the message");
    scene.daemon.as_mut().unwrap().0.max_untaken = Duration::ZERO;
    scene.poll();
    assert!(scene.ended);
    assert_eq!(scene.waiting.len(), 1, "the next attempt gets it");
}
