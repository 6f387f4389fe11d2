//! Formats a report for a terminal, with plain characters only, so that it is readable in a mail or
//! a log too.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use vik_api::{Figures, Part, ReportView};
use vik_base::report::{
    columns, cost_text, count, count_short, date_time, one_line, short, spent_cost, table_within, wrap,
};
use vik_core::duration::Span;

/// Tables of narrower terminals have only the most important columns.
const WIDE: usize = 76;

/// The maximum length of a bar.
const LONGEST_BAR: usize = 40;

/// Up to this many consecutive empty parts have a line each; more share one line.
const EMPTY_PARTS: usize = 2;

/// Formats the whole report, in at most `width` columns if possible.
pub fn text(report: &ReportView, width: usize) -> String {
    let mut out = format!("since {}, {}\n", date_time(report.since), span(report));
    if report.total.attempts == 0 {
        out.push_str("no attempts started\n");
        return out;
    }
    out.push('\n');
    for line in summary(report) {
        for (index, part) in wrap(&line, width.saturating_sub(2)).iter().enumerate() {
            let _ = writeln!(out, "{}{part}", if index == 0 { "" } else { "  " });
        }
    }
    out.push_str(&figures("STAGE", of_stages(report), width));
    out.push_str(&figures("AGENT", of_agents(report), width));
    out.push_str(&ends(report, width));
    out.push_str(&series(report, width));
    out
}

/// Returns the figures of each stage.
pub fn of_stages(report: &ReportView) -> impl Iterator<Item = (&str, &Figures)> {
    let stages = report.stages.iter();
    stages.map(|stage| (stage.stage.as_str(), &stage.figures))
}

/// Returns the figures of each agent.
pub fn of_agents(report: &ReportView) -> impl Iterator<Item = (&str, &Figures)> {
    let agents = report.agents.iter();
    agents.map(|agent| (agent.agent.as_str(), &agent.figures))
}

/// Returns the length of the time span.
pub fn span(report: &ReportView) -> String {
    let seconds = report.until.duration_since(report.since).as_secs().max(0);
    Span(Duration::from_secs(seconds.unsigned_abs())).to_string()
}

/// Returns the summary in sentences, which the Markdown report has too.
pub fn summary(report: &ReportView) -> [String; 3] {
    let total = &report.total;
    let tokens = count_short(total.spent.tokens, "token");
    let per_issue = match report.cost_per_succeeded_issue_usd {
        Some(usd) => {
            let estimated = total.spent.estimated_usd / report.issues_succeeded.max(1) as f64;
            format!("{} per issue done", cost_text(Some(usd), estimated))
        }
        None => "no issue is done yet".to_owned(),
    };
    let spent = match total.spent.cost_usd {
        usd if usd > 0.0 => format!("{} · {tokens} · {per_issue}", spent_cost(&total.spent)),
        _ => format!("{tokens} · cost unknown"),
    };
    [
        format!(
            "{} worked on, {} done · {} · {}",
            count(report.issues, "issue"),
            report.issues_succeeded,
            count(total.runs, "run"),
            attempts(total),
        ),
        spent,
        match total.median_duration_ms {
            None => "no attempt has ended yet".to_owned(),
            Some(median) => format!(
                "{} of work · median attempt {}",
                time(total.duration_ms),
                time(median)
            ),
        },
    ]
}

fn attempts(total: &Figures) -> String {
    let mut text = format!(
        "{}: {} succeeded, {} failed",
        count(total.attempts, "attempt"),
        total.succeeded,
        total.failed
    );
    if total.asked > 0 {
        let _ = write!(text, ", {} asked", total.asked);
    }
    let running = under_way(total);
    if running > 0 {
        let _ = write!(text, ", {running} in progress");
    }
    text
}

/// Returns the number of attempts that have not ended.
pub fn under_way(figures: &Figures) -> u64 {
    figures
        .attempts
        .saturating_sub(figures.succeeded)
        .saturating_sub(figures.failed)
        .saturating_sub(figures.asked)
}

/// Formats a duration in milliseconds. Long durations are cut to whole minutes or hours.
pub fn time(ms: u64) -> String {
    let exact = Duration::from_millis(ms);
    let seconds = exact.as_secs();
    match seconds {
        0..3_600 => Span(exact),
        3_600..86_400 => Span::secs(seconds / 60 * 60),
        _ => Span::secs(seconds / 3_600 * 3_600),
    }
    .to_string()
}

/// From this width on, the tables have a column for attempts that asked.
const WITH_ASKED: usize = 100;

fn figures<'a>(name: &str, rows: impl Iterator<Item = (&'a str, &'a Figures)>, width: usize) -> String {
    let rows: Vec<_> = rows
        .map(|(name, sums)| {
            [
                one_line(name, if width < WIDE { 16 } else { 30 }),
                sums.runs.to_string(),
                sums.attempts.to_string(),
                sums.succeeded.to_string(),
                sums.failed.to_string(),
                sums.asked.to_string(),
                sums.median_duration_ms.map_or_else(|| "-".to_owned(), time),
                time(sums.duration_ms),
                short(sums.spent.tokens),
                spent_cost(&sums.spent),
            ]
        })
        .collect();
    let header = [
        name, "RUNS", "ATTEMPTS", "OK", "FAILED", "ASKED", "MEDIAN", "TIME", "TOKENS", "COST",
    ];
    let table = if width < WIDE {
        let names = [name, "ATTEMPTS", "OK", "FAILED", "MEDIAN", "COST"];
        table_within(usize::MAX, names, &columns(names, header, &rows))
    } else if width < WITH_ASKED {
        let names = [
            name, "RUNS", "ATTEMPTS", "OK", "FAILED", "MEDIAN", "TIME", "TOKENS", "COST",
        ];
        table_within(usize::MAX, names, &columns(names, header, &rows))
    } else {
        table_within(usize::MAX, header, &rows)
    };
    format!("\n{table}")
}

