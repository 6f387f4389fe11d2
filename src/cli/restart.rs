//! `vik restart`

use std::path::Path;
use std::time::Duration;

use super::args::RestartArgs;
use super::stop::{Left, Stopped, leave, own_daemon, quietly};
use super::{CliResult, client, print};
use crate::daemon::Instance;
use crate::workflow_file::{WorkflowFile, absolute};

/// Stops the daemon, if one runs, and starts it detached with the same options.
pub fn run(workflow: &Path, args: &RestartArgs) -> CliResult {
    // An invalid workflow must not stop the daemon: it could not be started again.
    WorkflowFile::valid(workflow, |_| {})?;
    let running = client::find(workflow)
        .map(|(_, info)| info.options)
        .unwrap_or_default();
    if args.keep_sessions {
        let instance = Instance::of(&absolute(workflow))?;
        match leave(&instance, Duration::from_secs(args.timeout))? {
            Left::Nothing => print("no daemon ran\n"),
            Left::Agents(0) => print("the old daemon has stopped; no agent ran\n"),
            Left::Agents(count) => print(&format!("the old daemon has stopped, and left {count} running\n")),
            Left::Asked => return Err(own_daemon()),
        }
        return super::run::detach(workflow, running);
    }
    match quietly(workflow, args.timeout)?.1 {
        Stopped::Nothing => print("no daemon ran\n"),
        _ => print("the old daemon has stopped\n"),
    }
    super::run::detach(workflow, running)
}
