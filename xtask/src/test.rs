//! `cargo xtask test`: installs the agent CLIs, bubblewrap and cargo-nextest, runs all tests, and
//! lists the skipped ones.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::repo::{self, Context as _, TaskResult};
use crate::temporal;

/// The variable with the number of tests that cargo-nextest runs at once.
const THREADS: &str = "NEXTEST_TEST_THREADS";

/// `cargo xtask test`
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Do not install the agent CLIs; skip the tests that require them
    #[arg(long)]
    no_agents: bool,
    /// Run the tests of many machines instead: those of `vik worker`, which need an SSH server, and
    /// those of the daemon, with a hub and a worker on a Temporal server in its place
    #[arg(long)]
    temporal: bool,
    /// Arguments for `cargo nextest run`: filters, `-p PACKAGE`, `--no-capture`; with any, no doc
    /// tests run
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

pub fn run(args: &TestArgs) -> TaskResult {
    let no_agents = args.no_agents || args.temporal;
    let missing = if no_agents { None } else { install_agents().err() };
    if let Some(reason) = &missing {
        eprintln!(
            "warning: cannot install the agent CLIs; the tests that require them are skipped and listed.\n{reason}\n"
        );
        if std::env::var_os("VIK_REQUIRE_REAL_AGENTS").is_some() {
            return Err("VIK_REQUIRE_REAL_AGENTS is set, but the agent CLIs are not installed".to_owned());
        }
    }
    if !no_agents && let Err(reason) = install_mcp_servers() {
        eprintln!(
            "warning: cannot install the MCP servers; the tests that require them are skipped: {reason}\n"
        );
    }
    let bubblewrap = repo::installed("bwrap", "bubblewrap").and_then(|()| check_namespaces());
    if let Err(reason) = &bubblewrap {
        eprintln!("warning: the tests of namespaces are skipped and listed: {reason}\n");
    }
    let mut filters = args.args.clone();
    let mut required: Vec<&str> = Vec::new();
    if bubblewrap.is_ok() {
        required.push("VIK_REQUIRE_BUBBLEWRAP");
    }
    let mut server = None;
    if args.temporal {
        // It has no `--version`, and its folder is in the PATH of root only.
        let there = || Path::new("/usr/sbin/sshd").is_file();
        match repo::installed_if("sshd", "openssh-server", there) {
            Ok(()) => required.push("VIK_REQUIRE_SSHD"),
            Err(reason) => eprintln!("warning: the tests over SSH are skipped and listed: {reason}\n"),
        }
        filters.splice(0..0, TEMPORAL_TESTS.map(OsString::from));
        server = Some(temporal::Server::start()?);
    }
    let tests = Tests {
        args: &filters,
        required: &required,
        server: server.as_ref(),
    };
    let nextest = match install_nextest() {
        Ok(path) => path,
        Err(reason) => {
            eprintln!(
                "warning: cannot install cargo-nextest; `cargo test` runs the tests, and a skipped one reports it \
                 in the output.\n{reason}\n"
            );
            return repo::run(&mut tests.cargo(&["test", "--no-fail-fast"], None));
        }
    };
    let ran = tests.run(nextest.as_ref());
    let documented = if filters.is_empty() {
        repo::run(&mut tests.cargo(&["test", "--quiet", "--doc"], None))
    } else {
        Ok(())
    };
    if missing.is_some() {
        println!("The real agent CLIs are not installed.");
    }
    ran.and(documented)
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

/// Installs the MCP servers of npm and PyPI, unless their pinned versions were already installed.
fn install_mcp_servers() -> TaskResult {
    let folder = repo::root().join("tests/mcp-servers");
    let lock = repo::read(&folder.join("package-lock.json"))?;
    let requirements = repo::read(&folder.join("requirements.txt"))?;
    let wanted = lock + &requirements;
    let stamp = folder.join("node_modules/.vik-lock");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    eprintln!("Installing the pinned MCP servers (about 130 MB): npm ci --prefix tests/mcp-servers, pip");
    let pip = folder.join("venv/bin/pip");
    repo::run(repo::program("npm").args(["ci", "--prefix", "tests/mcp-servers"]))?;
    repo::run(repo::program("python3").args(["-m", "venv", "tests/mcp-servers/venv"]))?;
    repo::run(Command::new(pip).args(["install", "--quiet", "-r", "tests/mcp-servers/requirements.txt"]))?;
    repo::write(&stamp, &wanted)
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

/// Checks that cargo-nextest runs; if it is missing, it is installed in the target folder. Returns
/// the `PATH` on which cargo finds it, if that is another one.
fn install_nextest() -> TaskResult<Option<OsString>> {
    let runs = |path: Option<&OsString>| {
        let mut cargo = repo::cargo();
        cargo.args(["nextest", "--version"]);
        cargo.envs(path.map(|path| ("PATH", path)));
        repo::output(&mut cargo).map(drop)
    };
    if runs(None).is_ok() {
        return Ok(None);
    }
    let tools = repo::target().join("ci-tools");
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&folders);
    let path = std::env::join_paths(std::iter::once(tools.join("bin")).chain(folders))
        .context("the target folder cannot be in PATH")?;
    if runs(Some(&path)).is_err() {
        eprintln!("Installing cargo-nextest in {}", tools.display());
        // Unoptimised, as it builds in a third of the time.
        let options = ["cargo-nextest", "--version", "^0.9.100", "--locked", "--quiet"];
        let mut cargo = repo::cargo();
        cargo
            .arg("install")
            .args(options)
            .args(["--profile", "dev", "--root"]);
        repo::run(cargo.arg(&tools))?;
        runs(Some(&path))?;
    }
    Ok(Some(path))
}

/// The tests of many machines; `.config/nextest.toml` has the list.
const TEMPORAL_TESTS: [&str; 7] = [
    "--package",
    "vik",
    "--features",
    "temporal",
    "--lib",
    "--test=it",
    "--profile=temporal",
];

struct Tests<'a> {
    args: &'a [OsString],
    /// Variables that make tests fail if what they need does not work, so that none is skipped
    /// silently.
    required: &'a [&'a str],
    /// The server on which a hub and a worker run instead of a daemon.
    server: Option<&'a temporal::Server>,
}

