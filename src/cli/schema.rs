//! `vik schema`, `vik completions`, `vik man`: output that is generated from the types.

use vik_base::report::{ErrorCode, Exit, Failure};

use super::{CliResult, print, print_json};

/// Prints the JSON Schema of the workflow file.
pub fn workflow() -> CliResult {
    print_json(&vik_workflow_reader::json_schema());
    Ok(Exit::Done)
}

/// Prints the completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> CliResult {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "vik", &mut out);
    print(&String::from_utf8_lossy(&out));
    Ok(Exit::Done)
}

/// Prints the manual page: `vik` and then each verb.
pub fn man() -> CliResult {
    let mut command = super::command();
    command.build();
    let mut out = Vec::new();
    let mut render = |command: &clap::Command| clap_mangen::Man::new(command.clone()).render(&mut out);
    std::iter::once(&command)
        .chain(
            command
                .get_subcommands()
                .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help"),
        )
        .try_for_each(&mut render)
        .map_err(|error| Failure::failed(ErrorCode::Man, "cannot generate the manual page", &error))?;
    print(&String::from_utf8_lossy(&out));
    Ok(Exit::Done)
}
