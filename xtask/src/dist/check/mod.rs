//! `cargo xtask dist-check`: installs the packages of target/dist that run on this machine into
//! empty prefixes, and runs each as a new user does.

mod install;
mod program;
mod upgrade;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::{Args, ValueEnum};

use self::install::Installed;
use self::program::Home;
use super::{Release, Target, tools};
use crate::repo::{self, Context as _, TaskResult};

/// `cargo xtask dist-check`
#[derive(Debug, Args)]
pub struct DistCheckArgs {
    /// Parts to check [default: all but those that are marked]
    #[arg(value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// Package of the version before, for `upgrade` [default: this source with a lower version]
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
}

/// A part of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The archive, unpacked
    Tarball,
    /// The .deb, installed by dpkg
    Deb,
    /// The .rpm, installed by rpm
    Rpm,
    /// The wheel, installed by pip
    Wheel,
    /// The packages for npm, installed by npm
    Npm,
    /// An upgrade of the .deb below a running daemon, and a ledger of a newer version
    Upgrade,
    /// The formula and the flake, parsed by Ruby and Nix
    Recipes,
    /// Workflows and actions of GitHub, with actionlint, zizmor and shellcheck
    Workflows,
    /// Attempts to escape from the sandbox of the packaged program; only when named
    Sandbox,
    /// CPU and memory of the packaged program; only when named
    Bench,
}

/// What runs when no part is named.
fn by_default(part: Part) -> bool {
    !matches!(part, Part::Sandbox | Part::Bench)
}

pub fn run(args: &DistCheckArgs) -> TaskResult {
    let release = Release::of_repository()?;
    let Some(target) = Target::of_machine() else {
        return Err("no package runs on this machine: there are packages for Linux only".to_owned());
    };
    let scratch = tempfile::tempdir().context("cannot create a folder")?;
    let wanted = |part: Part| match args.parts.as_slice() {
        [] => by_default(part),
        named => named.contains(&part),
    };
    for part in Part::value_variants().iter().filter(|part| wanted(**part)) {
        let name = format!("{part:?}").to_lowercase();
        let folder = scratch.path().join(&name);
        let started = Instant::now();
        check(*part, &release, target, &folder, args.before.as_deref()).context(&name)?;
        println!("{name}: works ({:.1}s)", started.elapsed().as_secs_f64());
    }
    Ok(())
}

fn check(part: Part, release: &Release, target: Target, folder: &Path, before: Option<&Path>) -> TaskResult {
    let installed = match part {
        Part::Tarball => install::tarball(release, target, folder)?,
        Part::Deb => install::deb(release, target, folder)?,
        Part::Rpm => install::rpm(release, target, folder)?,
        Part::Wheel => install::wheel(release, target, folder)?,
        Part::Npm => install::npm(release, target, folder)?,
        Part::Upgrade => return upgrade::check(release, target, folder, before),
        Part::Recipes => return recipes(release),
        Part::Workflows => return workflows(),
        Part::Sandbox => return sandbox(release, target, folder),
        Part::Bench => return bench(release, target, folder),
    };
    for path in &installed.files {
        if !path.is_file() {
            return Err(format!("{} was not installed", path.display()));
        }
    }
    let home = Home::new(&folder.join("home"), &installed.vik)?;
    home.expect_version(&release.version)?;
    home.run_example(installed.example.as_deref())
}

/// Parses the recipes. They name files of a published release, so they cannot be built before.
fn recipes(release: &Release) -> TaskResult {
    repo::installed("ruby", "ruby")?;
    repo::output(repo::program("ruby").args(["-wc"]).arg(release.file("vik.rb")))?;
    repo::installed("nix-instantiate", "nix-bin")?;
    let parse = ["--parse", "--option", "experimental-features", "flakes"];
    repo::output(
        repo::program("nix-instantiate")
            .args(parse)
            .arg(release.file("flake.nix")),
    )?;
    Ok(())
}

/// Checks the workflows and actions, and their scripts.
fn workflows() -> TaskResult {
    repo::installed("shellcheck", "shellcheck")?;
    // It finds the workflows itself, and runs shellcheck on their scripts.
    let actionlint = tools::workflow_check("actionlint")?;
    repo::output(&mut repo::program(&actionlint.to_string_lossy()))?;
    let zizmor = tools::workflow_check("zizmor")?;
    repo::output(repo::program(&zizmor.to_string_lossy()).args(["--offline", "--quiet", ".github"]))?;
    let script = ".github/actions/setup-vik/setup.sh";
    repo::output(repo::program("shellcheck").arg(script)).map(|_| ())
}

/// Runs the tests of the sandbox with the program of the archive.
fn sandbox(release: &Release, target: Target, folder: &Path) -> TaskResult {
    let Installed { vik, .. } = install::tarball(release, target, folder)?;
    let filter = "test(/^(escape|sandbox|secrets)::/)";
    let tests = ["test", "--no-agents", "--package=vik", "--test=it", "-E", filter];
    repo::run(own_program()?.args(tests).env("VIK_UNDER_TEST", vik))
}

/// Measures the program of the archive with the scenarios in which an allocator matters.
fn bench(release: &Release, target: Target, folder: &Path) -> TaskResult {
    let Installed { vik, .. } = install::tarball(release, target, folder)?;
    let scenarios = ["bench", "events", "crowd", "--alone", "--vik"];
    repo::run(own_program()?.args(scenarios).arg(vik))
}

/// Returns a command that runs this program again.
fn own_program() -> TaskResult<Command> {
    let own = std::env::current_exe().context("cannot find this program")?;
    Ok(repo::program(&own.to_string_lossy()))
}
