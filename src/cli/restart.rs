//! `vik restart`

use std::path::PathBuf;

use clap::Parser;

use super::args::RestartArgs;
use super::stop::{Stopped, quietly};
use super::{Cli, Done, Verb, later, print};
use crate::workflow_file::WorkflowFile;

/// Stops the daemon, if there is one, and starts it detached.
pub fn run(workflow: PathBuf, args: &RestartArgs) -> Done {
    if args.keep_sessions {
        return Err(later::not_yet("--keep-sessions"));
    }
    // A daemon is not stopped for a workflow that could not be started again.
    WorkflowFile::valid(&workflow, |_| {})?;
    match quietly(&workflow, args.timeout)?.1 {
        Stopped::Nothing => print("no daemon ran\n"),
        _ => print("the old daemon has stopped\n"),
    }
    let start = Cli::parse_from(["vik", "run", "--detach"]);
    match start.verb {
        Verb::Run(run) => super::run::detach(workflow, &run),
        _ => Ok(crate::report::Exit::Bug),
    }
}
