//! The columns of the sessions.

use vik_api::SessionView;

use super::{by_number, doing, issue_cell, share_tone, used};
use crate::table::{CellText, Column, Row, Tone, Width};
use crate::text::{cost, money_limit, natural, rough, seconds, short, span, tokens};

/// After so long without a word an agent is worth a look.
const QUIET_SECONDS: u64 = 300;

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
                by_number(cost(a), cost(b))
            },
        },
    ];
    // The longest running first.
    const SORT: Option<(usize, bool)> = Some((7, true));

    fn key(&self) -> String {
        self.session_id.clone()
    }
}
