//! The metrics, their targets, and the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The values of one round, by metric.
pub type Measured = BTreeMap<Key, Vec<f64>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    PollToExec,
    Claim,
    FloodedPoll,
    FloodedCpu,
    WatchedPoll,
    WatchedCpu,
    WatchedFacts,
    FeedRate,
    FeedShare,
    FeedKept,
    LoopAlone,
    LoopBeside,
    EventsWall,
    EventsCpu,
    EventsChildrenCpu,
    EventsPeak,
    EventsWritten,
    CrowdStarted,
    CrowdCpu,
    CrowdPeak,
    CrowdShims,
    IdleRss,
    IdlePss,
    IdlePeak,
    IdleCpu,
    OtherRss,
    OtherPss,
    OtherPeak,
    OtherCpu,
    WaitingRss,
    WaitingPss,
    WaitingPeak,
    WaitingCpu,
    PullsOther,
    PullsWaiting,
    LivingRss,
    LivingPss,
    LivingCpu,
    LivingEvent,
    LivingShim,
    Adopted,
    AdoptedRss,
    StoppedAll,
}

/// How the values of all rounds are combined.
#[derive(Clone, Copy, Debug)]
enum Statistic {
    Median,
    P99,
    Least,
}

/// The target of a metric.
#[derive(Clone, Copy, Debug)]
enum Target {
    None,
    Below(f64),
    /// At most this share of the predecessor's value.
    Part(f64),
}

struct Row {
    key: Key,
    statistic: Statistic,
    label: &'static str,
    unit: &'static str,
    target: Target,
}

const fn row(key: Key, label: &'static str, unit: &'static str, target: Target) -> Row {
    Row {
        key,
        statistic: Statistic::Median,
        label,
        unit,
        target,
    }
}

const ROWS: &[Row] = &[
    row(
        Key::PollToExec,
        "end of the pull's output to the agent's first instruction, p50",
        "ms",
        Target::Below(15.0),
    ),
    Row {
        key: Key::PollToExec,
        statistic: Statistic::P99,
        label: "the same, p99",
        unit: "ms",
        target: Target::None,
    },
    row(
        Key::Claim,
        "— of it, from the decision until the claim is on disk, p50 (to the millisecond)",
        "ms",
        Target::None,
    ),
    row(
        Key::FloodedPoll,
        "the same while ten agents print 10,000 events a second, p50",
        "ms",
        Target::None,
    ),
    Row {
        key: Key::FloodedPoll,
        statistic: Statistic::P99,
        label: "— p99",
        unit: "ms",
        target: Target::None,
    },
    row(
        Key::FloodedCpu,
        "— CPU of the daemon, of a core",
        "%",
        Target::None,
    ),
    row(
        Key::WatchedPoll,
        "— and 200 clients read the feed of the API, p50",
        "ms",
        Target::None,
    ),
    Row {
        key: Key::WatchedPoll,
        statistic: Statistic::P99,
        label: "— p99",
        unit: "ms",
        target: Target::None,
    },
    row(
        Key::WatchedCpu,
        "— CPU of the daemon, of a core",
        "%",
        Target::None,
    ),
    Row {
        key: Key::WatchedFacts,
        statistic: Statistic::Least,
        label: "— facts in a second to the client that got least",
        unit: "",
        target: Target::None,
    },
    row(
        Key::FeedRate,
        "the feed alone: facts told in a second, to 200 clients each",
        "",
        Target::None,
    ),
    Row {
        key: Key::FeedShare,
        statistic: Statistic::Least,
        label: "— of them, what the client got that got least",
        unit: "%",
        target: Target::None,
    },
    row(Key::FeedKept, "— clients that kept up", "", Target::None),
    row(
        Key::LoopAlone,
        "— a loop like the daemon's gets its messages, before it, p50",
        "ms",
        Target::None,
    ),
    Row {
        key: Key::LoopAlone,
        statistic: Statistic::P99,
        label: "— p99",
        unit: "ms",
        target: Target::None,
    },
    row(Key::LoopBeside, "— beside it, p50", "ms", Target::None),
    Row {
        key: Key::LoopBeside,
        statistic: Statistic::P99,
        label: "— p99",
        unit: "ms",
        target: Target::None,
    },
    row(
        Key::EventsWall,
        "10 sessions of 100,000 events: wall",
        "s",
        Target::None,
    ),
    row(Key::EventsCpu, "— CPU of the daemon", "s", Target::Part(0.2)),
    row(Key::EventsChildrenCpu, "— CPU of its children", "s", Target::None),
    row(Key::EventsPeak, "— peak memory of the daemon", "MB", Target::None),
    row(Key::EventsWritten, "— files at the end", "MB", Target::None),
    row(
        Key::CrowdStarted,
        "500 issues at once: until all agents run",
        "s",
        Target::None,
    ),
    row(Key::CrowdCpu, "— CPU of the daemon", "s", Target::None),
    row(
        Key::CrowdPeak,
        "— peak memory of the daemon",
        "MB",
        Target::Below(64.0),
    ),
    row(Key::CrowdShims, "— memory of all shims (PSS)", "MB", Target::None),
    row(
        Key::IdleRss,
        "idle, empty pull: memory (RSS)",
        "MB",
        Target::Below(15.0),
    ),
    row(Key::IdlePss, "— memory (PSS)", "MB", Target::None),
    row(Key::IdlePeak, "— peak memory", "MB", Target::None),
    row(Key::IdleCpu, "— CPU in a second", "ms", Target::None),
    row(
        Key::OtherRss,
        "idle, 10,000 issues that match no stage: memory (RSS)",
        "MB",
        Target::Below(15.0),
    ),
    row(Key::OtherPss, "— memory (PSS)", "MB", Target::None),
    row(Key::OtherPeak, "— peak memory", "MB", Target::None),
    row(Key::OtherCpu, "— CPU in a second", "ms", Target::None),
    row(
        Key::WaitingRss,
        "one agent busy, 10,000 issues wait: memory (RSS)",
        "MB",
        Target::None,
    ),
    row(Key::WaitingPss, "— memory (PSS)", "MB", Target::None),
    row(Key::WaitingPeak, "— peak memory", "MB", Target::None),
    row(Key::WaitingCpu, "— CPU in a second", "ms", Target::None),
    row(
        Key::PullsOther,
        "a pull of 10,000 issues every second that match no stage: CPU, of a core",
        "%",
        Target::Below(2.0),
    ),
    row(
        Key::PullsWaiting,
        "— that match, while one agent has the only place",
        "%",
        Target::Below(2.0),
    ),
    row(
        Key::LivingRss,
        "1,000 sessions that live: memory (RSS) of the daemon",
        "MB",
        Target::Below(100.0),
    ),
    row(Key::LivingPss, "— memory (PSS)", "MB", Target::None),
    row(
        Key::LivingCpu,
        "— CPU in a second, while they are silent",
        "ms",
        Target::None,
    ),
    row(
        Key::LivingEvent,
        "— CPU for each event, their start included",
        "µs",
        Target::None,
    ),
    row(
        Key::LivingShim,
        "— private memory of a shim",
        "kB",
        Target::Below(1000.0),
    ),
    row(
        Key::Adopted,
        "— the daemon is killed: from the start of another to a session's adoption, p50",
        "ms",
        Target::None,
    ),
    Row {
        key: Key::Adopted,
        statistic: Statistic::P99,
        label: "— the same, p99",
        unit: "ms",
        target: Target::Below(1000.0),
    },
    row(
        Key::AdoptedRss,
        "— memory (RSS) of the daemon after it",
        "MB",
        Target::None,
    ),
    row(
        Key::StoppedAll,
        "— `vik stop` until no descendant lives",
        "s",
        Target::None,
    ),
];

