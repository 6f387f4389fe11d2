//! The `vik` program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // The shim and the client of a server are this program too and must start fast, so this check
    // comes before any parsing.
    match std::env::args_os().nth(1) {
        Some(verb) if verb == vik_proc::SHIM_VERB => vik_proc::shim::main(),
        Some(verb) if verb == vik_proc::servers::CONNECT_VERB => vik_proc::servers::main(),
        _ => vik::cli::main(),
    }
}
