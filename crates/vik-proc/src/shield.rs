//! Protects the memory and descriptors of this process from other processes of the same user.

/// Denies every unprivileged process of the same user the right to read this process's memory and
/// environment, to attach to it, and to open its descriptors through `/proc`. Agents are such
/// processes: without this one could read the daemon's keys, or hold open or write to the pipes
/// between the daemon and a shim.
///
/// It also disables core dumps. The next `exec` undoes it. It has no effect on macOS, and none
/// against root.
pub fn set_non_dumpable() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_dumpable(false);
}
