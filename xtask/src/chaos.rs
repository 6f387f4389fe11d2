//! `cargo xtask chaos`: the tests that kill processes, with more kills than in CI, and a report.

use clap::Args;

use crate::repo::{self, TaskResult};

/// The page of the report.
const PAGE: &str = "docs/reports/chaos.md";

/// `cargo xtask chaos`
#[derive(Debug, Args)]
pub struct ChaosArgs {
    /// Number of random kills
    #[arg(long, default_value_t = 500)]
    kills: u32,
    /// Seed of the random kills [default: random]
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
                "# Killing real processes

This page shows the output of `cargo xtask chaos --kills {} --write` on {}, with a debug
build of `vik` and scripted agents that print numbered lines and leave a child process in its own
session. The tests send `kill -9` to the daemon, to the shims, to the agents (including hooks), to
the daemon and the shims, or to all of them, at each named point
(`crates/vik-base/src/failpoint.rs`) and at random under load. Some processes are stopped with SIGSTOP, and the wall clock jumps.

After each kill the tests check that no agent runs twice, no line is lost or duplicated, hooks ran
as promised, no process is left over, and every attempt has one end in the ledger
(`tests/it/chaos/rig.rs`).

```text
{}
```
",
                args.kills,
                date.trim(),
                shown.join("\n")
            ),
        )?;
    }
    Ok(())
}
