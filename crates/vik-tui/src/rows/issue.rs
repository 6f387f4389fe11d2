//! The columns of the issues.

use vik_api::Explanation;
use vik_text::{cost_text, tokens};

use super::{compare_numbers, issue_status, share_tone};
use crate::table::{CellText, Column, Row, Tone, Width};
use crate::text::{humanize, money_limit, natural_order};

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

impl Row for Explanation {
    const COLUMNS: &'static [Column<Self>] = &[
        Column {
            name: "ISSUE",
            width: Width::Fit(6, 14),
            min_terminal_width: 0,
            right: false,
            cell: |row, _| CellText::new(row.issue_id.as_str(), Tone::Strong),
            order: |a, b| natural_order(a.issue_id.as_str(), b.issue_id.as_str()),
        },
        Column {
            name: "STATE",
            width: Width::Fit(5, 14),
            min_terminal_width: 50,
            right: false,
            cell: |row, _| CellText::plain(row.issue_state.as_str()),
            order: |a, b| a.issue_state.cmp(&b.issue_state),
        },
        Column {
            name: "NOW",
            width: Width::Fixed(7),
            min_terminal_width: 0,
            right: false,
            cell: |row, _| {
                let (name, tone) = issue_status(row);
                CellText::new(name, tone)
            },
            order: |a, b| issue_status(a).0.cmp(issue_status(b).0),
        },
        Column {
            name: "TITLE",
            width: Width::Fill(12, 3),
            min_terminal_width: 0,
            right: false,
            cell: |row, _| CellText::plain(row.issue_title.as_str()),
            order: |a, b| a.issue_title.cmp(&b.issue_title),
        },
        Column {
            name: "STAGES",
            width: Width::Fit(6, 16),
            min_terminal_width: 90,
            right: false,
            cell: |row, _| CellText::new(stages(row), Tone::Name),
            order: |a, b| stages(a).cmp(&stages(b)),
        },
        Column {
            name: "HELD BY",
            width: Width::Fill(14, 3),
            min_terminal_width: 110,
            right: false,
            cell: |row, _| CellText::plain(hold_text(row)),
            order: |a, b| hold_text(a).cmp(&hold_text(b)),
        },
        Column {
            name: "ATTEMPTS",
            width: Width::Fixed(8),
            min_terminal_width: 64,
            right: true,
            cell: |row, _| CellText::plain(row.life.attempts.to_string()),
            order: |a, b| a.life.attempts.cmp(&b.life.attempts),
        },
        Column {
            name: "TOKENS",
            width: Width::Fixed(7),
            min_terminal_width: 100,
            right: true,
            cell: |row, _| CellText::plain(tokens(row.life.spent.tokens)),
            order: |a, b| a.life.spent.tokens.cmp(&b.life.spent.tokens),
        },
        Column {
            name: "COST",
            width: Width::Fit(5, 16),
            min_terminal_width: 56,
            right: true,
            cell: |row, _| {
                let spent = &row.life.spent;
                let spent = cost_text(Some(spent.cost_usd), spent.estimated_usd);
                match row.life.limit.usd {
                    None => CellText::plain(spent),
                    Some(limit) => {
                        let tone = if limit > 0.0 {
                            share_tone(row.life.spent.cost_usd / limit)
                        } else {
                            Tone::Bad
                        };
                        CellText::new(format!("{spent}/{}", money_limit(limit)), tone)
                    }
                }
            },
            order: |a, b| compare_numbers(a.life.spent.cost_usd, b.life.spent.cost_usd),
        },
    ];
    const SORT: Option<(usize, bool)> = Some((0, false));

    fn key(&self) -> String {
        self.issue_id.as_str().to_owned()
    }
}
