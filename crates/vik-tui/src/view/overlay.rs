//! The last line, the confirmation, and the help.

use ratatui::layout::Rect;
use vik_api::Action;
use vik_core::scheduler::Command;

use super::paint::{Paint, side_by_side};
use crate::action::command_text;
use crate::app::{App, Mode, Screen, ScreenLayout, Tab};
use crate::table::{CellText, Tone};
use crate::text::{fit_end, width, wrap};

/// The keys; an empty key is a heading.
const KEYS: &[(&str, &str)] = &[
    ("", "Everywhere"),
    ("↑ ↓ j k", "move one row or line"),
    (
        "PgUp PgDn space",
        "move one page (also ^B ^F; half a page: ^U ^D)",
    ),
    ("g G Home End", "move to the first or last row"),
    ("c", "cancel the issue: stop its agents and park it (asks first)"),
    (
        "T",
        "take the issue over from its agent, or hand it back (asks first)",
    ),
    ("R", "retry the parked stages of the issue (also u)"),
    (
        "m",
        "send a message to the agent of the issue (Tab: interrupt it)",
    ),
    (
        "A",
        "answer the question of the agent: a text, or the number of a choice",
    ),
    ("a x", "approve or deny the request, with a message for the agent"),
    ("p", "pause or resume all issues"),
    ("P", "pause or resume this issue"),
    ("r", "reload the workflow and pull the issues now"),
    ("d", "show the diff of the issue"),
    ("e", "show the issue: stages, runs, decisions"),
    ("?", "show these keys"),
    ("q Esc", "go back; quit from a list (Esc clears a filter first)"),
    ("^C ^L", "quit; redraw the screen"),
    ("", "Lists"),
    (
        "1 2 3 4 5 6 Tab",
        "sessions, parked, waiting, issues, approvals, workers",
    ),
    ("Enter", "follow the session, or show the issue"),
    ("/", "filter by text in any column"),
    ("s S", "sort by the next column; reverse the order"),
    ("", "Session"),
    ("t", "fold or unfold tool calls and thoughts"),
    ("g", "go to the top and load earlier events"),
    ("G", "go to the end and follow"),
    ("", "Diff"),
    ("n N", "go to the next or previous file"),
    ("← → h l", "scroll sideways"),
    ("d r", "reload the diff"),
    ("", "Issue"),
    ("Enter", "follow the latest session"),
];

/// Returns the area of the help in a terminal of this size.
fn help_area(columns: u16, rows: u16) -> Rect {
    let (width, height) = (columns.min(84), rows.min(KEYS.len() as u16 + 2));
    Rect::new((columns - width) / 2, (rows - height) / 2, width, height)
}

/// Returns the maximum scroll position of the help.
pub(crate) fn help_scroll((columns, rows): (u16, u16)) -> usize {
    let inner = usize::from(help_area(columns, rows).height.saturating_sub(2));
    KEYS.len().saturating_sub(inner)
}

pub(super) fn help(top: usize, area: Rect, paint: &mut Paint<'_>) {
    let frame = help_area(area.width, area.height);
    let last = help_scroll((area.width, area.height));
    let name = match last {
        0 => "Keys (any key closes)",
        _ => "Keys (↑ ↓ scroll, any other key closes)",
    };
    let inner = paint.frame(frame, name);
    for (y, (key, description)) in (inner.top()..inner.bottom()).zip(KEYS.iter().skip(top.min(last))) {
        if key.is_empty() {
            paint.tone(inner.x, y, inner.width, description, Tone::Strong);
        } else {
            let lead = if inner.width >= 60 { 17 } else { 9 };
            paint.tone(inner.x + 1, y, lead, key, Tone::Name);
            paint.tone(
                inner.x + 1 + lead,
                y,
                inner.width.saturating_sub(lead + 1),
                description,
                Tone::Plain,
            );
        }
    }
}

