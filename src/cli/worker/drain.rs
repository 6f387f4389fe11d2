//! `vik worker drain`

use std::path::Path;

use clap::Args;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::worker::WorkerName;
use vik_daemon::Instance;
use vik_workflow::WorkflowFile;

use crate::cli::doctor::Scratch;
use crate::cli::{CliResult, print, runtime, warn};

/// `vik worker drain`
#[derive(Debug, Args)]
#[command(
    after_help = "Works on any machine that has the workflow and reaches the server. `vik status` on the hub that \
                  leads shows the worker until it has ended."
)]
pub struct DrainArgs {
    /// Name of the worker [default: the name of this host]
    #[arg(value_name = "NAME")]
    pub name: Option<WorkerName>,
}

/// Asks a worker to drain.
pub fn run(workflow: &Path, args: &DrainArgs) -> CliResult {
    let loaded = WorkflowFile::valid(workflow, warn)?;
    let name = super::name(args.name.as_ref())?;
    let engine = super::engine(&loaded, "vik worker drain".to_owned())?;
    let host = vik_daemon::host(&loaded.path, &loaded.workflow, &Instance::of(&loaded.path)?)?;
    let scratch = Scratch::new()
        .map_err(|error| Failure::failed(ErrorCode::Temporary, "cannot create a temporary folder", &error))?;
    runtime()?.block_on(engine.drain(&loaded.workflow, &host, scratch.path(), &name))?;
    print(&format!(
        "draining: the worker `{name}` takes no more attempts, and ends when the running ones have ended\n"
    ));
    Ok(Exit::Done)
}
