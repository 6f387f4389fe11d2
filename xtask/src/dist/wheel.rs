//! The Python wheel: the program as a script of the package `vik-daemon`, without Python code.

use std::path::{Path, PathBuf};

use super::{Release, Target};
use crate::repo::{self, TaskResult};

/// The name of the distribution, as in file names.
pub const NAME: &str = "vik_daemon";

pub fn build(release: &Release, target: Target, tree: &Path) -> TaskResult<PathBuf> {
    let processor = target.names().wheel;
    // A static program needs neither of the C libraries.
    let tag = format!("py3-none-manylinux_2_17_{processor}.musllinux_1_1_{processor}");
    let path = release.file(&format!("{NAME}-{}-{tag}.whl", release.version));
    let mut python = repo::program("python3");
    python
        .arg("xtask/dist/wheel.py")
        .args([NAME, &release.version, &tag])
        .arg(tree)
        .arg(&path)
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    repo::run(&mut python)?;
    Ok(path)
}
