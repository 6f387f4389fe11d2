//! How much memory a long-lived process keeps that it no longer uses.

/// Makes the heap give back what is free: a daemon that once read a large pull must not stay large. Call it first, before
/// there are threads. It does something with glibc only.
pub fn lean_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    crate::sys::tune_heap();
}

/// Gives back the pages of the program's code: what only the start needed stays away, the rest comes back from the page
/// cache when it runs. Call it once when the start is over. It does something on Linux only.
pub fn lean_code() {
    #[cfg(target_os = "linux")]
    crate::sys::give_back_code();
}
