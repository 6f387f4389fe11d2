//! vex: the coding agent that is built into Vik.
//!
//! It is a library for the `vex` program and for `vik vex …`, which are the same. One run is one
//! process: it takes a prompt, emits events and reports its outcome as the exit code
//! ([`ExitReason`]). It is made for unattended use: it never asks, does not wait for a silent
//! stdin, and leaves no child processes behind.
//!
//! The parts: a [`provider::Provider`] answers requests (a model API over HTTP, or
//! [`provider::replay`], a recorded conversation); [`tool_call_repair`] finds the calls that a
//! model wrote as text; [`tools`] run every call in the same way (definition, validation,
//! permission, run, bounded result); [`agent`] is the loop over both; [`session`] is the log from
//! which a conversation resumes; [`skills`] are instructions that the model loads when a task needs
//! them; [`events`] is the output of a run; [`config`] records the origin
//! of each setting.

#![forbid(unsafe_code)]

pub mod agent;
mod ask;
pub mod cli;
pub mod config;
pub mod conversation;
pub mod events;
pub mod evidence;
mod fences;
mod git;
pub mod inbox;
pub mod interrupt;
pub mod json_schema;
mod net;
pub mod plan;
pub mod provider;
pub mod redact;
pub mod session;
pub mod skills;
mod snapshot;
pub mod tools;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

pub use cli::{VexArgs, run};
pub use events::ExitReason;

/// The version in the event `session_start`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the command line of `vex`, for help texts, completions and man pages.
pub fn cli() -> clap::Command {
    VexArgs::command()
}

/// Runs vex on a whole command line, starting with the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parsed = cli()
        .try_get_matches_from(args)
        .and_then(|matches| VexArgs::from_arg_matches(&matches));
    match parsed {
        Ok(args) => run(args),
        Err(error) => {
            // Help and version go to stdout with 0, usage errors to stderr with 2. A closed pipe
            // must not panic.
            let text = error.render();
            if error.use_stderr() {
                let _ = write!(std::io::stderr(), "{text}");
            } else {
                let _ = write!(std::io::stdout(), "{text}");
            }
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}
