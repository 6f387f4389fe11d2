//! The repository, and programs run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a task gives back: an error is one sentence or several lines for a person.
pub type Done<T = ()> = Result<T, String>;

/// The root of this repository.
pub fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// The cargo that runs this task.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // What cargo set for this task would make it build things anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Any program, in the root of this repository.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Runs a command whose output goes to the terminal.
pub fn run(command: &mut Command) -> Done {
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{} ended with {status}", shown(command)))
}

/// Runs a command and gives what it printed.
pub fn output(command: &mut Command) -> Done<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{} ended with {}\n{stdout}{stderr}",
        shown(command),
        output.status
    ))
}

/// The files of this repository that git knows, and new ones that it does not ignore; relative paths.
pub fn files() -> Done<Vec<PathBuf>> {
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
    // A file that is deleted and not yet committed is still listed.
    Ok(paths.filter(|path| root().join(path).is_file()).collect())
}

/// Reads a file, with its path in the error.
pub fn read(path: &Path) -> Done<String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes a file and its folder, with its path in the error.
pub fn write(path: &Path, text: &str) -> Done {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    format!("`{}`", words.join(" "))
}
