//! Programs that come as packages of PyPI.

use std::path::{Path, PathBuf};

use crate::repo::{self, TaskResult};

/// Returns the program at `place`, such as `go/bin/go`, below an environment of Python.
pub fn find(venv: &Path, place: &str) -> Option<PathBuf> {
    let mut find = repo::program("find");
    find.arg(venv)
        .args(["-type", "f", "-path", &format!("*/{place}")]);
    let found = repo::output(&mut find).ok()?;
    found.lines().next().map(PathBuf::from)
}

/// Like [`find`]; if the program is missing, installs its package first.
pub fn install(venv: &Path, place: &str, package: &str) -> TaskResult<PathBuf> {
    if let Some(program) = find(venv, place) {
        return Ok(program);
    }
    repo::run(repo::program("python3").args(["-m", "venv"]).arg(venv))?;
    let pip = venv.join("bin/pip").display().to_string();
    repo::run(repo::program(&pip).args(["install", "--quiet", package]))?;
    find(venv, place).ok_or_else(|| format!("{package} contains no {place}"))
}
