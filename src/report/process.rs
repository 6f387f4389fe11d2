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
        return "left processes that could not be ended".to_owned();
    }
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

/// Returns why a process tree was killed, as text to follow its name.
pub fn describe_overrun(overrun: &Overrun) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    match *overrun {
        Overrun::Memory { used, limit } => format!(
            "used {} MiB of memory and was killed: its sandbox allows {} MiB (`sandbox.memory`)",
            mib(used),
            mib(limit)
        ),
        Overrun::Processes { used, limit } => {
            format!("had {used} processes and was killed: its sandbox allows {limit} (`sandbox.pids`)")
        }
        Overrun::Tasks { used, limit } => format!(
            "had {used} processes and threads and was killed: {limit} are allowed here (`sandbox.pids`, and what this \
             system can spare)"
        ),
        Overrun::Disk { used, limit } => format!(
            "took {} MiB of a disk and was killed: its sandbox allows {} MiB (`sandbox.disk`)",
            mib(used),
            mib(limit)
        ),
        Overrun::Space { used, free } => format!(
            "took {} MiB of a disk that has only {} MiB left, and was killed before it was full",
            mib(used),
            mib(free)
        ),
        Overrun::Files { used, limit } => {
            format!(
                "made {used} files and was killed: its sandbox allows {limit}, half of what a disk had room for"
            )
        }
    }
}
