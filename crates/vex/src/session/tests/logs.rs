//! Logs as files.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;

use crate::agent::compaction::{Compaction, Summary};
use crate::conversation::{Block, Message, ToolCall, ToolResult, Turn};
use crate::plan::{Step, StepStatus};
use crate::session::{
    Entry, ForkPoint, Head, History, INTERRUPTED, Origin, Session, SessionError, SessionId, Store,
};

struct Fixture {
    dir: tempfile::TempDir,
    store: Store,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path().join("sessions"));
        Self { dir, store }
    }

    fn file(&self, id: SessionId) -> PathBuf {
        self.dir.path().join(format!("sessions/{id}.jsonl"))
    }

    fn create(&self, entries: &[Entry]) -> SessionId {
        let head = head("/w");
        let mut log = self.store.create(&head).unwrap();
        for entry in entries {
            log.append(entry).unwrap();
        }
        head.id
    }

    fn read(&self, id: SessionId) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.store.resume(id, "/w", |entry| entries.push(entry)).unwrap();
        entries
    }
}

fn head(cwd: &str) -> Head {
    Head::new(
        cwd.to_owned(),
        "m".to_owned(),
        "p".to_owned(),
        "You are.".to_owned(),
    )
}

fn prompt(text: &str) -> Entry {
    Entry::Prompt {
        text: text.to_owned(),
    }
}

fn answer(text: &str, calls: &[&str]) -> Entry {
    let mut blocks = vec![Block::text(text)];
    blocks.extend(
        calls
            .iter()
            .map(|id| Block::ToolCall(ToolCall::new(*id, "read_file", json!({"path": "a", "limit": 3})))),
    );
    let message = Message::Assistant(Turn {
        blocks,
        cost_usd: Some(0.1),
        ..Turn::default()
    });
    Entry::Message { message }
}

fn result(id: &str, output: &str) -> Entry {
    let message = Message::Tool(ToolResult {
        call_id: id.to_owned(),
        is_error: false,
        output: output.to_owned(),
        ..ToolResult::default()
    });
    Entry::Message { message }
}

fn end() -> Entry {
    Entry::End {
        reason: "done".to_owned(),
    }
}

/// A conversation with two turns and a final third one.
fn talk() -> Vec<Entry> {
    vec![
        prompt("Do it.\nPlease."),
        Entry::Environment {
            text: "Working directory: /w".to_owned(),
        },
        answer("one", &["c1", "c2"]),
        result("c1", "ä\n\"1\""),
        result("c2", "2"),
        Entry::Plan {
            steps: vec![Step {
                text: "look".to_owned(),
                status: StepStatus::InProgress,
            }],
        },
        answer("two", &["c3"]),
        result("c3", "3"),
        answer("three", &[]),
        end(),
    ]
}

fn state(entries: &[Entry]) -> String {
    let mut history = History::default();
    entries.iter().cloned().for_each(|entry| history.apply(entry));
    format!("{history:?}")
}

#[test]
fn session_log_round_trips() {
    let fixture = Fixture::new();
    let mut entries = talk();
    entries.push(Entry::Resumed {
        version: "1".to_owned(),
        model: "m".to_owned(),
        provider: "p".to_owned(),
    });
    entries.push(Entry::Compaction(Box::new(Compaction {
        shrink_before: 3,
        cap: Some(10),
        cut: 2,
        summary: Some(Summary::default()),
        ..Compaction::default()
    })));
    let id = fixture.create(&entries);
    assert_eq!(fixture.read(id), entries);
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(fixture.file(id)), 0o600);
    assert_eq!(mode(fixture.dir.path().join("sessions")), 0o700);
}

#[test]
fn truncated_log_resumes_after_its_last_whole_line() {
    let fixture = Fixture::new();
    let id = fixture.create(&talk());
    let path = fixture.file(id);
    let whole = std::fs::read(&path).unwrap();
    let first = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for length in (first..whole.len()).step_by(7).chain([whole.len() - 1]) {
        std::fs::write(&path, &whole[..length]).unwrap();
        let lines = whole[first..length].iter().filter(|&&byte| byte == b'\n').count();
        let (mut log, _) = fixture.store.resume(id, "/w", |_| ()).unwrap();
        log.append(&end()).unwrap();
        drop(log);
        let mut expected = talk()[..lines].to_vec();
        expected.push(end());
        assert_eq!(fixture.read(id), expected, "cut at {length}");
    }
}

#[test]
fn power_loss_tail_is_truncated_and_earlier_damage_is_reported() {
    let fixture = Fixture::new();
    let id = fixture.create(&talk());
    let path = fixture.file(id);
    let mut bytes = std::fs::read(&path).unwrap();
    let whole = bytes.clone();
    bytes.extend([0; 100]);
    bytes.extend(b"\n{\"seq\":");
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(fixture.read(id), talk());

    let mut lines: Vec<&[u8]> = whole.split_inclusive(|&byte| byte == b'\n').collect();
    lines.remove(3);
    std::fs::write(&path, lines.concat()).unwrap();
    let error = fixture.store.resume(id, "/w", |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Damaged { line: 4, .. }), "{error}");
}

