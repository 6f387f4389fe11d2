//! `cargo xtask …`: the project's own tasks. One file per task; `.ci/run` calls them too.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task talks to the person who started it"
)]

mod bench;
mod chaos;
mod chart;
mod conformance;
mod dist;
mod fuzz;
mod generate;
mod interrupt;
mod live;
mod repo;
mod simulate;
mod soak;
mod temporal;
mod test;
mod tidy;
mod tracker_chaos;
mod web;
mod whole_run;

use std::process::ExitCode;

use clap::Parser;

/// Tasks for the development of Vik
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", max_term_width = 110)]
enum Task {
    /// Install the pinned agent CLIs, then run all tests of the workspace
    Test(test::TestArgs),
    /// Generate files from the code, or check that they are current
    Generate(generate::GenerateArgs),
    /// Check style rules: file sizes, names, leftover notes, machine paths
    Tidy,
    /// Kill daemons, shims and agents at every named point and at random, and check that nothing is lost
    Chaos(chaos::ChaosArgs),
    /// Run the MCP client of vex in the client scenarios of the public MCP conformance suite
    ///
    /// It installs the suite, and Node if that of the machine is too old, in the target folder. It requires
    /// npm. Scenarios of OAuth are skipped.
    Conformance(conformance::ConformanceArgs),
    /// Fuzz every parser of untrusted text
    Fuzz(fuzz::FuzzArgs),
    /// Benchmark whole daemons against the published vik 0.1.3
    Bench(bench::BenchArgs),
    /// Let a daemon work on many trivial issues, and measure what past issues cost
    Soak(soak::SoakArgs),
    /// Run vex and other agents on tasks with a local model
    Live(live::LiveArgs),
    /// Build the packages of a release into target/dist
    ///
    /// It installs its tools in the target folder, from package registries. It requires rustup, Python 3,
    /// Node with npm, git, tar and gzip, for .deb dpkg-deb, and for .rpm rpmbuild.
    Dist(dist::DistArgs),
    /// Install the packages of a release where they run on this machine, and run them
    DistCheck(dist::check::DistCheckArgs),
    /// Run the core in simulated worlds, and check its invariants
    Simulate(simulate::SimulateArgs),
    /// Run a daemon against a real Redmine with faults, and check that nothing is lost or repeated
    ///
    /// It requires Debian's packages `redmine`, `redmine-sqlite` and `ruby-webrick`, and installs nothing.
    TrackerChaos(tracker_chaos::TrackerChaosArgs),
    /// Test the dashboard in a real browser, and the HTTP API against its OpenAPI document
    Web(web::WebArgs),
    /// Run real agents on this repository, and print a report
    WholeRun(whole_run::WholeRunArgs),
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Test(args) => test::run(&args),
        Task::Generate(args) => generate::run(&args),
        Task::Tidy => tidy::run(),
        Task::Chaos(args) => chaos::run(&args),
        Task::Conformance(args) => conformance::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Live(args) => live::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::DistCheck(args) => dist::check::run(&args),
        Task::Simulate(args) => simulate::run(&args),
        Task::TrackerChaos(args) => tracker_chaos::run(&args),
        Task::Web(args) => web::run(&args),
        Task::WholeRun(args) => whole_run::run(&args),
    };
    bench::scene::remove_folders();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
