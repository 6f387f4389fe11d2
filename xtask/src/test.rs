//! `cargo xtask test`: installs the agent CLIs and bubblewrap, runs all tests, and lists the
//! skipped ones.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use clap::Args;

use crate::repo::{self, TaskResult};

/// `cargo xtask test`
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Do not install the agent CLIs; skip the tests that require them
    #[arg(long)]
    no_agents: bool,
    /// Arguments for `cargo test`: filters, `-p PACKAGE`, `-- --nocapture`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

pub fn run(args: &TestArgs) -> TaskResult {
    let started = Instant::now();
    let missing = if args.no_agents {
        None
    } else {
        install_agents().err()
    };
    if let Some(reason) = &missing {
        eprintln!(
            "warning: cannot install the agent CLIs; the tests that require them are skipped and listed.\n{reason}\n"
        );
        if std::env::var_os("VIK_REQUIRE_REAL_AGENTS").is_some() {
            return Err("VIK_REQUIRE_REAL_AGENTS is set, but the agent CLIs are not installed".to_owned());
        }
    }
    let bubblewrap = repo::installed("bwrap", "bubblewrap").and_then(|()| check_namespaces());
    if let Err(reason) = &bubblewrap {
        eprintln!("warning: the tests of namespaces are skipped and listed: {reason}\n");
    }
    let summary = cargo_test(&args.args, bubblewrap.is_ok())?;
    summary.print_summary(started, missing.as_deref())
}

// --- the agent CLIs

/// Runs `npm ci`, unless the lock file was already installed.
fn install_agents() -> TaskResult {
    let folder = repo::root().join("tests/agents");
    let lock = repo::read(&folder.join("package-lock.json"))?;
    let modules = folder.join("node_modules");
    let stamp = modules.join(".vik-lock");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    eprintln!("Installing the pinned Codex and Claude Code (about 650 MB): npm ci --prefix tests/agents");
    let installed = repo::run(repo::program("npm").args(["ci", "--prefix", "tests/agents"]))
        .and_then(|()| check_agent(&modules, "codex"))
        .and_then(|()| check_agent(&modules, "claude"));
    match installed {
        Ok(()) => repo::write(&stamp, &lock),
        Err(reason) => {
            // A partial installation would look like a complete one.
            let _ = std::fs::remove_dir_all(&modules);
            Err(reason)
        }
    }
}

/// Checks that an agent runs: npm succeeds without the program if there is none for this platform.
fn check_agent(modules: &Path, name: &str) -> TaskResult {
    let mut command = Command::new(modules.join(".bin").join(name));
    let version = repo::output(command.arg("--version"))?;
    eprintln!("  {name}: {}", version.trim());
    Ok(())
}

/// Checks that namespaces work: bubblewrap may be installed on a system that does not allow them.
fn check_namespaces() -> TaskResult {
    let space = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true"];
    repo::output(Command::new("bwrap").args(space)).map(drop)
}

// --- the tests

/// The results in the output of the tests.
#[derive(Debug, Default)]
struct TestSummary {
    success: bool,
    results: usize,
    passed: u64,
    failed: u64,
    ignored: u64,
    failures: Vec<String>,
    skipped: Vec<String>,
}

fn cargo_test(args: &[OsString], bubblewrap: bool) -> TaskResult<TestSummary> {
    let mut cargo = repo::cargo();
    cargo.args(["test", "--no-fail-fast"]);
    if bubblewrap {
        // A program that is installed but does not work must not skip tests silently.
        cargo.env("VIK_REQUIRE_BUBBLEWRAP", "1");
    }
    let names_package = |arg: &OsString| {
        arg.to_str()
            .is_some_and(|arg| arg.starts_with("-p") || arg.starts_with("--package"))
    };
    if !args.iter().any(names_package) {
        // With `--workspace` a package would not be the only one.
        cargo.arg("--workspace");
    }
    cargo.args(args);
    // Both streams are read here, so that the skipped tests can be listed at the end.
    if std::io::stderr().is_terminal() && std::env::var_os("CARGO_TERM_COLOR").is_none() {
        cargo.env("CARGO_TERM_COLOR", "always");
    }
    cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = cargo
        .spawn()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let stderr = child.stderr.take();
    let from_stderr = thread::spawn(move || stderr.map(|stream| forward(stream, std::io::stderr())));
    let mut summary = TestSummary::default();
    let stdout = child
        .stdout
        .take()
        .map(|stream| forward(stream, std::io::stdout()));
    for line in stdout.into_iter().flatten() {
        summary.line(&line);
    }
    for line in from_stderr.join().ok().flatten().into_iter().flatten() {
        summary.line(&line);
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for cargo: {error}"))?;
    summary.success = status.success();
    Ok(summary)
}

/// Forwards a stream line by line and returns the lines with results.
fn forward(stream: impl Read, mut to: impl Write) -> Vec<String> {
    let mut kept = Vec::new();
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // A closed terminal ends the output, not the tests.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        let text = String::from_utf8_lossy(&line);
        if is_result_line(text.trim_end()) {
            kept.push(text.trim_end().to_owned());
        }
        line.clear();
    }
    kept
}

