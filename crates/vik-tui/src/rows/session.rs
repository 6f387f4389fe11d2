//! The columns of the sessions.

use vik_api::SessionView;
use vik_core::ids::IssueId;
use vik_text::{cost, short, tokens};

use super::{activity, budget_share, issue_cell, share_tone};
use crate::table::{Cell, CellText, Column, Row, RowContext, Tone, Width, column};
use crate::text::{money_limit, seconds_between, short_duration};

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

fn idle(session: &SessionView, context: &RowContext) -> Cell {
    let Some(at) = session.last_event_at else {
        return CellText::new("-", Tone::Faint).ranked(f64::INFINITY);
    };
    let seconds = seconds_between(at, context.now);
    let tone = if seconds > QUIET_SECONDS {
        Tone::Warn
    } else {
        Tone::Faint
    };
    CellText::new(short_duration(seconds), tone).ranked(context.elapsed(at))
}

impl Row for SessionView {
    const COLUMNS: &'static [Column] = &[
        column("ISSUE", Width::Fit(6, 14), 0),
        column("TITLE", Width::Fill(12, 3), 110),
        column("STAGE", Width::Fit(5, 12), 44),
        column("AGENT", Width::Fit(5, 10), 72),
        column("MODEL", Width::Fit(5, 20), 150),
        column("ATTEMPT", Width::Fixed(7), 120).right(),
        column("ACTIVITY", Width::Fill(8, 4), 0),
        column("TIME", Width::Fixed(7), 0).right(),
        column("IDLE", Width::Fixed(6), 60).right(),
        column("EVENTS", Width::Fixed(6), 170).right(),
        column("TOKENS", Width::Fixed(7), 76).right(),
        column("COST", Width::Fit(5, 16), 52).right(),
    ];
    // The longest run time comes first.
    const SORT: (usize, bool) = (7, true);

    fn key(&self) -> String {
        self.session_id.clone()
    }

    fn issue(&self) -> Option<&IssueId> {
        Some(&self.issue_id)
    }

    fn cells(&self, context: &RowContext) -> Vec<Cell> {
        let of = |is_highlighted, highlight| if is_highlighted { highlight } else { Tone::Faint };
        let is_running = self.phase == "running";
        let total = self.usage.total().max(self.charged.tokens);
        vec![
            issue_cell(&self.issue_id, context).into(),
            CellText::plain(self.issue_title.as_str()).into(),
            CellText::new(self.stage.as_str(), Tone::Name).into(),
            CellText::plain(self.agent.as_str()).into(),
            CellText::new(self.model.as_deref().unwrap_or("-"), Tone::Faint).into(),
            CellText::new(self.attempt.to_string(), of(self.attempt > 1, Tone::Warn)).into(),
            CellText::new(activity(self), if is_running { Tone::Plain } else { Tone::Good }).into(),
            context.since(self.since, Tone::Plain),
            idle(self, context),
            CellText::new(short(self.events), Tone::Faint).ranked(self.events as f64),
            CellText::plain(tokens(total)).ranked(total as f64),
            session_cost(self).ranked(self.cost_usd.unwrap_or(self.charged.cost_usd)),
        ]
    }
}
