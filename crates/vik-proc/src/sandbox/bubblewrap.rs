//! bubblewrap: namespaces in which the rules of Landlock and seccomp are enforced.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{DEVICES, Network, Reads, Sandbox, SandboxError};
use crate::sys::Gate;

/// The search path for a process without a `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The size limit of each private folder for temporary files: these folders are in memory.
const TMP_BYTES: u64 = 1 << 30;

/// Folders that belong to the tree alone and are empty at its start.
pub(crate) const PRIVATE: [&str; 2] = ["/tmp", "/dev/shm"];

/// Folders of the kernel that are mounted again: they show nothing of the outside.
const OWN: [&str; 2] = ["/dev", "/proc"];

/// Finds the program in the `PATH` of this process: the `PATH` of an agent may lead into its
/// workspace.
pub(crate) fn find() -> Result<PathBuf, SandboxError> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("bwrap"))
        .find(|program| program.is_file())
        .ok_or(SandboxError::NoBubblewrap)
}

/// Returns the arguments of `bwrap` for a sandbox.
pub(crate) fn arguments(sandbox: &Sandbox) -> Vec<OsString> {
    let mut mounts = Mounts::default();
    mounts.arg("--die-with-parent");
    for space in ["user", "pid", "ipc", "uts", "cgroup"] {
        mounts.arg(&format!("--unshare-{space}"));
    }
    if sandbox
        .calls
        .as_ref()
        .is_some_and(|calls| calls.network == Network::Off)
    {
        mounts.arg("--unshare-net");
    }
    let open = opened(sandbox);
    let root = open
        .iter()
        .any(|(path, writable)| *writable && path.parent().is_none());
    mounts.bind(if root { "--bind" } else { "--ro-bind" }, Path::new("/"));
    mounts.at("--dev", Path::new("/dev"));
    mounts.at("--proc", Path::new("/proc"));
    let size = sandbox
        .limits
        .memory
        .unwrap_or(TMP_BYTES)
        .min(TMP_BYTES)
        .to_string();
    for folder in PRIVATE {
        mounts.args(&["--perms", "1777", "--size", &size, "--tmpfs", folder]);
    }
    let covered = covered(sandbox);
    for path in &covered {
        if path.is_dir() {
            mounts.args(&["--perms", "0755", "--size", "65536"]);
            mounts.at("--tmpfs", path);
        } else {
            // The file reads as empty, and writes to it are discarded.
            mounts.args(&["--dev-bind", "/dev/null"]);
            mounts.0.push(path.into());
        }
    }
    for (path, writable) in open.iter().filter(|(path, _)| path.parent().is_some()) {
        let kind = match writable {
            true if path.starts_with("/dev") => "--dev-bind-try",
            true => "--bind-try",
            false => "--ro-bind-try",
        };
        mounts.bind(kind, path);
    }
    // This is done last, as mount points had to be created in these folders.
    for path in covered.iter().filter(|path| path.is_dir()) {
        mounts.at("--remount-ro", path);
    }
    for folder in OWN {
        mounts.at("--remount-ro", Path::new(folder));
    }
    mounts.args(&["--chdir", "/"]);
    mounts.0
}

#[derive(Default)]
struct Mounts(Vec<OsString>);

impl Mounts {
    fn arg(&mut self, arg: &str) {
        self.0.push(arg.into());
    }

    fn args(&mut self, args: &[&str]) {
        self.0.extend(args.iter().map(OsString::from));
    }

    fn at(&mut self, kind: &str, path: &Path) {
        self.0.extend([kind.into(), path.into()]);
    }

    fn bind(&mut self, kind: &str, path: &Path) {
        self.0.extend([kind.into(), path.into(), path.into()]);
    }
}

/// Returns the hidden places that exist now, without places below another one or in a folder that
/// is replaced anyway. Landlock covers places that are created later, or that replace a covered
/// place.
fn covered(sandbox: &Sandbox) -> Vec<PathBuf> {
    let Reads::AllBut { hidden, .. } = &sandbox.read else {
        return Vec::new();
    };
    let mut existing: Vec<PathBuf> = hidden
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.parent().is_some() && !is_replaced(path))
        .collect();
    existing.sort();
    existing.dedup_by(|path, above| path.starts_with(above));
    existing
}

fn is_replaced(path: &Path) -> bool {
    PRIVATE.iter().chain(&OWN).any(|own| path.starts_with(own))
}