#[test]
fn session_allows_one_process_at_a_time() {
    let fixture = Fixture::new();
    let id = fixture.create(&talk());
    let held = fixture.store.resume(id, "/w", |_| ()).unwrap();
    let error = fixture.store.resume(id, "/w", |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::InUse(_)), "{error}");
    assert!(fixture.store.info(id).unwrap().running);
    drop(held);
    assert!(!fixture.store.info(id).unwrap().running);
    fixture.store.resume(id, "/w", |_| ()).unwrap();
}

#[test]
fn session_resumes_only_in_its_folder_and_unknown_ids_fail() {
    let fixture = Fixture::new();
    let id = fixture.create(&talk());
    let error = fixture.store.resume(id, "/other", |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Elsewhere { .. }), "{error}");
    let unknown = SessionId::fresh();
    let error = fixture
        .store
        .resume(unknown, "/w", |_| ())
        .unwrap_err()
        .to_string();
    // The daemon recognises by this text that it has to start a new conversation.
    assert!(error.starts_with(&format!("no session {unknown}")), "{error}");
    assert!(!fixture.file(unknown).exists());
}

#[test]
fn fork_copies_whole_turns() {
    let fixture = Fixture::new();
    let id = fixture.create(&talk());
    let before = std::fs::read(fixture.file(id)).unwrap();
    let fork = |turn| {
        let mut history = History::default();
        let from = ForkPoint { id, turn };
        let (_, head) = fixture
            .store
            .fork(from, head("/other"), |entry| history.apply(entry))?;
        assert_ne!(head.id, id);
        assert_eq!((head.cwd.as_str(), head.forked_from), ("/other", Some(from)));
        let written = fixture.store.info(head.id).unwrap();
        assert_eq!(written.head, head);
        Ok::<_, SessionError>(format!("{history:?}"))
    };
    let talk = talk();
    assert_eq!(fork(Some(0)).unwrap(), state(&talk[..2]));
    assert_eq!(fork(Some(1)).unwrap(), state(&talk[..6]));
    assert_eq!(fork(Some(2)).unwrap(), state(&talk[..8]));
    // How the other one ended is not copied.
    assert_eq!(fork(Some(3)).unwrap(), state(&talk[..9]));
    assert_eq!(fork(None).unwrap(), state(&talk[..9]));
    let error = fork(Some(4)).unwrap_err();
    assert!(
        matches!(error, SessionError::NoSuchTurn { turns: 3, .. }),
        "{error}"
    );
    assert_eq!(std::fs::read(fixture.file(id)).unwrap(), before);
    assert_eq!(
        fixture.store.list().unwrap().len(),
        6,
        "a wrong turn leaves nothing behind"
    );
}

#[test]
fn session_log_contains_no_secret() {
    let fixture = Fixture::new();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyzABCD";
    let message = Message::answer(vec![
        Block::Thinking {
            text: format!("it is {secret}"),
            signature: Some("s".to_owned()),
        },
        Block::ToolCall(ToolCall::new(
            "c",
            "write_file",
            json!({"content": [format!("x {secret}")]}),
        )),
    ]);
    let id = fixture.create(&[
        prompt(&format!("use {secret}")),
        Entry::Message { message },
        result("c", &format!("wrote {secret}")),
    ]);
    let text = std::fs::read_to_string(fixture.file(id)).unwrap();
    assert!(!text.contains("ghp_0123"), "{text}");
    assert_eq!(text.matches("[REDACTED").count(), 4, "{text}");
    let Entry::Message {
        message: Message::Assistant(turn),
    } = &fixture.read(id)[1]
    else {
        panic!("no answer");
    };
    let Block::Thinking { signature: None, .. } = &turn.blocks[0] else {
        panic!("a signature refers to text that was removed");
    };
}

#[test]
fn open_call_of_an_earlier_process_is_answered_once_and_not_run() {
    let fixture = Fixture::new();
    let id = fixture.create(&talk()[..4]);
    let open = || {
        let mut session = Session::open(Some(&fixture.store), Origin::Resume(id), head("/w")).unwrap();
        session.ask(None, None).unwrap();
        session.history().messages().to_vec()
    };
    let messages = open();
    let interrupted = |messages: &[Message]| {
        let outputs = messages.iter().filter_map(|message| match message {
            Message::Tool(result) if result.output == INTERRUPTED => Some(result.call_id.clone()),
            _ => None,
        });
        outputs.collect::<Vec<_>>()
    };
    assert_eq!(interrupted(&messages), ["c2"]);
    assert!(
        matches!(messages.last(), Some(Message::User { .. })),
        "the prompt asks it to continue"
    );
    let again = open();
    assert_eq!(interrupted(&again), ["c2"], "{again:?}");
    assert_eq!(
        messages, again,
        "nothing is said twice to a model that has not answered yet"
    );
}

