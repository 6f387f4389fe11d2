//! Checks folders, the daemon and the system.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::{AccessFlags, access};
use vik_base::report::chain;
use vik_core::workflow::Workflow;
use vik_daemon::Presence;
use vik_orchestrator::OpenFiles;
use vik_store::ledger::Health;
use vik_workspace::fs::create_new_private;

use super::check::{Check, Group};
use super::{probe, repair};

/// Checks whether Vik can write to a folder. An existing folder is tried; for a missing one the
/// nearest existing parent must permit it.
pub(super) fn writable(check: &str, description: &str, folder: &Path) -> Check {
    let name = format!("{description} {}", folder.display());
    let problem = |message: String| {
        Check::error(Group::Folders, check, "not_writable", message)
            .hint("make the folder writable for this user, or set another with `workspace.root` or VIK_HOME")
    };
    match folder.symlink_metadata().and_then(|_| folder.metadata()) {
        Ok(metadata) if metadata.is_dir() => match try_to_write(folder) {
            Ok(()) => Check::ok(Group::Folders, check, format!("{name} is writable")),
            Err(error) => problem(format!("{name} is not writable: {error}")),
        },
        Ok(_) => problem(format!("{name} is not a folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = nearest_existing(folder);
            // Only the permission is checked, without a write: this folder does not belong to Vik.
            match access(&parent, AccessFlags::W_OK | AccessFlags::X_OK) {
                Ok(()) => Check::ok(Group::Folders, check, format!("{name} can be created")),
                Err(error) => {
                    let (parent, why) = (parent.display(), error.desc());
                    problem(format!("{name} cannot be created in {parent}: {why}"))
                }
            }
        }
        Err(error) => problem(format!("cannot use {name}: {error}")),
    }
}

fn nearest_existing(folder: &Path) -> PathBuf {
    folder
        .ancestors()
        .find(|parent| parent.exists())
        .unwrap_or(Path::new("/"))
        .to_owned()
}

fn try_to_write(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".vik-doctor-{}", uuid::Uuid::now_v7()));
    drop(create_new_private(&path)?);
    std::fs::remove_file(&path)
}

/// Checks whether a daemon runs for this workflow, and whether it has the version of this program:
/// a package manager replaces the program, and not the daemon.
pub(super) fn daemon(presence: &Presence) -> Check {
    let check = "daemon";
    match presence {
        Presence::Running(info) if info.version != env!("CARGO_PKG_VERSION") => {
            let (pid, other, own) = (info.process.pid, &info.version, env!("CARGO_PKG_VERSION"));
            let message = format!("the running daemon (pid {pid}) has version {other}; this is {own}");
            Check::warning(Group::Folders, check, "daemon_version", message)
                .hint("run `vik restart --keep-sessions` to switch to this version; its agents keep running")
        }
        Presence::Running(info) => Check::ok(
            Group::Folders,
            check,
            format!("a daemon is running (pid {})", info.process.pid),
        ),
        Presence::Starting => Check::ok(Group::Folders, check, "a daemon is starting or stopping"),
        Presence::Dead(info) => {
            let message = format!(
                "the last daemon (pid {}) exited without cleaning up",
                info.process.pid
            );
            Check::warning(Group::Folders, check, "daemon_died", message)
                .hint("`vik run` recovers its attempts; `vik stop` stops its processes")
        }
        Presence::None => Check::ok(Group::Folders, check, "no daemon is running"),
    }
}

/// Checks whether the ledger is intact.
pub(super) fn ledger(service: &Path) -> Check {
    match vik_store::ledger::check(service) {
        Health::Bad(error) => {
            let check = Check::error(Group::Folders, "ledger", "ledger", chain(&error));
            match error.hint() {
                Some(hint) => check.hint(hint),
                None => check,
            }
        }
        health => Check::ok(Group::Folders, "ledger", repair::healthy(&health)),
    }
}

/// Checks whether git is installed.
pub(super) fn git(path: &str) -> Check {
    match probe::find("git", path) {
        Some(git) => Check::ok(Group::System, "git", git.display().to_string()),
        None => Check::warning(Group::System, "git", "git_missing", "`git` is not on PATH")
            .hint("most workspaces are git clones, and Vik uses git to find out what an agent changed"),
    }
}

/// Checks that the repository of the workflow has a commit, if its workspaces are clones of it: the
/// clone of a repository without a commit is empty, and no branch can start in it. Returns nothing
/// if there is no problem.
pub(super) fn commit(workflow: &Workflow, folder: &Path) -> Option<Check> {
    let script = workflow.issue.after_create.as_deref()?;
    if !script.contains("workflow_dir") || !script.contains("git") {
        return None;
    }
    let has = |arguments: &[&str]| {
        Command::new("git")
            .args(["-c", "core.fsmonitor=false", "-C"])
            .arg(folder)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !has(&["rev-parse", "--git-dir"]) || has(&["rev-parse", "--verify", "HEAD"]) {
        return None;
    }
    let message = format!("the repository of {} has no commit to work on", folder.display());
    Some(
        Check::error(Group::Issues, "commit", "no_commit", message)
            .hint("agents work on what is committed: run `git add` and `git commit`"),
    )
}

/// Checks whether the limit on open files allows as many sessions as the workflow.
pub(super) fn open_files(files: OpenFiles, workflow: &Workflow) -> Check {
    let check = "open_files";
    match (files.problem(workflow), files.limit()) {
        (Some((problem, hint)), _) => Check::warning(Group::System, check, "open_files", problem).hint(hint),
        (None, Some(limit)) => {
            let sessions = files.max_sessions();
            let message = format!("the limit on open files is {limit}, enough for {sessions} sessions");
            Check::ok(Group::System, check, message)
        }
        (None, None) => Check::ok(Group::System, check, "open files are not limited"),
    }
}

/// Reports the operating system.
#[expect(clippy::disallowed_methods, reason = "a file of the kernel")]
pub(super) fn platform() -> Check {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = if release.is_empty() {
        String::new()
    } else {
        format!(" {}", release.trim())
    };
    let root = if nix::unistd::geteuid().is_root() {
        ", as root"
    } else {
        ""
    };
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let message = format!("vik {} on {os}{release}, {arch}{root}", env!("CARGO_PKG_VERSION"));
    if os == "linux" {
        return Check::ok(Group::System, "platform", message);
    }
    Check::warning(
        Group::System,
        "platform",
        "best_effort",
        format!("{message}: best effort"),
    )
    .hint("a process that leaves the process group of its agent and loses its parent is not found on this system")
}

/// Checks the kernel features for the supervision of processes.
pub(super) fn kernel() -> Vec<Check> {
    let facts = vik_proc::capabilities().into_iter();
    facts
        .map(|fact| {
            let check = format!("kernel.{}", fact.name);
            match (fact.available, fact.name) {
                (true, _) => Check::ok(Group::System, check, fact.detail),
                (false, "proc") => Check::error(Group::System, check, "kernel_proc", fact.detail)
                    .hint("mount /proc; Vik needs it to identify processes"),
                (false, "subreaper" | "mark") => {
                    Check::warning(Group::System, check, "kernel_weaker", fact.detail)
                }
                // These features are optional.
                (false, _) => Check::ok(Group::System, check, format!("not available: {}", fact.detail)),
            }
        })
        .collect()
}
