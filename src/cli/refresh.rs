//! `vik refresh`

use std::path::Path;

use vik_api::Action;
use vik_base::report::Exit;

use super::{CliResult, client, print};

/// Requests an immediate check of the workflow and the issues from the daemon.
pub fn run(workflow: &Path) -> CliResult {
    client::act(workflow, Action::Refresh)?;
    print("pull requested\n");
    Ok(Exit::Done)
}
