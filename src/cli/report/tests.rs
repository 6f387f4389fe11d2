use jiff::{SignedDuration, Timestamp};
use unicode_width::UnicodeWidthStr;
use vik_api::{AgentFigures, EndFigures, Figures, Part, ReportView, SCHEMA, SpendView, StageFigures};
use vik_control::figures::{self, Window};
use vik_core::outcome::{FailureClass, Outcome};

use super::markdown::{cell, markdown};
use super::text::text;

fn at(hours: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_hours(hours)
}

fn spent(tokens: u64, cost_usd: f64) -> SpendView {
    SpendView {
        tokens,
        cost_usd,
        ..SpendView::default()
    }
}

fn sums(runs: u64, [attempts, succeeded, failed]: [u64; 3], minutes: u64, spent: SpendView) -> Figures {
    Figures {
        runs,
        attempts,
        succeeded,
        failed,
        asked: 0,
        spent,
        duration_ms: minutes * 60_000,
        median_duration_ms: (succeeded + failed > 0).then(|| minutes * 60_000 / (succeeded + failed)),
    }
}

fn part(day: i64, [started, succeeded, failed]: [u64; 3], spent: SpendView) -> Part {
    Part {
        at: at(day * 24),
        started,
        succeeded,
        failed,
        asked: 0,
        spent,
    }
}

fn stage(stage: &str, figures: Figures) -> StageFigures {
    StageFigures {
        stage: stage.into(),
        figures,
    }
}

fn agent(agent: &str, figures: Figures) -> AgentFigures {
    AgentFigures {
        agent: agent.into(),
        figures,
    }
}

fn end(outcome: Outcome, failure_class: Option<FailureClass>, attempts: u64) -> EndFigures {
    EndFigures {
        outcome,
        failure_class,
        attempts,
    }
}

fn empty() -> ReportView {
    figures::report(None, Window::new(at(0), at(7 * 24), None)).unwrap()
}

fn one() -> ReportView {
    let all = sums(1, [1, 1, 0], 3, spent(12_345, 0.0));
    ReportView {
        total: all,
        issues: 1,
        issues_succeeded: 1,
        stages: vec![stage("work", all)],
        agents: vec![agent("vex", all)],
        ends: vec![end(Outcome::Succeeded, None, 1)],
        series: vec![part(0, [1, 1, 0], spent(12_345, 0.0))],
        ..empty()
    }
}

/// Returns the report of a week with all kinds of records. Some names are invalid in a workflow,
/// but another program could write them to a ledger.
fn many() -> ReportView {
    let total = sums(61, [90, 60, 27], 1_480, spent(41_234_567, 93.5));
    ReportView {
        schema: SCHEMA,
        since: at(0),
        until: at(7 * 24),
        total,
        issues: 31,
        issues_succeeded: 22,
        cost_per_succeeded_issue_usd: Some(93.5 / 22.0),
        stages: vec![
            stage(
                "implement",
                sums(30, [50, 28, 20], 1_200, spent(38_000_000, 80.25)),
            ),
            stage(
                "plan|`x`\u{1b}[31m\\",
                sums(31, [40, 32, 7], 280, spent(3_234_567, 13.25)),
            ),
        ],
        agents: vec![
            agent("codex", sums(50, [80, 55, 22], 1_400, spent(40_000_000, 93.5))),
            agent("vex", sums(11, [10, 5, 5], 80, spent(1_234_567, 0.0))),
        ],
        ends: vec![
            end(Outcome::Succeeded, None, 60),
            end(Outcome::Failed, Some(FailureClass::RateLimit), 20),
            end(Outcome::TimedOut, None, 7),
        ],
        series: vec![
            part(0, [10, 8, 1], spent(4_000_000, 9.5)),
            part(1, [60, 40, 15], spent(30_000_000, 70.0)),
            part(2, [1, 0, 2], spent(200_000, 0.004)),
            part(3, [0, 0, 0], spent(0, 0.0)),
            part(4, [0, 0, 0], spent(0, 0.0)),
            part(5, [0, 0, 0], spent(0, 0.0)),
            part(6, [19, 12, 9], spent(7_034_567, 13.996)),
        ],
        part_ms: 86_400_000,
    }
}

fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.width() <= width, "{width}: {line}");
    }
    assert!(!text.contains('\x1b'));
}

#[test]
fn empty_report_states_that_no_attempt_started() {
    insta::assert_snapshot!("empty", text(&empty(), 80));
    insta::assert_snapshot!("empty_markdown", markdown(&empty()));
}

#[test]
fn single_attempt_is_reported_as_text() {
    insta::assert_snapshot!("one", text(&one(), 80));
}

#[test]
fn week_report_fits_60_80_and_120_columns() {
    for width in [60, 80, 120] {
        let text = text(&many(), width);
        assert_fits(&text, width);
        insta::assert_snapshot!(format!("many_{width}"), text);
    }
    assert_fits(&text(&many(), 60), 60);
    // Output to a file has no width limit, but the bars stay short.
    assert_fits(&text(&many(), usize::MAX), 120);
}

#[test]
fn text_is_ascii_apart_from_middle_dots() {
    let text = text(&one(), 80).replace('·', "");
    assert!(text.is_ascii(), "{text}");
}

#[test]
fn hourly_parts_show_their_day() {
    let mut report = many();
    report.part_ms = 3_600_000;
    for (number, part) in (0..).zip(&mut report.series) {
        part.at = at(number);
    }
    insta::assert_snapshot!("hours", text(&report, 80));
}

#[test]
fn markdown_table_rows_match_their_head() {
    let text = markdown(&many());
    insta::assert_snapshot!("markdown", text);
    // Every row of a table has as many cells as its head, whatever the names contain.
    let mut cells = 0;
    for line in text.lines() {
        let columns = line.matches('|').count();
        if columns == 0 {
            cells = 0;
        } else if cells == 0 {
            cells = columns;
        }
        assert!(columns == 0 || columns == cells, "{line}");
    }
}

#[test]
fn markdown_cell_escapes_names() {
    assert_eq!(cell("@team <b>*x*</b>"), "`@team <b>*x*</b>`");
    assert_eq!(cell("a|b`c\\\nd"), "`a¦b'c/ d`");
    assert_eq!(cell(""), "-");
}

#[test]
fn single_attempt_is_reported_as_json() {
    insta::assert_json_snapshot!("one_json", one());
}
