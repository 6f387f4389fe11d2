//! `cargo xtask dist`: the packages of a release, in target/dist.
//!
//! A format is one file below. All formats take the program of `build` and the tree of `stage`, so
//! that the packages of a target contain the same files.

mod build;
pub mod check;
mod npm;
mod recipes;
mod sbom;
mod stage;
mod sums;
mod system;
mod tarball;
mod tools;
mod wheel;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};

pub use self::build::Target;
use crate::repo::{self, Context as _, TaskResult};

/// The address of the files of a release; its version follows.
pub const DOWNLOADS: &str = "https://github.com/vik-sh/vik/releases/download";

/// `cargo xtask dist`
#[derive(Debug, Args)]
pub struct DistArgs {
    /// Formats to build [default: all]
    ///
    /// `homebrew`, `nix` and `image` contain the checksums of the archives in target/dist, whichever
    /// machine has built them. SHA256SUMS is always written.
    #[arg(value_name = "FORMAT", value_enum)]
    formats: Vec<Format>,
    /// Targets to build for; can be repeated [default: x86_64 and aarch64]
    #[arg(long, value_name = "TARGET", value_enum)]
    target: Vec<Target>,
    /// Program to package, instead of a build; requires one target
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// A kind of file that is made for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// An archive with the program, completions, manual pages, licences and the example
    Tarball,
    /// A package for Debian and Ubuntu
    Deb,
    /// A package for Fedora, RHEL and openSUSE
    Rpm,
    /// A Python wheel with the program
    Wheel,
    /// Packages for npm: one with a launcher, and one with the program for each target
    Npm,
    /// The list of dependencies in the program, as CycloneDX
    Sbom,
    /// A formula for Homebrew
    Homebrew,
    /// A flake for Nix
    Nix,
    /// A recipe for a container image
    Image,
}

impl Format {
    /// Returns whether the format refers to archives of all targets, and contains no program.
    fn is_recipe(self) -> bool {
        matches!(self, Self::Homebrew | Self::Nix | Self::Image)
    }
}

/// What all packages of a release have in common.
#[derive(Clone, Debug)]
pub struct Release {
    /// The version, without `v`.
    pub version: String,
    /// The time of all files in packages: `SOURCE_DATE_EPOCH`, or the time of the last commit; in
    /// seconds since 1970.
    pub epoch: u64,
    /// The folder that receives the packages.
    pub out: PathBuf,
}

impl Release {
    /// Returns the release of this repository, which goes to target/dist.
    pub fn of_repository() -> TaskResult<Self> {
        let out = repo::target().join("dist");
        std::fs::create_dir_all(&out).context(format!("cannot create {}", out.display()))?;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: epoch()?,
            out,
        })
    }

    /// Returns the path of a file of this release.
    fn file(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Returns an empty folder for the files of one package, which is no part of the release.
    fn empty_folder(&self, name: &str) -> TaskResult<PathBuf> {
        let folder = repo::target().join("dist-stage").join(name);
        empty(&folder)?;
        Ok(folder)
    }
}

/// Creates a folder, without what it contained before.
pub fn empty(folder: &Path) -> TaskResult {
    let failed = |error| format!("cannot create {}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(failed)?;
    }
    std::fs::create_dir_all(folder).map_err(failed)
}

/// Copies a file and creates its folder; the error names its path.
pub fn copy(from: &Path, to: &Path) -> TaskResult {
    let folder = to.parent().unwrap_or(to);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::copy(from, to))
        .map(|_| ())
        .context(format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Returns the text of a template in xtask/dist with its `@NAME@` replaced. A name without a value
/// is an error, so that no package contains one.
fn fill(template: &str, values: &[(&str, &str)]) -> TaskResult<String> {
    let mut text = repo::read(&repo::root().join("xtask/dist").join(template))?;
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    let left = text
        .split('@')
        .skip(1)
        .step_by(2)
        .find(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    match left {
        Some(name) => Err(format!("xtask/dist/{template}: no value for @{name}@")),
        None => Ok(text),
    }
}

fn epoch() -> TaskResult<u64> {
    let variable = "SOURCE_DATE_EPOCH";
    let text = match std::env::var(variable) {
        Ok(text) => text,
        Err(_) => {
            repo::output(repo::program("git").args(["-c", "safe.directory=*", "log", "-1", "--format=%ct"]))
                .map_err(|error| {
                format!("{error}\n  hint: outside of a clone, set {variable} to seconds since 1970")
            })?
        }
    };
    let text = text.trim();
    text.parse()
        .map_err(|_| format!("{variable}: expected seconds since 1970, found `{text}`"))
}

pub fn run(args: &DistArgs) -> TaskResult {
    let release = Release::of_repository()?;
    let formats = match args.formats.as_slice() {
        [] => Format::value_variants(),
        named => named,
    };
    let targets = match args.target.as_slice() {
        [] => Target::value_variants(),
        named => named,
    };
    if args.program.is_some() && targets.len() != 1 {
        return Err("--program requires exactly one --target".to_owned());
    }
    let mut made = Vec::new();
    for target in targets {
        made.extend(package(&release, *target, formats, args.program.as_deref())?);
    }
    // After the targets: these contain the checksums of their archives.
    if formats.contains(&Format::Npm) {
        made.push(npm::launcher(&release)?);
    }
    for format in formats.iter().filter(|format| format.is_recipe()) {
        made.push(match format {
            Format::Homebrew => recipes::homebrew(&release)?,
            Format::Nix => recipes::nix(&release)?,
            _ => recipes::image(&release)?,
        });
    }
    made.push(sums::write(&release)?);
    for path in &made {
        let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        println!("{:>6.1} MB  {}", bytes as f64 / 1e6, path.display());
    }
    Ok(())
}

/// Makes all packages of one target; returns their paths.
fn package(
    release: &Release,
    target: Target,
    formats: &[Format],
    program: Option<&Path>,
) -> TaskResult<Vec<PathBuf>> {
    if formats.iter().all(|format| format.is_recipe()) {
        return Ok(Vec::new());
    }
    let program = match program {
        Some(path) => path.to_owned(),
        None => build::program(target, release.epoch)?,
    };
    let tree = stage::tree(release, target, &program)?;
    let mut made = Vec::new();
    for format in formats.iter().filter(|format| !format.is_recipe()) {
        let started = Instant::now();
        let path = match format {
            Format::Tarball => tarball::build(release, target, &tree)?,
            Format::Deb => system::deb(release, target, &tree)?,
            Format::Rpm => system::rpm(release, target, &tree)?,
            Format::Wheel => wheel::build(release, target, &tree)?,
            Format::Npm => npm::program(release, target, &tree)?,
            _ => sbom::write(release, target, &program)?,
        };
        let (name, seconds) = (path.file_name().unwrap_or_default(), started.elapsed().as_secs());
        eprintln!("  packaged {} in {seconds}s", name.display());
        made.push(path);
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_replaces_all_names_or_fails() {
        let values = [
            ("VERSION", "1.2.3"),
            ("ARCHITECTURE", "amd64"),
            ("KILOBYTES", "7"),
        ];
        let text = fill("control", &values).unwrap();
        assert!(
            text.contains("Version: 1.2.3\n") && text.contains("Installed-Size: 7\n"),
            "{text}"
        );
        let error = fill("control", &values[..1]).unwrap_err();
        assert!(error.contains("no value for @ARCHITECTURE@"), "{error}");
    }
}
