//! `cargo xtask bench sessions`: the cost of sessions that live at once, by their number.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::metric::{Statistic, shown};
use super::scenarios::{EVENTS_PRINTED, Living, lines_of_agent, live, megabytes, millis};
use super::setting::Subject;
use super::{limits, ours, put_in_page};
use crate::chart::{self, Axis, Chart, Line};
use crate::interrupt;
use crate::repo::{self, TaskResult};

const MARKS: (&str, &str) = (
    "<!-- begin: cargo xtask bench sessions -->",
    "<!-- end: cargo xtask bench sessions -->",
);

/// The numbers of sessions without `--counts`.
const DEFAULT_COUNTS: [u32; 5] = [100, 500, 1000, 2000, 5000];

/// `cargo xtask bench sessions`
#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// Numbers of sessions, one measurement each [default: 100,500,1000,2000,5000, or as many as this
    /// machine allows]
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    counts: Vec<u32>,
    /// Program of Vik to measure [default: a release build of this repository]
    #[arg(long, value_name = "PROGRAM")]
    vik: Option<PathBuf>,
    /// Write the plots to this folder
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Write the table and the plots to docs/performance.md
    #[arg(long)]
    write: bool,
}

/// The figures of one number of sessions.
struct Step {
    sessions: usize,
    load: String,
    living: Living,
    adopted: Vec<Duration>,
    /// The memory (RSS) of the daemon after it has adopted all sessions.
    adopted_rss: u64,
    /// From `vik stop` until no process is left.
    stopped: Duration,
}

pub fn run(args: &SessionsArgs) -> TaskResult {
    let (counts, note) = counts(&args.counts)?;
    let subject = ours(args.vik.as_deref())?;
    let helper = repo::release("vik-testkit", "vik-bench-helper")?;
    interrupt::watch()?;
    let lines = lines_of_agent(EVENTS_PRINTED)?;
    let mut steps = Vec::new();
    let mut failed = Ok(());
    for sessions in counts.into_iter().map(|count| count as usize) {
        match Step::measure(&subject, &helper, sessions, lines.path()) {
            Ok(step) => steps.push(step),
            Err(error) => {
                failed = Err(format!("{sessions} sessions: {error}"));
                break;
            }
        }
    }
    let (table, charts) = (table(&steps) + &note, charts(&steps));
    println!("{}\n\n{table}", repo::machine()?);
    failed?;
    if let Some(folder) = &args.plot {
        chart::write(&charts, folder)?;
    }
    if args.write {
        put_in_page(MARKS, &table, &charts)?;
    }
    Ok(())
}

/// Returns the numbers of sessions in ascending order, and a paragraph about those of the default
/// that this machine does not allow.
fn counts(given: &[u32]) -> TaskResult<(Vec<u32>, String)> {
    let mut counts = if given.is_empty() {
        DEFAULT_COUNTS.to_vec()
    } else {
        given.to_vec()
    };
    counts.sort_unstable();
    counts.dedup();
    let largest = counts.last().copied().unwrap_or_default();
    let allowed = limits::check(largest);
    if !given.is_empty() {
        return allowed.map(|()| (counts, String::new()));
    }
    let Err(problem) = allowed else {
        return Ok((counts, String::new()));
    };
    eprintln!("warning: {problem}");
    counts.retain(|count| limits::check(*count).is_ok());
    // A round number.
    counts.push(limits::most(largest) / 100 * 100);
    counts.dedup();
    Ok((counts, format!("\n```text\n{problem}\n```\n")))
}

impl Step {
    fn measure(subject: &Subject, helper: &Path, sessions: usize, lines: &Path) -> TaskResult<Self> {
        let load = repo::load_average();
        eprintln!("{sessions} sessions (load {load})");
        let (mut scene, living) = live(subject, helper, sessions, lines)?;
        eprintln!(
            "  all run after {:.1} s; {} processes, {} descriptors of the daemon",
            living.started.as_secs_f64(),
            living.processes,
            living.descriptors
        );
        let adopted = scene.kill_and_restart(sessions)?;
        let adopted_rss = scene.sample()?.rss;
        eprintln!("  adopted; stopping");
        Ok(Self {
            sessions,
            load,
            living,
            adopted,
            adopted_rss,
            stopped: scene.stop_all()?,
        })
    }

    fn adopted_ms(&self, statistic: Statistic) -> f64 {
        let times = self.adopted.iter().map(|time| millis(*time)).collect();
        statistic.of(times).unwrap_or_default()
    }

    /// Returns the median of the private memory of a shim, in kilobytes.
    fn shim_kb(&self) -> f64 {
        let private = self.living.shims_private.iter();
        let median = Statistic::Median.of(private.map(|bytes| *bytes as f64).collect());
        median.unwrap_or_default() / 1e3
    }

    /// Returns the private memory of all shims, in megabytes.
    fn shims_mb(&self) -> f64 {
        megabytes(self.living.shims_private.iter().sum())
    }
}

fn table(steps: &[Step]) -> String {
    let mut text = "| sessions | load before | until all run | memory (RSS) of the daemon | private memory of a shim | of all shims | \
                    CPU of the silent daemon in a second | of all shims | adoption, p50 | p99 | \
                    memory (RSS) after it | `vik stop` |\n"
        .to_owned();
    text.push_str(&format!("|{}\n", " ---: |".repeat(12)));
    for step in steps {
        let living = &step.living;
        let show = |value: f64, unit: &str| shown(Some(value), unit);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            step.sessions,
            step.load,
            show(living.started.as_secs_f64(), "s"),
            show(megabytes(living.daemon.rss), "MB"),
            show(step.shim_kb(), "kB"),
            show(step.shims_mb(), "MB"),
            show(living.daemon_cpu * 1000.0, "ms"),
            show(living.shims_cpu * 1000.0, "ms"),
            show(step.adopted_ms(Statistic::Median), "ms"),
            show(step.adopted_ms(Statistic::P99), "ms"),
            show(megabytes(step.adopted_rss), "MB"),
            show(step.stopped.as_secs_f64(), "s"),
        );
    }
    text
}

fn charts(steps: &[Step]) -> Vec<Chart> {
    let line =
        |name, value: &dyn Fn(&Step) -> f64| Line::new(name, steps, |step| step.sessions as f64, value);
    let chart = |file, title: &str, y, lines| Chart {
        file,
        title: title.to_owned(),
        x: Axis {
            label: "live sessions",
            is_logarithmic: false,
        },
        y,
        lines,
    };
    vec![
        chart(
            "sessions-memory",
            "Memory by the number of live sessions",
            "MB",
            vec![
                line("daemon (RSS)", &|step| megabytes(step.living.daemon.rss)),
                line("daemon after adoption (RSS)", &|step| megabytes(step.adopted_rss)),
                line("all shims (private)", &Step::shims_mb),
            ],
        ),
        chart(
            "sessions-cpu",
            "CPU in a second while all sessions are silent",
            "ms",
            vec![
                line("daemon", &|step| step.living.daemon_cpu * 1000.0),
                line("all shims", &|step| step.living.shims_cpu * 1000.0),
            ],
        ),
        chart(
            "sessions-time",
            "Time until all run, until all are adopted, and until all are stopped",
            "s",
            vec![
                line("all run", &|step| step.living.started.as_secs_f64()),
                line("adoption, p50", &|step| step.adopted_ms(Statistic::Median) / 1e3),
                line("adoption, p99", &|step| step.adopted_ms(Statistic::P99) / 1e3),
                line("vik stop", &|step| step.stopped.as_secs_f64()),
            ],
        ),
    ]
}
