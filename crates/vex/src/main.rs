//! The `vex` program; `vik vex …` is the same.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    vex::main(std::env::args_os())
}
