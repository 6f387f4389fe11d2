//! The paths of this workspace's programs, for tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

pub fn scripted_agent() -> PathBuf {
    built("vik-testkit", "vik-scripted-agent")
}

pub fn fake_tracker() -> PathBuf {
    built("vik-testkit", "vik-fake-tracker")
}

pub fn escape() -> PathBuf {
    built("vik-testkit", "vik-escape")
}

/// The MCP server, correct or hostile.
pub fn mcp_server() -> PathBuf {
    built("vik-testkit", "vik-mcp-server")
}

/// The scripted model server.
pub fn model_server() -> PathBuf {
    built("vik-testkit", "vik-model-server")
}

/// Returns the program `name` of `package`, for the profile of the running test.
///
/// Cargo builds the programs of a package only for its own tests. So a program of this crate that
/// is missing or older than its sources is built first, which happens if only one package is
/// tested.
///
/// # Panics
///
/// Panics if it cannot be built.
pub fn built(package: &str, name: &str) -> PathBuf {
    let folder = profile_folder();
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if is_fresh(&path) {
        return path;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", package, "--bin", name]);
    cargo.arg("--manifest-path").arg(workspace().join("Cargo.toml"));
    cargo.arg("--target-dir").arg(
        folder
            .parent()
            .expect("a profile's folder is in the target folder"),
    );
    let profile = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("debug");
    cargo.args(["--profile", if profile == "debug" { "dev" } else { profile }]);
    // Cargo's variables of the running test would make it rebuild everything.
    for (key, _) in std::env::vars_os() {
        let key = key.to_string_lossy().into_owned();
        if key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(key);
        }
    }
    let output = cargo.output().expect("cargo starts");
    assert!(
        output.status.success(),
        "cannot build {name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Cargo does not update the time of a program that is up to date.
    if let Ok(file) = std::fs::File::open(&path) {
        let _ = file.set_modified(SystemTime::now());
    }
    path
}

/// Returns the root folder of this workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this crate is in crates/")
}

/// Returns `target/debug` or similar: the folder of the running test's program, without `deps`.
fn profile_folder() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own program");
    let folder = exe.parent().expect("a program is in a folder");
    let in_deps = folder.ends_with("deps") || folder.ends_with("examples");
    let folder = if in_deps {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    folder.to_owned()
}

/// Returns whether a program of this crate is newer than all its sources.
fn is_fresh(program: &Path) -> bool {
    let Ok(built_at) = std::fs::metadata(program).and_then(|meta| meta.modified()) else {
        return false;
    };
    newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).is_none_or(|changed_at| changed_at <= built_at)
}

fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?;
    let times = entries.flatten().filter_map(|entry| {
        if entry.file_type().ok()?.is_dir() {
            newest(&entry.path())
        } else {
            entry.metadata().ok()?.modified().ok()
        }
    });
    times.max()
}
