//! `vik-sim`: runs simulated worlds; `cargo xtask simulate` starts it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool talks to the person who started it"
)]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use vik_sim::{Campaign, Failure, Fault, Figures, KINDS, self_test};

/// Run the core in simulated worlds, and check what must always hold
#[derive(Debug, Parser)]
#[command(name = "cargo xtask simulate", max_term_width = 110)]
struct Args {
    /// How many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed; alone, only this one
    #[arg(long)]
    seed: Option<u64>,
    /// Steps of each seed, before its world is let come to rest
    #[arg(long, default_value_t = 1_000)]
    steps: u64,
    /// Plant a fault, by its name
    #[arg(long, value_name = "NAME")]
    fault: Option<Fault>,
    /// Show that each planted fault is found
    #[arg(long)]
    self_test: bool,
    /// How many of the last events to show of a failure
    #[arg(long, default_value_t = 40)]
    events: usize,
    /// Threads; as many as there are processors
    #[arg(long)]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print a report in Markdown, with the self-test
    #[arg(long, conflicts_with = "json")]
    report: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let threads = args
        .threads
        .or_else(|| std::thread::available_parallelism().ok().map(Into::into))
        .unwrap_or(1);
    println!("{threads} {:?}", args);
    let _ = (self_test, Duration::ZERO);
    let campaign = Campaign {
        first: args.seed.unwrap_or(1),
        seeds: if args.seed.is_some() { 1 } else { args.seeds },
        steps: args.steps,
        fault: args.fault,
        events: args.events,
        threads,
    };
    let figures: Figures = campaign.run(|done, steps, took| {
        eprintln!(
            "{done} seeds, {steps} steps, {:.0} steps/s",
            steps as f64 / took.as_secs_f64()
        );
    });
    println!(
        "{} seeds {} steps {:?} {:x}",
        figures.seeds, figures.steps, figures.took, figures.hash
    );
    for (kind, count) in KINDS.iter().zip(&figures.counts) {
        println!("{count:>10} {kind}");
    }
    let failure: Option<Failure> = figures.failure;
    if let Some(failure) = failure {
        println!(
            "seed {} step {}: {}\n{}\n{}",
            failure.seed,
            failure.step,
            failure.broken,
            failure.events.join("\n"),
            failure.state.join("\n")
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
