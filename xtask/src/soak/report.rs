//! The tables and plots of a soak, and what CI accepts.

use std::fmt::Write as _;

use super::course::{PerIssue, Query, Reading, STEP, Soak};
use crate::bench::metric::{Target, shown};
use crate::chart::{Axis, Chart, Line};
use crate::repo::TaskResult;

/// The fewest issues that show growth.
pub const MIN_CHECKED: u32 = 5_000;
/// The periods that are compared: 500 to 2,000 issues, and the last 1,500.
const EARLY: u32 = 500;
const PERIOD: u32 = 3 * STEP;

// Bounds of CI, for 5,000 issues. The target is 1.1; on a busy machine, two runs differ by a tenth more.
/// The CPU of the daemon for an issue at the end, relative to that at 1,000 issues: the part of it
/// that does not come from the load of the machine.
const MAX_DAEMON_GROWTH: f64 = 1.2;
/// The CPU of all processes, with that part: other work on the machine changes it more.
const MAX_ALL_GROWTH: f64 = 1.4;
/// The growth of the daemon's anonymous memory for 1,000 issues, in megabytes. To be lowered once
/// the daemon keeps nothing of past issues.
const MAX_MEMORY_GROWTH: f64 = 1.5;

/// How an issue at the end compares with one at 1,000 issues.
struct Growth {
    early: PerIssue,
    late: PerIssue,
    /// The growth of the daemon's anonymous memory for 1,000 issues, in megabytes.
    memory_mb: f64,
}

impl Growth {
    /// Compares two periods; `None` if there are too few issues for both.
    fn of(soak: &Soak) -> Option<Self> {
        let readings = &soak.readings;
        let at = |issues: u32| readings.iter().position(|reading| reading.issues >= issues);
        let (early, early_end) = (at(EARLY)?, at(EARLY + PERIOD)?);
        let last = readings.last()?;
        let late = readings
            .iter()
            .rposition(|reading| reading.issues + PERIOD <= last.issues)?;
        if late < early_end {
            return None;
        }
        let grown = last.anonymous_bytes as f64 - readings[early_end].anonymous_bytes as f64;
        Some(Self {
            early: least_disturbed(&readings[early..=early_end])?,
            late: least_disturbed(&readings[late..])?,
            memory_mb: grown / 1e3 / f64::from(last.issues - readings[early_end].issues),
        })
    }

    fn daemon(&self) -> f64 {
        self.late.daemon_ms / self.early.daemon_ms
    }

    /// Returns the growth of the daemon's CPU relative to that of its descendants, which do the same
    /// for each issue and are as slow on a busy machine.
    fn daemon_to_others(&self) -> f64 {
        let part = |used: &PerIssue| used.daemon_ms / (used.all_ms - used.daemon_ms);
        part(&self.late) / part(&self.early)
    }

    fn all(&self) -> f64 {
        self.late.all_ms / self.early.all_ms
    }
}

/// Returns the use in the cheapest interval: other work on the machine only adds to it.
fn least_disturbed(readings: &[Reading]) -> Option<PerIssue> {
    let intervals = readings
        .windows(2)
        .filter(|pair| is_long(Some(&pair[0]), &pair[1]));
    intervals
        .map(|pair| pair[1].per_issue(Some(&pair[0])))
        .min_by(|a, b| a.all_ms.total_cmp(&b.all_ms))
}

/// Returns whether an interval has enough issues to be compared with others.
fn is_long(before: Option<&Reading>, reading: &Reading) -> bool {
    reading.issues - before.map_or(0, |before| before.issues) > STEP / 2
}

