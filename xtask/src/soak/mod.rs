//! `cargo xtask soak`: what many past issues cost. A real daemon works on trivial issues that come,
//! are done and leave the pull.

mod course;
mod report;

use std::path::PathBuf;

use clap::Args;

use self::course::Plan;
use crate::bench::{ours, put_in_page};
use crate::repo::{self, TaskResult};
use crate::{chart, interrupt};

const MARKS: (&str, &str) = (
    "<!-- begin: cargo xtask soak -->",
    "<!-- end: cargo xtask soak -->",
);

/// `cargo xtask soak`
#[derive(Debug, Args)]
pub struct SoakArgs {
    /// Number of issues that come, are worked on and leave the pull
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    issues: u32,
    /// Number of issues that are worked on at once
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    at_once: u32,
    /// Program of Vik to measure [default: a release build of this repository]
    #[arg(long, value_name = "PROGRAM")]
    vik: Option<PathBuf>,
    /// Fail if an attempt or the memory grows by more than CI allows; requires 5,000 issues or more
    #[arg(long)]
    check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write the plots to this folder
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Write the tables and the plots to docs/performance.md
    #[arg(long)]
    write: bool,
}

pub fn run(args: &SoakArgs) -> TaskResult {
    if !cfg!(target_os = "linux") {
        return Err("the soak requires Linux, because it reads /proc".to_owned());
    }
    if args.check && args.issues < report::MIN_CHECKED {
        return Err(format!(
            "`--check` requires `--issues {}` or more",
            report::MIN_CHECKED
        ));
    }
    let subject = ours(args.vik.as_deref())?;
    let helper = repo::release("vik-testkit", "vik-bench-helper")?;
    interrupt::watch()?;
    let plan = Plan {
        issues: args.issues,
        at_once: args.at_once,
    };
    let soak = course::run(&subject, &helper, &plan)?;
    let (tables, charts) = (report::tables(&soak), report::charts(&soak));
    if args.json {
        let json = serde_json::to_string_pretty(&soak).map_err(|error| error.to_string())?;
        println!("{json}");
    } else {
        println!("{}\n\n{tables}", repo::machine()?);
    }
    if let Some(folder) = &args.plot {
        chart::write(&charts, folder)?;
    }
    if args.write {
        put_in_page(MARKS, &tables, &charts)?;
    }
    if args.check { report::check(&soak) } else { Ok(()) }
}
