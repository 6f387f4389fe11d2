//! Packages of Linux distributions: .deb and .rpm. They are made by the distributions' own programs.

use std::path::{Path, PathBuf};

use super::{Release, Target, copy, fill};
use crate::repo::{self, TaskResult};

/// The unit for `systemctl --user`, below /usr.
const UNIT: &str = "lib/systemd/user/vik@.service";

/// Copies the tree below `usr` and adds what only a package of the system has.
fn root(release: &Release, target: Target, tree: &Path, kind: &str) -> TaskResult<PathBuf> {
    let root = release.empty_folder(&format!("{}/{kind}", target.names().triple))?;
    repo::run(repo::program("cp").args(["-a"]).arg(tree).arg(root.join("usr")))?;
    let unit = repo::root().join("xtask/dist/vik@.service");
    copy(&unit, &root.join("usr").join(UNIT))?;
    Ok(root)
}

pub fn deb(release: &Release, target: Target, tree: &Path) -> TaskResult<PathBuf> {
    repo::installed("dpkg-deb", "dpkg")?;
    let architecture = target.names().deb;
    let root = root(release, target, tree, "deb")?;
    // The name that Debian expects for licences.
    let documents = root.join("usr/share/doc/vik");
    copy(
        &repo::root().join("xtask/dist/copyright"),
        &documents.join("copyright"),
    )?;
    let kilobytes = repo::output(repo::program("du").args(["-sk", "--apparent-size"]).arg(&root))?;
    let kilobytes = kilobytes.split_whitespace().next().unwrap_or("0");
    let values = [
        ("VERSION", release.version.as_str()),
        ("ARCHITECTURE", architecture),
        ("KILOBYTES", kilobytes),
    ];
    repo::write(&root.join("DEBIAN/control"), &fill("control", &values)?)?;
    let path = release.file(&format!("vik_{}_{architecture}.deb", release.version));
    let mut build = repo::program("dpkg-deb");
    build
        .args(["--build", "--root-owner-group", "-Zxz"])
        .arg(&root)
        .arg(&path)
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    repo::output(&mut build)?;
    Ok(path)
}

pub fn rpm(release: &Release, target: Target, tree: &Path) -> TaskResult<PathBuf> {
    repo::installed("rpmbuild", "rpm")?;
    let processor = target.names().rpm;
    let root = root(release, target, tree, "rpm")?;
    let top = release.empty_folder(&format!("{}/rpmbuild", target.names().triple))?;
    let spec = top.join("vik.spec");
    let values = [
        ("VERSION", release.version.as_str()),
        ("ROOT", &root.to_string_lossy()),
    ];
    repo::write(&spec, &fill("vik.spec", &values)?)?;
    let mut build = repo::program("rpmbuild");
    build
        .args(["-bb", "--quiet", "--target", processor])
        .args(["--define", &format!("_topdir {}", top.display())])
        .arg(&spec)
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    repo::output(&mut build)?;
    let name = format!("vik-{}-1.{processor}.rpm", release.version);
    let path = release.file(&name);
    copy(&top.join("RPMS").join(processor).join(&name), &path)?;
    Ok(path)
}
