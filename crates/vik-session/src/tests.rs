//! Tests that need several modules of this crate.

mod replaced;