/// Returns an error if the growth exceeds the bounds of CI.
pub fn check(soak: &Soak) -> TaskResult {
    let growth = Growth::of(soak).ok_or("too few issues show no growth")?;
    let bounds = [
        (
            "CPU of the daemon for an issue, relative to that at 1,000 issues",
            growth.daemon().min(growth.daemon_to_others()),
            MAX_DAEMON_GROWTH,
        ),
        ("CPU of all processes, likewise", growth.all(), MAX_ALL_GROWTH),
        (
            "megabytes of memory for 1,000 issues",
            growth.memory_mb,
            MAX_MEMORY_GROWTH,
        ),
    ];
    eprintln!(
        "\n| growth from 1,000 to {} issues | value | limit |\n| --- | ---: | ---: |",
        soak.plan.issues
    );
    for (label, value, most) in &bounds {
        eprintln!("| {label} | {value:.2} | {most} |");
    }
    let exceeded: Vec<String> = bounds
        .into_iter()
        .filter(|(_, value, most)| value > most)
        .map(|(label, value, most)| format!("{label}: {value:.2}, the limit is {most}"))
        .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(format!("past issues cost too much:\n  {}", exceeded.join("\n  ")))
}

pub fn tables(soak: &Soak) -> String {
    let mut text = format!("Issues at once: {}.\n\n", soak.plan.at_once);
    text.push_str(
        "| issues done | in a second | CPU of the daemon, each | CPU of all, each | memory (RSS) | anonymous | descriptors |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut before: Option<&Reading> = None;
    for stop in &soak.stops {
        let reading = &stop.reading;
        let used = reading.per_issue(before);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            reading.issues,
            value(used.per_second, ""),
            value(used.daemon_ms, "ms"),
            value(used.all_ms, "ms"),
            value(reading.rss_mb(), "MB"),
            value(reading.anonymous_mb(), "MB"),
            reading.descriptors,
        );
        before = Some(reading);
    }
    text.push('\n');
    let kinds = soak.stops[0].disk.iter().map(|disk| disk.kind);
    head(
        &mut text,
        "disk for each issue",
        kinds.chain(["all", "all together"]),
    );
    for stop in &soak.stops {
        let all: u64 = stop.disk.iter().map(|disk| disk.bytes).sum();
        let each = |bytes: u64| value(bytes as f64 / 1e3 / f64::from(stop.reading.issues), "kB");
        let cells = stop.disk.iter().map(|disk| each(disk.bytes));
        row(
            &mut text,
            stop.reading.issues,
            cells.chain([each(all), value(all as f64 / 1e6, "MB")]),
        );
    }
    text.push('\n');
    let names = soak.stops[0].queries.iter().map(Query::label);
    head(&mut text, "time of a query", names);
    for stop in &soak.stops {
        let cells = stop.queries.iter().map(|query| value(query.ms, "ms"));
        row(&mut text, stop.reading.issues, cells);
    }
    let _ = write!(text, "\n{}", targets(soak));
    text
}

fn targets(soak: &Soak) -> String {
    let mut text = "| measure | value | target |\n| --- | ---: | --- |\n".to_owned();
    let mut line = |label: &str, number: f64, unit: &str, target: Target| {
        let verdict = target.verdict(number, None, unit, |part| part.to_string());
        let _ = writeln!(text, "| {label} | {} | {} |", value(number, unit), verdict);
    };
    if let Some(growth) = Growth::of(soak) {
        let same = Target::Below(1.1);
        line(
            "CPU of the daemon for an issue, the last 1,500 relative to the first 2,000",
            growth.daemon(),
            "",
            same,
        );
        line("CPU of all processes, likewise", growth.all(), "", same);
        line(
            "time for an issue, likewise",
            growth.early.per_second / growth.late.per_second,
            "",
            same,
        );
        line(
            "growth of the anonymous memory for 1,000 issues",
            growth.memory_mb,
            "MB",
            Target::None,
        );
    }
    let memory = soak.readings.iter().map(Reading::rss_mb).fold(0.0, f64::max);
    line(
        "most memory (RSS) of the daemon",
        memory,
        "MB",
        Target::Below(40.0),
    );
    let restart = &soak.restart;
    line(
        "from a start after `kill -9` until the daemon is ready",
        restart.ready_ms,
        "ms",
        Target::Below(1000.0),
    );
    line(
        "its memory (RSS) ten seconds later",
        restart.rss_bytes as f64 / 1e6,
        "MB",
        Target::Below(40.0),
    );
    let queries = || soak.stops.iter().flat_map(|stop| &stop.queries);
    let slowest =
        |queries: &mut dyn Iterator<Item = &Query>| queries.map(|query| query.ms).fold(0.0, f64::max);
    line(
        "slowest query with a daemon",
        slowest(&mut queries()),
        "ms",
        Target::Below(200.0),
    );
    for query in &restart.offline {
        let label = format!("{} without a daemon, at the end", query.label());
        line(&label, query.ms, "ms", Target::Below(200.0));
    }
    text
}

