mod steering;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use vik_api::{Action, Fact, FeedEvent, Problem, Steered};

use super::*;
use crate::fixtures::*;
use crate::msg::EventsRequest;

fn press(app: &mut App, code: KeyCode) -> Vec<Command> {
    send(app, Msg::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn control(app: &mut App, c: char) -> Vec<Command> {
    send(
        app,
        Msg::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)),
    )
}

fn type_keys(app: &mut App, keys: &str) -> Vec<Command> {
    keys.chars()
        .flat_map(|key| press(app, KeyCode::Char(key)))
        .collect()
}

fn steer(action: impl Into<Action>) -> Vec<Command> {
    vec![Command::Steer(action.into())]
}

/// Removes the requests for the selected issue.
fn without_issue(commands: Vec<Command>) -> Vec<Command> {
    commands
        .into_iter()
        .filter(|command| !matches!(command, Command::Issue(_)))
        .collect()
}

fn refused(detail: &str, hint: &str) -> ClientError {
    let error = vik_api::ErrorBody {
        code: "ledger".to_owned(),
        message: detail.to_owned(),
        hint: Some(hint.to_owned()),
    };
    ClientError::Refused(Box::new(Problem::new(409, "Conflict", error)))
}

#[test]
fn tabs_and_rows_are_selected_by_keys() {
    let mut app = app(80, 24, 5);
    for (key, tab) in ['1', '2', '3', '4', '5'].into_iter().zip(Tab::ALL) {
        type_keys(&mut app, &key.to_string());
        assert_eq!(app.tab, tab);
    }
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.tab, Tab::Sessions);
    press(&mut app, KeyCode::BackTab);
    assert_eq!(app.tab, Tab::Approvals);
    press(&mut app, KeyCode::Right);

    type_keys(&mut app, "jjj");
    assert_eq!(app.sessions.selected(), 3);
    press(&mut app, KeyCode::Up);
    assert_eq!(app.sessions.selected(), 2);
    for (code, place) in [
        (KeyCode::Char('G'), 4),
        (KeyCode::Char('g'), 0),
        (KeyCode::End, 4),
        (KeyCode::Home, 0),
        (KeyCode::PageDown, 4),
        (KeyCode::PageUp, 0),
        (KeyCode::Char(' '), 4),
        (KeyCode::Char('k'), 3),
    ] {
        press(&mut app, code);
        assert_eq!(app.sessions.selected(), place, "{code:?}");
    }
    control(&mut app, 'b');
    assert_eq!(app.sessions.selected(), 0);
    control(&mut app, 'd');
    assert!(app.sessions.selected() > 0);
    control(&mut app, 'u');
    assert_eq!(app.sessions.selected(), 0);
    control(&mut app, 'f');
    assert_eq!(app.sessions.selected(), 4);
    assert_eq!(without_issue(control(&mut app, 'l')), [Command::Redraw]);
    // A letter with Control or Alt is another key.
    assert_eq!(without_issue(control(&mut app, 'p')), []);
    let alt = KeyEvent::new(KeyCode::Char('p'), KeyModifiers::ALT);
    assert_eq!(without_issue(send(&mut app, Msg::Key(alt))), []);
}

#[test]
fn selection_survives_new_data() {
    let mut app = app(80, 24, 5);
    type_keys(&mut app, "jj");
    let id = app.sessions.current().unwrap().session_id.clone();
    let mut other = status(9);
    other.sessions.rotate_left(4);
    send(&mut app, Msg::State(Ok(Box::new(other))));
    assert_eq!(app.sessions.current().unwrap().session_id, id);
    assert_eq!(
        app.sessions.selected(),
        6,
        "four longer running ones came before it"
    );
    // The row was removed: the row in its place is selected, and followed from then on.
    let mut without = status(9);
    without.sessions.retain(|session| session.session_id != id);
    send(&mut app, Msg::State(Ok(Box::new(without))));
    assert_eq!(app.sessions.selected(), 6);
    assert_ne!(app.sessions.current().unwrap().session_id, id);
    send(&mut app, Msg::State(Ok(Box::new(status(0)))));
    assert!(app.sessions.current().is_none());
}

#[test]
fn sort_cycles_through_visible_columns() {
    let mut app = app(80, 24, 5);
    let name = |app: &App| <SessionView as Row>::COLUMNS[app.sessions.sort.0].name;
    assert_eq!((name(&app), app.sessions.sort.1), ("TIME", true));
    let mut seen = Vec::new();
    for _ in 0..8 {
        type_keys(&mut app, "s");
        seen.push(name(&app));
    }
    assert_eq!(
        seen,
        [
            "IDLE", "TOKENS", "COST", "ISSUE", "STAGE", "AGENT", "ACTIVITY", "TIME"
        ]
    );
    type_keys(&mut app, "ssss");
    assert_eq!(name(&app), "ISSUE");
    let ids = |app: &App| -> Vec<String> {
        (0..5)
            .map(|at| app.sessions.row_at(at).unwrap().issue_id.to_string())
            .collect()
    };
    assert_eq!(ids(&app), ["41", "43", "PROJ-100", "PROJ-102", "PROJ-104"]);
    type_keys(&mut app, "S");
    assert_eq!(ids(&app), ["PROJ-104", "PROJ-102", "PROJ-100", "43", "41"]);
}

