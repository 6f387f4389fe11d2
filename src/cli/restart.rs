//! `vik restart`

use std::path::Path;

use super::args::RestartArgs;
use super::stop::{Stopped, quietly};
use super::{Done, client, later, print};
use crate::workflow_file::WorkflowFile;

/// Stops the daemon, if there is one, and starts it detached, with the options it had.
pub fn run(workflow: &Path, args: &RestartArgs) -> Done {
    if args.keep_sessions {
        return Err(later::not_yet("--keep-sessions"));
    }
    // A daemon is not stopped for a workflow that could not be started again.
    WorkflowFile::valid(workflow, |_| {})?;
    let running = client::find(workflow)
        .map(|(_, info)| info.options)
        .unwrap_or_default();
    match quietly(workflow, args.timeout)?.1 {
        Stopped::Nothing => print("no daemon ran\n"),
        _ => print("the old daemon has stopped\n"),
    }
    super::run::detach(workflow, running)
}
