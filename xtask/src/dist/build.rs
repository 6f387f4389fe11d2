//! The program for a release: static, with musl, with the list of its dependencies inside.

use std::path::PathBuf;

use clap::ValueEnum;

use super::tools;
use crate::repo::{self, TaskResult};

/// A platform that packages are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Linux on x86_64
    #[value(name = "x86_64", alias = "x86_64-unknown-linux-musl")]
    X86,
    /// Linux on aarch64
    #[value(name = "aarch64", alias = "aarch64-unknown-linux-musl")]
    Arm,
}

/// The names that the parts of the world have for one platform.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The platform for the compiler.
    pub triple: &'static str,
    /// The processor for Debian.
    pub deb: &'static str,
    /// The processor for RPM.
    pub rpm: &'static str,
    /// The processor for wheels.
    pub wheel: &'static str,
    /// The processor for Node.
    pub node: &'static str,
    /// The platform for Nix.
    pub nix: &'static str,
    /// The block of a formula of Homebrew.
    pub brew: &'static str,
}

impl Target {
    pub fn names(self) -> Names {
        match self {
            Self::X86 => Names {
                triple: "x86_64-unknown-linux-musl",
                deb: "amd64",
                rpm: "x86_64",
                wheel: "x86_64",
                node: "x64",
                nix: "x86_64-linux",
                brew: "on_intel",
            },
            Self::Arm => Names {
                triple: "aarch64-unknown-linux-musl",
                deb: "arm64",
                rpm: "aarch64",
                wheel: "aarch64",
                node: "arm64",
                nix: "aarch64-linux",
                brew: "on_arm",
            },
        }
    }

    /// Returns the target whose programs run on this machine, if there is one.
    pub fn of_machine() -> Option<Self> {
        match (std::env::consts::OS, std::env::consts::ARCH) {
            ("linux", "x86_64") => Some(Self::X86),
            ("linux", "aarch64") => Some(Self::Arm),
            _ => None,
        }
    }
}

/// Builds the program of a target for release and returns its path.
pub fn program(target: Target, epoch: u64) -> TaskResult<PathBuf> {
    let triple = target.names().triple;
    let path = tools::path()?;
    eprintln!("Building vik for {triple}; this takes some minutes");
    repo::run(repo::program("rustup").args(["--quiet", "target", "add", triple]))?;
    let mut build = repo::cargo();
    build
        .args(["auditable", "zigbuild", "--quiet", "--release", "--locked"])
        .args(["--package", "vik", "--bin", "vik", "--target", triple])
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", repo::target())
        .env("CARGO_INCREMENTAL", "0")
        .env("SOURCE_DATE_EPOCH", epoch.to_string())
        .env("RUSTFLAGS", without_machine_paths());
    repo::run(&mut build)?;
    Ok(repo::target().join(triple).join("release/vik"))
}

/// Returns flags that keep the folders of this machine out of the program's messages, so that
/// another machine builds the same program.
fn without_machine_paths() -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let mut flags = format!("--remap-path-prefix={}=/vik", repo::root().display());
    if let Some(home) = home {
        flags = format!("--remap-path-prefix={}=/cargo {flags}", home.display());
    }
    flags
}
