//! `vik-sim`: runs simulated worlds; `cargo xtask simulate` starts it.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool talks to the person who started it"
)]

mod report;

use std::process::ExitCode;

use clap::Parser;
use serde_json::json;

use vik_sim::{Campaign, Caught, Failure, Fault, Figures, KINDS, self_test};

/// The maximum number of seeds for each planted fault.
const MOST_SEEDS: u64 = 400;

/// Run the scheduler in simulated worlds and check its invariants
#[derive(Debug, Parser)]
#[command(name = "cargo xtask simulate", max_term_width = 110)]
struct Args {
    /// Number of seeds to run
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Run only this seed; with `--seeds`, start at this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Number of steps of each seed before its world becomes quiet
    #[arg(long, default_value_t = 1_000)]
    steps: u64,
    /// Plant the fault with this name
    #[arg(long, value_name = "NAME")]
    fault: Option<Fault>,
    /// Also check that each planted fault is found
    #[arg(long)]
    self_test: bool,
    /// Maximum number of last events to print for a failure
    #[arg(long, default_value_t = 40)]
    events: usize,
    /// Number of threads [default: number of processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print a report in Markdown; includes the self-test
    #[arg(long, conflicts_with = "json")]
    report: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // A panic of the core is reported as a failure of its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let processors = || std::thread::available_parallelism().map_or(1, Into::into);
    let threads = args.threads.unwrap_or_else(processors);
    let is_one = args.seed.is_some() && args.seeds == 100;
    let campaign = Campaign {
        first: args.seed.unwrap_or(1),
        seeds: if is_one { 1 } else { args.seeds },
        steps: args.steps,
        fault: args.fault,
        events: args.events,
        threads,
    };
    let figures = campaign.run(|seeds, steps, took| {
        let rate = steps as f64 / took.as_secs_f64();
        eprintln!("{seeds} seeds, {steps} steps, {rate:.0} steps/s");
    });
    let caught = if args.self_test || args.report {
        self_test(1, MOST_SEEDS, args.steps.min(1_000), threads)
    } else {
        Vec::new()
    };
    if args.json {
        println!("{}", as_json(&figures, &caught));
    } else if args.report {
        print!("{}", report::markdown(&campaign, &figures, &caught));
    } else {
        print(&figures, &caught);
    }
    let is_blind = caught.iter().any(|caught| caught.found.is_none());
    if figures.failure.is_some() || is_blind {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn print(figures: &Figures, caught: &[Caught]) {
    println!(
        "{} seeds, {} steps in {:.1} s, {:.0} steps/s, hash {:016x}",
        figures.seeds,
        figures.steps,
        figures.took.as_secs_f64(),
        figures.rate(),
        figures.hash
    );
    for (kind, count) in KINDS.iter().zip(&figures.counts) {
        println!("{count:>12}  {kind}");
    }
    if let Some(failure) = &figures.failure {
        show(failure);
    }
    for caught in caught {
        let name = caught.fault.name();
        match &caught.found {
            Some((failure, steps)) => println!(
                "found  {name:<20} after {steps:>7} steps (seed {}): {}",
                failure.seed, failure.broken.invariant
            ),
            None => println!("MISSED {name:<20} {}", caught.fault.about()),
        }
    }
}

fn show(failure: &Failure) {
    println!(
        "\nseed {}, step {}: {}",
        failure.seed, failure.step, failure.broken
    );
    println!("\nlast events, each with its step:");
    for event in &failure.events {
        println!("{event}");
    }
    println!("\nexplanation of each issue, and the workflow:");
    for line in &failure.state {
        println!("{line}");
    }
    println!(
        "\nto reproduce: cargo xtask simulate --seed {} --steps N, with the same N",
        failure.seed
    );
}

fn as_json(figures: &Figures, caught: &[Caught]) -> serde_json::Value {
    let events: serde_json::Map<_, _> = KINDS
        .iter()
        .zip(&figures.counts)
        .map(|(kind, count)| ((*kind).to_owned(), json!(count)))
        .collect();
    let failure = figures.failure.as_ref().map(|failure| {
        json!({
            "seed": failure.seed,
            "step": failure.step,
            "invariant": failure.broken.invariant,
            "how": failure.broken.how,
            "hash": format!("{:016x}", failure.hash),
            "events": failure.events,
            "state": failure.state,
        })
    });
    let caught: Vec<_> = caught
        .iter()
        .map(|caught| {
            let found = caught.found.as_ref();
            json!({
                "fault": caught.fault.name(),
                "steps": found.map(|(_, steps)| steps),
                "seed": found.map(|(failure, _)| failure.seed),
                "invariant": found.map(|(failure, _)| failure.broken.invariant),
            })
        })
        .collect();
    json!({
        "seeds": figures.seeds,
        "steps": figures.steps,
        "took_ms": figures.took.as_millis() as u64,
        "hash": format!("{:016x}", figures.hash),
        "events": events,
        "failure": failure,
        "faults": caught,
    })
}
