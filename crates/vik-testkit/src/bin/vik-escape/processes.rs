//! Other processes: signals, `/proc`, debugging.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getppid};

use crate::{Attempt, Plan, report, text};

pub(crate) fn try_out(plan: &Plan) {
    let victim = plan.process("victim");
    let shim = shim().unwrap_or(getppid().as_raw());
    let neighbour = plan.process("neighbour");
    try_on("signal nobody's own", victim, |pid| kill(pid, None).map_err(text));
    try_on("signal another issue's agent", neighbour, |pid| {
        kill(pid, None).map_err(text)
    });
    try_on("signal another issue's processes", neighbour, |pid| {
        killpg(pid, None).map_err(text)
    });
    try_on("signal another issue's shim", neighbour.and_then(parent), |pid| {
        kill(pid, None).map_err(text)
    });
    for (name, pid) in [
        ("another process", victim),
        ("another issue's agent", neighbour),
        ("its shim", Some(shim)),
    ] {
        try_on(&format!("read the memory of {name}"), pid, read_memory);
        try_on(&format!("seize {name}"), pid, seize);
        try_on(&format!("trace {name}"), pid, trace);
    }
    try_on("read the memory of the first process", Some(1), read_memory);
    #[cfg(target_os = "linux")]
    report(
        "take in orphans in place of its shim",
        nix::sys::prctl::set_child_subreaper(true).map_err(text),
    );
    try_on("stop another process", victim, |pid| {
        kill(pid, Signal::SIGSTOP).map_err(text)
    });
    try_on("end another issue's agent", neighbour, |pid| {
        kill(pid, Signal::SIGTERM).map_err(text)
    });
    report(
        "kill its shim",
        kill(Pid::from_raw(shim), Signal::SIGTERM).map_err(text),
    );
    proc(victim.unwrap_or(1));
}

fn proc(victim: i32) {
    let path_of = |name: &str| PathBuf::from(format!("/proc/{victim}/{name}"));
    let writable = |path: PathBuf| OpenOptions::new().write(true).open(path).map(drop).map_err(text);
    report(
        "read an environment",
        fs::read(path_of("environ")).map(drop).map_err(text),
    );
    report("open memory", writable(path_of("mem")));
    report(
        "read the places of memory",
        fs::read(path_of("maps")).map(drop).map_err(text),
    );
    report("choose who dies first", writable(path_of("oom_score_adj")));
    report(
        "go in by its root",
        fs::read(path_of("root").join("etc/passwd"))
            .map(drop)
            .map_err(text),
    );
    report(
        "go in by its folder",
        fs::read_dir(path_of("cwd")).map(drop).map_err(text),
    );
    report(
        "take its files",
        File::open(path_of("fd/0")).map(drop).map_err(text),
    );
    for target in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
    ] {
        report(&format!("write {target}"), writable(target.into()));
    }
    // The output of this process may be a file of Vik's.
    let record = fs::read_link("/proc/self/fd/1").unwrap_or_default();
    if record.to_string_lossy().ends_with(".raw.jsonl") {
        let read = fs::read("/proc/self/fd/1").map(drop);
        report("read the record of its output", read.map_err(text));
        let link = fs::hard_link(&record, "record");
        report("link the record of its output in", link.map_err(text));
    }
}

fn try_on(name: &str, pid: Option<i32>, attempt: impl FnOnce(Pid) -> Attempt) {
    let pid = pid.ok_or_else(|| "nobody is there".to_owned());
    report(name, pid.map(Pid::from_raw).and_then(attempt));
}

/// Returns the shim above this process, which may access only its own descendants.
fn shim() -> Option<i32> {
    let mut pid = getppid().as_raw();
    while pid > 1 {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        if line.split(|byte| *byte == 0).any(|arg| arg == b"__shim") {
            return Some(pid);
        }
        pid = parent(pid)?;
    }
    None
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

#[cfg(target_os = "linux")]
fn trace(pid: Pid) -> Attempt {
    nix::sys::ptrace::attach(pid).map_err(text)?;
    let _ = nix::sys::wait::waitpid(pid, Some(nix::sys::wait::WaitPidFlag::__WALL));
    let _ = nix::sys::ptrace::detach(pid, None);
    Ok(())
}

#[cfg(target_os = "linux")]
fn seize(pid: Pid) -> Attempt {
    nix::sys::ptrace::seize(pid, nix::sys::ptrace::Options::empty()).map_err(text)?;
    let _ = nix::sys::ptrace::interrupt(pid);
    let _ = nix::sys::wait::waitpid(pid, Some(nix::sys::wait::WaitPidFlag::__WALL));
    let _ = nix::sys::ptrace::detach(pid, None);
    Ok(())
}

#[cfg(target_os = "linux")]
fn read_memory(pid: Pid) -> Attempt {
    use std::io::IoSliceMut;

    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let place = maps
        .split('-')
        .next()
        .and_then(|place| usize::from_str_radix(place, 16).ok());
    let from = nix::sys::uio::RemoteIoVec {
        base: place.unwrap_or(0x40_0000),
        len: 16,
    };
    let mut bytes = [0; 16];
    let read = nix::sys::uio::process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes)], &[from]);
    read.map(drop).map_err(text)
}

#[cfg(not(target_os = "linux"))]
fn trace(_: Pid) -> Attempt {
    Err("not on this system".to_owned())
}

#[cfg(not(target_os = "linux"))]
use {trace as seize, trace as look_into};