fn is_result_line(line: &str) -> bool {
    line.starts_with("test result: ")
        || line.starts_with("skipped: ")
        || (line.starts_with("test ") && line.ends_with("FAILED"))
}

impl TestSummary {
    fn line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.results += 1;
            for (count, name) in counts(result) {
                match name {
                    "passed" => self.passed += count,
                    "failed" => self.failed += count,
                    "ignored" => self.ignored += count,
                    _ => {}
                }
            }
        } else if let Some(skipped) = line.strip_prefix("skipped: ") {
            self.skipped.push(skipped.to_owned());
        } else {
            self.failures.push(line.to_owned());
        }
    }

    /// Returns the number of passed tests without the skipped ones, which cargo counts as passed.
    fn passed_without_skipped(&self) -> u64 {
        self.passed.saturating_sub(self.skipped.len() as u64)
    }

    fn print_summary(mut self, started: Instant, missing: Option<&str>) -> TaskResult {
        self.skipped.sort();
        println!();
        if !self.skipped.is_empty() {
            println!("{} skipped:", tests(self.skipped.len()));
            for test in &self.skipped {
                println!("  {test}");
            }
        }
        if !self.failures.is_empty() {
            println!("{} failed:", tests(self.failures.len()));
            for test in &self.failures {
                println!("  {test}");
            }
        }
        let agents = if missing.is_some() {
            " (without the real agent CLIs)"
        } else {
            ""
        };
        let seconds = started.elapsed().as_secs();
        println!(
            "all tests{agents}: {} passed, {} failed, {} ignored, {} skipped by name, in {} programs, {}m {:02}s",
            self.passed_without_skipped(),
            self.failed,
            self.ignored,
            self.skipped.len(),
            self.results,
            seconds / 60,
            seconds % 60,
        );
        match (self.success, self.results) {
            (true, 0) => Err("no tests were run".to_owned()),
            (true, _) => Ok(()),
            (false, _) => Err("tests failed".to_owned()),
        }
    }
}

/// Splits `ok. 3 passed; 0 failed; …` into pairs of number and name.
fn counts(result: &str) -> impl Iterator<Item = (u64, &str)> {
    let parts = result.split([';', '.']);
    parts.filter_map(|part| {
        let (count, name) = part.trim().split_once(' ')?;
        Some((count.parse().ok()?, name))
    })
}

fn tests(count: usize) -> String {
    if count == 1 {
        "1 test".to_owned()
    } else {
        format!("{count} tests")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_come_from_the_lines() {
        let output = "running 3 tests\ntest a ... ok\ntest b ... FAILED\nskipped: c: codex is not installed\n\
            test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.10s\n\
            test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s\n";
        let mut shown = Vec::new();
        let mut summary = TestSummary::default();
        for line in forward(output.as_bytes(), &mut shown) {
            summary.line(&line);
        }
        assert_eq!(shown, output.as_bytes());
        assert_eq!(
            (summary.results, summary.passed, summary.failed, summary.ignored),
            (2, 5, 1, 2)
        );
        assert_eq!(
            summary.passed_without_skipped(),
            4,
            "one of the five skipped itself"
        );
        assert_eq!(summary.failures, ["test b ... FAILED"]);
        assert_eq!(summary.skipped, ["c: codex is not installed"]);
    }

    #[test]
    fn summary_without_tests_is_a_failure() {
        let summary = TestSummary {
            success: true,
            ..TestSummary::default()
        };
        assert!(summary.print_summary(Instant::now(), None).is_err());
    }
}
