//! Logs as files.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;

use crate::agent::compaction::{Compaction, Summary};
use crate::conversation::{Arguments, Block, Message, ToolCall, ToolResult, Turn};
use crate::session::{
    Entry, ForkPoint, Head, History, INTERRUPTED, Origin, Session, SessionError, SessionId, Store,
};
use crate::tools::plan::{Step, StepStatus};

struct Place {
    dir: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path().join("sessions"));
        Self { dir, store }
    }

    fn file(&self, id: SessionId) -> PathBuf {
        self.dir.path().join(format!("sessions/{id}.jsonl"))
    }

    fn begin(&self, entries: &[Entry]) -> SessionId {
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
    let mut blocks = vec![Block::Text {
        text: text.to_owned(),
    }];
    blocks.extend(calls.iter().map(|id| {
        Block::ToolCall(ToolCall {
            call_id: (*id).to_owned(),
            tool: "read_file".to_owned(),
            input: Arguments::Json(json!({"path": "a", "limit": 3})),
            repaired: false,
        })
    }));
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
        exit_code: None,
        output: output.to_owned(),
        denied: false,
    });
    Entry::Message { message }
}

fn end() -> Entry {
    Entry::End {
        reason: "done".to_owned(),
    }
}

/// A conversation with two turns and a third that is the end.
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
fn what_is_written_is_read_again() {
    let place = Place::new();
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
    let id = place.begin(&entries);
    assert_eq!(place.read(id), entries);
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.file(id)), 0o600);
    assert_eq!(mode(place.dir.path().join("sessions")), 0o700);
}

#[test]
fn a_log_that_was_cut_anywhere_goes_on_after_its_last_whole_line() {
    let place = Place::new();
    let id = place.begin(&talk());
    let path = place.file(id);
    let whole = std::fs::read(&path).unwrap();
    let first = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for length in (first..whole.len()).step_by(7).chain([whole.len() - 1]) {
        std::fs::write(&path, &whole[..length]).unwrap();
        let lines = whole[first..length].iter().filter(|&&byte| byte == b'\n').count();
        let (mut log, _) = place.store.resume(id, "/w", |_| ()).unwrap();
        log.append(&end()).unwrap();
        drop(log);
        let mut expected = talk()[..lines].to_vec();
        expected.push(end());
        assert_eq!(place.read(id), expected, "cut at {length}");
    }
}

#[test]
fn what_a_power_cut_leaves_at_the_end_is_cut_off_and_damage_before_it_is_told() {
    let place = Place::new();
    let id = place.begin(&talk());
    let path = place.file(id);
    let mut bytes = std::fs::read(&path).unwrap();
    let whole = bytes.clone();
    bytes.extend([0; 100]);
    bytes.extend(b"\n{\"seq\":");
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(place.read(id), talk());

    let mut lines: Vec<&[u8]> = whole.split_inclusive(|&byte| byte == b'\n').collect();
    lines.remove(3);
    std::fs::write(&path, lines.concat()).unwrap();
    let error = place.store.resume(id, "/w", |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Damaged { line: 4, .. }), "{error}");
}

#[test]
fn one_process_at_a_time() {
    let place = Place::new();
    let id = place.begin(&talk());
    let held = place.store.resume(id, "/w", |_| ()).unwrap();
    let error = place.store.resume(id, "/w", |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::InUse(_)), "{error}");
    assert!(place.store.look(id).unwrap().running);
    drop(held);
    assert!(!place.store.look(id).unwrap().running);
    place.store.resume(id, "/w", |_| ()).unwrap();
}

#[test]
fn a_session_stays_in_its_folder_and_an_unknown_one_is_told() {
    let place = Place::new();
    let id = place.begin(&talk());
    let error = place.store.resume(id, "/other", |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Elsewhere { .. }), "{error}");
    let unknown = SessionId::fresh();
    let error = place.store.resume(unknown, "/w", |_| ()).unwrap_err().to_string();
    // The daemon knows by these words that it has to begin anew.
    assert!(error.starts_with(&format!("no session {unknown}")), "{error}");
    assert!(!place.file(unknown).exists());
}

#[test]
fn a_fork_takes_over_whole_turns() {
    let place = Place::new();
    let id = place.begin(&talk());
    let before = std::fs::read(place.file(id)).unwrap();
    let fork = |turn| {
        let mut history = History::default();
        let from = ForkPoint { id, turn };
        let (_, head) = place
            .store
            .fork(from, head("/other"), |entry| history.apply(entry))?;
        assert_ne!(head.id, id);
        assert_eq!((head.cwd.as_str(), head.forked_from), ("/other", Some(from)));
        let written = place.store.look(head.id).unwrap();
        assert_eq!(written.head, head);
        Ok::<_, SessionError>(format!("{history:?}"))
    };
    let talk = talk();
    assert_eq!(fork(Some(0)).unwrap(), state(&talk[..2]));
    assert_eq!(fork(Some(1)).unwrap(), state(&talk[..6]));
    assert_eq!(fork(Some(2)).unwrap(), state(&talk[..8]));
    // How the other one ended is not taken over.
    assert_eq!(fork(Some(3)).unwrap(), state(&talk[..9]));
    assert_eq!(fork(None).unwrap(), state(&talk[..9]));
    let error = fork(Some(4)).unwrap_err();
    assert!(
        matches!(error, SessionError::NoSuchTurn { turns: 3, .. }),
        "{error}"
    );
    assert_eq!(std::fs::read(place.file(id)).unwrap(), before);
    assert_eq!(
        place.store.list().unwrap().len(),
        6,
        "a wrong turn leaves nothing behind"
    );
}

