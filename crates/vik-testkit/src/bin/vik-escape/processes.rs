//! Processes of others: signals, `/proc`, debugging.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getppid};

use crate::{Plan, Try, tell, text};

pub(crate) fn try_out(plan: &Plan) {
    let victim = plan.process("victim");
    let shim = shim().unwrap_or(getppid().as_raw());
    let neighbour = plan.process("neighbour");
    on("signal nobody's own", victim, |pid| kill(pid, None).map_err(text));
    on("signal another issue's agent", neighbour, |pid| {
        kill(pid, None).map_err(text)
    });
    on("signal another issue's processes", neighbour, |pid| {
        killpg(pid, None).map_err(text)
    });
    on("signal another issue's shim", neighbour.and_then(parent), |pid| {
        kill(pid, None).map_err(text)
    });
    for (name, pid) in [
        ("another process", victim),
        ("another issue's agent", neighbour),
        ("its shim", Some(shim)),
    ] {
        on(&format!("read the memory of {name}"), pid, look_into);
        on(&format!("seize {name}"), pid, seize);
        on(&format!("trace {name}"), pid, trace);
    }
    on("read the memory of the first process", Some(1), look_into);
    #[cfg(target_os = "linux")]
    tell(
        "take in orphans in place of its shim",
        nix::sys::prctl::set_child_subreaper(true).map_err(text),
    );
    on("stop another process", victim, |pid| {
        kill(pid, Signal::SIGSTOP).map_err(text)
    });
    on("end another issue's agent", neighbour, |pid| {
        kill(pid, Signal::SIGTERM).map_err(text)
    });
    tell(
        "kill its shim",
        kill(Pid::from_raw(shim), Signal::SIGTERM).map_err(text),
    );
    proc(victim.unwrap_or(1));
}

fn proc(victim: i32) {
    let of = |name: &str| PathBuf::from(format!("/proc/{victim}/{name}"));
    let writable = |path: PathBuf| OpenOptions::new().write(true).open(path).map(drop).map_err(text);
    tell(
        "read an environment",
        fs::read(of("environ")).map(drop).map_err(text),
    );
    tell("open memory", writable(of("mem")));
    tell(
        "read the places of memory",
        fs::read(of("maps")).map(drop).map_err(text),
    );
    tell("choose who dies first", writable(of("oom_score_adj")));
    tell(
        "go in by its root",
        fs::read(of("root").join("etc/passwd")).map(drop).map_err(text),
    );
    tell(
        "go in by its folder",
        fs::read_dir(of("cwd")).map(drop).map_err(text),
    );
    tell("take its files", File::open(of("fd/0")).map(drop).map_err(text));
    for target in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
    ] {
        tell(&format!("write {target}"), writable(target.into()));
    }
    // What it was given to print on may be a file of Vik's.
    let record = fs::read_link("/proc/self/fd/1").unwrap_or_default();
    if record.to_string_lossy().ends_with(".raw.jsonl") {
        let read = fs::read("/proc/self/fd/1").map(drop);
        tell("read the record of its output", read.map_err(text));
        let link = fs::hard_link(&record, "record");
        tell("link the record of its output in", link.map_err(text));
    }
}

fn on(name: &str, pid: Option<i32>, attempt: impl FnOnce(Pid) -> Try) {
    let pid = pid.ok_or_else(|| "nobody is there".to_owned());
    tell(name, pid.map(Pid::from_raw).and_then(attempt));
}

/// The shim above this process: only what is below it is its own.
fn shim() -> Option<i32> {
    let mut pid = getppid().as_raw();
    while pid > 1 {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        if line.split(|byte| *byte == 0).any(|word| word == b"__shim") {
            return Some(pid);
        }
        pid = parent(pid)?;
    }
    None
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

#[cfg(target_os = "linux")]
fn trace(pid: Pid) -> Try {
    nix::sys::ptrace::attach(pid).map_err(text)?;
    let _ = nix::sys::wait::waitpid(pid, Some(nix::sys::wait::WaitPidFlag::__WALL));
    let _ = nix::sys::ptrace::detach(pid, None);
    Ok(())
}

#[cfg(target_os = "linux")]
fn seize(pid: Pid) -> Try {
    nix::sys::ptrace::seize(pid, nix::sys::ptrace::Options::empty()).map_err(text)?;
    let _ = nix::sys::ptrace::interrupt(pid);
    let _ = nix::sys::wait::waitpid(pid, Some(nix::sys::wait::WaitPidFlag::__WALL));
    let _ = nix::sys::ptrace::detach(pid, None);
    Ok(())
}

#[cfg(target_os = "linux")]
fn look_into(pid: Pid) -> Try {
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
fn trace(_: Pid) -> Try {
    Err("not on this system".to_owned())
}

#[cfg(not(target_os = "linux"))]
use {trace as seize, trace as look_into};
