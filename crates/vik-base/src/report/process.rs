//! Describes how processes ended.

use vik_proc::{ExitRecord, Overrun};

/// Returns how a process ended, as text to follow its name.
pub fn describe_exit(exit: &ExitRecord) -> String {
    if let Some(failure) = &exit.spawn_error {
        return format!("could not be started: {}", failure.message);
    }
    if let Some(overrun) = &exit.overrun {
        return describe_overrun(overrun);
    }
    if !exit.proof.is_proven() {
        return "left processes that could not be killed".to_owned();
    }
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

/// Returns why a process tree was killed, as text to follow its name.
pub fn describe_overrun(overrun: &Overrun) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    match *overrun {
        Overrun::Memory { used, limit } => format!(
            "used {} MiB of memory and was killed: the sandbox allows {} MiB (`sandbox.memory`)",
            mib(used),
            mib(limit)
        ),
        Overrun::Processes { used, limit } => {
            format!("had {used} processes and was killed: the sandbox allows {limit} (`sandbox.pids`)")
        }
        Overrun::Tasks { used, limit } => format!(
            "had {used} processes and threads and was killed: the limit is {limit} (`sandbox.pids` and the \
             capacity of this system)"
        ),
        Overrun::Disk { used, limit } => format!(
            "used {} MiB of disk space and was killed: the sandbox allows {} MiB (`sandbox.disk`)",
            mib(used),
            mib(limit)
        ),
        Overrun::Space { used, free } => format!(
            "used {} MiB of a disk with only {} MiB left, and was killed before the disk was full",
            mib(used),
            mib(free)
        ),
        Overrun::Files { used, limit } => {
            format!(
                "created {used} files and was killed: the sandbox allows {limit}, half of the free inodes of a disk"
            )
        }
    }
}