#[test]
fn filter_is_live_and_matches_every_column() {
    let mut app = app(80, 24, 5);
    type_keys(&mut app, "/");
    assert!(matches!(app.mode, Mode::Filter(_)));
    type_keys(&mut app, "CLAUDE");
    assert_eq!(app.sessions.shown(), 2);
    // A column that is hidden at 80 columns, and a second term.
    type_keys(&mut app, " backwards");
    assert_eq!(app.sessions.shown(), 1);
    control(&mut app, 'w');
    assert_eq!(app.filter, "CLAUDE ");
    press(&mut app, KeyCode::Enter);
    assert_eq!((app.mode.clone(), app.sessions.shown()), (Mode::Normal, 2));
    // Letters are keys again.
    assert_eq!(type_keys(&mut app, "r"), steer(Action::Refresh));
    type_keys(&mut app, "/x");
    assert_eq!(app.sessions.shown(), 0);
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.filter, "CLAUDE ", "as it was before");
    assert!(without_issue(press(&mut app, KeyCode::Esc)).is_empty());
    assert_eq!((app.filter.as_str(), app.sessions.shown()), ("", 5));
    type_keys(&mut app, "/");
    send(&mut app, Msg::Paste("vex\ny".to_owned()));
    assert_eq!(app.filter, "vex y");
    control(&mut app, 'u');
    press(&mut app, KeyCode::Backspace);
    assert_eq!(app.filter, "");
    assert_eq!(press(&mut app, KeyCode::Esc), []);
}

#[test]
fn quit_keys_leave_the_dashboard() {
    let mut app = app(80, 24, 5);
    assert_eq!(type_keys(&mut app, "q"), [Command::Quit]);
    assert_eq!(press(&mut app, KeyCode::Esc), [Command::Quit]);
    type_keys(&mut app, "?");
    assert_eq!(app.mode, Mode::Help(0));
    press(&mut app, KeyCode::Down);
    assert_eq!(app.mode, Mode::Help(1));
    press(&mut app, KeyCode::PageDown);
    assert_eq!(app.mode, Mode::Help(crate::view::help_scroll((80, 24))));
    assert_eq!(type_keys(&mut app, "q"), [], "closes the help, and no more");
    for before in ["", "/", "c", "?"] {
        type_keys(&mut app, before);
        assert_eq!(control(&mut app, 'c'), [Command::Quit], "after `{before}`");
        app.mode = Mode::Normal;
    }
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.screens.len(), 1);
    assert_eq!(type_keys(&mut app, "d"), [Command::Diff(session(4).issue_id)]);
    assert_eq!(app.screens.len(), 2);
    press(&mut app, KeyCode::Esc);
    assert!(matches!(app.screens.last(), Some(Screen::Transcript(_))));
    type_keys(&mut app, "q");
    assert!(app.screens.is_empty());
    assert_eq!(press(&mut app, KeyCode::F(1)), []);
    assert_eq!(app.mode, Mode::Help(0));
}

/// Returns the request for events of the selected session.
fn events_request(after: u64) -> EventsRequest {
    EventsRequest {
        session_id: session(4).session_id,
        after,
        limit: 500,
    }
}

/// Answers a request for events of the selected session.
fn answer_events(app: &mut App, after: u64, events: &[serde_json::Value], last: u64) -> Vec<Command> {
    let page = page(events, last, false);
    send(app, Msg::Events(events_request(after), Ok(page)))
}

fn transcript(app: &App) -> &Transcript {
    match app.screens.last() {
        Some(Screen::Transcript(screen)) => screen,
        _ => panic!("no session is followed"),
    }
}

fn messages(seqs: std::ops::RangeInclusive<u64>) -> Vec<serde_json::Value> {
    seqs.map(|seq| event(seq, "message", json!({"text": format!("message {seq}")})))
        .collect()
}

