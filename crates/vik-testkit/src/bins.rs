//! Where the programs of this workspace are, as seen from a test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The scripted agent.
pub fn scripted_agent() -> PathBuf {
    built("vik-testkit", "vik-scripted-agent")
}

/// The fake tracker.
pub fn fake_tracker() -> PathBuf {
    built("vik-testkit", "vik-fake-tracker")
}

/// The agent that tries to get out of its sandbox.
pub fn escape() -> PathBuf {
    built("vik-testkit", "vik-escape")
}

/// The scripted model server.
pub fn model_server() -> PathBuf {
    built("vik-testkit", "vik-model-server")
}

/// The program `name` of `package`, for the profile of the running test.
///
/// Cargo builds the programs of a package for its own tests only. So a program of this crate that is not there, or is
/// older than its sources, is built first, which happens when only one package is tested.
///
/// # Panics
///
/// If it cannot be built.
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
    // What cargo set for the running test would make it build things anew.
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
    // Cargo leaves the time of a program alone where there was nothing to do.
    if let Ok(file) = std::fs::File::open(&path) {
        let _ = file.set_modified(SystemTime::now());
    }
    path
}

/// The folder of this workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this crate is in crates/")
}

/// `target/debug` or the like: where the running test's program is, without `deps`.
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

/// Whether a program of this crate is newer than all its sources.
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
