//! Returns memory that a long-lived process no longer uses.

/// Configures the heap to return free memory to the system, so that a daemon that once read a large
/// pull does not stay large. Must be called first, before other threads exist. Has an effect with
/// glibc only.
pub fn lean_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    crate::sys::tune_heap();
}
