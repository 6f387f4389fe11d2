//! `cargo xtask bench vex`: whole runs of vex, Codex CLI and Claude Code alternately, with one
//! scripted model in one process.

mod run;
mod table;
mod tasks;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vik_testkit::RealAgent;

use self::run::Agent;
use self::table::Figures;
use self::tasks::Task;
use super::put_in_page;
use crate::repo::{self, TaskResult};

const MARKS: (&str, &str) = (
    "<!-- begin: cargo xtask bench vex -->",
    "<!-- end: cargo xtask bench vex -->",
);

/// `cargo xtask bench vex`
#[derive(Debug, Args)]
pub struct VexBenchArgs {
    /// Tasks to measure [default: all]
    #[arg(value_name = "TASK")]
    tasks: Vec<Task>,
    /// Number of rounds of each task; the median is reported
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Do not compare with other agents
    #[arg(long)]
    alone: bool,
    /// Program of vex to measure [default: a release build of this repository]
    #[arg(long, value_name = "PROGRAM")]
    vex: Option<PathBuf>,
    /// Write the table to docs/performance.md; requires all tasks and both other agents
    #[arg(long, conflicts_with_all = ["tasks", "alone"])]
    write: bool,
}

pub fn run(args: &VexBenchArgs) -> TaskResult {
    let helper = repo::release("vik-testkit", "vik-bench-helper")?;
    let vex = args.vex.clone().map_or_else(|| repo::release("vex", "vex"), Ok)?;
    let mut agents = vec![Agent::vex(vex)?];
    if !args.alone {
        for agent in [RealAgent::Codex, RealAgent::Claude] {
            match agent.native() {
                Some(program) => agents.push(Agent::real(agent, program)?),
                None => eprintln!(
                    "{} is not installed: run `npm ci --prefix tests/agents`",
                    agent.name()
                ),
            }
        }
    }
    if args.write && agents.len() < 3 {
        return Err("the table requires all three agents".to_owned());
    }
    let tasks = if args.tasks.is_empty() {
        Task::value_variants()
    } else {
        &args.tasks
    };
    let mut figures = vec![Figures::new(); agents.len()];
    for &task in tasks {
        for round in 1..=args.rounds {
            for (agent, figures) in agents.iter().zip(&mut figures) {
                eprintln!(
                    "{task:?}, round {round} of {}: {} (load {})",
                    args.rounds,
                    agent.name,
                    repo::load_average()
                );
                let ran = run::run(agent, task, &helper)?;
                figures.entry(task).or_default().push(ran);
            }
        }
    }
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let table = table::table(&names, &figures, args.rounds);
    println!("{}\n\n{table}", repo::machine()?);
    if args.write {
        put_in_page(MARKS, &table, &[])
    } else {
        Ok(())
    }
}
