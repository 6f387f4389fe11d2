//! The columns of the issues.

use vik_api::Explanation;
use vik_core::ids::IssueId;
use vik_text::{cost_text, tokens};

use super::{issue_status, share_tone};
use crate::table::{Cell, CellText, Column, Row, RowContext, Tone, Width, column};
use crate::text::{humanize, money_limit};

fn stages(issue: &Explanation) -> String {
    let names: Vec<&str> = issue.stages.iter().map(|stage| stage.stage.as_str()).collect();
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(" ")
    }
}

fn hold_text(issue: &Explanation) -> String {
    let stage = issue.stages.iter().find_map(|stage| stage.hold.as_ref());
    match issue.hold.as_ref().or(stage) {
        None => String::new(),
        Some(hold) if hold.detail.is_empty() => humanize(&hold.reason),
        Some(hold) => hold.detail.clone(),
    }
}

fn life_cost(issue: &Explanation) -> CellText {
    let spent = &issue.life.spent;
    let text = cost_text(Some(spent.cost_usd), spent.estimated_usd);
    match issue.life.limit.usd {
        None => CellText::plain(text),
        Some(limit) => {
            let tone = if limit > 0.0 {
                share_tone(spent.cost_usd / limit)
            } else {
                Tone::Bad
            };
            CellText::new(format!("{text}/{}", money_limit(limit)), tone)
        }
    }
}

impl Row for Explanation {
    const COLUMNS: &'static [Column] = &[
        column("ISSUE", Width::Fit(6, 14), 0),
        column("STATE", Width::Fit(5, 14), 50),
        column("NOW", Width::Fixed(8), 0),
        column("TITLE", Width::Fill(12, 3), 0),
        column("STAGES", Width::Fit(6, 16), 90),
        column("HELD BY", Width::Fill(14, 3), 110),
        column("ATTEMPTS", Width::Fixed(8), 64).right(),
        column("TOKENS", Width::Fixed(7), 100).right(),
        column("COST", Width::Fit(5, 16), 56).right(),
    ];
    const SORT: (usize, bool) = (0, false);

    fn key(&self) -> String {
        self.issue_id.as_str().to_owned()
    }

    fn issue(&self) -> Option<&IssueId> {
        Some(&self.issue_id)
    }

    fn cells(&self, _: &RowContext) -> Vec<Cell> {
        let (status, tone) = issue_status(self);
        let spent = &self.life.spent;
        vec![
            CellText::new(self.issue_id.as_str(), Tone::Strong).into(),
            CellText::plain(self.issue_state.as_str()).into(),
            CellText::new(status, tone).into(),
            CellText::plain(self.issue_title.as_str()).into(),
            CellText::new(stages(self), Tone::Name).into(),
            CellText::plain(hold_text(self)).into(),
            CellText::plain(self.life.attempts.to_string()).into(),
            CellText::plain(tokens(spent.tokens)).ranked(spent.tokens as f64),
            life_cost(self).ranked(spent.cost_usd),
        ]
    }
}
