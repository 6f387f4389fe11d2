//! `cargo xtask bench machines`: a hub and workers on a Temporal server, beside a daemon.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;

use super::metric::{Statistic, shown};
use super::sample::{self, Sample};
use super::scenarios::{ISSUES, megabytes};
use super::scene::Scene;
use super::setting::{Machines, Setting, Subject};
use super::{ours, put_in_page};
use crate::interrupt;
use crate::repo::{self, TaskResult};
use crate::temporal::Server;

const MARKS: (&str, &str) = (
    "<!-- begin: cargo xtask bench machines -->",
    "<!-- end: cargo xtask bench machines -->",
);

/// The issues that several workers share, and how many workers.
const MANY: usize = 1_000;
const WORKERS: u32 = 5;
const CAPACITY: u32 = 8;

/// How long idle processes are observed.
const IDLE: Duration = Duration::from_secs(60);

/// `cargo xtask bench machines`
#[derive(Debug, Args)]
pub struct MachinesArgs {
    /// Program of Vik with the feature `temporal` [default: a release build of this repository]
    #[arg(long, value_name = "PROGRAM")]
    vik: Option<PathBuf>,
    /// Write the table to docs/performance.md
    #[arg(long)]
    write: bool,
}

/// The figures of a run. A daemon has no workers and no server.
struct Figures {
    /// From the output of a pull to the first instruction of the agent, in milliseconds.
    latencies: Vec<f64>,
    /// For all issues, in seconds.
    wall: f64,
    /// The bytes that the database of the server grew by, for each issue.
    bytes: f64,
    /// The operations for each issue, and of an idle hub and worker in an hour, that a hosted service
    /// charges for.
    actions: f64,
    idle_actions: f64,
    idle: Vec<(&'static str, Usage)>,
}

struct Usage {
    /// The part of a core, in percent.
    cpu: f64,
    /// The memory (RSS) in MB.
    rss: f64,
}

pub fn run(args: &MachinesArgs) -> TaskResult {
    let subject = match &args.vik {
        Some(program) => ours(Some(program))?,
        None => {
            let mut build = repo::cargo();
            build.args([
                "build",
                "--release",
                "--package",
                "vik",
                "--bin",
                "vik",
                "--features",
                "temporal",
            ]);
            repo::run(&mut build)?;
            ours(Some(&repo::target().join("release/vik")))?
        }
    };
    let helper = repo::release("vik-testkit", "vik-bench-helper")?;
    interrupt::watch()?;
    sample::inherit_orphans()?;
    let alone = figures(&subject, &helper, None)?;
    let server = Server::start()?;
    let shared = figures(&subject, &helper, Some(&server))?;
    let table = table(&alone, &shared);
    println!("{}\n\n{table}", repo::machine()?);
    if args.write {
        put_in_page(MARKS, &table, &[])?;
    }
    Ok(())
}

fn figures(subject: &Subject, helper: &Path, server: Option<&Server>) -> TaskResult<Figures> {
    let machines = |task_queue, workers, capacity| {
        server.map(|server| Machines {
            address: server.address(),
            task_queue,
            workers,
            capacity,
        })
    };
    let mut scene = Scene::start(
        subject,
        helper,
        &Setting {
            pull: "{scene}/bin/pull fresh".to_owned(),
            idle_secs: 1,
            concurrency: 10,
            agent: "end".to_owned(),
            machines: machines("latency", 1, 10),
            ..Setting::holding(String::new())
        },
    )?;
    scene.wait_for("done", ISSUES, Duration::from_secs(ISSUES as u64 * 4 + 20))?;
    let latencies = scene.latencies();
    scene.stop();

    let actions = || server.map_or(Ok(0.0), Server::actions);
    let (bytes_before, actions_before) = (server.map_or(0, Server::database_bytes), actions()?);
    let mut scene = Scene::start(
        subject,
        helper,
        &Setting {
            pull: format!("{{scene}}/bin/pull window {MANY}"),
            idle_secs: 1,
            concurrency: WORKERS * CAPACITY,
            agent: "end".to_owned(),
            issue_keys: "  terminal_states: [done]\n  remove_workspace: always\n",
            machines: machines("many", WORKERS, CAPACITY),
            ..Setting::holding(String::new())
        },
    )?;
    let started = Instant::now();
    repo::write(&scene.root().join("limit"), &MANY.to_string())?;
    scene.wait_for("done", MANY, Duration::from_secs(900))?;
    let wall = started.elapsed().as_secs_f64();
    scene.stop();
    let bytes = server
        .map_or(0, Server::database_bytes)
        .saturating_sub(bytes_before) as f64
        / MANY as f64;
    let actions_each = (actions()? - actions_before) / MANY as f64;

    let scene = Scene::start(
        subject,
        helper,
        &Setting {
            machines: machines("idle", 1, 1),
            ..Setting::holding("[]".to_owned())
        },
    )?;
    // The start is not idle.
    sleep(Duration::from_secs(10));
    let observe = || -> TaskResult<Vec<(&'static str, Sample)>> {
        let name = if server.is_some() { "hub" } else { "daemon" };
        let mut samples = vec![(name, scene.sample()?)];
        samples.extend(
            scene
                .sample_workers()?
                .into_iter()
                .map(|worker| ("worker", worker)),
        );
        if let Some(server) = server {
            samples.push(("server for development", Sample::read(server.pid())?));
        }
        Ok(samples)
    };
    let (first, actions_before) = (observe()?, actions()?);
    sleep(IDLE);
    let idle_actions = (actions()? - actions_before) * 3_600.0 / IDLE.as_secs_f64();
    let idle = first
        .into_iter()
        .zip(observe()?)
        .map(|((name, before), (_, after))| {
            let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
            let rss = megabytes(after.rss);
            (name, Usage { cpu, rss })
        });
    let idle = idle.collect();
    scene.stop();
    interrupt::check()?;
    Ok(Figures {
        latencies,
        wall,
        bytes,
        actions: actions_each,
        idle_actions,
        idle,
    })
}

fn table(alone: &Figures, shared: &Figures) -> String {
    let latency =
        |statistic: Statistic, figures: &Figures| shown(statistic.of(figures.latencies.clone()), "ms");
    let idle = |figures: &Figures, value: fn(&Usage) -> f64, unit: &str| {
        let parts = figures.idle.iter();
        let parts: Vec<_> = parts
            .map(|(name, usage)| format!("{name} {}", shown(Some(value(usage)), unit)))
            .collect();
        parts.join(", ")
    };
    let row = |label: &str, alone: String, shared: String| format!("| {label} | {alone} | {shared} |\n");
    let mut text = "| | one machine | on Temporal |\n| --- | --- | --- |\n".to_owned();
    text += &row(
        "from a pull to the first instruction of the agent, p50",
        latency(Statistic::Median, alone),
        latency(Statistic::Median, shared),
    );
    text += &row(
        "— p99",
        latency(Statistic::P99, alone),
        latency(Statistic::P99, shared),
    );
    text += &row(
        &format!(
            "{MANY} trivial issues, {} at once ({WORKERS} workers)",
            WORKERS * CAPACITY
        ),
        shown(Some(alone.wall), "s"),
        shown(Some(shared.wall), "s"),
    );
    text += &row(
        "database of the server, for each issue",
        "-".to_owned(),
        shown(Some(shared.bytes / 1_000.0), "kB"),
    );
    text += &row(
        "operations that a hosted service charges for, for each issue",
        "-".to_owned(),
        shown(Some(shared.actions), ""),
    );
    text += &row(
        "— idle, in an hour",
        "-".to_owned(),
        shown(Some(shared.idle_actions), ""),
    );
    text += &row(
        "idle: CPU, of a core",
        idle(alone, |usage| usage.cpu, "%"),
        idle(shared, |usage| usage.cpu, "%"),
    );
    text += &row(
        "idle: memory (RSS)",
        idle(alone, |usage| usage.rss, "MB"),
        idle(shared, |usage| usage.rss, "MB"),
    );
    text
}
