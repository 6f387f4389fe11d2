//! The columns of the sessions.

use vik_api::SessionView;
use vik_text::{cost, short, tokens};

use super::{activity, budget_share, compare_numbers, issue_cell, share_tone};
use crate::table::{CellText, Column, Row, Tone, Width};
use crate::text::{duration, money_limit, natural_order, seconds_between, short_duration};

/// After this time without output a session is highlighted.
const QUIET_SECONDS: u64 = 300;

fn session_cost(session: &SessionView) -> CellText {
    let known = session
        .cost_usd
        .or((session.charged.cost_usd > 0.0).then_some(session.charged.cost_usd));
    let tone = budget_share(session).map_or(Tone::Plain, share_tone);
    match session.budget.usd {
        Some(limit) => CellText::new(
            format!("{}/{}", cost(Some(known.unwrap_or(0.0))), money_limit(limit)),
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
            min_terminal_width: 0,
            right: false,
            cell: |row, context| issue_cell(&row.issue_id, context),
            order: |a, b| natural_order(a.issue_id.as_str(), b.issue_id.as_str()),
        },
        Column {
            name: "TITLE",
            width: Width::Fill(12, 3),
            min_terminal_width: 110,
            right: false,
            cell: |row, _| CellText::plain(row.issue_title.as_str()),
            order: |a, b| a.issue_title.cmp(&b.issue_title),
        },
        Column {
            name: "STAGE",
            width: Width::Fit(5, 12),
            min_terminal_width: 44,
            right: false,
            cell: |row, _| CellText::new(row.stage.as_str(), Tone::Name),
            order: |a, b| a.stage.cmp(&b.stage),
        },
        Column {
            name: "AGENT",
            width: Width::Fit(5, 10),
            min_terminal_width: 72,
            right: false,
            cell: |row, _| CellText::plain(row.agent.as_str()),
            order: |a, b| a.agent.cmp(&b.agent),
        },
        Column {
            name: "MODEL",
            width: Width::Fit(5, 20),
            min_terminal_width: 150,
            right: false,
            cell: |row, _| CellText::new(row.model.as_deref().unwrap_or("-"), Tone::Faint),
            order: |a, b| a.model.cmp(&b.model),
        },
        Column {
            name: "TRY",
            width: Width::Fixed(4),
            min_terminal_width: 120,
            right: true,
            cell: |row, _| {
                let tone = if row.attempt > 1 { Tone::Warn } else { Tone::Faint };
                CellText::new(row.attempt.to_string(), tone)
            },
            order: |a, b| a.attempt.cmp(&b.attempt),
        },
        Column {
            name: "ACTIVITY",
            width: Width::Fill(8, 4),
            min_terminal_width: 0,
            right: false,
            cell: |row, _| {
                let tone = if row.phase == "running" {
                    Tone::Plain
                } else {
                    Tone::Good
                };
                CellText::new(activity(row), tone)
            },
            order: |a, b| activity(a).cmp(&activity(b)),
        },
        Column {
            name: "TIME",
            width: Width::Fixed(7),
            min_terminal_width: 0,
            right: true,
            cell: |row, context| CellText::plain(duration(seconds_between(row.since, context.now))),
            // A later start means a shorter run time.
            order: |a, b| b.since.cmp(&a.since),
        },
        Column {
            name: "IDLE",
            width: Width::Fixed(6),
            min_terminal_width: 60,
            right: true,
            cell: |row, context| match row.last_event_at {
                None => CellText::new("-", Tone::Faint),
                Some(at) => {
                    let ago = seconds_between(at, context.now);
                    let tone = if ago > QUIET_SECONDS {
                        Tone::Warn
                    } else {
                        Tone::Faint
                    };
                    CellText::new(short_duration(ago), tone)
                }
            },
            order: |a, b| b.last_event_at.cmp(&a.last_event_at),
        },
        Column {
            name: "EVENTS",
            width: Width::Fixed(6),
            min_terminal_width: 170,
            right: true,
            cell: |row, _| CellText::new(short(row.events), Tone::Faint),
            order: |a, b| a.events.cmp(&b.events),
        },
        Column {
            name: "TOKENS",
            width: Width::Fixed(7),
            min_terminal_width: 76,
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
            min_terminal_width: 52,
            right: true,
            cell: |row, _| session_cost(row),
            order: |a, b| {
                let cost = |s: &Self| s.cost_usd.unwrap_or(s.charged.cost_usd);
                compare_numbers(cost(a), cost(b))
            },
        },
    ];
    // The longest run time comes first.
    const SORT: Option<(usize, bool)> = Some((7, true));

    fn key(&self) -> String {
        self.session_id.clone()
    }
}
