//! Commands without a shim, and the sandbox around them, with real processes. The tests have their
//! own binary, since such commands claim every child of this process in another session.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, waitpid};
use vik_proc::{Direct, DirectSpec, Fence, Graces, Mark, ProcessId, Reads, Sandbox};

/// A process without a mark may belong to any running command, so the tests take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn mark() -> Mark {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    Mark::new("VIK_PROC_DIRECT", format!("{}-{number}", std::process::id()))
}

fn spec<'a>(
    program: &'a Path,
    args: &'a [&'a OsStr],
    cwd: &'a Path,
    fence: Option<&'a Fence>,
) -> DirectSpec<'a> {
    let null = || File::options().read(true).write(true).open("/dev/null").unwrap();
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().unwrap();
    DirectSpec {
        program,
        args,
        cwd,
        env: std::env::vars_os().collect(),
        stdio: [null().into(), null().into(), stderr],
        fence,
        terminal: false,
    }
}

fn start(folder: &Path, line: &str, fence: Option<&Fence>) -> Direct {
    let args = ["-c".as_ref(), line.as_ref()];
    Direct::spawn(spec("/bin/sh".as_ref(), &args, folder, fence), mark()).unwrap()
}

fn code(direct: &mut Direct) -> i32 {
    eventually(|| direct.try_code().unwrap())
}

fn eventually<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(seen) = poll() {
            return seen;
        }
        assert!(Instant::now() < deadline, "it never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the process whose pid is in this file.
fn pid_in(path: &Path) -> ProcessId {
    let pid = eventually(|| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    ProcessId::of(pid).unwrap()
}

fn graces() -> Graces {
    Graces {
        term: Duration::from_millis(50),
        kill: Duration::from_secs(60),
        ..Graces::short()
    }
}

/// A process that has left its session, group, parent and environment, and ignores requests to end.
const HIDDEN: &str =
    "(env -i setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > hidden; while :; do sleep 1000; done' &)";

#[cfg(target_os = "linux")]
#[test]
fn end_finds_hidden_processes_and_spares_those_of_others() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let mut other = start(
        folder.path(),
        "setsid sh -c 'sleep 1000' & echo $! > other; exec sleep 1000",
        None,
    );
    let others = pid_in(&folder.path().join("other"));
    let mut direct = start(
        folder.path(),
        &format!("{HIDDEN}; while ! test -s hidden; do sleep 0.01; done"),
        None,
    );
    let hidden = pid_in(&folder.path().join("hidden"));
    assert_eq!(code(&mut direct), 0);
    // Without a mark the process may belong to either command while both run.
    assert!(direct.end(graces()).is_empty());
    assert!(others.is_alive());
    assert!(other.end(graces()).is_empty());
    assert!(!others.is_alive() && !hidden.is_alive());
    assert_eq!(code(&mut other), 143);
}

#[cfg(target_os = "linux")]
#[test]
fn drop_ends_all_processes_of_the_command() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let direct = start(folder.path(), &format!("{HIDDEN}; sleep 1000"), None);
    let hidden = pid_in(&folder.path().join("hidden"));
    drop(direct);
    assert!(!hidden.is_alive());
}

#[test]
fn command_without_leftovers_ends_at_once() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let mut direct = start(folder.path(), "exit 7", None);
    assert_eq!(code(&mut direct), 7);
    assert!(direct.has_exited());
}

#[test]
fn spawn_that_fails_leaves_no_process() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    for (program, cwd) in [
        (Path::new("/no/such/program"), folder.path()),
        (Path::new("/bin/sh"), Path::new("/no/such/folder")),
    ] {
        let error = Direct::spawn(spec(program, &[], cwd, None), mark())
            .err()
            .unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
    assert_eq!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Err(Errno::ECHILD));
    let nul = ["-c".as_ref(), "echo a\0b".as_ref()];
    assert!(Direct::spawn(spec("/bin/sh".as_ref(), &nul, folder.path(), None), mark()).is_err());
}

#[test]
fn command_starts_with_the_default_handling_of_signals_and_its_own_environment() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    // The runtime of Rust ignores SIGPIPE, the fourth digit from the end.
    let line = "grep -q 'SigIgn:.*0...$' /proc/self/status && grep -q 'SigBlk:\t0*$' /proc/self/status \
                && test \"$ONLY\" = here && test -z \"$HOME\" && test \"${VIK_PROC_DIRECT#own}\" = 1";
    let args = ["-c".as_ref(), line.as_ref()];
    let mut spec = spec("/bin/sh".as_ref(), &args, folder.path(), None);
    let path = ("PATH".into(), std::env::var_os("PATH").unwrap());
    // A command cannot be given the mark of another one.
    let forged = ("VIK_PROC_DIRECT".into(), "forged".into());
    spec.env = vec![path, forged, ("ONLY".into(), "here".into())];
    let mut direct = Direct::spawn(spec, Mark::new("VIK_PROC_DIRECT", "own1")).unwrap();
    assert_eq!(code(&mut direct), 0);
    assert!(direct.has_exited());
}