#[test]
fn no_secret_is_written() {
    let place = Place::new();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyzABCD";
    let message = Message::Assistant(Turn {
        blocks: vec![
            Block::Thinking {
                text: format!("it is {secret}"),
                signature: Some("s".to_owned()),
            },
            Block::ToolCall(ToolCall {
                call_id: "c".to_owned(),
                tool: "write_file".to_owned(),
                input: Arguments::Json(json!({"content": [format!("x {secret}")]})),
                repaired: false,
            }),
        ],
        ..Turn::default()
    });
    let id = place.begin(&[
        prompt(&format!("use {secret}")),
        Entry::Message { message },
        result("c", &format!("wrote {secret}")),
    ]);
    let text = std::fs::read_to_string(place.file(id)).unwrap();
    assert!(!text.contains("ghp_0123"), "{text}");
    assert_eq!(text.matches("[REDACTED").count(), 4, "{text}");
    let Entry::Message {
        message: Message::Assistant(turn),
    } = &place.read(id)[1]
    else {
        panic!("no answer");
    };
    let Block::Thinking { signature: None, .. } = &turn.blocks[0] else {
        panic!("a signature stands for words that are no longer there");
    };
}

#[test]
fn a_call_that_an_earlier_process_left_open_is_answered_once_and_not_run() {
    let place = Place::new();
    let id = place.begin(&talk()[..4]);
    let open = || {
        let mut session = Session::open(Some(&place.store), Origin::Resume(id), head("/w")).unwrap();
        session.ask(None, String::new()).unwrap();
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
        "it is told to go on"
    );
    let again = open();
    assert_eq!(interrupted(&again), ["c2"], "{again:?}");
    assert_eq!(
        messages, again,
        "nothing is said twice to a model that has not answered yet"
    );
}

#[test]
fn an_answer_whose_process_died_before_its_end_is_not_asked_for_again() {
    let place = Place::new();
    let cut = &talk()[..9];
    let resume = |entries: &[Entry], prompt: Option<&str>| {
        let id = place.begin(entries);
        let mut session = Session::open(Some(&place.store), Origin::Resume(id), head("/w")).unwrap();
        session
            .ask(prompt.map(str::to_owned), "Working directory: /w".to_owned())
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
        id: place.begin(cut),
        turn: None,
    };
    let session = Session::open(Some(&place.store), Origin::Fork(fork), head("/w")).unwrap();
    assert!(session.cut_off_answer().is_none(), "who branches off wants more");
}

#[test]
fn another_environment_is_told_and_the_same_one_is_not() {
    let place = Place::new();
    let id = place.begin(&talk());
    let told = |environment: &str| {
        let mut session = Session::open(Some(&place.store), Origin::Resume(id), head("/w")).unwrap();
        session
            .ask(Some("More.".to_owned()), environment.to_owned())
            .unwrap();
        let Some(Message::User { text }) = session.history().messages().last() else {
            panic!("somebody asked for more");
        };
        text.rsplit_once("More.").unwrap().1.to_owned()
    };
    assert_eq!(told("Working directory: /w"), "");
    assert_eq!(
        told("Working directory: /w, once more"),
        "\n\nWorking directory: /w, once more"
    );
}

#[test]
fn where_nothing_was_asked_for_there_is_nothing_to_go_on_with() {
    let place = Place::new();
    let id = place.begin(&[]);
    let error = Session::open(Some(&place.store), Origin::Resume(id), head("/w")).unwrap_err();
    assert!(error.to_string().starts_with("no session"), "{error}");
}

#[test]
fn the_system_prompt_stays_the_same_while_the_version_does() {
    let place = Place::new();
    let begin = |head: &Head| {
        place
            .store
            .create(head)
            .unwrap()
            .append(&prompt("Do it."))
            .unwrap();
    };
    let mut old = head("/w");
    begin(&old);
    let mut now = head("/w");
    now.system = "You are another.".to_owned();
    let session = Session::open(Some(&place.store), Origin::Resume(old.id), now.clone()).unwrap();
    assert_eq!(session.head().system, old.system);
    drop(session);
    old = head("/w");
    old.version = "0".to_owned();
    begin(&old);
    let session = Session::open(Some(&place.store), Origin::Resume(old.id), now.clone()).unwrap();
    assert_eq!(session.head().system, now.system);
}

#[test]
fn a_listing_names_what_was_asked_and_how_it_ended() {
    let place = Place::new();
    assert!(place.store.list().unwrap().is_empty(), "no folder yet");
    let first = place.begin(&talk());
    let second = place.begin(&talk()[..4]);
    std::fs::write(place.dir.path().join("sessions/notes.txt"), "x").unwrap();
    std::fs::write(place.file(SessionId::fresh()), "not a log\n").unwrap();
    let listed = place.store.list().unwrap();
    let told: Vec<_> = listed
        .iter()
        .map(|one| (one.head.id, one.title.as_str(), one.ended.as_deref(), one.running))
        .collect();
    assert_eq!(
        told,
        [
            (second, "Do it.", None, false),
            (first, "Do it.", Some("done"), false)
        ]
    );
}
