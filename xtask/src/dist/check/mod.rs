//! `cargo xtask dist-check`: installs the packages of target/dist that run on this machine into
//! empty prefixes, and runs each as a new user does.

mod install;
mod program;
mod upgrade;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};

use self::install::Installed;
use self::program::Home;
use super::{Release, Target, tools};
use crate::repo::{self, TaskResult};

/// `cargo xtask dist-check`
#[derive(Debug, Args)]
pub struct DistCheckArgs {
    /// Parts to check [default: all but bench]
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
    /// Workflows and actions of GitHub, with actionlint, zizmor and shellcheck
    Workflows,
    /// CPU and memory of the packaged program; only when named
    Bench,
}

pub fn run(args: &DistCheckArgs) -> TaskResult {
    let release = Release::of_repository()?;
    let Some(target) = Target::of_machine() else {
        return Err("no package runs on this machine: there are packages for Linux only".to_owned());
    };
    let scratch = tempfile::tempdir().map_err(|error| format!("cannot create a folder: {error}"))?;
    let wanted = |part: Part| match args.parts.as_slice() {
        [] => part != Part::Bench,
        named => named.contains(&part),
    };
    for part in Part::value_variants().iter().filter(|part| wanted(**part)) {
        let name = format!("{part:?}").to_lowercase();
        let folder = scratch.path().join(&name);
        let started = Instant::now();
        check(*part, &release, target, &folder, args.before.as_deref())
            .map_err(|error| format!("{name}: {error}"))?;
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
        Part::Workflows => return workflows(),
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

/// Measures the program of the archive with the scenarios in which an allocator matters.
fn bench(release: &Release, target: Target, folder: &Path) -> TaskResult {
    let Installed { vik, .. } = install::tarball(release, target, folder)?;
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let scenarios = ["bench", "events", "crowd", "--alone", "--vik"];
    repo::run(repo::program(&own.to_string_lossy()).args(scenarios).arg(vik))
}