#[test]
fn code_of_a_command_that_a_signal_ended_is_known() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    // The last one has no name.
    for signal in [9, 15, 40] {
        let mut direct = start(folder.path(), &format!("kill -{signal} $$"), None);
        assert_eq!(code(&mut direct), 128 + signal);
    }
}

/// Returns `None`, and prints the reason, if this system has no sandbox.
fn fence(sandbox: &Sandbox) -> Option<Fence> {
    match sandbox.fence() {
        Ok(fence) => Some(fence),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

#[test]
fn sandbox_allows_writes_only_in_named_places() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
    for path in [&inside, &outside] {
        std::fs::create_dir(path).unwrap();
    }
    std::fs::write(outside.join("there"), "kept").unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
    std::os::unix::fs::symlink(outside.join("there"), inside.join("file-link")).unwrap();
    let sandbox = Sandbox {
        write: vec![inside.clone(), "/dev/null".into(), "/no/such/folder".into()],
        ..Sandbox::default()
    };
    let Some(fence) = fence(&sandbox) else { return };
    let run = |line: &str| {
        let mut direct = start(&inside, line, Some(&fence));
        let code = code(&mut direct);
        assert!(direct.end(graces()).is_empty());
        code
    };
    for good in [
        "echo x > a && test \"$(cat a)\" = x && mv a b && mkdir -p d/e && mv b d/e && rm -r d",
        "echo x > /dev/null",
        "cat ../outside/there",
        "ln -s x y && mkfifo p && rm y p",
    ] {
        assert_eq!(run(good), 0, "{good}");
    }
    for bad in [
        "echo x > ../outside/new",
        "echo x > ../outside/there",
        "echo x >> link/there",
        "echo x > link/new",
        "echo x > file-link",
        "mkdir ../outside/d",
        "rm ../outside/there",
        "mv ../outside/there .",
        "ln -s x ../outside/l",
        "echo x > a; mv a ../outside/a",
        "echo x > h; ln h ../outside/h",
        "sh -c 'setsid sh -c \"echo x > ../outside/late\"'",
    ] {
        assert_ne!(run(bad), 0, "{bad}");
    }
    let left: Vec<_> = std::fs::read_dir(&outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["there"]);
    assert_eq!(std::fs::read_to_string(outside.join("there")).unwrap(), "kept");
    // This process is not confined.
    std::fs::write(outside.join("mine"), "x").unwrap();
}

#[test]
fn sandbox_can_limit_reads_to_named_places() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("secret"), "s").unwrap();
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let system = ["/bin", "/usr", "/lib", "/lib64", "/etc", "/dev/null"];
    let sandbox = Sandbox {
        write: vec![inside.clone()],
        read: Reads::Only(system.map(Into::into).to_vec()),
        ..Sandbox::default()
    };
    let Some(fence) = fence(&sandbox) else { return };
    let mut direct = start(
        &inside,
        "echo x > a && cat a || exit 3; cat ../secret",
        Some(&fence),
    );
    let code = code(&mut direct);
    assert!(code != 0 && code != 3, "{code}");
    assert!(direct.end(graces()).is_empty());
}

#[test]
fn sandbox_holds_in_a_sandbox() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let sandbox = Sandbox {
        write: vec![inside.clone(), "/dev/null".into()],
        ..Sandbox::default()
    };
    let Some(fence) = fence(&sandbox) else { return };
    let program = std::env::current_exe().unwrap();
    let args = [
        "--exact",
        "inner_sandbox_cannot_widen_the_outer_one",
        "--ignored",
        "--nocapture",
    ]
    .map(OsStr::new);
    let mut direct = Direct::spawn(spec(&program, &args, &inside, Some(&fence)), mark()).unwrap();
    assert_eq!(code(&mut direct), 0);
    assert!(direct.end(graces()).is_empty());
    assert!(inside.join("written").exists() && !folder.path().join("written").exists());
}

#[test]
#[ignore = "runs in the sandbox of another test"]
fn inner_sandbox_cannot_widen_the_outer_one() {
    let all = Sandbox {
        write: vec!["/".into()],
        ..Sandbox::default()
    };
    let fence = all.fence().unwrap();
    let mut direct = start(
        Path::new("."),
        "echo x > written && ! echo x > ../written",
        Some(&fence),
    );
    assert_eq!(code(&mut direct), 0);
    assert!(direct.end(graces()).is_empty());
}
