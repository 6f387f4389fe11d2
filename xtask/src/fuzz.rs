//! `cargo xtask fuzz`: every fuzz target for some time, with the stable compiler.
//!
//! Coverage comes from flags of the stable compiler. It has no address sanitizer, which matters
//! little without unsafe code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use clap::Args;

use crate::repo::{self, Context as _, TaskResult};

/// The flags that give libFuzzer its coverage.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

#[derive(Debug, Args)]
pub struct FuzzArgs {
    /// Targets to run [default: all]
    targets: Vec<String>,
    /// Seconds to run each target
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,
    /// Maximum number of inputs of each target; with `--seed`, they are the same for the same code
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Seed of the generated inputs [default: random]
    #[arg(long, value_name = "S")]
    seed: Option<u32>,
    /// Write the figures to docs/reports/fuzzing.md
    #[arg(long)]
    report: bool,
}

const MARKS: (&str, &str) = ("<!-- figures -->", "<!-- end of figures -->");

pub fn run(args: &FuzzArgs) -> TaskResult {
    let fuzz = repo::root().join("fuzz");
    let target = build(&fuzz)?;
    let (mut failed, mut rows) = (Vec::new(), String::new());
    let all = Instant::now();
    for name in selected_targets(&fuzz, &args.targets)? {
        let started = Instant::now();
        let (runs, covered) = match run_target(&fuzz, &target, &name, args) {
            Ok(figures) => figures,
            Err(error) => {
                failed.push(format!("{name}: {error}"));
                continue;
            }
        };
        let seconds = started.elapsed().as_secs();
        println!("{name:<18} {runs:>9} runs, {covered:>6} edges, {seconds:>4}s");
        rows += &format!("\n| `{name}` | {runs} | {covered} | {seconds} |");
    }
    if args.report {
        let hours = all.elapsed().as_secs_f64() / 3600.0;
        let (head, machine) = ("| target | inputs | edges reached | seconds |", repo::machine()?);
        let text = format!("{machine}: {hours:.1} hours\n\n{head}\n| --- | ---: | ---: | ---: |{rows}");
        repo::put_between(&repo::root().join("docs/reports/fuzzing.md"), MARKS, &text)?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(failed.join("\n"))
}

/// Returns the names of all targets, or of the selected ones.
fn selected_targets(fuzz: &Path, named: &[String]) -> TaskResult<Vec<String>> {
    let manifest = repo::read(&fuzz.join("Cargo.toml"))?;
    let bins = manifest.split("[[bin]]").skip(1);
    let all: Vec<String> = bins
        .filter_map(|bin| bin.split('"').nth(1).map(str::to_owned))
        .collect();
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        return Err(format!(
            "unknown target `{unknown}`: expected one of {}",
            all.join(", ")
        ));
    }
    Ok(if named.is_empty() { all } else { named.to_vec() })
}

/// Builds all targets; returns the folder of the programs.
fn build(fuzz: &Path) -> TaskResult<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repo::root().join("target"), PathBuf::from);
    let target = target.join("fuzz");
    // With an explicit target platform, the flags apply only to the fuzzed code, not to build
    // scripts and macros.
    let host = host()?;
    let mut build = repo::cargo();
    build
        .current_dir(fuzz)
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--bins",
            "--target",
            &host,
        ])
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", COVERAGE);
    repo::run(&mut build)?;
    Ok(target.join(host).join("release"))
}

/// Returns the host platform, as the compiler names it.
fn host() -> TaskResult<String> {
    let version = repo::output(repo::program("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` prints no host".to_owned())
}

/// Runs one target; returns the number of runs and of covered edges.
fn run_target(fuzz: &Path, programs: &Path, name: &str, args: &FuzzArgs) -> TaskResult<(u64, u64)> {
    let corpus = fuzz.join("corpus").join(name);
    let artifacts = fuzz.join("artifacts").join(name);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).context(folder.display())?;
    }
    let mut prefix = OsString::from("-artifact_prefix=");
    prefix.push(artifacts.join(""));
    let output = repo::program(&programs.join(name).to_string_lossy())
        .arg(format!("-max_total_time={}", args.seconds))
        .args(args.runs.map(|runs| format!("-runs={runs}")))
        .args(args.seed.map(|seed| format!("-seed={seed}")))
        .args([
            "-timeout=20",
            "-rss_limit_mb=4096",
            "-max_len=16384",
            "-print_final_stats=1",
        ])
        .arg(prefix)
        .arg(&corpus)
        .stdin(Stdio::null())
        .output()
        .context("cannot start it")?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let end: Vec<&str> = log.lines().rev().take(40).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        return Err(format!("ended with {}\n{}", output.status, end.join("\n")));
    }
    let after = |mark: &str| {
        let figure = log.rsplit(mark).next()?.split_whitespace().next()?;
        figure.parse().ok()
    };
    match (after("stat::number_of_executed_units:"), after("cov:")) {
        // A target without coverage finds nothing.
        (Some(runs), Some(covered)) if covered > 100 => Ok((runs, covered)),
        (runs, covered) => Err(format!(
            "{runs:?} runs reached {covered:?} edges: the target was built without coverage"
        )),
    }
}
