//! Archives: one folder, which is a prefix. The same input gives the same bytes.

use std::path::{Path, PathBuf};

use super::{Release, Target};
use crate::repo::{self, TaskResult};

/// Returns the name of the folder in the archive of a target.
pub fn name(release: &Release, triple: &str) -> String {
    format!("vik-{}-{triple}", release.version)
}

pub fn build(release: &Release, target: Target, tree: &Path) -> TaskResult<PathBuf> {
    let name = name(release, target.names().triple);
    let path = release.file(&format!("{name}.tar.gz"));
    let uncompressed = release.file(&format!("{name}.tar"));
    let mut tar = repo::program("tar");
    tar.arg("--create")
        .arg("--file")
        .arg(&uncompressed)
        .args(["--sort=name", "--format=gnu", "--numeric-owner"])
        .args(["--owner=0", "--group=0"])
        .arg(format!("--mtime=@{}", release.epoch))
        .arg(format!("--transform=s,^\\.,{name},"))
        .arg("--directory")
        .arg(tree)
        .arg(".");
    repo::run(&mut tar)?;
    repo::run(
        repo::program("gzip")
            .args(["-9", "--no-name", "--force"])
            .arg(&uncompressed),
    )?;
    Ok(path)
}
