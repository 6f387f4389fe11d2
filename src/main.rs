//! The `vik` program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // The shim is this program too and must start fast, so this check comes before any parsing.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|verb| verb == vik_proc::SHIM_VERB)
    {
        return vik_proc::shim::main();
    }
    vik::cli::main()
}
