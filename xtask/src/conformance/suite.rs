//! The suite: its installation, its scenarios, and a run of one of them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::repo::{self, Context as _, TaskResult};

/// The version of Node that is installed if there is none that the suite can use.
const NODE: &str = "22.23.3";
/// The oldest version of Node that the suite can use.
const MIN_NODE: u32 = 22;

/// The suite in the target folder, with the Node that runs it.
pub(super) struct Suite {
    node: PathBuf,
    folder: PathBuf,
}

/// A scenario for clients.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scenario {
    pub(super) name: String,
    /// The versions of the protocol that it tests; an extension has none.
    versions: Vec<String>,
}

/// The checks of one run of a scenario.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) passed: usize,
    pub(super) failed: Vec<FailedCheck>,
    /// Why the client failed.
    pub(super) client_error: Option<String>,
}

/// A check that failed, or of which the suite warns.
#[derive(Debug)]
pub(super) struct FailedCheck {
    pub(super) check: String,
    pub(super) message: String,
}

impl fmt::Display for FailedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.message)
    }
}

/// A check in `checks.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: String,
    #[serde(default)]
    description: String,
    error_message: Option<String>,
}

impl Suite {
    /// Installs the pinned version in the target folder, and a Node if that of the machine is too
    /// old.
    ///
    /// # Errors
    /// If npm fails.
    pub(super) fn install() -> TaskResult<Self> {
        let folder = repo::target().join("ci-tools/mcp-conformance");
        let pinned = repo::root().join("tests/mcp-conformance");
        let lock = repo::read(&pinned.join("package-lock.json"))?;
        let stamp = folder.join("node_modules/.vik-lock");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
            return Ok(Self {
                node: node()?,
                folder,
            });
        }
        eprintln!("Installing the conformance suite of MCP in {}", folder.display());
        let package = repo::read(&pinned.join("package.json"))?;
        repo::write(&folder.join("package.json"), &package)?;
        repo::write(&folder.join("package-lock.json"), &lock)?;
        repo::run(Command::new("npm").args(["ci", "--silent"]).current_dir(&folder))?;
        repo::write(&stamp, &lock)?;
        Ok(Self {
            node: node()?,
            folder,
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.node);
        let program = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
        command.arg(self.folder.join(program)).current_dir(&self.folder);
        command
    }

    /// Returns the scenarios for clients.
    ///
    /// # Errors
    /// If the suite lists none.
    pub(super) fn scenarios(&self) -> TaskResult<Vec<Scenario>> {
        let list = repo::output(self.command().args(["list", "--client"]))?;
        let scenarios: Vec<Scenario> = list.lines().filter_map(scenario).collect();
        if scenarios.is_empty() {
            return Err(format!("the suite lists no scenario:\n{list}"));
        }
        Ok(scenarios)
    }

    /// Runs a scenario.
    ///
    /// # Errors
    /// If the suite itself fails.
    pub(super) fn run(&self, scenario: &str, version: Option<&str>) -> TaskResult<Run> {
        let results = tempfile::tempdir().context("cannot create a folder")?;
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut command = self.command();
        command
            .args(["client", "--scenario", scenario, "--command"])
            .arg(format!("'{}' conformance --client", own.display()))
            .arg("--output-dir")
            .arg(results.path());
        if let Some(version) = version {
            command.args(["--spec-version", version]);
        }
        let output = command
            .stdin(Stdio::null())
            .output()
            .context("cannot start the suite")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let Some(checks) = checks_file(results.path()) else {
            return Err(format!("the scenario {scenario} did not run:\n{stderr}"));
        };
        let checks: Vec<Check> =
            serde_json::from_str(&repo::read(&checks)?).context("checks.json is wrong")?;
        let mut run = Run {
            client_error: client_error(&stderr),
            ..Run::default()
        };
        for check in checks {
            match check.status.as_str() {
                "SUCCESS" => run.passed += 1,
                "FAILURE" | "WARNING" => run.failed.push(FailedCheck {
                    check: check.id,
                    message: check.error_message.unwrap_or(check.description),
                }),
                _ => {}
            }
        }
        Ok(run)
    }
}

