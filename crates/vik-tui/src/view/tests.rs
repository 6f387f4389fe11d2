mod live;

use std::cell::Cell;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use super::*;
use crate::app::{App, Tab};
use crate::fixtures::*;
use crate::msg::{EventsRequest, Msg};
use vik_client::ClientError;

thread_local! {
    /// The number of rows of lists that were built.
    pub(super) static BUILT: Cell<usize> = const { Cell::new(0) };
}

fn draw(app: &App, color: bool) -> Buffer {
    draw_in(app, color, app.size)
}

fn draw_in(app: &App, color: bool, (columns, rows): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| view(app, Theme { color }, frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// Returns the visible text, with `reversed` where it is marked.
fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut x = 0;
        let mut line = String::new();
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += (symbol.width() as u16).max(1);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn screen_text(app: &App) -> String {
    text(&draw(app, true))
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = if key == '\n' {
            KeyCode::Enter
        } else {
            KeyCode::Char(key)
        };
        send(app, Msg::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        answer_issue(app);
    }
}

fn followed(app: &mut App) {
    press(app, "\n");
    let ask = EventsRequest {
        session_id: app.current_session().unwrap().session_id.clone(),
        after: 0,
        limit: 500,
    };
    send(app, Msg::Events(ask, Ok(page(&log(), 12, false))));
}

fn with_diff(app: &mut App) {
    press(app, "d");
    let id = session(4).issue_id;
    send(app, Msg::Diff(id, Ok(diff())));
}

/// Takes snapshots of the same screen in a small and in a large terminal.
fn snapshot_in_two_sizes(name: &str, prepare: impl Fn(&mut App)) {
    for (columns, rows) in [(80, 24), (200, 50)] {
        let mut app = app(columns, rows, 5);
        prepare(&mut app);
        insta::assert_snapshot!(format!("{name}_{columns}x{rows}"), screen_text(&app));
    }
}

#[test]
fn screens_of_every_tab() {
    snapshot_in_two_sizes("sessions", |_| {});
    snapshot_in_two_sizes("parked", |app| press(app, "2"));
    snapshot_in_two_sizes("waiting", |app| press(app, "3"));
    snapshot_in_two_sizes("issues", |app| {
        press(app, "4");
        send(app, Msg::Issues(Ok(issues())));
        answer_issue(app);
    });
    snapshot_in_two_sizes("approvals", |app| press(app, "5j"));
    snapshot_in_two_sizes("answer", |app| press(app, "5jxnot to main"));
    snapshot_in_two_sizes("filter", |app| press(app, "/claude"));
    snapshot_in_two_sizes("filter_without_a_match", |app| press(app, "/nothing\n"));
    snapshot_in_two_sizes("help", |app| press(app, "?"));
    snapshot_in_two_sizes("confirm", |app| press(app, "jc"));
    snapshot_in_two_sizes("transcript", followed);
    snapshot_in_two_sizes("transcript_unfolded", |app| {
        followed(app);
        press(app, "tg");
    });
    snapshot_in_two_sizes("diff", with_diff);
    snapshot_in_two_sizes("issue", |app| press(app, "e"));
}

#[test]
fn workers_have_a_tab_if_there_are_any() {
    for (columns, rows) in [(80, 24), (200, 50)] {
        let mut app = app(columns, rows, 5);
        assert!(!screen_text(&app).contains("Workers"));
        press(&mut app, "6");
        assert_eq!(app.tab, Tab::Sessions);
        let mut status = status(5);
        status.sessions[4].worker = Some("gpu-1".parse().unwrap());
        status.workers = from_json(json!([
            {"name": "build-2", "state": "mismatched_version", "running": 0, "capacity": 2,
             "version": "0.1.9\u{1b}[31m"},
            {"name": "gpu-1", "labels": ["cuda", "gpu"], "state": "ready", "running": 1, "capacity": 4,
             "version": "0.2.0"},
        ]));
        send(&mut app, Msg::State(Ok(Box::new(status.clone()))));
        let text = screen_text(&app);
        assert!(
            text.contains(" 6 Workers 2") && text.contains(" on gpu-1"),
            "{text}"
        );
        press(&mut app, "6j");
        let text = screen_text(&app);
        assert!(!text.contains('\u{1b}'), "{text}");
        for row in [
            &["build-2", "mismatched version", "0", "2"][..],
            &["> gpu-1", "ready", "1", "4", "0.2.0", "cuda, gpu"],
            &["runs", "PROJ-104 implement, attempt 1, for "],
        ] {
            let has_all = |line: &&str| row.iter().all(|cell| line.contains(cell));
            assert!(text.lines().any(|line| has_all(&line)), "{row:?} in {text}");
        }
        status.workers.clear();
        send(&mut app, Msg::State(Ok(Box::new(status))));
        assert_eq!(app.tab, Tab::Sessions);
    }
}

#[test]
fn screens_of_a_failing_daemon() {
    snapshot_in_two_sizes("trouble", |app| {
        let mut status = status(2);
        status.paused = true;
        status.paused_issues = vec!["41".into()];
        status.ledger.as_mut().unwrap().error = Some("database or disk is full".to_owned());
        let pull = status.last_pull.as_mut().unwrap();
        pull.ok = false;
        pull.error = Some("`gh issue list` exited with 4".to_owned());
        pull.next_at = Some(now() + jiff::SignedDuration::from_secs(90));
        status.pulls.failed_in_a_row = 3;
        status.workflow.as_mut().unwrap().rejected = Some(from_json(json!({
            "at": now().to_string(), "more": 1,
            "diagnostics": ["workflow.yml:14:7: error: unknown agent `codx`", "workflow.yml:20:3: error: no prompt"],
        })));
        let day = status.day.as_mut().unwrap();
        day.spent.cost_usd = 21.5;
        send(app, Msg::State(Ok(Box::new(status))));
    });
    snapshot_in_two_sizes("notifier_fails", |app| {
        let mut status = status(2);
        status.notify = vec![from_json(json!({
            "name": "team", "undelivered": 3, "failures_in_a_row": 4, "failing_since": now().to_string(),
            "error": "hooks.example answered 503\u{1b}[31m Service Unavailable", "given_up": 0,
        }))];
        send(app, Msg::State(Ok(Box::new(status))));
    });
    snapshot_in_two_sizes("disconnected", |app| {
        let lost = ClientError::Connect {
            target: "/run/vik.sock".to_owned(),
            source: std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused"),
        };
        app.update(later(75), Msg::State(Err(lost)));
    });
    snapshot_in_two_sizes("failed_to_steer", |app| {
        let problem = from_json(
            json!({"type": "about:blank", "title": "Conflict", "status": 409, "code": "ledger",
            "detail": "the ledger cannot be written", "hint": "free space on the disk"}),
        );
        let action = vik_api::Action::Command(vik_core::scheduler::Command::Pause(None));
        send(
            app,
            Msg::Steered(action, Err(ClientError::Refused(Box::new(problem)))),
        );
    });
    insta::assert_snapshot!("nothing_yet", screen_text(&blank(80, 24)));
    insta::assert_snapshot!("idle", screen_text(&app(80, 24, 0)));
}

#[test]
fn screens_of_small_terminals() {
    insta::assert_snapshot!("narrow_40x10", screen_text(&app(40, 10, 5)));
    insta::assert_snapshot!("too_small_39x10", screen_text(&app(39, 10, 5)));
    insta::assert_snapshot!("too_small_10x3", screen_text(&app(10, 3, 5)));
    for (columns, rows) in [(0, 0), (1, 1), (2, 50), (200, 2)] {
        draw(&app(columns, rows, 5), true);
    }
    // The window was resized, and the event has not arrived yet.
    for app in prepared(200, 50) {
        draw_in(&app, true, (41, 11));
    }
    for app in prepared(40, 10) {
        draw_in(&app, true, (150, 40));
    }
}

#[test]
fn hostile_text_is_shown_as_text() {
    let mut status = status(3);
    status.sessions[0].issue_id = "1\x1b]0;owned\x07".into();
    status.sessions[0].issue_title = "\x1b[31mred\u{202e}txt.exe\u{202c}".to_owned();
    status.sessions[0].activity = Some("a\r\nb\u{8}\u{8}\u{7f}\u{9b}2J".to_owned());
    status.sessions[1].issue_title = "Z\u{300}\u{301}\u{302}\u{303}\u{304}\u{305}algo".to_owned();
    status.sessions[1].activity = Some("字".repeat(5_000));
    status.sessions[2].issue_title = "👨‍👩‍👧 family 🇩🇪 flag".to_owned();
    status.sessions[2].activity = Some("x".repeat(10_000));
    for (columns, rows) in [(80, 24), (200, 50)] {
        let mut app = app(columns, rows, 0);
        send(&mut app, Msg::State(Ok(Box::new(status.clone()))));
        press(&mut app, "G");
        let buffer = draw(&app, true);
        assert_clean(&buffer);
        insta::assert_snapshot!(format!("hostile_{columns}x{rows}"), text(&buffer));
    }
}

/// Asserts that no cell has a control character, or text wider than the cell.
fn assert_clean(buffer: &Buffer) {
    for cell in buffer.content() {
        let symbol = cell.symbol();
        assert!(!symbol.contains(char::is_control), "{symbol:?}");
        assert!(
            !symbol.contains(['\u{202e}', '\u{2066}', '\u{200f}', '\u{feff}']),
            "{symbol:?}"
        );
        assert!(symbol.width() <= 2 && symbol.chars().count() <= 8, "{symbol:?}");
    }
}

#[test]
fn list_builds_only_visible_rows() {
    for (columns, rows) in [(80, 24), (200, 50)] {
        let mut app = app(columns, rows, 1_000);
        press(&mut app, "jjj");
        BUILT.set(0);
        let buffer = draw(&app, true);
        assert!((5..=50).contains(&BUILT.get()), "{} rows", BUILT.get());
        insta::assert_snapshot!(format!("many_{columns}x{rows}"), text(&buffer));
        press(&mut app, "G");
        BUILT.set(0);
        let buffer = draw(&app, true);
        assert!(BUILT.get() <= 50);
        assert!(text(&buffer).contains("\n> "), "the last one is seen");
    }
}

#[test]
fn combining_marks_stay_on_their_letter() {
    let mut app = app(200, 50, 1);
    let mut status = status(1);
    status.sessions[0].issue_title = "か\u{3099}e\u{301}x".to_owned();
    send(&mut app, Msg::State(Ok(Box::new(status))));
    let buffer = draw(&app, true);
    let symbols: Vec<&str> = (11..16).map(|x| buffer[(x, 4)].symbol()).collect();
    assert_eq!(symbols, ["か\u{3099}", " ", "e\u{301}", "x", " "]);
}

fn prepared(columns: u16, rows: u16) -> Vec<App> {
    type Prepare = fn(&mut App);
    let all: [Prepare; 8] = [
        |_| {},
        |app| press(app, "2"),
        |app| press(app, "c"),
        |app| press(app, "?"),
        followed,
        with_diff,
        |app| press(app, "e"),
        |app| {
            let lost = ClientError::TimedOut {
                target: "x".to_owned(),
                seconds: 1,
            };
            send(app, Msg::State(Err(lost)));
        },
    ];
    all.iter()
        .map(|prepare| {
            let mut app = app(columns, rows, 5);
            prepare(&mut app);
            app
        })
        .collect()
}

#[test]
fn state_is_readable_without_colour() {
    for app in prepared(200, 50) {
        let buffer = draw(&app, false);
        for cell in buffer.content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
        assert_eq!(text(&buffer), screen_text(&app), "only the looks differ");
        let modifiers = buffer
            .content()
            .iter()
            .fold(Modifier::empty(), |all, cell| all | cell.modifier);
        assert!(modifiers.contains(Modifier::BOLD), "something stands out");
    }
    let buffer = draw(&app(80, 24, 5), false);
    assert!(
        buffer[(5, 4)].modifier.contains(Modifier::REVERSED),
        "the selected row"
    );
    let colored = draw(&app(80, 24, 5), true);
    assert!(colored.content().iter().any(|cell| cell.fg != Color::Reset));
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        any::<char>().prop_map(String::from),
        (0u32..0x20).prop_map(|c| char::from_u32(c).unwrap_or(' ').to_string()),
        (0x7fu32..0xa0).prop_map(|c| char::from_u32(c).unwrap_or(' ').to_string()),
        (0x2000u32..0x2070).prop_map(|c| char::from_u32(c).unwrap_or(' ').to_string()),
        Just("\u{1b}[2J".to_owned()),
        Just("漢字".to_owned()),
        Just("e\u{301}\u{200d}\u{fe0f}".to_owned()),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn sizes() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![Just((80, 24)), Just((200, 50)), (1u16..130, 1u16..60)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn view_never_prints_raw_text(text in hostile(), other in hostile(), (columns, rows) in sizes()) {
        let mut status = status(2);
        let row = &mut status.sessions[0];
        row.issue_id = text.as_str().into();
        row.issue_title.clone_from(&other);
        row.stage = other.as_str().into();
        row.agent = text.as_str().into();
        row.model = Some(other.clone());
        row.phase.clone_from(&text);
        row.activity = Some(text.clone());
        row.log = text.clone().into();
        status.parked[0].detail.clone_from(&text);
        status.parked[0].reason.clone_from(&other);
        status.waiting[0].detail.clone_from(&other);
        status.paused_issues = vec![text.as_str().into()];
        status.daemon.workflow_path = text.clone().into();
        status.daemon.version = Some(other.clone());
        status.ledger.as_mut().unwrap().error = Some(text.clone());
        let mut app = app(columns, rows, 0);
        send(&mut app, Msg::State(Ok(Box::new(status))));
        send(&mut app, Msg::Key(KeyEvent::new(KeyCode::Char('G'), KeyModifiers::NONE)));
        assert_clean(&draw(&app, true));
        let mut known = explained("x");
        known.issue_id = app.current_issue().unwrap().clone();
        known.decisions[0].detail.clone_from(&text);
        known.runs[0].attempts[0].reason = Some(other.clone());
        send(&mut app, Msg::Issue(known.issue_id.clone(), Ok(Box::new(known))));
        for keys in ["2", "3", "c", "ne", "q"] {
            for key in keys.chars() {
                send(&mut app, Msg::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)));
            }
            assert_clean(&draw(&app, true));
        }
        let mut app = self::app(columns, rows, 1);
        send(&mut app, Msg::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)));
        let ask = EventsRequest { session_id: session(0).session_id, after: 0, limit: 500 };
        let events = [
            event(1, "message", json!({"text": text})),
            event(2, "tool_call", json!({"call_id": text, "tool": other, "input": {"command": text}})),
            event(3, "tool_result", json!({"call_id": text, "is_error": true, "output": other})),
            event(4, "error", json!({"message": other, "fatal": true})),
            event(5, &text, json!({"raw": other})),
        ];
        send(&mut app, Msg::Events(ask, Ok(page(&events, 5, false))));
        assert_clean(&draw(&app, true));
        send(&mut app, Msg::Key(KeyEvent::new(KeyCode::Char('t'), KeyModifiers::NONE)));
        assert_clean(&draw(&app, false));
        send(&mut app, Msg::Key(KeyEvent::new(KeyCode::Char('d'), KeyModifiers::NONE)));
        let mut diff = diff();
        diff.files[0].path.clone_from(&text);
        diff.files[1].patch = Some(other.clone());
        diff.note = Some(text);
        send(&mut app, Msg::Diff(session(0).issue_id, Ok(diff)));
        for _ in 0..3 {
            assert_clean(&draw(&app, true));
            send(&mut app, Msg::Key(KeyEvent::new(KeyCode::Right, KeyModifiers::NONE)));
        }
    }

    #[test]
    fn keys_in_any_order_never_panic(steps in proptest::collection::vec((any::<u8>(), any::<u8>()), 0..60), (columns, rows) in sizes()) {
        let mut app = app(columns, rows, 7);
        let mut at = 0;
        for (step, more) in steps {
            at += i64::from(more % 4);
            let code = match step {
                0..=9 => KeyCode::Enter,
                10..=16 => KeyCode::Esc,
                17..=22 => KeyCode::Down,
                23..=28 => KeyCode::Up,
                29..=32 => KeyCode::PageDown,
                33..=36 => KeyCode::PageUp,
                37 => KeyCode::Home,
                38 => KeyCode::End,
                39..=41 => KeyCode::Left,
                42..=44 => KeyCode::Right,
                45 => KeyCode::Tab,
                46 => KeyCode::Backspace,
                47..=130 => KeyCode::Char(char::from(b"1234dcuepPr/sStnNgGjk?yq hl"[usize::from(more) % 26])),
                _ => KeyCode::Char(char::from(more)),
            };
            let modifiers = if step % 31 == 0 { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
            let message = match step {
                200..=206 => Msg::Tick,
                207..=210 => Msg::Resize(u16::from(more), u16::from(step % 60)),
                211..=214 => Msg::State(Ok(Box::new(status(usize::from(more % 9))))),
                215 => Msg::State(Err(ClientError::TimedOut { target: String::new(), seconds: 1 })),
                216..=218 => Msg::Issues(Ok(issues())),
                219 => Msg::Paste("y\u{1b}".to_owned()),
                _ => Msg::Key(KeyEvent::new(code, modifiers)),
            };
            let mut answers = app.update(later(at), message);
            // The daemon responds, sometimes.
            for command in answers.drain(..).filter(|_| more % 3 != 0).collect::<Vec<_>>() {
                use crate::msg::Command;
                let message = match command {
                    Command::Issue(id) => Msg::Issue(id.clone(), Ok(Box::new(explained(id.as_str())))),
                    Command::Events(ask) => Msg::Events(ask, Ok(page(&log(), 12, more % 2 == 0))),
                    Command::Diff(id) => Msg::Diff(id, Ok(diff())),
                    _ => continue,
                };
                app.update(later(at), message);
            }
            app.apply_feed();
            assert_clean(&draw(&app, step % 2 == 0));
        }
    }
}
