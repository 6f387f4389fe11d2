//! `cargo xtask tracker-chaos`: a real daemon works for a real Redmine while servers, keys, the
//! daemon and people interfere. Nothing may be lost, and nothing may happen twice.

mod checks;
mod faults;
mod record;
mod redmine;
mod scene;

use std::time::Duration;

use clap::Args;
use vik_testkit::TestEnv;

use self::checks::Check;
use self::faults::Plan;
use self::record::Record;
use self::scene::Scene;
use crate::interrupt;
use crate::repo::{self, Context as _, TaskResult};

/// `cargo xtask tracker-chaos`
#[derive(Debug, Args)]
pub struct TrackerChaosArgs {
    /// Number of issues, each with two stages
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(10..=100))]
    issues: u32,
    /// Seed of the faults and their moments [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Keep the folder with all files of the run
    #[arg(long)]
    keep: bool,
    /// Print JSON: the checks, the figures and the record behind them
    #[arg(long)]
    json: bool,
}

pub fn run(args: &TrackerChaosArgs) -> TaskResult {
    redmine::installed()?;
    repo::run(repo::cargo().args(["build", "--quiet", "--package", "vik", "--bin", "vik"]))?;
    interrupt::watch()?;
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut env = TestEnv::new(own.with_file_name("vik"));
    if args.keep {
        env.keep();
        eprintln!("all files are in {}", env.root().display());
    }
    let seed = args
        .seed
        .unwrap_or_else(|| u64::from(uuid::Uuid::new_v4().as_fields().0));
    eprintln!("seed {seed}, {} issues", args.issues);
    let plan = Plan::new(seed, args.issues);
    let mut scene = Scene::create(env, &plan)?;
    scene.start_daemon()?;
    let within = Duration::from_secs(300 + 20 * u64::from(args.issues));
    let struck = faults::run(&mut scene, &plan, within)?;
    let record = scene.end(plan, seed, struck)?;
    let checks = checks::all(&record);
    if args.json {
        let json = serde_json::json!({"checks": checks, "figures": record.figures(), "record": record});
        println!("{json:#}");
    } else {
        print!("{}", summary(&record, &checks));
    }
    let failed = checks.iter().filter(|check| !check.problems.is_empty()).count();
    if failed == 0 {
        return Ok(());
    }
    Err(format!(
        "{failed} checks failed; repeat them with `--issues {} --seed {seed}`",
        args.issues
    ))
}

fn summary(record: &Record, checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = if check.problems.is_empty() { '✓' } else { '✗' };
        text += &format!("{mark} {}\n", check.name);
        for problem in &check.problems {
            text += &format!("    {problem}\n");
        }
    }
    let figures = record.figures();
    for (name, number) in [
        ("pieces of work", figures.pieces),
        ("agent runs", figures.agent_runs),
        ("failures", figures.failures),
        ("interrupted", figures.interrupted),
        ("cancelled", figures.cancelled),
        ("hand-over tries", figures.tries),
        ("requests", figures.requests),
    ] {
        text += &format!("{number:>6}  {name}\n");
    }
    text + &format!("{:>5} s  wall time\n", figures.wall_secs)
}