pub fn charts(soak: &Soak) -> Vec<Chart> {
    let issues = Axis {
        label: "issues done",
        is_logarithmic: false,
    };
    let sections = Axis {
        is_logarithmic: true,
        ..issues
    };
    let chart = |file, title: &str, x, y, lines| Chart {
        file,
        title: title.to_owned(),
        x,
        y,
        lines,
    };
    let readings = &soak.readings;
    // A short last interval says little.
    let full: Vec<(&Reading, PerIssue)> = std::iter::once(None)
        .chain(readings.iter().map(Some))
        .zip(readings)
        .map(|(before, reading)| (before, reading, reading.per_issue(before)))
        .filter(|(before, reading, _)| is_long(*before, reading))
        .map(|(_, reading, used)| (reading, used))
        .collect();
    let used = |name, value: fn(&PerIssue) -> f64| {
        Line::new(
            name,
            &full,
            |item| f64::from(item.0.issues),
            move |item| value(&item.1),
        )
    };
    let state = |name, value: fn(&Reading) -> f64| {
        Line::new(name, readings, |reading| f64::from(reading.issues), value)
    };
    let stops = &soak.stops;
    let done = |stop: &super::course::Stop| f64::from(stop.reading.issues);
    let kinds = stops[0].disk.iter().enumerate();
    let disk = kinds.map(|(nth, disk)| {
        Line::new(disk.kind, stops, done, move |stop| {
            stop.disk[nth].bytes as f64 / 1e3 / done(stop)
        })
    });
    let queries = |of_program: bool| {
        let names = stops[0].queries.iter().enumerate();
        names
            .filter(|(_, query)| query.is_command() == of_program)
            .map(|(nth, query)| Line::new(query.name, stops, done, move |stop| stop.queries[nth].ms))
            .collect()
    };
    vec![
        chart(
            "soak-cpu",
            "CPU for each issue",
            issues,
            "ms",
            vec![
                used("all processes", |used| used.all_ms),
                used("daemon", |used| used.daemon_ms),
            ],
        ),
        chart(
            "soak-memory",
            "Memory of the daemon",
            issues,
            "MB",
            vec![
                state("RSS", Reading::rss_mb),
                state("anonymous", Reading::anonymous_mb),
            ],
        ),
        chart(
            "soak-descriptors",
            "Open descriptors of the daemon",
            issues,
            "",
            vec![state("descriptors", |reading| reading.descriptors as f64)],
        ),
        chart("soak-disk", "Disk for each issue", sections, "kB", disk.collect()),
        chart(
            "soak-commands",
            "Time of a command",
            sections,
            "ms",
            queries(true),
        ),
        chart(
            "soak-requests",
            "Time of a request of the dashboard",
            sections,
            "ms",
            queries(false),
        ),
    ]
}

impl Reading {
    fn rss_mb(&self) -> f64 {
        self.rss_bytes as f64 / 1e6
    }

    fn anonymous_mb(&self) -> f64 {
        self.anonymous_bytes as f64 / 1e6
    }
}

impl Query {
    fn is_command(&self) -> bool {
        self.name.starts_with("vik ")
    }

    fn label(&self) -> String {
        if self.is_command() {
            format!("`{}`", self.name)
        } else {
            format!("API: {}", self.name)
        }
    }
}

fn value(number: f64, unit: &str) -> String {
    shown(Some(number), unit)
}

