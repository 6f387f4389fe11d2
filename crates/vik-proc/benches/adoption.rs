//! Measures the adoption of a thousand shims after `kill -9` of their daemon, and the cost of a
//! shim while its agent is quiet: `cargo bench -p vik-proc`. The number of shims can be given after
//! `--`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench may stop at once, and prints what it measured"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use vik_proc::{Graces, Mark, ProcessId, SHIM_VERB, ShimSpec, StdoutMode, Supervised, Supervisor};

const SHIMS: usize = 1000;
const QUIET: Duration = Duration::from_secs(30);
const MARK: &str = "VIK_PROC_BENCH";
const SHIM: &str = env!("CARGO_BIN_EXE_vik-shim-test");

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let threads = tokio::runtime::Runtime::new().unwrap();
    vik_proc::raise_file_limit();
    match args.get(1).map(String::as_str) {
        Some("daemon") => threads.block_on(daemon(Path::new(&args[2]), args[3].parse().unwrap())),
        number => {
            let count = number.and_then(|number| number.parse().ok()).unwrap_or(SHIMS);
            threads.block_on(measure(count));
        }
    }
}

fn supervisor() -> Supervisor {
    Supervisor::new(SHIM, [SHIM_VERB.into()]).unwrap()
}

fn spec(folder: &Path, number: usize) -> ShimSpec {
    let file = |name: &str| Some(folder.join(format!("{number}.{name}")));
    let mut spec = ShimSpec::new("sleep", folder);
    spec.args = vec!["600".into()];
    spec.mark = Some(Mark::new(MARK, format!("{}-{number}", folder.display())));
    spec.census = file("census");
    spec.control = file("control");
    spec.exit_record = file("exit.json");
    spec.orphan_grace = Duration::from_secs(300);
    spec.graces = Graces::short();
    spec
}

/// Starts all shims, writes their identities to a file, and waits to be killed.
async fn daemon(folder: &Path, count: usize) {
    let supervisor = supervisor();
    let mut shims: Vec<Supervised> = Vec::new();
    for number in 0..count {
        let spec = spec(folder, number);
        shims.push(supervisor.spawn(&spec, None, StdoutMode::Null).await.unwrap());
    }
    let ids: Vec<ProcessId> = shims.iter().map(Supervised::shim).collect();
    std::fs::write(folder.join("part"), serde_json::to_vec(&ids).unwrap()).unwrap();
    std::fs::rename(folder.join("part"), folder.join("shims")).unwrap();
    std::future::pending::<()>().await;
}

async fn measure(count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .arg("daemon")
        .arg(folder.path())
        .arg(count.to_string())
        .spawn()
        .unwrap();
    let noted = folder.path().join("shims");
    while !noted.exists() {
        assert!(daemon.try_wait().unwrap().is_none(), "the daemon has ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let shims: Vec<ProcessId> = serde_json::from_slice(&std::fs::read(noted).unwrap()).unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();

    let adopted = adopt(folder.path(), &shims).await;
    print_percentiles(
        "private memory of a shim",
        &mut shims.iter().map(|shim| private_kib(*shim)).collect::<Vec<_>>(),
        "KiB",
    );
    let before: u64 = shims.iter().map(|shim| cpu_ms(*shim)).sum();
    tokio::time::sleep(QUIET).await;
    let spent = shims.iter().map(|shim| cpu_ms(*shim)).sum::<u64>() - before;
    println!(
        "{count} shims of quiet agents: {spent} ms of CPU in {} s, {:.4} % of a core each",
        QUIET.as_secs(),
        spent as f64 / 10.0 / QUIET.as_secs_f64() / count as f64
    );

    let started = Instant::now();
    adopted.iter().for_each(Supervised::stop);
    for one in &adopted {
        one.wait().await.unwrap();
    }
    println!("stopped, nothing alive: {} ms", started.elapsed().as_millis());
}

async fn adopt(folder: &Path, shims: &[ProcessId]) -> Vec<Supervised> {
    let supervisor = supervisor();
    let started = Instant::now();
    let adopting = shims.iter().enumerate().map(|(number, &shim)| {
        let (supervisor, folder) = (supervisor.clone(), PathBuf::from(folder));
        tokio::spawn(async move {
            let spec = spec(&folder, number);
            let started = Instant::now();
            let adopted = supervisor.adopt(&spec, shim, None).await.unwrap();
            assert!(adopted.agent().is_some());
            (adopted, u64::try_from(started.elapsed().as_micros()).unwrap())
        })
    });
    let adopting: Vec<_> = adopting.collect();
    let (mut adopted, mut times) = (Vec::new(), Vec::new());
    for one in adopting {
        let (one, time) = one.await.unwrap();
        adopted.push(one);
        times.push(time);
    }
    println!("{} adopted: {} ms", adopted.len(), started.elapsed().as_millis());
    print_percentiles("adoption of one", &mut times, "µs");
    adopted
}

fn print_percentiles(label: &str, figures: &mut [u64], unit: &str) {
    figures.sort_unstable();
    let at = |part: usize| figures[(figures.len() - 1) * part / 100];
    println!("{label}: p50 {} p99 {} max {} {unit}", at(50), at(99), at(100));
}

fn private_kib(of: ProcessId) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", of.pid)).unwrap_or_default();
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    private
        .filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

/// Returns the CPU time in the resolution of the scheduler.
fn cpu_ms(of: ProcessId) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", of.pid)).unwrap_or_default();
    let nanoseconds = stat
        .split_ascii_whitespace()
        .next()
        .and_then(|first| first.parse().ok());
    nanoseconds.unwrap_or(0_u64) / 1_000_000
}
