//! The metrics, their targets, and the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::bounds;

/// The values of one round, by metric.
pub type Measured = BTreeMap<Key, Vec<f64>>;

/// How the values of all rounds are combined.
#[derive(Clone, Copy, Debug)]
pub enum Statistic {
    Median,
    P99,
    Least,
}

/// The target of a metric.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    None,
    Below(f64),
    /// At most this share of the value that is compared with.
    Part(f64),
}

struct Row {
    key: Key,
    statistic: Statistic,
    label: &'static str,
    unit: &'static str,
    target: Target,
}

/// Declares the metrics, each with the rows of the table that show it.
macro_rules! metrics {
    ($($key:ident { $($statistic:ident $label:literal $unit:literal $target:expr;)+ })+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Key {
            $($key),+
        }

        const ROWS: &[Row] = &[$($(Row {
            key: Key::$key,
            statistic: Statistic::$statistic,
            label: $label,
            unit: $unit,
            target: $target,
        }),+),+];
    };
}

metrics! {
    PollToExec {
        Median "end of the pull's output to the agent's first instruction, p50" "ms" Target::Below(15.0);
        P99 "the same, p99" "ms" Target::Below(50.0);
    }
    Claim {
        Median "— of it, from the decision until the claim is on disk, p50 (to the millisecond)" "ms" Target::None;
    }
    FloodedPoll {
        Median "the same while ten agents print 10,000 events a second, p50" "ms" Target::None;
        P99 "— p99" "ms" Target::None;
    }
    FloodedCpu { Median "— CPU of the daemon, of a core" "%" Target::None; }
    WatchedPoll {
        Median "— and 200 clients read the feed of the API, p50" "ms" Target::None;
        P99 "— p99" "ms" Target::None;
    }
    WatchedCpu { Median "— CPU of the daemon, of a core" "%" Target::None; }
    WatchedFacts { Least "— facts in a second to the client that got least" "" Target::None; }
    FeedRate { Median "the feed alone: facts sent in a second, to 200 clients each" "" Target::None; }
    FeedShare { Least "— of them, what the client got that got least" "%" Target::None; }
    FeedKept { Median "— clients that kept up" "" Target::None; }
    LoopAlone {
        Median "— a loop like the daemon's gets its messages, before it, p50" "ms" Target::None;
        P99 "— p99" "ms" Target::None;
    }
    LoopBeside {
        Median "— beside it, p50" "ms" Target::None;
        P99 "— p99" "ms" Target::None;
    }
    EventsWall { Median "10 sessions of 100,000 events: wall" "s" Target::None; }
    EventsTotalCpu { Median "— CPU of all its processes" "s" Target::Part(bounds::EVENTS.target); }
    EventsCpu { Median "— of it, the daemon" "s" Target::None; }
    EventsPeak { Median "— peak memory of the daemon" "MB" Target::None; }
    EventsWritten { Median "— files at the end" "MB" Target::None; }
    Streaming {
        Median "ten agents that each print ten parts of an answer in a second: CPU of the daemon, of a core" "%" Target::Below(3.0);
    }
    CrowdStarted { Median "500 issues at once: until all agents run" "s" Target::Part(1.5); }
    CrowdTotalCpu { Median "— CPU of all its processes, until all are stopped" "s" Target::Part(bounds::CROWD.target); }
    CrowdCpu { Median "— of it, the daemon" "s" Target::None; }
    CrowdPeak { Median "— peak memory of the daemon" "MB" Target::Below(64.0); }
    CrowdOffCpu {
        Median "— with `sandbox: off`: CPU of all its processes, until all are stopped" "s" Target::Part(bounds::CROWD_WITHOUT_SANDBOX.target);
    }
    CrowdShims { Median "— memory of all shims (PSS)" "MB" Target::None; }
    IdleRss { Median "idle, empty pull: memory (RSS)" "MB" Target::Below(15.0); }
    IdlePss { Median "— memory (PSS)" "MB" Target::None; }
    IdlePeak { Median "— peak memory" "MB" Target::None; }
    IdleCpu { Median "— CPU in a second" "ms" Target::None; }
    OtherRss { Median "idle, 10,000 issues that match no stage: memory (RSS)" "MB" Target::Below(15.0); }
    OtherPss { Median "— memory (PSS)" "MB" Target::None; }
    OtherPeak { Median "— peak memory" "MB" Target::None; }
    OtherCpu { Median "— CPU in a second" "ms" Target::None; }
    WaitingRss { Median "one agent busy, 10,000 issues wait: memory (RSS)" "MB" Target::None; }
    WaitingPss { Median "— memory (PSS)" "MB" Target::None; }
    WaitingPeak { Median "— peak memory" "MB" Target::None; }
    WaitingCpu { Median "— CPU in a second" "ms" Target::None; }
    PullsOther {
        Median "a pull of 10,000 issues every second that match no stage: CPU, of a core" "%" Target::Below(2.0);
    }
    PullsWaiting { Median "— that match, while one agent has the only place" "%" Target::Below(2.0); }
    LivingStarted { Median "1,000 sessions that live: until all agents run" "s" Target::Below(8.0); }
    LivingRss { Median "— memory (RSS) of the daemon" "MB" Target::Below(70.0); }
    LivingPss { Median "— memory (PSS)" "MB" Target::None; }
    LivingCpu { Median "— CPU of the daemon in a second, while they are silent" "ms" Target::None; }
    LivingShimsCpu { Median "— CPU of all shims in a second, while they are silent" "ms" Target::Below(40.0); }
    LivingShimsOffCpu { Median "— the same with `sandbox: off`" "ms" Target::Below(40.0); }
    LivingEvent { Median "— CPU for each event, their start included" "µs" Target::None; }
    LivingShim { Median "— private memory of a shim" "kB" Target::Below(1000.0); }
    Adopted {
        Median "— the daemon is killed: from the start of another to a session's adoption, p50" "ms" Target::None;
        P99 "— the same, p99" "ms" Target::Below(1000.0);
    }
    AdoptedRss { Median "— memory (RSS) of the daemon after it" "MB" Target::None; }
    StoppedAll { Median "— `vik stop` until no descendant lives" "s" Target::None; }
}