/// Returns the table and its targets.
pub fn table(ours: &Measured, theirs: Option<&Measured>, rounds: usize) -> String {
    let mut text = format!(
        "| median of {rounds} rounds | vik | vik 0.1.3 | ratio | target |\n| --- | ---: | ---: | ---: | --- |\n"
    );
    for row in ROWS {
        let Some(value) = row.value(ours) else { continue };
        let other = theirs.and_then(|theirs| row.value(theirs));
        let shown = |value: Option<f64>| {
            value.map_or_else(
                || "–".to_owned(),
                |value| format!("{} {}", short(value), row.unit).trim_end().to_owned(),
            )
        };
        let ratio = other
            .filter(|other| *other > 0.0)
            .map_or_else(|| "–".to_owned(), |other| format!("{:.2}", value / other));
        let (wish, reached) = match row.target {
            Target::None => (String::new(), None),
            Target::Below(most) => (format!("< {most} {}", row.unit), Some(value < most)),
            Target::Part(part) => (
                format!("at most {part} of 0.1.3"),
                other.map(|other| value <= part * other),
            ),
        };
        let verdict = match reached {
            Some(true) => ": reached",
            Some(false) => ": **not reached**",
            None if wish.is_empty() => "",
            None => ": not known",
        };
        let (ours, theirs) = (shown(Some(value)), shown(other));
        let _ = writeln!(
            text,
            "| {} | {ours} | {theirs} | {ratio} | {wish}{verdict} |",
            row.label
        );
    }
    text
}

impl Row {
    fn value(&self, measured: &Measured) -> Option<f64> {
        let mut values = measured
            .get(&self.key)
            .filter(|values| !values.is_empty())?
            .clone();
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        let index = match self.statistic {
            Statistic::Median => last / 2,
            Statistic::P99 => (last as f64 * 0.99).ceil() as usize,
            Statistic::Least => 0,
        };
        values.get(index).copied()
    }
}

/// Formats a number with three digits.
pub fn short(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_medians_ratios_and_targets() {
        let ours = Measured::from([
            (Key::PollToExec, vec![9.0, 20.0, 10.0]),
            (Key::EventsCpu, vec![2.0]),
        ]);
        let theirs = Measured::from([(Key::PollToExec, vec![5.0]), (Key::EventsCpu, vec![8.0])]);
        let table = table(&ours, Some(&theirs), 3);
        assert!(
            table.contains("p50 | 10.0 ms | 5.00 ms | 2.00 | < 15 ms: reached |"),
            "{table}"
        );
        assert!(table.contains("p99 | 20.0 ms | 5.00 ms | 4.00 |  |"), "{table}");
        assert!(
            table.contains("daemon | 2.00 s | 8.00 s | 0.25 | at most 0.2 of 0.1.3: **not reached** |"),
            "{table}"
        );
        assert!(
            !table.contains("idle"),
            "what was not measured is not shown: {table}"
        );
    }
}
