//! Installs a package into an empty prefix, without a network and without rights.

use std::path::{Path, PathBuf};

use super::super::{Release, Target, empty, npm, tarball, wheel};
use crate::repo::{self, TaskResult};

/// The result of an installation.
pub struct Installed {
    /// The program that people start.
    pub vik: PathBuf,
    /// Other files that must exist.
    pub files: Vec<PathBuf>,
    /// The folder of the example, where the package contains it.
    pub example: Option<PathBuf>,
}

/// Completions and manual pages, below a prefix.
const SHARED: &[&str] = &[
    "share/bash-completion/completions/vik",
    "share/zsh/site-functions/_vik",
    "share/fish/vendor_completions.d/vik.fish",
    "share/man/man1/vik.1",
    "share/doc/vik/LICENSE-MIT",
    "share/vik/example/workflow.example.yml",
];

fn prefix(prefix: &Path, more: &[&str]) -> Installed {
    let files = SHARED.iter().chain(more);
    Installed {
        vik: prefix.join("bin/vik"),
        files: files.map(|path| prefix.join(path)).collect(),
        example: Some(prefix.join("share/vik/example")),
    }
}

/// Returns the file of the release with this start and end.
fn package(release: &Release, start: &str, end: &str) -> TaskResult<PathBuf> {
    let files = std::fs::read_dir(&release.out).into_iter().flatten().flatten();
    let mut paths = files.map(|entry| entry.path());
    let found = paths.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(start) && name.ends_with(end)
    });
    found.ok_or_else(|| {
        format!(
            "no {start}…{end} in {}\n  hint: run `cargo xtask dist` first",
            release.out.display()
        )
    })
}

pub fn tarball(release: &Release, target: Target, folder: &Path) -> TaskResult<Installed> {
    let path = package(release, &tarball::name(release, target.names().triple), ".tar.gz")?;
    empty(folder)?;
    let mut tar = repo::program("tar");
    tar.args(["--extract", "--gzip", "--strip-components=1", "--file"]);
    repo::run(tar.arg(path).arg("--directory").arg(folder))?;
    Ok(prefix(folder, &[]))
}

/// Returns the .deb of this release.
pub fn deb_file(release: &Release, target: Target) -> TaskResult<PathBuf> {
    let name = format!("vik_{}_{}", release.version, target.names().deb);
    package(release, &name, ".deb")
}

pub fn deb(release: &Release, target: Target, folder: &Path) -> TaskResult<Installed> {
    let path = deb_file(release, target)?;
    empty(folder)?;
    install_deb(&path, folder)?;
    Ok(prefix(&folder.join("usr"), &["lib/systemd/user/vik@.service"]))
}

/// Installs a .deb into a root with a database of its own, or upgrades it there.
pub fn install_deb(path: &Path, root: &Path) -> TaskResult {
    let database = root.join("var/lib/dpkg");
    if !database.exists() {
        for folder in ["info", "updates", "triggers"] {
            empty(&database.join(folder))?;
        }
        repo::write(&database.join("status"), "")?;
    }
    let mut dpkg = repo::program("dpkg");
    dpkg.arg(format!("--root={}", root.display()))
        .args([
            "--force-not-root",
            "--force-bad-path",
            "--log=/dev/null",
            "--install",
        ])
        .arg(path);
    // Its path is not that of an administrator everywhere.
    repo::output(&mut dpkg).map(|_| ())
}

pub fn rpm(release: &Release, target: Target, folder: &Path) -> TaskResult<Installed> {
    repo::installed("rpm", "rpm")?;
    let name = format!("vik-{}-1.{}", release.version, target.names().rpm);
    let path = package(release, &name, ".rpm")?;
    empty(folder)?;
    let usr = folder.join("usr");
    let mut rpm = repo::program("rpm");
    rpm.args(["--install", "--nodeps", "--nosignature", "--badreloc", "--dbpath"])
        .arg(folder.join("database"))
        .arg(format!("--relocate=/usr={}", usr.display()))
        .arg(path);
    repo::output(&mut rpm)?;
    Ok(prefix(&usr, &["lib/systemd/user/vik@.service"]))
}

pub fn wheel(release: &Release, target: Target, folder: &Path) -> TaskResult<Installed> {
    let name = format!("{}-{}-", wheel::NAME, release.version);
    let path = package(release, &name, &format!("_{}.whl", target.names().wheel))?;
    empty(folder)?;
    repo::run(repo::program("python3").args(["-m", "venv"]).arg(folder))?;
    let pip = folder.join("bin/pip");
    let offline = ["install", "--quiet", "--no-index", "--disable-pip-version-check"];
    repo::run(repo::program(&pip.to_string_lossy()).args(offline).arg(path))?;
    Ok(prefix(folder, &[]))
}

pub fn npm(release: &Release, target: Target, folder: &Path) -> TaskResult<Installed> {
    let launcher = package(release, &format!("vik-sh-vik-{}", release.version), ".tgz")?;
    let name = format!("vik-sh-vik-linux-{}-{}", target.names().node, release.version);
    let program = package(release, &name, ".tgz")?;
    empty(folder)?;
    let mut install = repo::program("npm");
    install
        .args([
            "install",
            "--silent",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ])
        .arg(folder)
        .arg("--cache")
        .arg(folder.join("cache"))
        .args([program, launcher]);
    repo::run(&mut install)?;
    let package = folder.join("node_modules").join(npm::NAME);
    Ok(Installed {
        vik: folder.join("node_modules/.bin/vik"),
        files: vec![package.join("LICENSE-MIT"), package.join("README.md")],
        example: None,
    })
}
