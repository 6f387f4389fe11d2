//! Formats a report as Markdown, to paste into a tracker.

use std::fmt::{Display, Write as _};

use vik_api::{Figures, ReportView};
use vik_base::report::{one_line, short, spent_cost};

use super::text::{of_agents, of_stages, period_start, span, summary, time, under_way};

/// Formats the whole report.
pub fn markdown(report: &ReportView) -> String {
    let mut out = format!(
        "## Vik: {:.0} to {:.0} ({})\n\n",
        report.since,
        report.until,
        span(report)
    );
    if report.total.attempts == 0 {
        out.push_str("No attempts started.\n");
        return out;
    }
    for line in summary(report) {
        let _ = writeln!(out, "- {line}");
    }
    figures(&mut out, "Stage", of_stages(report));
    figures(&mut out, "Agent", of_agents(report));
    if report.total.failed + report.total.asked > 0 {
        head(&mut out, &["Ended", "Class"], &["Attempts"]);
        for end in &report.ends {
            let class = end.failure_class.map_or("", |class| class.as_str());
            row(&mut out, &[&end.outcome, &class, &end.attempts]);
        }
    }
    head(
        &mut out,
        &["From (UTC)"],
        &["Started", "Succeeded", "Failed", "Asked", "Tokens", "Cost"],
    );
    let busy = report
        .series
        .iter()
        .filter(|part| part.started + part.succeeded + part.failed + part.asked > 0);
    for part in busy {
        row(
            &mut out,
            &[
                &period_start(part.at, report.part_ms),
                &part.started,
                &part.succeeded,
                &part.failed,
                &part.asked,
                &short(part.spent.tokens),
                &spent_cost(&part.spent),
            ],
        );
    }
    out
}

fn figures<'a>(out: &mut String, name: &str, rows: impl Iterator<Item = (&'a str, &'a Figures)>) {
    let numbers = [
        "Runs",
        "Attempts",
        "Succeeded",
        "Failed",
        "Asked",
        "In progress",
        "Median",
        "Time",
        "Tokens",
        "Cost",
    ];
    head(out, &[name], &numbers);
    for (name, sums) in rows {
        row(
            out,
            &[
                &cell(name),
                &sums.runs,
                &sums.attempts,
                &sums.succeeded,
                &sums.failed,
                &sums.asked,
                &under_way(sums),
                &sums.median_duration_ms.map_or_else(|| "-".to_owned(), time),
                &time(sums.duration_ms),
                &short(sums.spent.tokens),
                &spent_cost(&sums.spent),
            ],
        );
    }
}

/// Writes the head of a table: names on the left, numbers on the right.
fn head(out: &mut String, names: &[&str], numbers: &[&str]) {
    let columns = names.iter().chain(numbers);
    out.push('\n');
    row(out, &columns.map(|name| name as &dyn Display).collect::<Vec<_>>());
    let _ = writeln!(
        out,
        "|{}{}",
        " --- |".repeat(names.len()),
        " ---: |".repeat(numbers.len())
    );
}

fn row(out: &mut String, cells: &[&dyn Display]) {
    for cell in cells {
        let _ = write!(out, "| {cell} ");
    }
    out.push_str("|\n");
}

/// Formats a name as data: it cannot contain markup, mentions or the end of the cell.
pub fn cell(text: &str) -> String {
    let text: String = one_line(text, 60)
        .chars()
        // Not every tracker supports escapes of these characters in the code of a table.
        .map(|c| match c {
            '|' => '¦',
            '`' => '\'',
            '\\' => '/',
            c => c,
        })
        .collect();
    if text.is_empty() {
        "-".to_owned()
    } else {
        format!("`{text}`")
    }
}
