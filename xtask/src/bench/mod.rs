//! `cargo xtask bench`: whole processes, this Vik and the published vik 0.1.3 alternately, on one
//! machine in one run.

mod bounds;
mod limits;
mod machines;
pub mod metric;
pub mod sample;
mod scenarios;
pub mod scene;
mod sessions;
pub mod setting;
mod vex;
mod watched;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use self::metric::Measured;
use self::scenarios::Scenario;
use self::setting::{Sandbox, Subject};
use crate::chart::{self, Chart};
use crate::interrupt;
use crate::repo::{self, TaskResult};

/// The version that is measured for comparison.
const PREDECESSOR: &str = "0.1.3";
/// The page of the tables, and its folder of plots.
const PAGE: &str = "docs/performance.md";
const PLOTS: &str = "performance";
/// The marks around the table of the daemon.
const MARKS: (&str, &str) = (
    "<!-- begin: cargo xtask bench -->",
    "<!-- end: cargo xtask bench -->",
);

/// `cargo xtask bench`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// Scenarios to measure [default: all]
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<Scenario>,
    /// Number of rounds of each scenario; the median is reported
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Program of vik 0.1.3 to compare with [default: installed once into target/bench]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "alone")]
    predecessor: Option<PathBuf>,
    /// Do not compare with vik 0.1.3
    #[arg(long)]
    alone: bool,
    /// Program of Vik to measure [default: a release build of this repository]
    #[arg(long, value_name = "PROGRAM")]
    vik: Option<PathBuf>,
    /// Write the table to docs/performance.md; requires all scenarios
    #[arg(long, conflicts_with_all = ["scenarios", "alone"])]
    write: bool,
    /// Measure only what CI enforces: CPU of 500 starts and of many events, relative to vik 0.1.3;
    /// fail if a ratio is a third above its bound
    #[arg(long, conflicts_with_all = ["scenarios", "alone", "write"])]
    short: bool,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// Compare vex with Codex CLI and Claude Code on a scripted model
    Vex(vex::VexBenchArgs),
    /// Measure memory, CPU, adoption and stop by the number of live sessions
    Sessions(sessions::SessionsArgs),
    /// Measure a hub and workers on a Temporal server beside a daemon
    Machines(machines::MachinesArgs),
}

pub fn run(args: &BenchArgs) -> TaskResult {
    if !cfg!(target_os = "linux") {
        return Err("the benchmark requires Linux, because it reads /proc".to_owned());
    }
    match &args.other {
        Some(Other::Vex(args)) => return vex::run(args),
        Some(Other::Sessions(args)) => return sessions::run(args),
        Some(Other::Machines(args)) => return machines::run(args),
        None => {}
    }
    sample::inherit_orphans()?;
    let theirs = if args.alone {
        None
    } else {
        predecessor(args.predecessor.as_deref())
    };
    if args.short && theirs.is_none() {
        println!("skipped: the comparison with vik {PREDECESSOR}: it cannot be installed");
        return Ok(());
    }
    let ours = ours(args.vik.as_deref())?;
    let helper = repo::release("vik-testkit", "vik-bench-helper")?;
    let subjects: Vec<&Subject> = std::iter::once(&ours).chain(&theirs).collect();
    // Scenarios that are sensitive to load come first, the long wait last.
    let all = [
        Scenario::Latency,
        Scenario::Watched,
        Scenario::Crowd,
        Scenario::Thousand,
        Scenario::Pulls,
        Scenario::Streaming,
        Scenario::Events,
        Scenario::Feed,
        Scenario::Idle,
    ];
    let scenarios = if args.short {
        &[Scenario::Crowd, Scenario::Events]
    } else if args.scenarios.is_empty() {
        &all[..]
    } else {
        &args.scenarios
    };
    interrupt::watch()?;
    let rounds = usize::from(args.rounds);
    let measured = measure(scenarios, &subjects, rounds, &helper)?;
    if args.short {
        println!("{}\n", repo::machine()?);
        return bounds::check(&measured[0], &measured[1]);
    }
    let table = metric::table(&measured[0], measured.get(1), rounds);
    println!("{}\n\n{table}", repo::machine()?);
    if theirs.is_none() && !args.alone {
        println!("warning: cannot install vik {PREDECESSOR}; the table has no comparison");
    }
    if args.write {
        put_in_page(MARKS, &table, &[])
    } else {
        Ok(())
    }
}

/// Measures all scenarios, in each round one program after the other.
fn measure(
    scenarios: &[Scenario],
    subjects: &[&Subject],
    rounds: usize,
    helper: &Path,
) -> TaskResult<Vec<Measured>> {
    let mut measured = vec![Measured::new(); subjects.len()];
    for scenario in scenarios {
        for round in 1..=rounds {
            for (nth, (subject, measured)) in subjects.iter().zip(&mut measured).enumerate() {
                if nth > 0 && !scenario.supports_predecessor() {
                    continue;
                }
                eprintln!(
                    "{scenario:?}, round {round} of {rounds}: {} (load {})",
                    subject.name,
                    repo::load_average()
                );
                for (key, values) in scenario.measure(subject, helper)? {
                    measured.entry(key).or_default().extend(values);
                }
            }
        }
    }
    Ok(measured)
}

/// Returns the Vik of this repository, built for release unless a program is given.
pub fn ours(given: Option<&Path>) -> TaskResult<Subject> {
    let program = given.map_or_else(|| repo::release("vik", "vik"), |program| Ok(program.to_owned()))?;
    Ok(Subject {
        name: "vik",
        program,
        sandbox: Sandbox::Default,
    })
}

/// Returns the published predecessor, and installs it if it is missing; `None` if that fails.
fn predecessor(given: Option<&Path>) -> Option<Subject> {
    let name = "vik 0.1.3";
    if let Some(program) = given {
        return Some(Subject {
            name,
            program: program.to_owned(),
            sandbox: Sandbox::Missing,
        });
    }
    let root = repo::target().join("bench").join(format!("vik-{PREDECESSOR}"));
    let program = root.join("bin/vik");
    if !program.exists() {
        eprintln!("Installing vik {PREDECESSOR} (only once)");
        let mut install = repo::cargo();
        install
            .args(["install", "vik", "--version", PREDECESSOR, "--locked", "--root"])
            .arg(&root);
        install.env_remove("CARGO_TARGET_DIR");
        if let Err(error) = repo::run(&mut install) {
            eprintln!("{error}");
            return None;
        }
    }
    Some(Subject {
        name,
        program,
        sandbox: Sandbox::Missing,
    })
}

/// Puts text with a table between its marks in the page, with plots below it.
pub fn put_in_page(marks: (&str, &str), text: &str, charts: &[Chart]) -> TaskResult {
    let page = repo::root().join(PAGE);
    chart::write(charts, &page.with_file_name(PLOTS))?;
    let images = chart::images(charts, PLOTS);
    let separator = if images.is_empty() { "" } else { "\n" };
    let text = format!("{}\n\n{text}{separator}{images}", repo::machine()?);
    repo::put_between(&page, marks, &text)
}
