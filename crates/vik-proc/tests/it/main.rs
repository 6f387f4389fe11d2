//! The shim with real processes. Every test has its own folder and its own mark, waits with deadlines and leaves
//! nothing behind.

mod command;
mod ending;
mod lost;
mod starting;
mod support;