/// Returns the places that are readable, and those that are also writable (`true`), from the root
/// down: a later mount covers an earlier one.
fn opened(sandbox: &Sandbox) -> Vec<(PathBuf, bool)> {
    let shown = match &sandbox.read {
        Reads::AllBut { shown, .. } => shown.as_slice(),
        Reads::Only(_) => &[],
    };
    let shown = shown.iter().map(|path| (path, false));
    let written = sandbox.write.iter().map(|path| (path, true));
    let mut all: Vec<(PathBuf, bool)> = shown
        .chain(written)
        .filter(|(path, _)| !DEVICES.iter().any(|device| *path == Path::new(device)))
        .filter_map(|(path, writable)| Some((path.canonicalize().ok()?, writable)))
        .filter(|(path, _)| !path.starts_with("/proc") && path != Path::new("/dev"))
        .collect();
    all.sort();
    let mut open: Vec<(PathBuf, bool)> = Vec::with_capacity(all.len());
    for (path, writable) in all {
        let is_within = |above: &(PathBuf, bool)| {
            path.starts_with(&above.0) && above.0.parent().is_some() && (above.1 || !writable)
        };
        if !open.iter().any(is_within) {
            open.push((path, writable));
        }
    }
    open
}

/// Tests whether this system lets `bwrap` set up what such a sandbox needs, by doing it.
pub(crate) fn try_out(sandbox: &Sandbox) -> Result<(), SandboxError> {
    let mut command = Command::new(find()?);
    command
        .args(arguments(sandbox))
        .args(["--", "sh", "-c", "echo up"])
        .env_clear()
        .env("PATH", USUAL_PATH)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if sandbox.hosts().is_some() {
        let gate = Gate::new(Vec::new()).map_err(SandboxError::Network)?;
        let enter = move || gate.leave_network();
        // SAFETY: it only makes system calls on memory that was prepared.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(enter)
        };
    }
    let mut child = command
        .spawn()
        .map_err(|error| SandboxError::Namespaces(error.to_string()))?;
    let (mut output, mut complaint) = (String::new(), String::new());
    // Neither output is larger than the buffer of a pipe.
    let _ = child.stdout.take().map(|mut out| out.read_to_string(&mut output));
    let _ = child
        .stderr
        .take()
        .map(|mut err| err.read_to_string(&mut complaint));
    // Another part of this process that reaps all children may have taken the status, so only the
    // output counts.
    let _ = child.wait();
    if output == "up\n" {
        return Ok(());
    }
    let complaint = complaint.trim().to_owned();
    Err(if complaint.contains("Unknown option") {
        SandboxError::OldBubblewrap(complaint)
    } else {
        SandboxError::Namespaces(complaint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(arguments: &[OsString], args: &[&str]) -> Vec<usize> {
        (0..arguments.len())
            .filter(|&at| arguments[at..].iter().zip(args).filter(|(a, b)| a == b).count() == args.len())
            .collect()
    }

    #[test]
    fn hidden_paths_are_covered_and_open_paths_lie_on_top() {
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["vik/issues/1", "vik/issues/2", "keys/deep", "repo/src"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("token"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("keys"), root.join("way-in")).unwrap();
        let path = |name: &str| root.join(name);
        let text = |name: &str| root.join(name).to_string_lossy().into_owned();
        let sandbox = Sandbox {
            backend: super::super::Backend::Bubblewrap,
            write: vec![
                "/dev/null".into(),
                path("vik/issues/1"),
                path("repo/src"),
                path("not-there"),
            ],
            read: Reads::AllBut {
                hidden: ["vik", "way-in", "keys/deep", "token", "not-there-either"]
                    .map(path)
                    .to_vec(),
                shown: vec![path("vik/issues/1"), path("repo"), path("repo/src")],
            },
            ..Sandbox::default()
        };
        let arguments = arguments(&sandbox);
        let only = |args: &[&str]| {
            let found = positions(&arguments, args);
            assert_eq!(found.len(), 1, "{args:?}: {arguments:?}");
            found[0]
        };
        let (vik, own) = (text("vik"), text("vik/issues/1"));
        let covered = only(&["--tmpfs", &vik]);
        let opened = only(&["--bind-try", &own, &own]);
        let closed = only(&["--remount-ro", &vik]);
        assert!(covered < opened && opened < closed, "{arguments:?}");
        only(&["--tmpfs", &text("keys")]);
        only(&["--dev-bind", "/dev/null", &text("token")]);
        // A writable folder is mounted above the same folder as readable. A readable folder below
        // it is not mounted again.
        let (repo, src) = (text("repo"), text("repo/src"));
        assert!(only(&["--ro-bind-try", &repo, &repo]) < only(&["--bind-try", &src, &src]));
        let all = arguments
            .iter()
            .map(|arg| arg.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ");
        for absent in ["not-there", "keys/deep", "way-in", "--unshare-net"] {
            assert!(!all.contains(absent), "{absent}: {all}");
        }
    }
}
