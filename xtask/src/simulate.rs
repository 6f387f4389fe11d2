//! `cargo xtask simulate`: the core in simulated worlds, with an optimised `vik-sim`.

use std::ffi::OsString;
use std::process::Stdio;

use crate::repo::{self, Context as _, TaskResult};

/// The default page of `--report`.
const REPORT: &str = "docs/reports/simulation.md";

#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// Options of the simulation; `cargo xtask simulate -- --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

pub fn run(args: &SimulateArgs) -> TaskResult {
    let mut simulate = repo::cargo();
    simulate
        .args(["run", "--quiet", "--release", "--package", "vik-sim", "--"])
        .args(&args.options);
    if !args.options.iter().any(|option| option == "--report") {
        return repo::run(&mut simulate);
    }
    let output = simulate
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the simulation")?;
    let text = String::from_utf8_lossy(&output.stdout);
    repo::write(&repo::root().join(REPORT), &text)?;
    println!("wrote {REPORT}");
    if output.status.success() {
        return Ok(());
    }
    Err(format!("an invariant is broken: see {REPORT}"))
}
