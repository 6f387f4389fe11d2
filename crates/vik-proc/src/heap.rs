//! How much memory a long-lived process keeps that it no longer uses.

/// Makes the heap give back what is free: a daemon that once read a large pull must not stay large. Call it first, before
/// there are threads. It does something with glibc only.
pub fn lean_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    crate::sys::tune_heap();
}
