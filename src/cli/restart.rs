//! `vik restart`

use std::path::Path;
use std::time::Duration;

use clap::Args;
use vik_daemon::Instance;
use vik_workflow::{WorkflowFile, absolute};

use super::positional::Positional;
use super::stop::{DetachOutcome, Stopped, own_daemon, stop_and_keep_agents, stop_if_running};
use super::{CliResult, client, print};

/// `vik restart`
#[derive(Debug, Args)]
pub struct RestartArgs {
    #[command(flatten)]
    pub workflow: Positional,
    /// Seconds to wait for the old daemon to exit
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub timeout: u64,
    /// Keep agents running; the new daemon adopts them without losing output
    #[arg(long)]
    pub keep_sessions: bool,
}

/// Stops the daemon, if one runs, and starts it detached with the same options.
pub fn run(workflow: &Path, args: &RestartArgs) -> CliResult {
    // An invalid workflow must not stop the daemon: it could not be started again.
    WorkflowFile::valid(workflow, |_| {})?;
    let running = client::find(workflow)
        .map(|(_, info)| info.options)
        .unwrap_or_default();
    if args.keep_sessions {
        let instance = Instance::of(&absolute(workflow))?;
        match stop_and_keep_agents(&instance, Duration::from_secs(args.timeout))? {
            DetachOutcome::Nothing => print("no daemon was running\n"),
            DetachOutcome::Agents(0) => print("the old daemon stopped; no agent was running\n"),
            DetachOutcome::Agents(count) => {
                print(&format!("the old daemon stopped and left {count} running\n"));
            }
            DetachOutcome::Asked => return Err(own_daemon()),
        }
        return super::run::detach(workflow, running);
    }
    match stop_if_running(workflow, args.timeout)?.1 {
        Stopped::Nothing => print("no daemon was running\n"),
        _ => print("the old daemon stopped\n"),
    }
    super::run::detach(workflow, running)
}
