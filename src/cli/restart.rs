//! `vik restart`

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use vik_daemon::Instance;
use vik_workflow::{WorkflowFile, absolute};

use super::positional::Positional;
use super::stop::{DetachOutcome, Stopped, own_daemon, stop_and_keep_agents, stop_if_running};
use super::{CliResult, client, engine, print};

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
    let loaded = WorkflowFile::valid(workflow, |_| {})?;
    engine::check(&loaded.path, &loaded.workflow)?;
    let (running, port) = match client::find(workflow) {
        Ok((instance, info)) => {
            let status = client::status(&instance, &info).ok().flatten();
            (
                info.options,
                status.and_then(|status| status.api).map(|api| api.address),
            )
        }
        Err(_) => Default::default(),
    };
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
        return super::run::detach(workflow, with_port(running, port.as_deref()));
    }
    match stop_if_running(workflow, args.timeout)?.1 {
        Stopped::Nothing => print("no daemon was running\n"),
        _ => print("the old daemon stopped\n"),
    }
    super::run::detach(workflow, with_port(running, port.as_deref()))
}

/// Replaces `--port=0` by the port that was selected for it, so that links stay valid, unless
/// another program uses it by now.
fn with_port(mut options: Vec<String>, address: Option<&str>) -> Vec<String> {
    let address = address.and_then(|address| address.parse::<SocketAddr>().ok());
    if let Some(option) = options.iter_mut().find(|option| *option == "--port=0")
        && let Some(address) = address.filter(|address| TcpListener::bind(address).is_ok())
    {
        *option = format!("--port={}", address.port());
    }
    options
}
