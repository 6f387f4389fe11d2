//! The `vik` program.

fn main() {}