#[test]
fn transcript_follows_a_session() {
    let mut app = app(80, 24, 5);
    // The log has 1,204 events: its end is requested.
    let commands = press(&mut app, KeyCode::Enter);
    assert_eq!(commands, [Command::Events(events_request(704))]);
    assert_eq!(answer_events(&mut app, 704, &messages(705..=1_204), 1_204), []);
    let screen = transcript(&app);
    assert!(screen.tail && screen.scroll.at_end() && screen.scroll.top > 0);

    // New events are requested, and the end stays visible.
    assert_eq!(
        app.update(later(1), Msg::Tick),
        [Command::Events(events_request(1_204))]
    );
    assert_eq!(app.update(later(1), Msg::Tick), [], "one request at a time");
    answer_events(&mut app, 1_204, &messages(1_205..=1_210), 1_210);
    assert!(transcript(&app).scroll.at_end());
    assert_eq!(transcript(&app).events(), 506);

    // After scrolling up it keeps its position.
    press(&mut app, KeyCode::PageUp);
    let top = transcript(&app).scroll.top;
    send(&mut app, Msg::Tick);
    answer_events(&mut app, 1_210, &messages(1_211..=1_300), 1_300);
    assert_eq!(transcript(&app).scroll.top, top);
    type_keys(&mut app, "G");
    assert!(transcript(&app).tail);

    // At the top earlier events are loaded, and the same line stays at the top.
    assert_eq!(type_keys(&mut app, "g"), [Command::Events(events_request(204))]);
    // The pieces of a line are its time, its mark and its text.
    let line = |app: &App| transcript(app).lines[transcript(app).scroll.top][2].text.clone();
    let before = transcript(&app).lines[0].clone();
    answer_events(&mut app, 204, &messages(205..=704), 1_300);
    let screen = transcript(&app);
    assert_eq!(screen.scroll.top, 500, "{}", line(&app));
    assert_eq!(
        screen.lines[500].last().unwrap().text,
        before.last().unwrap().text
    );
    assert_eq!(screen.first_seq(), 205);

    // A log that has ended is not requested again.
    type_keys(&mut app, "G");
    send(&mut app, Msg::Tick);
    let end = vec![event(
        1_301,
        "ended",
        json!({"outcome": "succeeded", "duration_ms": 61_000}),
    )];
    send(
        &mut app,
        Msg::Events(events_request(1_300), Ok(page(&end, 1_301, true))),
    );
    assert!(transcript(&app).ended);
    assert_eq!(without_issue(app.update(now(), Msg::Tick)), []);
}

#[test]
fn transcript_of_unknown_length_is_read_from_its_end() {
    let mut app = app(80, 24, 5);
    type_keys(&mut app, "2");
    answer_issue(&mut app);
    press(&mut app, KeyCode::Enter);
    assert!(matches!(app.screens.last(), Some(Screen::Issue(_))));
    let commands = press(&mut app, KeyCode::Enter);
    let latest = EventsRequest {
        session_id: "0198a7c2-2222-7000-8000-000000000002".to_owned(),
        after: 0,
        limit: 500,
    };
    assert_eq!(commands, [Command::Events(latest.clone())]);
    let commands = send(
        &mut app,
        Msg::Events(latest.clone(), Ok(page(&messages(1..=500), 9_000, true))),
    );
    let end = EventsRequest {
        after: 8_500,
        ..latest
    };
    assert_eq!(commands, [Command::Events(end.clone())]);
    send(
        &mut app,
        Msg::Events(end, Ok(page(&messages(8_501..=9_000), 9_000, true))),
    );
    assert_eq!(
        (transcript(&app).first_seq(), transcript(&app).ended),
        (8_501, true)
    );
}

#[test]
fn transcript_joins_and_folds_tool_calls() {
    let mut app = app(80, 24, 5);
    press(&mut app, KeyCode::Enter);
    answer_events(&mut app, 704, &log(), 12);
    let folded = transcript(&app).lines.len();
    type_keys(&mut app, "t");
    assert!(transcript(&app).unfolded && transcript(&app).lines.len() > folded);
    type_keys(&mut app, "t");
    assert_eq!(transcript(&app).lines.len(), folded);
    // The result of an earlier call is added to it.
    send(&mut app, Msg::Tick);
    let result = vec![event(
        13,
        "tool_result",
        json!({"call_id": "c", "is_error": false, "output": "fine"}),
    )];
    answer_events(&mut app, 12, &result, 13);
    let last = transcript(&app).lines.last().unwrap();
    assert_eq!(last.last().unwrap().text, "ok, 1 line");
    // A page that cannot be decoded is requested again.
    send(&mut app, Msg::Tick);
    let error = refused("no", "wait");
    send(&mut app, Msg::Events(events_request(13), Err(error)));
    assert_eq!(
        app.update(now(), Msg::Tick),
        [Command::Events(events_request(13))]
    );
}