pub(super) fn confirm(app: &App, action: &Action, area: Rect, paint: &mut Paint<'_>) {
    let columns = area.width.saturating_sub(4).min(64);
    let inside = usize::from(columns.saturating_sub(4));
    // Texts with the maximum number of their lines.
    let mut texts = Vec::new();
    if let Action::Command(Command::Cancel(issue)) = action {
        texts.push((format!("Cancel {issue}?"), Tone::Strong, 2));
        let title = app.title_of(issue);
        texts.extend(title.map(|title| (title.to_owned(), Tone::Plain, 2)));
        let running = app
            .sessions
            .rows()
            .iter()
            .filter(|row| row.issue_id == *issue)
            .count();
        let description = match running {
            0 => "No agent is running for it. It will be parked.".to_owned(),
            1 => "The running agent of the issue is stopped, and the issue is parked.".to_owned(),
            many => format!("The {many} running agents of the issue are stopped, and the issue is parked."),
        };
        texts.extend([("\n".to_owned(), Tone::Plain, 1), (description, Tone::Plain, 3)]);
    } else if let Some((question, description)) = takeover_texts(action) {
        texts.extend([(question, Tone::Strong, 4), (description, Tone::Plain, 4)]);
    }
    let mut lines = Vec::new();
    for (text, tone, max) in texts {
        lines.extend(wrap(&text, inside, max).0.into_iter().map(|line| (line, tone)));
    }
    if lines.is_empty() {
        lines.push((format!("Really {}?", command_text(action)), Tone::Strong));
    }
    lines.push((String::new(), Tone::Plain));
    lines.push(("y yes    n no".to_owned(), Tone::Warn));
    let height = (lines.len() as u16 + 2).min(area.height);
    let frame = Rect::new(
        (area.width - columns) / 2,
        area.height.saturating_sub(height) / 2,
        columns,
        height,
    );
    let inner = paint.frame(frame, "Sure?");
    for (y, (line, tone)) in (inner.top()..inner.bottom()).zip(&lines) {
        paint.tone(inner.x, y, inner.width, line, *tone);
    }
}

/// Returns the question and the consequences of taking an issue over or handing it back.
fn takeover_texts(action: &Action) -> Option<(String, String)> {
    match action {
        Action::Command(Command::TakeOver(request)) => Some((
            format!("Take {} over?", request.issue),
            "Its agent is stopped, which uses up no attempt, and nothing of the issue starts until you hand \
             it back. Open its session with `vik takeover`."
                .to_owned(),
        )),
        Action::HandBack { issue, .. } => Some((
            format!("Hand {issue} back?"),
            "What you changed is recorded, and its next attempt gets the list. `vik handback -m` adds a \
             message."
                .to_owned(),
        )),
        _ => None,
    }
}

/// Draws the last line. Returns the column of the cursor if text is being edited.
pub(super) fn last_line(app: &App, rows: &ScreenLayout, paint: &mut Paint<'_>) -> Option<u16> {
    let (y, columns) = (rows.last_row, app.size.0);
    let room = columns.saturating_sub(2);
    let edited = match &app.mode {
        Mode::Filter(_) => {
            let help = "  Enter to keep, Esc to cancel";
            Some(("/ ".to_owned(), app.filter.clone(), help))
        }
        Mode::Answer(yes, approval, text) => {
            let verb = if *yes { "approve" } else { "deny" };
            let lead = format!("{verb} {}, message: ", approval.issue_id);
            Some((lead, text.clone(), "  Enter to send, Esc to cancel"))
        }
        Mode::Question(question, text) => {
            let lead = format!("answer {}: ", question.issue_id);
            Some((lead, text.clone(), "  Enter to send, Esc to cancel"))
        }
        Mode::Message(message) => {
            let verb = if message.interrupt {
                "interrupt"
            } else {
                "message to"
            };
            let lead = format!("{verb} {}: ", message.issue);
            let help = "  Enter to send, Tab to interrupt or not, Esc to cancel";
            Some((lead, message.text.replace('\n', " "), help))
        }
        _ => None,
    };
    if let Some((lead, text, help)) = edited {
        let space = usize::from(room)
            .saturating_sub(1 + width(&lead) + width(help))
            .max(10);
        let shown = fit_end(&text, space);
        let mut x = 1 + paint.tone(1, y, room, &lead, Tone::Strong);
        x += paint.tone(x, y, columns.saturating_sub(x + 1), &shown, Tone::Plain);
        paint.tone(x + 1, y, columns.saturating_sub(x + 2), help, Tone::Faint);
        return Some(x.min(columns.saturating_sub(1)));
    }
    if let Some(notice) = &app.notice {
        let tone = if notice.is_error { Tone::Bad } else { Tone::Good };
        paint.tone(1, y, room, &notice.text, tone);
        return None;
    }
    let is_unfolded = matches!(app.screens.last(), Some(Screen::Transcript(screen)) if screen.unfolded);
    let parts = hints(app)
        .iter()
        .map(|&(rank, key, description)| {
            let paused = match key {
                "p" => app.status.as_ref().is_some_and(|status| status.paused),
                "P" => app
                    .current_issue()
                    .is_some_and(|issue| app.paused_issues().contains(issue)),
                _ => false,
            };
            let description = match key {
                "p" if paused => "resume",
                "P" if paused => "resume issue",
                "t" if is_unfolded => "fold",
                _ => description,
            };
            let pieces = vec![
                CellText::new(key, Tone::Strong),
                CellText::new(format!(" {description}"), Tone::Faint),
            ];
            (rank, pieces)
        })
        .collect();
    let line = side_by_side(usize::from(room), parts);
    paint.line(1, y, room, &line);
    None
}

