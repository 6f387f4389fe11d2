//! Recipes of other package managers. They name files of the release and contain their checksums.

use std::fmt::Write;
use std::path::PathBuf;

use clap::ValueEnum;

use super::{DOWNLOADS, Release, Target, fill, sums, tarball};
use crate::repo::{self, TaskResult};

/// An archive of the release that has been built.
struct Archive {
    target: Target,
    url: String,
    sha256: String,
}

fn archives(release: &Release) -> TaskResult<Vec<Archive>> {
    let mut found = Vec::new();
    for target in Target::value_variants() {
        let name = format!("{}.tar.gz", tarball::name(release, target.names().triple));
        let path = release.file(&name);
        if path.is_file() {
            found.push(Archive {
                target: *target,
                url: format!("{DOWNLOADS}/v{}/{name}", release.version),
                sha256: sums::of(&path)?,
            });
        }
    }
    if found.is_empty() {
        return Err(format!(
            "no archive of version {} in {}\n  hint: run `cargo xtask dist tarball` first",
            release.version,
            release.out.display()
        ));
    }
    Ok(found)
}

/// Writes the formula, with a block for each archive.
pub fn homebrew(release: &Release) -> TaskResult<PathBuf> {
    let mut blocks = String::new();
    for Archive { target, url, sha256 } in archives(release)? {
        let block = target.names().brew;
        let _ = write!(
            blocks,
            "\n    {block} do\n      url \"{url}\"\n      sha256 \"{sha256}\"\n    end"
        );
    }
    let values = [
        ("VERSION", release.version.as_str()),
        ("ARCHIVES", blocks.trim_start()),
    ];
    save(release, "vik.rb", &fill("vik.rb", &values)?)
}

/// Writes the flake, with an entry for each archive.
pub fn nix(release: &Release) -> TaskResult<PathBuf> {
    let mut entries = String::new();
    for Archive { target, url, sha256 } in archives(release)? {
        let system = target.names().nix;
        let _ = write!(
            entries,
            "\n        {system} = {{\n          url = \"{url}\";\n          sha256 = \"{sha256}\";\n        }};"
        );
    }
    let values = [
        ("VERSION", release.version.as_str()),
        ("ARCHIVES", entries.trim_start()),
    ];
    save(release, "flake.nix", &fill("flake.nix", &values)?)
}

/// Writes the recipe of the image, which verifies and installs the .deb beside it.
pub fn image(release: &Release) -> TaskResult<PathBuf> {
    let values = [("VERSION", release.version.as_str())];
    save(release, "Containerfile", &fill("Containerfile", &values)?)
}

fn save(release: &Release, name: &str, text: &str) -> TaskResult<PathBuf> {
    let path = release.file(name);
    repo::write(&path, text)?;
    Ok(path)
}
