//! The columns of the four tables.

use std::cmp::Ordering;

use vik_api::{Explanation, ParkedView, SessionView, StageState, WaitingView};
use vik_core::ids::IssueId;

use crate::table::{CellText, Column, Look, Row, Tone, Width};
use crate::text::{cost, money_limit, natural, rough, seconds, short, span, tokens, words};

/// After so long without a word an agent is worth a look.
const QUIET_SECONDS: u64 = 300;

fn number(a: f64, b: f64) -> Ordering {
    a.total_cmp(&b)
}

fn issue_cell(issue: &IssueId, look: &Look<'_>) -> CellText {
    if look.paused.contains(issue) {
        CellText::new(format!("{issue} ||"), Tone::Warn)
    } else {
        CellText::new(issue.as_str(), Tone::Strong)
    }
}

/// What a session does now, in a few words.
pub(crate) fn doing(session: &SessionView) -> String {
    match (session.phase.as_str(), session.activity.as_deref()) {
        ("running", Some(activity)) => activity.to_owned(),
        (phase, Some(activity)) => format!("{phase}: {activity}"),
        (phase, None) => phase.to_owned(),
    }
}

/// How much of the budget of a session is used, 0 to 1; of tokens or money, what is nearer to its limit.
pub(crate) fn used(session: &SessionView) -> Option<f64> {
    let money = session
        .budget
        .usd
        .filter(|&most| most > 0.0)
        .map(|most| session.charged.cost_usd / most);
    let tokens = session
        .budget
        .tokens
        .filter(|&most| most > 0)
        .map(|most| session.charged.tokens as f64 / most as f64);
    match (money, tokens) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

/// How a share of a limit stands out.
pub(crate) fn share_tone(share: f64) -> Tone {
    match share {
        s if s >= 1.0 => Tone::Bad,
        s if s >= 0.8 => Tone::Warn,
        _ => Tone::Plain,
    }
}

fn session_cost(session: &SessionView) -> CellText {
    let known = session
        .cost_usd
        .or((session.charged.cost_usd > 0.0).then_some(session.charged.cost_usd));
    let tone = used(session).map_or(Tone::Plain, share_tone);
    match session.budget.usd {
        Some(most) => CellText::new(
            format!("{}/{}", cost(Some(known.unwrap_or(0.0))), money_limit(most)),
            tone,
        ),
        None => CellText::new(cost(known), if known.is_some() { tone } else { Tone::Faint }),
    }
}

impl Row for SessionView {
    const COLUMNS: &'static [Column<Self>] = &[
        Column {
            name: "ISSUE",
            width: Width::Fit(6, 14),
            from: 0,
            right: false,
            cell: |row, look| issue_cell(&row.issue_id, look),
            order: |a, b| natural(a.issue_id.as_str(), b.issue_id.as_str()),
        },
        Column {
            name: "TITLE",
            width: Width::Fill(12, 3),
            from: 110,
            right: false,
            cell: |row, _| CellText::plain(row.issue_title.as_str()),
            order: |a, b| a.issue_title.cmp(&b.issue_title),
        },
        Column {
            name: "STAGE",
            width: Width::Fit(5, 12),
            from: 44,
            right: false,
            cell: |row, _| CellText::new(row.stage.as_str(), Tone::Name),
            order: |a, b| a.stage.cmp(&b.stage),
        },
        Column {
            name: "AGENT",
            width: Width::Fit(5, 10),
            from: 72,
            right: false,
            cell: |row, _| CellText::plain(row.agent.as_str()),
            order: |a, b| a.agent.cmp(&b.agent),
        },
        Column {
            name: "MODEL",
            width: Width::Fit(5, 20),
            from: 150,
            right: false,
            cell: |row, _| CellText::new(row.model.as_deref().unwrap_or("-"), Tone::Faint),
            order: |a, b| a.model.cmp(&b.model),
        },
        Column {
            name: "TRY",
            width: Width::Fixed(4),
            from: 120,
            right: true,
            cell: |row, _| {
                let tone = if row.attempt > 1 { Tone::Warn } else { Tone::Faint };
                CellText::new(row.attempt.to_string(), tone)
            },
            order: |a, b| a.attempt.cmp(&b.attempt),
        },
        Column {
            name: "DOES NOW",
            width: Width::Fill(8, 4),
            from: 0,
            right: false,
            cell: |row, _| {
                let tone = if row.phase == "running" {
                    Tone::Plain
                } else {
                    Tone::Good
                };
                CellText::new(doing(row), tone)
            },
            order: |a, b| doing(a).cmp(&doing(b)),
        },
        Column {
            name: "TIME",
            width: Width::Fixed(7),
            from: 0,
            right: true,
            cell: |row, look| CellText::plain(span(seconds(row.since, look.now))),
            // The later it began, the shorter it runs.
            order: |a, b| b.since.cmp(&a.since),
        },
        Column {
            name: "HEARD",
            width: Width::Fixed(6),
            from: 60,
            right: true,
            cell: |row, look| match row.last_event_at {
                None => CellText::new("-", Tone::Faint),
                Some(at) => {
                    let ago = seconds(at, look.now);
                    let tone = if ago > QUIET_SECONDS {
                        Tone::Warn
                    } else {
                        Tone::Faint
                    };
                    CellText::new(rough(ago), tone)
                }
            },
            order: |a, b| b.last_event_at.cmp(&a.last_event_at),
        },
        Column {
            name: "EVENTS",
            width: Width::Fixed(6),
            from: 170,
            right: true,
            cell: |row, _| CellText::new(short(row.events), Tone::Faint),
            order: |a, b| a.events.cmp(&b.events),
        },
        Column {
            name: "TOKENS",
            width: Width::Fixed(7),
            from: 76,
            right: true,
            cell: |row, _| CellText::plain(tokens(row.usage.total().max(row.charged.tokens))),
            order: |a, b| {
                let total = |s: &Self| s.usage.total().max(s.charged.tokens);
                total(a).cmp(&total(b))
            },
        },
        Column {
            name: "COST",
            width: Width::Fit(5, 16),
            from: 52,
            right: true,
            cell: |row, _| session_cost(row),
            order: |a, b| {
                let cost = |s: &Self| s.cost_usd.unwrap_or(s.charged.cost_usd);
                number(cost(a), cost(b))
            },
        },
    ];
    // The longest running first.
    const SORT: Option<(usize, bool)> = Some((7, true));

    fn key(&self) -> String {
        self.session_id.clone()
    }
}