#[test]
fn diff_keys_move_between_files() {
    let mut app = app(80, 14, 5);
    type_keys(&mut app, "d");
    let id = session(4).issue_id;
    send(&mut app, Msg::Diff(id.clone(), Ok(diff())));
    let screen = |app: &App| match app.screens.last() {
        Some(Screen::Diff(screen)) => (screen.scroll.top, screen.skip, screen.loading),
        _ => panic!("no diff"),
    };
    assert_eq!(screen(&app), (0, 0, false));
    type_keys(&mut app, "n");
    let (second, ..) = screen(&app);
    assert!(second > 0);
    type_keys(&mut app, "N");
    assert_eq!(screen(&app).0, 0);
    press(&mut app, KeyCode::Right);
    type_keys(&mut app, "l");
    assert_eq!(screen(&app).1, 16);
    press(&mut app, KeyCode::Left);
    type_keys(&mut app, "hh");
    assert_eq!(screen(&app).1, 0);
    type_keys(&mut app, "G");
    assert!(screen(&app).0 > 0);
    assert_eq!(type_keys(&mut app, "d"), [Command::Diff(id.clone())]);
    assert!(screen(&app).2);
    assert_eq!(
        type_keys(&mut app, "r"),
        [Command::Steer(Action::Refresh), Command::Diff(id)]
    );
}

#[test]
fn feed_events_reload_the_state_at_a_limited_rate() {
    let mut app = app(80, 24, 5);
    let fact =
        |case| from_json(json!({"at": now().to_string(), "type": "issue", "issue_id": "7", "what": case}));
    // The state was just loaded: a second later is soon enough.
    assert_eq!(send(&mut app, Msg::Feed(Some(fact("parked")))), []);
    assert_eq!(send(&mut app, Msg::Feed(None)), []);
    assert_eq!(app.update(later(1), Msg::Tick), [Command::State]);
    assert_eq!(app.update(later(1), Msg::Feed(None)), [], "one is under way");
    app.update(later(3), Msg::State(Ok(Box::new(status(5)))));
    assert!(
        app.update(later(4), Msg::Tick).contains(&Command::State),
        "for what came meanwhile"
    );
    app.update(later(4), Msg::State(Ok(Box::new(status(5)))));
    assert!(app.update(later(6), Msg::FeedOpen).contains(&Command::State));
    app.update(later(6), Msg::State(Ok(Box::new(status(5)))));
    // With a feed the poll is slow, without one it is not.
    assert!(!app.update(later(9), Msg::Tick).contains(&Command::State));
    app.update(later(9), Msg::FeedLost);
    assert!(app.update(later(9), Msg::Tick).contains(&Command::State));
}

#[test]
fn feed_sessions_are_shown_without_a_request() {
    let mut app = app(80, 24, 5);
    let mut updated = session(2);
    updated.activity = Some("Bash: cargo doc".to_owned());
    let fact = |session: &SessionView| FeedEvent {
        at: now(),
        fact: Fact::Session(Box::new(session.clone())),
    };
    assert_eq!(send(&mut app, Msg::Feed(Some(fact(&updated)))), []);
    send(&mut app, Msg::Feed(Some(fact(&session(7)))));
    app.apply_feed();
    assert_eq!(app.sessions.total(), 6);
    assert_eq!(
        app.session(&updated.session_id).unwrap().activity.as_deref(),
        Some("Bash: cargo doc")
    );
}

#[test]
fn lost_connection_is_shown_and_retried() {
    let mut app = app(80, 24, 5);
    let lost = || ClientError::TimedOut {
        target: "/run/vik.sock".to_owned(),
        seconds: 10,
    };
    app.update(later(12), Msg::State(Err(lost())));
    assert_eq!(app.stale_seconds(), Some(12));
    assert_eq!(app.sessions.total(), 5, "what was known stays");
    assert_eq!(app.update(later(14), Msg::Tick), [Command::State]);
    app.update(later(15), Msg::State(Ok(Box::new(status(5)))));
    assert_eq!((app.stale_seconds(), app.connection_error.clone()), (None, None));
}

#[test]
fn issues_load_page_by_page() {
    let mut app = app(80, 24, 5);
    let commands = without_issue(type_keys(&mut app, "4"));
    assert_eq!(commands, [Command::Issues(None)]);
    let mut first = issues();
    first.next = Some("46".into());
    first.total = 34;
    let commands = without_issue(send(&mut app, Msg::Issues(Ok(first))));
    assert_eq!(commands, [Command::Issues(Some("46".into()))]);
    send(&mut app, Msg::Issues(Ok(issues())));
    assert_eq!(app.issues.total(), 34);
    // A daemon that announces more and sends nothing is not asked for ever.
    app.update(later(10), Msg::State(Ok(Box::new(status(5)))));
    let mut empty = issues();
    empty.issues.clear();
    empty.next = Some("46".into());
    assert_eq!(without_issue(app.update(later(10), Msg::Issues(Ok(empty)))), []);
}
