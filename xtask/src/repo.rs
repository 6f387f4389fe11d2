//! The repository, and programs that run in it.

use std::fmt::Display;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The result of a task: an error is one sentence or several lines for a person.
pub type TaskResult<T = ()> = Result<T, String>;

/// Adds to an error what failed.
pub trait Context<T> {
    fn context(self, subject: impl Display) -> TaskResult<T>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, subject: impl Display) -> TaskResult<T> {
        self.map_err(|error| format!("{subject}: {error}"))
    }
}

/// Returns the root of this repository.
pub fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// Returns the cargo that runs this task.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // Cargo's variables of this task would make it rebuild everything.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Returns a command for a program in the root of this repository.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Runs a command whose output goes to the terminal.
pub fn run(command: &mut Command) -> TaskResult {
    let status = command
        .stdin(Stdio::null())
        .status()
        .context(format!("cannot start {}", command.get_program().display()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{} ended with {status}", display(command)))
}

/// Runs a command and returns its output.
pub fn output(command: &mut Command) -> TaskResult<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(format!("cannot start {}", command.get_program().display()))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{} ended with {}\n{stdout}{stderr}",
        display(command),
        output.status
    ))
}

/// Checks that a program exists; as root on Debian it is installed if it is missing.
pub fn installed(program: &str, package: &str) -> TaskResult {
    installed_if(program, package, || {
        Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// Does the same for a program that is found in another way.
pub fn installed_if(program: &str, package: &str, there: impl Fn() -> bool) -> TaskResult {
    if there() {
        return Ok(());
    }
    eprintln!("Installing {package} with apt-get");
    let quiet = ["-qq", "-y", "--no-install-recommends", "install", package];
    let apt = |args: &[&str]| {
        run(Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let _ = apt(&["-qq", "update"]).and_then(|()| apt(&quiet));
    if there() {
        Ok(())
    } else {
        Err(format!(
            "`{program}` is not installed: install the package {package}"
        ))
    }
}

/// Returns the tracked files of this repository and new ones that are not ignored, as relative
/// paths.
pub fn files() -> TaskResult<Vec<PathBuf>> {
    let mut git = program("git");
    git.args([
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listed = output(&mut git)?;
    let paths = listed
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    // A deleted file that is not committed yet is still listed.
    Ok(paths.filter(|path| root().join(path).is_file()).collect())
}

/// Reads a file; the error names its path.
pub fn read(path: &Path) -> TaskResult<String> {
    std::fs::read_to_string(path).context(format!("cannot read {}", path.display()))
}

/// Writes a file and creates its folder; the error names its path.
pub fn write(path: &Path, text: &str) -> TaskResult {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .context(format!("cannot write {}", path.display()))
}

/// Returns the target folder of cargo.
pub fn target() -> PathBuf {
    // This program is in its folder `debug` or `release`.
    let own = std::env::current_exe().ok();
    let found = own.as_deref().and_then(Path::parent).and_then(Path::parent);
    found.map_or_else(|| root().join("target"), Path::to_owned)
}

/// Builds a program of this repository for release.
pub fn release(package: &str, program: &str) -> TaskResult<PathBuf> {
    run(cargo().args(["build", "--release", "--package", package, "--bin", program]))?;
    Ok(target().join("release").join(program))
}

/// Returns the load of the machine.
pub fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the date and the kind of machine.
pub fn machine() -> TaskResult<String> {
    let date = output(program("date").args(["-u", "+%Y-%m-%d"]))?;
    let system = output(program("uname").args(["-s", "-r", "-m"]))?;
    // The kernel's version, not who built it.
    let fields = system.split_whitespace();
    let fields: Vec<_> = fields
        .map(|field| field.split('-').next().unwrap_or(field))
        .collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // The name of the processor does not identify the machine.
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = processor.map_or("processor", |(_, name)| name);
    Ok(format!(
        "{}, {cores} cores ({processor}), {}, load {}",
        date.trim(),
        fields.join(" "),
        load_average()
    ))
}

/// Returns a port of this machine that is free now.
pub fn free_port() -> TaskResult<u16> {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    Ok(free.context("no free port")?.port())
}

/// Replaces the text between two marks of a page.
pub fn put_between(path: &Path, marks: (&str, &str), text: &str) -> TaskResult {
    let page = read(path)?;
    let lacks = |mark: &str| format!("{} does not contain the line `{mark}`", path.display());
    let (before, tail) = page.split_once(marks.0).ok_or_else(|| lacks(marks.0))?;
    let (_, after) = tail.split_once(marks.1).ok_or_else(|| lacks(marks.1))?;
    write(path, &format!("{before}{}\n{text}\n{}{after}", marks.0, marks.1))
}

fn display(command: &Command) -> String {
    let args = std::iter::once(command.get_program()).chain(command.get_args());
    let args: Vec<_> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    format!("`{}`", args.join(" "))
}