impl Row for ParkedView {
    const COLUMNS: &'static [Column<Self>] = &[
        Column {
            name: "ISSUE",
            width: Width::Fit(6, 14),
            from: 0,
            right: false,
            cell: |row, look| issue_cell(&row.issue_id, look),
            order: |a, b| natural(a.issue_id.as_str(), b.issue_id.as_str()),
        },
        Column {
            name: "STAGE",
            width: Width::Fit(5, 12),
            from: 44,
            right: false,
            cell: |row, _| CellText::new(row.stage.as_str(), Tone::Name),
            order: |a, b| a.stage.cmp(&b.stage),
        },
        Column {
            name: "SINCE",
            width: Width::Fixed(6),
            from: 50,
            right: true,
            cell: |row, look| CellText::new(span(seconds(row.since, look.now)), Tone::Faint),
            order: |a, b| b.since.cmp(&a.since),
        },
        Column {
            name: "REASON",
            width: Width::Fit(6, 18),
            from: 0,
            right: false,
            cell: |row, _| CellText::new(words(&row.reason), Tone::Warn),
            order: |a, b| a.reason.cmp(&b.reason),
        },
        Column {
            name: "DETAIL",
            width: Width::Fill(10, 3),
            from: 60,
            right: false,
            cell: |row, _| CellText::plain(row.detail.as_str()),
            order: |a, b| a.detail.cmp(&b.detail),
        },
        Column {
            name: "FREED BY",
            width: Width::Fill(12, 2),
            from: 120,
            right: false,
            cell: |row, _| CellText::new(row.freed_by.as_str(), Tone::Faint),
            order: |a, b| a.freed_by.cmp(&b.freed_by),
        },
    ];
    // The latest first: that is what is new.
    const SORT: Option<(usize, bool)> = Some((2, false));

    fn key(&self) -> String {
        format!("{}\u{1}{}", self.issue_id, self.stage)
    }
}

/// When a waiting one starts: `in 42s`, `now`, or nothing where that is not known.
pub(crate) fn starts(row: &WaitingView, look: &Look<'_>) -> String {
    match row.until {
        None => "-".to_owned(),
        Some(until) if until <= look.now => "now".to_owned(),
        Some(until) => span(seconds(look.now, until)),
    }
}

impl Row for WaitingView {
    const COLUMNS: &'static [Column<Self>] = &[
        Column {
            name: "ISSUE",
            width: Width::Fit(6, 14),
            from: 0,
            right: false,
            cell: |row, look| issue_cell(&row.issue_id, look),
            order: |a, b| natural(a.issue_id.as_str(), b.issue_id.as_str()),
        },
        Column {
            name: "STAGE",
            width: Width::Fit(5, 12),
            from: 44,
            right: false,
            cell: |row, _| CellText::new(row.stage.as_str(), Tone::Name),
            order: |a, b| a.stage.cmp(&b.stage),
        },
        Column {
            name: "STARTS",
            width: Width::Fixed(7),
            from: 0,
            right: true,
            cell: |row, look| CellText::plain(starts(row, look)),
            // What is not known stands last.
            order: |a, b| (a.until.is_none(), a.until).cmp(&(b.until.is_none(), b.until)),
        },
        Column {
            name: "TRIES",
            width: Width::Fixed(6),
            from: 60,
            right: true,
            cell: |row, _| CellText::new(row.attempts.to_string(), Tone::Faint),
            order: |a, b| a.attempts.cmp(&b.attempts),
        },
        Column {
            name: "WAITS FOR",
            width: Width::Fit(9, 18),
            from: 0,
            right: false,
            cell: |row, _| CellText::new(words(&row.reason), Tone::Warn),
            order: |a, b| a.reason.cmp(&b.reason),
        },
        Column {
            name: "DETAIL",
            width: Width::Fill(10, 1),
            from: 60,
            right: false,
            cell: |row, _| CellText::plain(row.detail.as_str()),
            order: |a, b| a.detail.cmp(&b.detail),
        },
    ];
    const SORT: Option<(usize, bool)> = Some((2, false));

    fn key(&self) -> String {
        format!("{}\u{1}{}", self.issue_id, self.stage)
    }
}