/// Returns the keys of the current mode. Those with the greatest number are left out first.
fn hints(app: &App) -> &'static [(u8, &'static str, &'static str)] {
    match app.screens.last() {
        Some(Screen::Transcript(_)) => &[
            (0, "q", "back"),
            (1, "t", "unfold"),
            (2, "g G", "top, end"),
            (1, "d", "diff"),
            (3, "e", "issue"),
            (2, "m", "message"),
            (2, "c", "cancel"),
            (4, "P", "pause issue"),
            (0, "?", "help"),
        ],
        Some(Screen::Diff(_)) => &[
            (0, "q", "back"),
            (1, "n N", "next, previous file"),
            (2, "←→", "sideways"),
            (3, "g G", "top, end"),
            (1, "r", "reload"),
            (0, "?", "help"),
        ],
        Some(Screen::Issue(_)) => &[
            (0, "q", "back"),
            (1, "enter", "latest session"),
            (1, "d", "diff"),
            (2, "m", "message"),
            (2, "c", "cancel"),
            (2, "R", "retry"),
            (3, "P", "pause issue"),
            (0, "?", "help"),
        ],
        None if app.tab == Tab::Approvals => &[
            (0, "a", "approve"),
            (0, "x", "deny"),
            (1, "d", "diff"),
            (1, "enter", "issue"),
            (2, "c", "cancel"),
            (7, "P", "pause issue"),
            (4, "/", "filter"),
            (5, "s", "sort"),
            (0, "?", "help"),
            (0, "q", "quit"),
        ],
        None if app.tab == Tab::Sessions => &[
            (0, "enter", "follow"),
            (1, "d", "diff"),
            (1, "m", "message"),
            (1, "c", "cancel"),
            (6, "e", "issue"),
            (2, "p", "pause"),
            (7, "P", "pause issue"),
            (2, "/", "filter"),
            (3, "s", "sort"),
            (5, "r", "refresh"),
            (0, "?", "help"),
            (0, "q", "quit"),
        ],
        None if app.tab == Tab::Workers => &[
            (2, "p", "pause"),
            (2, "/", "filter"),
            (3, "s", "sort"),
            (5, "r", "refresh"),
            (0, "?", "help"),
            (0, "q", "quit"),
        ],
        None => &[
            (0, "enter", "issue"),
            (1, "R", "retry"),
            (3, "d", "diff"),
            (1, "c", "cancel"),
            (2, "p", "pause"),
            (7, "P", "pause issue"),
            (2, "/", "filter"),
            (3, "s", "sort"),
            (5, "r", "refresh"),
            (0, "?", "help"),
            (0, "q", "quit"),
        ],
    }
}
