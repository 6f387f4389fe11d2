//! `cargo xtask …`: the project's own tasks. One file per task; `.ci/run` calls them too.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task talks to the person who started it"
)]

mod bench;
mod chaos;
mod fuzz;
mod generate;
mod live;
mod repo;
mod simulate;
mod test;
mod tidy;
mod web;
mod whole_run;

use std::process::ExitCode;

use clap::Parser;

/// The project's own tasks
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", max_term_width = 110)]
enum Task {
    /// Install the pinned agent CLIs, then run all tests of the workspace
    Test(test::TestArgs),
    /// Write the files that are made from the code, or check that they are current
    Generate(generate::GenerateArgs),
    /// Check what no compiler checks: file sizes, leftover notes, machine paths
    Tidy,
    /// Kill daemons, shims and agents at every named point and at random, and see that nothing is lost
    Chaos(chaos::ChaosArgs),
    /// Feed every reader of foreign text with made-up input
    Fuzz(fuzz::FuzzArgs),
    /// Measure whole daemons, beside the published vik 0.1.3
    Bench(bench::BenchArgs),
    /// Let vex and other agents do small tasks with a real model on this machine
    Live(live::LiveArgs),
    /// Run the core in simulated worlds, and check what must always hold
    Simulate(simulate::SimulateArgs),
    /// Look at the dashboard in a real browser, and at the HTTP API by its OpenAPI document
    Web(web::WebArgs),
    /// Let real agents work on this repository, and print a report of it
    WholeRun(whole_run::WholeRunArgs),
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Test(args) => test::run(&args),
        Task::Generate(args) => generate::run(&args),
        Task::Tidy => tidy::run(),
        Task::Chaos(args) => chaos::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Live(args) => live::run(&args),
        Task::Simulate(args) => simulate::run(&args),
        Task::Web(args) => web::run(&args),
        Task::WholeRun(args) => whole_run::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