/// Returns the table and its targets.
pub fn table(ours: &Measured, theirs: Option<&Measured>, rounds: usize) -> String {
    let mut text = format!(
        "| median of {rounds} rounds | vik | vik 0.1.3 | ratio | target |\n| --- | ---: | ---: | ---: | --- |\n"
    );
    for row in ROWS {
        let value = |measured: &Measured| row.statistic.of(measured.get(&row.key)?.clone());
        let Some(our) = value(ours) else { continue };
        let their = theirs.and_then(value);
        let verdict = row
            .target
            .verdict(our, their, row.unit, |part| format!("at most {part} of 0.1.3"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {verdict} |",
            row.label,
            shown(Some(our), row.unit),
            shown(their, row.unit),
            ratio(our, their)
        );
    }
    text
}

impl Statistic {
    /// Returns the value of this statistic; `None` if there are no values.
    pub fn of(self, mut values: Vec<f64>) -> Option<f64> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let index = match self {
            Self::Median => last / 2,
            Self::P99 => (last as f64 * 0.99).ceil() as usize,
            Self::Least => 0,
        };
        values.get(index).copied()
    }
}

impl Target {
    /// Returns the target and whether it is reached, beside the value that is compared with; empty
    /// without a target. `share` describes a share of that value.
    pub fn verdict(
        self,
        ours: f64,
        other: Option<f64>,
        unit: &str,
        share: impl FnOnce(f64) -> String,
    ) -> String {
        let (wish, reached) = match self {
            Self::None => return String::new(),
            Self::Below(most) => (
                format!("< {most} {unit}").trim_end().to_owned(),
                Some(ours < most),
            ),
            Self::Part(part) => (share(part), other.map(|other| ours <= part * other)),
        };
        let reached = match reached {
            Some(true) => "reached",
            Some(false) => "**not reached**",
            None => "not known",
        };
        format!("{wish}: {reached}")
    }
}

/// Returns a value with its unit, or a dash.
pub fn shown(value: Option<f64>, unit: &str) -> String {
    let shown = value.map(|value| format!("{} {unit}", short(value)).trim_end().to_owned());
    shown.unwrap_or_else(|| "–".to_owned())
}

/// Returns the ratio to another value, or a dash.
pub fn ratio(value: f64, other: Option<f64>) -> String {
    let other = other.filter(|other| *other > 0.0);
    other.map_or_else(|| "–".to_owned(), |other| format!("{:.2}", value / other))
}

/// Formats a number with three digits.
fn short(value: f64) -> String {
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
            (Key::EventsTotalCpu, vec![2.0]),
        ]);
        let theirs = Measured::from([(Key::PollToExec, vec![5.0]), (Key::EventsTotalCpu, vec![8.0])]);
        let table = table(&ours, Some(&theirs), 3);
        assert!(
            table.contains("p50 | 10.0 ms | 5.00 ms | 2.00 | < 15 ms: reached |"),
            "{table}"
        );
        assert!(
            table.contains("p99 | 20.0 ms | 5.00 ms | 4.00 | < 50 ms: reached |"),
            "{table}"
        );
        assert!(
            table.contains("processes | 2.00 s | 8.00 s | 0.25 | at most 0.2 of 0.1.3: **not reached** |"),
            "{table}"
        );
        assert!(
            !table.contains("idle"),
            "what was not measured is not shown: {table}"
        );
    }
}