/// Returns a table of how attempts ended, if any did not succeed.
fn ends(report: &ReportView, width: usize) -> String {
    if report.total.failed + report.total.asked == 0 {
        return String::new();
    }
    let rows: Vec<_> = report
        .ends
        .iter()
        .map(|end| {
            let class = end.failure_class.map_or("-", |class| class.as_str());
            [
                end.outcome.to_string(),
                class.to_owned(),
                end.attempts.to_string(),
            ]
        })
        .collect();
    format!("\n{}", table_within(width, ["ENDED", "CLASS", "ATTEMPTS"], &rows))
}

/// Returns a bar for each part of the span: succeeded, failed, asked and open attempts.
fn series(report: &ReportView, width: usize) -> String {
    let mut rows: Vec<([String; 5], Option<&Part>)> = Vec::new();
    let mut remaining = report.series.as_slice();
    while let Some((part, tail)) = remaining.split_first() {
        let empty = remaining.iter().take_while(|part| size(part) == 0).count();
        if empty > EMPTY_PARTS {
            rows.push((blank(format!("({empty} without any)")), None));
            remaining = &remaining[empty..];
            continue;
        }
        let start = period_start(part.at, report.part_ms);
        remaining = tail;
        if empty > 0 {
            rows.push((blank(start), None));
            continue;
        }
        let row = [
            start,
            part.succeeded.to_string(),
            part.failed.to_string(),
            short(part.spent.tokens),
            spent_cost(&part.spent),
        ];
        rows.push((row, Some(part)));
    }
    let of_days = report.part_ms == 86_400_000;
    let header = [
        if of_days { "DAY (UTC)" } else { "FROM (UTC)" },
        "OK",
        "FAILED",
        "TOKENS",
        "COST",
        "",
    ];
    let wide = width >= WIDE;
    // The columns before the bar. Narrow terminals have no token column.
    let used_width: usize = (0..5)
        .filter(|column| wide || *column != 3)
        .map(|column| {
            let cells = rows.iter().map(|(row, _)| row[column].len());
            cells.max().unwrap_or(0).max(header[column].len()) + 2
        })
        .sum();
    let bar_width = width.saturating_sub(used_width).clamp(8, LONGEST_BAR);
    let max = report.series.iter().map(size).max().unwrap_or(0);
    let rows: Vec<_> = rows
        .into_iter()
        .map(|([at, succeeded, failed, tokens, cost], part)| {
            let bar = part.map_or_else(String::new, |part| bar(part, max, bar_width));
            [at, succeeded, failed, tokens, cost, bar]
        })
        .collect();
    let table = if wide {
        table_within(usize::MAX, header, &rows)
    } else {
        let names = [header[0], "OK", "FAILED", "COST", ""];
        table_within(usize::MAX, names, &columns(names, header, &rows))
    };
    let legend = "# succeeded, x failed, ? asked, . started but not ended in the same period";
    let mut out = format!("\n{table}");
    for line in wrap(legend, width) {
        let _ = writeln!(out, "{line}");
    }
    out
}

fn blank(at: String) -> [String; 5] {
    let dash = || "-".to_owned();
    [at, dash(), dash(), dash(), dash()]
}

/// Returns the number of attempts that the bar of a part shows.
fn size(part: &Part) -> u64 {
    let ended = part.succeeded.saturating_add(part.failed);
    ended.saturating_add(part.asked).max(part.started)
}

/// Returns a bar, scaled so that the largest part fits; a mark can then represent many attempts.
fn bar(part: &Part, max: u64, width: usize) -> String {
    let ended = part
        .succeeded
        .saturating_add(part.failed)
        .saturating_add(part.asked);
    let open = part.started.saturating_sub(ended);
    let mut text = String::new();
    for (number, mark) in [
        (part.succeeded, '#'),
        (part.failed, 'x'),
        (part.asked, '?'),
        (open, '.'),
    ] {
        text.extend(std::iter::repeat_n(mark, scaled(number, max, width)));
    }
    text
}

/// Returns a number of marks, one for each attempt if they fit. A positive number gives at least
/// one mark.
fn scaled(number: u64, max: u64, width: usize) -> usize {
    let whole = u128::try_from(width).unwrap_or(u128::MAX);
    if u128::from(max) <= whole {
        return usize::try_from(number).unwrap_or(width);
    }
    let marks = u128::from(number) * whole / u128::from(max.max(1));
    let marks = usize::try_from(marks).unwrap_or(width);
    marks.max(usize::from(number > 0))
}

/// Formats the start of a part, as short as possible.
pub fn period_start(at: Timestamp, part_ms: u64) -> String {
    let text = at.to_string();
    let shown = if part_ms < 86_400_000 { 16 } else { 10 };
    text.get(..shown).unwrap_or(&text).replace('T', " ")
}
