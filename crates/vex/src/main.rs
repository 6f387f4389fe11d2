//! The `vex` program; `vik vex …` is the same.

use std::process::ExitCode;

fn main() -> ExitCode {
    vex::main(std::env::args_os())
}
