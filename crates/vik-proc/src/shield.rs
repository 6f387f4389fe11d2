//! Keeps this process's own affairs from others of the same user.

/// Takes away, from every process of the same user without privileges, the right to read this process's memory and
/// environment, to attach to it, and to open its descriptors through `/proc`. Agents are such processes: without this
/// one could read the daemon's keys, or hold open or write to the pipes between the daemon and a shim.
///
/// No core dump is written any more, either. Undone by the next `exec`. Does nothing on macOS, and nothing against root.
pub fn set_non_dumpable() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_dumpable(false);
}
