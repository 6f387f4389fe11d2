//! Runs the short commands that doctor needs, and leaves nothing behind.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};
use tokio_util::sync::CancellationToken;
use vik_proc::{Limits, Mark, Output, ShimSpec};

use crate::hooks::{how_ended, read_tail};
use crate::host::{ATTEMPT_MARK, Host, os_env};
use crate::report::{one_line, tail_lines};
use crate::workspace::fs::{create_private_dir_all, write_private};

/// How long a program may take to tell its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The most that is read of a version.
const MAX_VERSION_BYTES: usize = 64 * 1024;
/// After this long without a word a person is told what is waited for.
const SLOW: Duration = Duration::from_secs(2);

/// A folder that is gone when doctor is.
#[derive(Debug)]
pub(in crate::cli) struct Scratch(PathBuf);

impl Scratch {
    pub(in crate::cli) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("vik-doctor-{}", uuid::Uuid::now_v7()));
        create_private_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(in crate::cli) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It lies in the folder for what may be lost at any time.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The program with this name on a PATH, as the shim finds it; a path stands for itself.
pub(in crate::cli) fn find(name: &str, path: &str) -> Option<PathBuf> {
    let runs = |file: &Path| file.is_file() && access(file, AccessFlags::X_OK).is_ok();
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| runs(file));
    }
    let folders = path
        .split(':')
        .map(Path::new)
        .filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| runs(file))
}

/// Why a program told no version.
#[derive(Debug)]
pub(super) enum NoVersion {
    /// Doctor was interrupted.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// It failed; in words that follow its name.
    Failed(String),
    /// It printed nothing.
    Silent,
}

/// Runs a program that prints its version, under the shim; the first line that it printed.
pub(super) async fn version(
    host: &Host,
    scratch: &Scratch,
    program: &Path,
    args: Vec<OsString>,
    env: BTreeMap<String, String>,
    cancel: &CancellationToken,
) -> Result<String, NoVersion> {
    let id = uuid::Uuid::now_v7();
    let stderr = scratch.path().join(format!("{id}.stderr"));
    let mut spec = ShimSpec::command(program, scratch.path());
    spec.args = args;
    spec.env = os_env(env);
    spec.mark = Some(Mark::new(ATTEMPT_MARK, format!("doctor-{id}")));
    spec.stderr = Output::Append(stderr.clone());
    let limits = Limits {
        timeout: VERSION_TIMEOUT,
        max_bytes: MAX_VERSION_BYTES,
    };
    let run = host.supervisor.output(&spec, limits, cancel.cancelled()).await;
    let run = run
        .map_err(|error| NoVersion::Failed(format!("could not be run: {}", crate::report::chain(&error))))?;
    if run.cancelled {
        return Err(NoVersion::Cancelled);
    }
    if run.timed_out {
        return Err(NoVersion::TimedOut);
    }
    if run.exit.code != Some(0) {
        let said = one_line(&tail_lines(&read_tail(&stderr, 4096), 3), 200);
        let said = if said.is_empty() {
            said
        } else {
            format!("; it said: {said}")
        };
        return Err(NoVersion::Failed(format!("{}{said}", how_ended(&run.exit))));
    }
    let output = String::from_utf8_lossy(&run.stdout);
    match output.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => Ok(one_line(line, 80)),
        None => Err(NoVersion::Silent),
    }
}

/// What the shell says of a script that it cannot read. Nothing of the script runs.
pub(super) async fn shell_syntax(
    host: &Host,
    scratch: &Scratch,
    script: &str,
    cancel: &CancellationToken,
) -> Option<String> {
    let id = uuid::Uuid::now_v7();
    let file = scratch.path().join(format!("{id}.sh"));
    let stderr = file.with_extension("stderr");
    // Where it cannot be looked at, nothing is said against it.
    write_private(&file, script.as_bytes()).ok()?;
    let mut spec = ShimSpec::command("sh", scratch.path());
    spec.args = vec!["-n".into(), file.clone().into()];
    spec.env = os_env(host.command_env());
    spec.mark = Some(Mark::new(ATTEMPT_MARK, format!("doctor-{id}")));
    spec.stderr = Output::Append(stderr.clone());
    let limits = Limits {
        timeout: VERSION_TIMEOUT,
        max_bytes: MAX_VERSION_BYTES,
    };
    let run = host
        .supervisor
        .output(&spec, limits, cancel.cancelled())
        .await
        .ok()?;
    let said = tail_lines(&read_tail(&stderr, 4096), 3).replace(&*file.to_string_lossy(), "script");
    let refused = !run.cancelled && !run.timed_out && run.exit.code.is_some_and(|code| code != 0);
    refused.then(|| one_line(&said, 200))
}

/// Waits, and tells what for when it takes long.
pub(super) async fn patiently<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SLOW) => {}
    }
    // Nothing is lost when nobody reads it.
    let _ = writeln!(io::stderr().lock(), "waiting for {what} …");
    work.await
}
