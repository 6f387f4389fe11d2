//! `vik refresh`

use std::path::Path;

use vik_api::Verb;
use vik_base::report::Exit;

use super::{CliResult, client, print};

/// Requests an immediate check of the workflow and the issues from the daemon.
pub fn run(workflow: &Path) -> CliResult {
    client::send_command(workflow, Verb::Refresh, None)?;
    print("pull requested\n");
    Ok(Exit::Done)
}