/// Adds the head of a table whose first column is the number of issues.
fn head<T: AsRef<str>>(text: &mut String, first: &str, names: impl Iterator<Item = T>) {
    let names: Vec<T> = names.collect();
    let _ = write!(text, "| {first}, after issues |");
    for name in &names {
        let _ = write!(text, " {} |", name.as_ref());
    }
    let _ = writeln!(text, "\n|{}", " ---: |".repeat(names.len() + 1));
}

fn row(text: &mut String, issues: u32, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _ = writeln!(text, "| {issues} | {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::super::course::{Disk, Plan, Restart, Stop, Usage};
    use super::*;

    /// Returns a soak of 5,000 issues; the daemon's CPU for an issue grows by this much in each 500.
    fn soak(growth_ms: f64) -> Soak {
        soak_on_machine(growth_ms, 1.0)
    }

    /// Returns the same on a machine that needs this many times the CPU for the second half.
    fn soak_on_machine(growth_ms: f64, slower: f64) -> Soak {
        let mut usage = Usage::default();
        let mut readings = Vec::new();
        for step in 1..=10 {
            usage.wall_secs += 10.0;
            let slower = if step > 5 { slower } else { 1.0 };
            usage.daemon_secs += slower * 0.5 * (10.0 + growth_ms * f64::from(step));
            usage.all_secs += slower * 0.5 * (30.0 + growth_ms * f64::from(step));
            readings.push(Reading {
                issues: step * 500,
                usage,
                rss_bytes: 30_000_000,
                anonymous_bytes: 10_000_000 + u64::from(step) * 500_000,
                descriptors: 20,
            });
        }
        let query = |ms| Query { name: "vik runs", ms };
        let stop = |index: usize| Stop {
            reading: readings[index],
            disk: vec![Disk {
                kind: "ledger",
                bytes: 10_000_000,
            }],
            queries: vec![query(250.0)],
        };
        Soak {
            plan: Plan {
                issues: 5_000,
                at_once: 6,
            },
            stops: vec![stop(1), stop(9)],
            readings,
            restart: Restart {
                ready_ms: 100.0,
                rss_bytes: 30_000_000,
                anonymous_bytes: 10_000_000,
                offline: vec![query(50.0)],
            },
        }
    }

    #[test]
    fn growth_compares_the_cheapest_intervals_of_two_periods() {
        let growth = Growth::of(&soak(1.0)).unwrap();
        assert_eq!((growth.early.daemon_ms, growth.late.daemon_ms), (12.0, 18.0));
        assert_eq!(growth.memory_mb, 1.0);
        let mut short = soak(1.0);
        short.readings.truncate(6);
        assert!(Growth::of(&short).is_none());
    }

    #[test]
    fn check_fails_for_what_grows_too_much() {
        assert_eq!(check(&soak(0.0)), Ok(()));
        let error = check(&soak(100.0)).unwrap_err();
        assert!(
            error.contains("CPU of the daemon")
                && error.contains("CPU of all")
                && !error.contains("megabytes"),
            "{error}"
        );
        let mut large = soak(0.0);
        large.readings[9].anonymous_bytes += 1_000_000_000;
        let error = check(&large).unwrap_err();
        assert!(error.contains("megabytes") && !error.contains("CPU"), "{error}");
    }

    #[test]
    fn check_ignores_the_load_of_the_machine() {
        assert_eq!(check(&soak_on_machine(0.0, 1.4)), Ok(()));
        let error = check(&soak_on_machine(0.8, 1.0)).unwrap_err();
        assert!(error.contains("CPU of the daemon"), "{error}");
    }

    #[test]
    fn tables_show_sections_and_targets() {
        let text = tables(&soak(0.0));
        for line in [
            "| 1000 | 50.0 | 10.0 ms | 30.0 ms | 30.0 MB | 11.0 MB | 20 |",
            "| 5000 | 50.0 | 10.0 ms | 30.0 ms | 30.0 MB | 15.0 MB | 20 |",
            "| 5000 | 2.00 kB | 2.00 kB | 10.0 MB |",
            "| 5000 | 250 ms |",
            "| slowest query with a daemon | 250 ms | < 200 ms: **not reached** |",
            "| `vik runs` without a daemon, at the end | 50.0 ms | < 200 ms: reached |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
