//! `cargo xtask chaos`: the tests that kill processes, with more kills than in CI, and a report.

use clap::Args;

use crate::repo::{self, TaskResult};

/// The page of the report.
const PAGE: &str = "docs/reports/chaos.md";

/// `cargo xtask chaos`
#[derive(Debug, Args)]
pub struct ChaosArgs {
    /// Random blows
    #[arg(long, default_value_t = 500)]
    kills: u32,
    /// The seed of the blows; without it, one of its own
    #[arg(long)]
    seed: Option<u64>,
    /// Write the report to docs/reports/chaos.md
    #[arg(long)]
    write: bool,
}

pub fn run(args: &ChaosArgs) -> TaskResult {
    let mut test = repo::cargo();
    test.args([
        "test",
        "-p",
        "vik",
        "--test",
        "it",
        "chaos::",
        "--",
        "--nocapture",
    ])
    .env("VIK_CHAOS_KILLS", args.kills.to_string())
    .env("VIK_REQUIRE_REAL_AGENTS", "1");
    if let Some(seed) = args.seed {
        test.env("VIK_CHAOS_SEED", seed.to_string());
    }
    let log = repo::output(&mut test)?;
    let shown: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("blow") || line.starts_with("VIK_CHAOS") || line.ends_with("... ok"))
        .collect();
    println!("{}", shown.join("\n"));
    if args.write {
        let date = repo::output(repo::program("date").args(["-u", "+%Y-%m-%d"]))?;
        repo::write(
            &repo::root().join(PAGE),
            &format!(
                "# Blows at real processes\n\nWhat `cargo xtask chaos --kills {} --write` printed on {}: a debug build of `vik`, scripted \
                 agents that print numbered lines and leave a child in a session of its own, `kill -9` of the daemon, the shims, the \
                 agents (hooks included), daemon and shims, or all, at each named point (`src/crash.rs`) and at random under load; \
                 SIGSTOP and jumps of the wall clock among them. After each: no agent twice, no line lost or doubled, hooks as \
                 promised, nothing left over, every attempt with one end in the ledger (`tests/it/chaos/rig.rs`).\n\n```text\n{}\n```\n",
                args.kills,
                date.trim(),
                shown.join("\n")
            ),
        )?;
    }
    Ok(())
}
