//! (module workspace)
