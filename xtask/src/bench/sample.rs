//! Resource usage of a process, from the kernel. Linux only.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Pid;

use crate::repo::{Context as _, TaskResult};

/// A clock tick of `/proc/PID/stat`; the kernel's interface fixes it on all relevant platforms.
const TICK: Duration = Duration::from_millis(10);

/// The resource usage of one process at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// User and system time of the process itself.
    pub cpu: Duration,
    /// User and system time of its descendants that have ended.
    pub cpu_of_ended: Duration,
    /// Resident memory now, in bytes.
    pub rss: u64,
    /// Resident memory that is no part of a file, in bytes.
    pub anonymous: u64,
    /// The highest resident memory so far, in bytes.
    pub peak_rss: u64,
    /// Resident memory with shared pages divided among their users, in bytes.
    pub pss: u64,
    /// Resident memory that no other process shares, in bytes.
    pub private: u64,
}

impl Sample {
    /// Reads the usage of a process.
    pub fn read(pid: u32) -> TaskResult<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            std::fs::read_to_string(&path).context(format!("cannot read {path}"))
        };
        let stat = read("stat")?;
        // The name may contain anything; the fields after its last bracket do not.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ticks = |index: usize| TICK * fields.get(index).and_then(|text| text.parse().ok()).unwrap_or(0);
        let status = read("status")?;
        let rollup = read("smaps_rollup").unwrap_or_default();
        Ok(Self {
            cpu: cpu(pid).unwrap_or(ticks(11) + ticks(12)),
            cpu_of_ended: ticks(13) + ticks(14),
            rss: kilobytes(&status, "VmRSS:"),
            anonymous: kilobytes(&status, "RssAnon:"),
            peak_rss: kilobytes(&status, "VmHWM:"),
            pss: kilobytes(&rollup, "Pss:"),
            private: kilobytes(&rollup, "Private_Clean:") + kilobytes(&rollup, "Private_Dirty:"),
        })
    }
}

/// Returns the user and system time of a process, with the precision of the scheduler.
#[cfg(target_os = "linux")]
pub fn cpu(pid: u32) -> Option<Duration> {
    let clock = nix::time::clock_getcpuclockid(Pid::from_raw(pid.cast_signed())).ok()?;
    clock.now().ok().map(Duration::from)
}

#[cfg(not(target_os = "linux"))]
pub fn cpu(_pid: u32) -> Option<Duration> {
    None
}

/// Returns the user and system time that these processes have used so far.
pub fn cpu_of(pids: &[u32]) -> Duration {
    pids.iter().filter_map(|pid| cpu(*pid)).sum()
}

/// Returns the private memory of each of these processes.
pub fn private_of(pids: &[u32]) -> Vec<u64> {
    let private = |pid: &u32| Some(Sample::read(*pid).ok()?.private);
    pids.iter().filter_map(private).collect()
}

/// Returns the number of open descriptors of a process.
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Makes this process the parent of all its descendants that lose theirs, so that their CPU counts.
#[cfg(target_os = "linux")]
pub fn inherit_orphans() -> TaskResult {
    nix::sys::prctl::set_child_subreaper(true).context("cannot inherit orphans")
}

#[cfg(not(target_os = "linux"))]
pub fn inherit_orphans() -> TaskResult {
    Err("only Linux lets a process inherit orphans".to_owned())
}

/// Returns the user and system time of all descendants that have ended.
pub fn cpu_of_ended() -> Duration {
    let micros = |time: nix::sys::time::TimeVal| {
        Duration::from_secs(time.tv_sec().unsigned_abs())
            + Duration::from_micros(time.tv_usec().unsigned_abs())
    };
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN);
    usage.map_or(Duration::ZERO, |usage| {
        micros(usage.user_time()) + micros(usage.system_time())
    })
}

fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line
        .and_then(|value| value.split_whitespace().next())
        .and_then(|text| text.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// Returns the processes that run a program below this folder, or that have it as their home.
pub fn processes_below(folder: &Path) -> Vec<u32> {
    let mark = [b"HOME=", folder.as_os_str().as_encoded_bytes()].concat();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let runs = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(folder));
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        runs || environment
            .split(|byte| *byte == 0)
            .any(|variable| variable.starts_with(&mark))
    })
    .collect()
}

/// Returns the files below a folder with this ending.
pub fn files_below(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files_below(&path, end));
        } else if entry.file_name().to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found
}

/// Returns the total bytes of all files below a folder.
pub fn bytes_below(folder: &Path) -> u64 {
    sum_below(folder, &|facts| if facts.is_file() { facts.len() } else { 0 })
}

/// Returns the bytes of the disk that everything below a folder occupies.
pub fn disk_below(folder: &Path) -> u64 {
    // The kernel counts in blocks of 512 bytes, whatever those of the file system are.
    sum_below(folder, &|facts| facts.blocks() * 512)
}

fn sum_below(folder: &Path, size: &dyn Fn(&Metadata) -> u64) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let facts = entry.metadata().ok()?;
        let below = if facts.is_dir() {
            sum_below(&entry.path(), size)
        } else {
            0
        };
        Some(size(&facts) + below)
    });
    sizes.sum()
}
