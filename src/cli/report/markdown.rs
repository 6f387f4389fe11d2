//! Formats a report as Markdown, to paste into a tracker.

use std::fmt::Write as _;

use vik_api::{Figures, ReportView};
use vik_base::report::{one_line, short, spent_cost};

use super::text::{period_start, span, summary, time, under_way};

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
    let of_stages = report
        .stages
        .iter()
        .map(|stage| (stage.stage.as_str(), &stage.figures));
    figures(&mut out, "Stage", of_stages);
    let of_agents = report
        .agents
        .iter()
        .map(|agent| (agent.agent.as_str(), &agent.figures));
    figures(&mut out, "Agent", of_agents);
    if report.total.failed + report.total.asked > 0 {
        head(&mut out, &["Ended", "Class"], &["Attempts"]);
        for end in &report.ends {
            let class = end.failure_class.map_or("", |class| class.as_str());
            row(
                &mut out,
                &[
                    end.outcome.to_string(),
                    class.to_owned(),
                    end.attempts.to_string(),
                ],
            );
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
                period_start(part.at, report.part_ms),
                part.started.to_string(),
                part.succeeded.to_string(),
                part.failed.to_string(),
                part.asked.to_string(),
                short(part.spent.tokens),
                spent_cost(&part.spent),
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
                cell(name),
                sums.runs.to_string(),
                sums.attempts.to_string(),
                sums.succeeded.to_string(),
                sums.failed.to_string(),
                sums.asked.to_string(),
                under_way(sums).to_string(),
                sums.median_duration_ms.map_or_else(|| "-".to_owned(), time),
                time(sums.duration_ms),
                short(sums.spent.tokens),
                spent_cost(&sums.spent),
            ],
        );
    }
}

/// Writes the head of a table: names on the left, numbers on the right.
fn head(out: &mut String, names: &[&str], numbers: &[&str]) {
    let columns: Vec<_> = names
        .iter()
        .chain(numbers)
        .map(|name| (*name).to_owned())
        .collect();
    out.push('\n');
    row(out, &columns);
    let _ = writeln!(
        out,
        "|{}{}",
        " --- |".repeat(names.len()),
        " ---: |".repeat(numbers.len())
    );
}

fn row(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
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