impl Tests<'_> {
    fn cargo(&self, verb: &[&str], path: Option<&OsString>) -> Command {
        let mut cargo = repo::cargo();
        cargo.args(verb).envs(path.map(|path| ("PATH", path)));
        cargo.envs(self.required.iter().map(|name| (name, "1")));
        if let Some(server) = self.server {
            cargo.env(temporal::VARIABLE, server.address());
            // Tests that end their server have one of their own.
            cargo.env(temporal::PROGRAM, &server.program);
        }
        let names_package = |arg: &OsString| {
            arg.to_str()
                .is_some_and(|arg| arg.starts_with("-p") || arg.starts_with("--package"))
        };
        if !self.args.iter().any(names_package) {
            // With `--workspace` a package would not be the only one.
            cargo.args(["--workspace", "--exclude", "vik-temporal"]);
        }
        cargo.args(self.args);
        cargo
    }

    /// Runs the tests with cargo-nextest, and lists those that skipped themselves.
    fn run(&self, path: Option<&OsString>) -> TaskResult {
        // Always in the folder of the workspace, whatever the target folder is.
        let profile = self.server.map_or("default", |_| "temporal");
        let report: PathBuf = repo::root().join(format!("target/nextest/{profile}/junit.xml"));
        let _ = std::fs::remove_file(&report);
        let mut nextest = self.cargo(&["nextest", "run"], path);
        // Most tests wait for other processes. The variable has no effect beside `--test-threads`.
        if std::env::var_os(THREADS).is_none() {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            nextest.env(THREADS, (2 * cores).to_string());
        }
        let ran = repo::run(&mut nextest);
        let skipped = skipped(&std::fs::read_to_string(&report).unwrap_or_default());
        if !skipped.is_empty() {
            println!("{} skipped for what this machine lacks:", skipped.len());
            for test in &skipped {
                println!("  {test}");
            }
        }
        ran
    }
}

/// Returns the tests of a JUnit report that printed a line `skipped: REASON`, each with its reason.
fn skipped(report: &str) -> Vec<String> {
    let mut test = "";
    let mut skipped = Vec::new();
    for line in report.lines() {
        if let Some((_, tail)) = line.split_once("<testcase name=\"") {
            test = tail.split('"').next().unwrap_or_default();
        }
        let Some((before, reason)) = line.split_once("skipped: ") else {
            continue;
        };
        if before.is_empty() || before.ends_with('>') {
            let reason = reason.split("</system-").next().unwrap_or_default();
            // Some reasons begin with the name of the test.
            let own = reason.split_once(": ").filter(|(name, _)| test.ends_with(name));
            let reason = own.map_or(reason, |(_, reason)| reason);
            skipped.push(format!("{test}: {}", unescape(reason)));
        }
    }
    skipped.sort();
    skipped.dedup();
    skipped
}

fn unescape(text: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    entities
        .iter()
        .fold(text.to_owned(), |text, (entity, character)| {
            text.replace(entity, character)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_read_from_the_report() {
        let report = "<testsuites name=\"nextest-run\" tests=\"3\">
        <testcase name=\"gates::a\" classname=\"vik::it\" time=\"0.1\">
            <system-out>
running 1 test
test gates::a ... ok
</system-out>
            <system-err>skipped: gates::a: codex is not installed (npm &amp; node)
</system-err>
        </testcase>
        <testcase name=\"tests::root\" classname=\"vik-proc\" time=\"0.1\">
            <system-err>skipped: it needs root</system-err>
        </testcase>
        <testcase name=\"tests::other\" classname=\"vik-proc\" time=\"0.1\">
            <system-out>1 skipped: no test\nthe run was skipped: no</system-out>
        </testcase>\n";
        assert_eq!(
            skipped(report),
            [
                "gates::a: codex is not installed (npm & node)",
                "tests::root: it needs root"
            ]
        );
        assert_eq!(skipped(""), [""; 0]);
    }
}