/// Where an issue stands, in one word, and how that stands out. The busiest stage decides.
pub(crate) fn stand(issue: &Explanation) -> (&'static str, Tone) {
    let has = |state| issue.stages.iter().any(|stage| stage.state == state);
    if has(StageState::Running) {
        ("running", Tone::Good)
    } else if issue.paused {
        ("paused", Tone::Warn)
    } else if has(StageState::Ready) {
        ("ready", Tone::Good)
    } else if has(StageState::Waiting) {
        ("waiting", Tone::Plain)
    } else if has(StageState::Held) {
        ("held", Tone::Warn)
    } else if !issue.present {
        ("gone", Tone::Faint)
    } else {
        ("idle", Tone::Faint)
    }
}

/// The name of a stage's state.
pub(crate) fn stage_state(state: StageState) -> (&'static str, Tone) {
    match state {
        StageState::Running => ("running", Tone::Good),
        StageState::Ready => ("ready", Tone::Good),
        StageState::Waiting => ("waiting", Tone::Plain),
        StageState::Held => ("held", Tone::Warn),
    }
}

fn stages(issue: &Explanation) -> String {
    let names: Vec<&str> = issue.stages.iter().map(|stage| stage.stage.as_str()).collect();
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(" ")
    }
}

fn held_by(issue: &Explanation) -> String {
    let stage = issue.stages.iter().find_map(|stage| stage.hold.as_ref());
    match issue.hold.as_ref().or(stage) {
        None => String::new(),
        Some(hold) if hold.detail.is_empty() => words(&hold.reason),
        Some(hold) => hold.detail.clone(),
    }
}

impl Row for Explanation {
    const COLUMNS: &'static [Column<Self>] = &[
        Column {
            name: "ISSUE",
            width: Width::Fit(6, 14),
            from: 0,
            right: false,
            cell: |row, _| CellText::new(row.issue_id.as_str(), Tone::Strong),
            order: |a, b| natural(a.issue_id.as_str(), b.issue_id.as_str()),
        },
        Column {
            name: "STATE",
            width: Width::Fit(5, 14),
            from: 50,
            right: false,
            cell: |row, _| CellText::plain(row.issue_state.as_str()),
            order: |a, b| a.issue_state.cmp(&b.issue_state),
        },
        Column {
            name: "NOW",
            width: Width::Fixed(7),
            from: 0,
            right: false,
            cell: |row, _| {
                let (name, tone) = stand(row);
                CellText::new(name, tone)
            },
            order: |a, b| stand(a).0.cmp(stand(b).0),
        },
        Column {
            name: "TITLE",
            width: Width::Fill(12, 3),
            from: 0,
            right: false,
            cell: |row, _| CellText::plain(row.issue_title.as_str()),
            order: |a, b| a.issue_title.cmp(&b.issue_title),
        },
        Column {
            name: "STAGES",
            width: Width::Fit(6, 16),
            from: 90,
            right: false,
            cell: |row, _| CellText::new(stages(row), Tone::Name),
            order: |a, b| stages(a).cmp(&stages(b)),
        },
        Column {
            name: "HELD BY",
            width: Width::Fill(14, 3),
            from: 110,
            right: false,
            cell: |row, _| CellText::plain(held_by(row)),
            order: |a, b| held_by(a).cmp(&held_by(b)),
        },
        Column {
            name: "TRIES",
            width: Width::Fixed(6),
            from: 64,
            right: true,
            cell: |row, _| CellText::plain(row.life.attempts.to_string()),
            order: |a, b| a.life.attempts.cmp(&b.life.attempts),
        },
        Column {
            name: "TOKENS",
            width: Width::Fixed(7),
            from: 100,
            right: true,
            cell: |row, _| CellText::plain(tokens(row.life.spent.tokens)),
            order: |a, b| a.life.spent.tokens.cmp(&b.life.spent.tokens),
        },
        Column {
            name: "COST",
            width: Width::Fit(5, 16),
            from: 56,
            right: true,
            cell: |row, _| {
                let spent = cost(Some(row.life.spent.cost_usd));
                match row.life.limit.usd {
                    None => CellText::plain(spent),
                    Some(most) => {
                        let tone = if most > 0.0 {
                            share_tone(row.life.spent.cost_usd / most)
                        } else {
                            Tone::Bad
                        };
                        CellText::new(format!("{spent}/{}", money_limit(most)), tone)
                    }
                }
            },
            order: |a, b| number(a.life.spent.cost_usd, b.life.spent.cost_usd),
        },
    ];
    const SORT: Option<(usize, bool)> = Some((0, false));

    fn key(&self) -> String {
        self.issue_id.as_str().to_owned()
    }
}