impl Scenario {
    /// Returns the versions of its runs; `None` is that which the suite chooses.
    pub(super) fn runs(&self) -> Vec<Option<&str>> {
        if self.versions.is_empty() {
            return vec![None];
        }
        self.versions
            .iter()
            .map(|version| Some(version.as_str()))
            .collect()
    }
}

/// Reads a line such as `  - tools_call [2025-06-18,2025-11-25]`.
fn scenario(line: &str) -> Option<Scenario> {
    let (name, versions) = line
        .trim()
        .strip_prefix("- ")?
        .strip_suffix(']')?
        .split_once(" [")?;
    let is_version = |version: &&str| version.starts_with("20");
    Some(Scenario {
        name: name.to_owned(),
        versions: versions
            .split(',')
            .filter(is_version)
            .map(ToOwned::to_owned)
            .collect(),
    })
}

/// Returns the line in which the suite reports that the client failed, with the error of the client.
fn client_error(stderr: &str) -> Option<String> {
    let reported = stderr
        .lines()
        .find(|line| line.starts_with("Client exited with code") || line.starts_with("Client timed out"))?;
    let error = stderr.lines().find_map(|line| line.strip_prefix("error: "));
    Some(error.map_or_else(|| reported.to_owned(), |error| format!("{reported}: {error}")))
}

/// Returns the file with the checks. It is in a folder with the name of the scenario, which may have
/// a `/`.
fn checks_file(folder: &Path) -> Option<PathBuf> {
    let file = folder.join("checks.json");
    if file.is_file() {
        return Some(file);
    }
    let inside = std::fs::read_dir(folder).ok()?.next()?.ok()?.path();
    checks_file(&inside)
}

/// Returns a Node that the suite can use.
fn node() -> TaskResult<PathBuf> {
    let version = repo::output(Command::new("node").arg("--version")).unwrap_or_default();
    if major(&version) >= Some(MIN_NODE) {
        return Ok("node".into());
    }
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let package = format!("node-{}-{arch}", std::env::consts::OS);
    let folder = repo::target().join("ci-tools/node");
    let program = folder.join("node_modules").join(&package).join("bin/node");
    if major(&repo::output(Command::new(&program).arg("--version")).unwrap_or_default()) < Some(MIN_NODE) {
        eprintln!("Installing Node {NODE} in {}", folder.display());
        let options = ["install", "--silent", "--no-save", "--prefix"];
        repo::run(
            Command::new("npm")
                .args(options)
                .arg(&folder)
                .arg(format!("{package}@{NODE}")),
        )
        .map_err(|error| format!("the suite needs Node {MIN_NODE} or newer: {error}"))?;
    }
    Ok(program)
}

/// Returns the first number of a version such as `v22.23.3`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_read_from_the_list() {
        let read = |line: &str| scenario(line).map(|scenario| (scenario.name, scenario.versions));
        assert_eq!(
            read("  - tools_call [2025-06-18,2026-07-28]"),
            Some((
                "tools_call".to_owned(),
                vec!["2025-06-18".to_owned(), "2026-07-28".to_owned()]
            ))
        );
        assert_eq!(
            read("  - auth/dpop [extension]"),
            Some(("auth/dpop".to_owned(), Vec::new()))
        );
        assert_eq!(read("Client scenarios (test against a client):"), None);
    }

    #[test]
    fn failures_of_the_client_have_its_reason() {
        let stderr = "\nClient exited with code 1\n\nStderr:\nerror: no answer\n";
        assert_eq!(
            client_error(stderr).unwrap(),
            "Client exited with code 1: no answer"
        );
        assert_eq!(client_error("Checks:\n"), None);
        assert_eq!(major("v22.23.3\n"), Some(22));
        assert_eq!(major(""), None);
    }
}
