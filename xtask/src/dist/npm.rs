//! Packages for npm, without install scripts: `@vik-sh/vik` has the launcher, and npm selects the
//! package with the program from its optional dependencies by system and processor.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{Release, Target, copy};
use crate::repo::{self, TaskResult};

/// The name of the package that people install.
pub const NAME: &str = "@vik-sh/vik";

fn platform(target: Target) -> String {
    format!("{NAME}-linux-{}", target.names().node)
}

/// Packs the program of one target.
pub fn program(release: &Release, target: Target, tree: &Path) -> TaskResult<PathBuf> {
    let folder = release.empty_folder(&format!("{}/npm", target.names().triple))?;
    copy(&tree.join("bin/vik"), &folder.join("bin/vik"))?;
    let name = platform(target);
    let mut manifest = manifest(release, &name, "The program of Vik for one platform");
    manifest["os"] = json!(["linux"]);
    manifest["cpu"] = json!([target.names().node]);
    // Yarn would not unpack it otherwise.
    manifest["preferUnplugged"] = json!(true);
    let readme =
        format!("# {name}\n\nThe program of [{NAME}](https://github.com/vik-sh/vik). Install that one.\n");
    repo::write(&folder.join("README.md"), &readme)?;
    pack(release, &folder, &manifest)
}

/// Packs the launcher, which depends on the packages of all targets.
pub fn launcher(release: &Release) -> TaskResult<PathBuf> {
    let folder = release.empty_folder("npm")?;
    copy(
        &repo::root().join("xtask/dist/npm/vik.js"),
        &folder.join("bin/vik.js"),
    )?;
    copy(&repo::root().join("README.md"), &folder.join("README.md"))?;
    let description = "A daemon that turns an issue tracker into a work queue for coding agents";
    let mut manifest = manifest(release, NAME, description);
    manifest["bin"] = json!({"vik": "bin/vik.js"});
    manifest["engines"] = json!({"node": ">=18"});
    let platforms = Target::value_variants()
        .iter()
        .map(|target| (platform(*target), json!(release.version)));
    manifest["optionalDependencies"] = Value::Object(platforms.collect());
    pack(release, &folder, &manifest)
}

fn manifest(release: &Release, name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "version": release.version,
        "description": description,
        "license": "(MIT OR Apache-2.0)",
        "repository": {"type": "git", "url": "git+https://github.com/vik-sh/vik.git"},
        "files": ["bin", "LICENSE-APACHE", "LICENSE-MIT"],
    })
}

fn pack(release: &Release, folder: &Path, manifest: &Value) -> TaskResult<PathBuf> {
    repo::write(&folder.join("package.json"), &format!("{manifest:#}\n"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&repo::root().join(licence), &folder.join(licence))?;
    }
    let mut pack = repo::program("npm");
    pack.args(["pack", "--silent", "--pack-destination"])
        .arg(&release.out)
        .current_dir(folder);
    let name = repo::output(&mut pack).map_err(|error| format!("{error}\n  hint: npm comes with Node"))?;
    Ok(release.file(name.trim()))
}