#[test]
fn final_answer_of_a_killed_process_is_not_requested_again() {
    let fixture = Fixture::new();
    let cut = &talk()[..9];
    let resume = |entries: &[Entry], prompt: Option<&str>| {
        let id = fixture.create(entries);
        let mut session = Session::open(Some(&fixture.store), Origin::Resume(id), head("/w")).unwrap();
        session
            .ask(
                prompt.map(str::to_owned),
                Some("Working directory: /w".to_owned()),
            )
            .unwrap();
        session
    };
    let session = resume(cut, None);
    assert_eq!(session.cut_off_answer().unwrap().text(), "three");
    assert!(resume(cut, Some("And this.")).cut_off_answer().is_none());
    assert!(
        resume(&talk(), None).cut_off_answer().is_none(),
        "it ended in order"
    );
    let fork = ForkPoint {
        id: fixture.create(cut),
        turn: None,
    };
    let session = Session::open(Some(&fixture.store), Origin::Fork(fork), head("/w")).unwrap();
    assert!(session.cut_off_answer().is_none(), "who branches off wants more");
}

#[test]
fn environment_is_repeated_only_when_it_changed() {
    let fixture = Fixture::new();
    let id = fixture.create(&talk());
    let shown = |environment: &str| {
        let mut session = Session::open(Some(&fixture.store), Origin::Resume(id), head("/w")).unwrap();
        session
            .ask(Some("More.".to_owned()), Some(environment.to_owned()))
            .unwrap();
        let Some(Message::User { text }) = session.history().messages().last() else {
            panic!("somebody asked for more");
        };
        text.rsplit_once("More.").unwrap().1.to_owned()
    };
    assert_eq!(shown("Working directory: /w"), "");
    assert_eq!(
        shown("Working directory: /w, once more"),
        "\n\nWorking directory: /w, once more"
    );
}

#[test]
fn session_without_a_prompt_cannot_be_resumed() {
    let fixture = Fixture::new();
    let id = fixture.create(&[]);
    let error = Session::open(Some(&fixture.store), Origin::Resume(id), head("/w")).unwrap_err();
    assert!(error.to_string().starts_with("no session"), "{error}");
}

#[test]
fn system_prompt_is_stable_within_a_version() {
    let fixture = Fixture::new();
    let start = |head: &Head| {
        fixture
            .store
            .create(head)
            .unwrap()
            .append(&prompt("Do it."))
            .unwrap();
    };
    let mut old = head("/w");
    start(&old);
    let mut now = head("/w");
    now.system = "You are another.".to_owned();
    let session = Session::open(Some(&fixture.store), Origin::Resume(old.id), now.clone()).unwrap();
    assert_eq!(session.head().system, old.system);
    drop(session);
    old = head("/w");
    old.version = "0".to_owned();
    start(&old);
    let session = Session::open(Some(&fixture.store), Origin::Resume(old.id), now.clone()).unwrap();
    assert_eq!(session.head().system, now.system);
}

#[test]
fn session_info_names_the_prompt_and_the_end() {
    let fixture = Fixture::new();
    assert!(fixture.store.list().unwrap().is_empty(), "no folder yet");
    let first = fixture.create(&talk());
    let second = fixture.create(&talk()[..4]);
    std::fs::write(fixture.dir.path().join("sessions/notes.txt"), "x").unwrap();
    std::fs::write(fixture.file(SessionId::fresh()), "not a log\n").unwrap();
    let listed = fixture.store.list().unwrap();
    let shown: Vec<_> = listed
        .iter()
        .map(|one| (one.head.id, one.title.as_str(), one.ended.as_deref(), one.running))
        .collect();
    assert_eq!(
        shown,
        [
            (second, "Do it.", None, false),
            (first, "Do it.", Some("done"), false)
        ]
    );
}

#[test]
fn fresh_start_leaves_prompts_and_the_last_environment() {
    let mut history = History::default();
    let answer = || Entry::Message {
        message: Message::answer(vec![Block::text("I wrote it.")]),
    };
    for entry in [
        Entry::Prompt {
            text: "Task.".to_owned(),
        },
        Entry::Environment {
            text: "Old files.".to_owned(),
        },
        answer(),
        Entry::Environment {
            text: "New files.".to_owned(),
        },
        Entry::FreshStart {
            note: "Again.".to_owned(),
        },
    ] {
        let line = serde_json::to_string(&entry).unwrap();
        history.apply(serde_json::from_str(&line).unwrap());
    }
    assert_eq!(
        history.messages(),
        [Message::user("Task.\n\nNew files.\n\nAgain.")]
    );
    history.apply(answer());
    assert_eq!((history.messages().len(), history.answers()), (2, 2));
}
