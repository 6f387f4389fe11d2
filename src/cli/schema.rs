//! `vik schema`, `vik completions`, `vik man`: output that is generated from the types.

use std::io;
use std::path::{Path, PathBuf};

use clap::builder::Resettable;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use vik_base::report::{ErrorCode, Exit, Failure, count};

use super::help::EXAMPLES;
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

/// The manual pages to print.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command of the page, such as `run` or `issue new` [default: `vik` itself]
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub command: Vec<String>,
    /// Write the pages of all commands into this folder, which is created
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// Prints the manual page of a command, or writes all pages into a folder.
pub fn man(args: &ManArgs) -> CliResult {
    let root = whole_command();
    if let Some(dir) = &args.dir {
        let pages = std::fs::create_dir_all(dir).and_then(|()| write_pages(&root, dir));
        let written = pages.map_err(|error| {
            let heading = format!("cannot write the manual pages to {}", dir.display());
            Failure::failed(ErrorCode::Man, heading, &error)
        })?;
        print(&format!("{} in {}\n", count(written, "page"), dir.display()));
        return Ok(Exit::Done);
    }
    let mut command = &root;
    for name in &args.command {
        let below = command.find_subcommand(name).filter(|below| !below.is_hide_set());
        command = below.ok_or_else(|| {
            let heading = format!("there is no command `vik {}`", args.command.join(" "));
            Failure::new(Exit::Usage, ErrorCode::Usage, heading).hint("see `vik --help`")
        })?;
    }
    let page = page(command)
        .map_err(|error| Failure::failed(ErrorCode::Man, "cannot generate the manual page", &error))?;
    print(&String::from_utf8_lossy(&page));
    Ok(Exit::Done)
}

/// Returns the command with the commands of the built-in agent, which `vik` itself passes on.
pub fn whole_command() -> Command {
    let mut command = super::command().disable_help_subcommand(true);
    #[cfg(feature = "vex")]
    {
        let vex = <vex::cli::VexArgs as clap::CommandFactory>::command();
        command = command.mut_subcommand("vex", |_| vex.disable_help_subcommand(true));
    }
    command.build();
    command
}

/// Returns the number of pages that were written for a command and all below it.
fn write_pages(command: &Command, dir: &Path) -> io::Result<u64> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let (file, page) = (dir.join(format!("{name}.1")), page(command)?);
    #[expect(clippy::disallowed_methods, reason = "writes what a person asked for")]
    std::fs::write(file, page)?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        count += write_pages(below, dir)?;
    }
    Ok(count)
}

/// The program and its version at the foot of each page.
const SOURCE: &str = concat!("vik ", env!("CARGO_PKG_VERSION"));

/// Returns the manual page of one command.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let help = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let (notes, examples) = help.split_once(EXAMPLES).unwrap_or((&help, ""));
    let mut out = Vec::new();
    let plain = command.clone().after_help(Resettable::Reset);
    Man::new(plain).source(SOURCE).manual("Vik").render(&mut out)?;
    let mut roff = Roff::new();
    if !notes.trim().is_empty() {
        roff.control("SH", ["NOTES"]);
        roff.text([roman(notes.trim())]);
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
        roff.control("nf", []);
        for example in examples.lines().map(str::trim).filter(|line| !line.is_empty()) {
            roff.text([roman(example)]);
        }
        roff.control("fi", []);
    }
    roff.to_writer(&mut out)?;
    Ok(out)
}
