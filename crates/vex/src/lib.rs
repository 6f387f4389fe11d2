//! See the description in Cargo.toml.
