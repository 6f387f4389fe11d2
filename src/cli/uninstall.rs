//! `vik uninstall`

use std::path::Path;

use clap::Args;
use vik_base::report::{ErrorCode, Exit, Failure};

use super::positional::Positional;
use super::stop::{Stopped, stop_if_running};
use super::{CliResult, print};

/// `vik uninstall`
#[derive(Debug, Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    pub workflow: Positional,
    /// Seconds to wait before killing the daemon
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub timeout: u64,
}

/// Stops the daemon and removes its instance folder. Sessions, logs and workspaces stay.
pub fn run(workflow: &Path, args: &UninstallArgs) -> CliResult {
    let info = vik_daemon::Instance::of(&vik_workflow::absolute(workflow))?.read();
    let (instance, stopped) = stop_if_running(workflow, args.timeout)?;
    let dir = instance.dir().path();
    let existed = dir.exists();
    if existed {
        instance.dir().remove_socket_dir();
        std::fs::remove_dir_all(dir).map_err(|error| {
            Failure::failed(
                ErrorCode::Uninstall,
                format!("cannot remove {}", dir.display()),
                &error,
            )
        })?;
    }
    match (existed, stopped) {
        (false, _) => print("nothing was installed\n"),
        (true, Stopped::Nothing) => print("removed the instance\n"),
        (true, _) => print("stopped the daemon and removed its instance\n"),
    }
    if let Some(info) = info {
        print(&format!(
            "history and workspaces are kept in {}; remove old ones with `vik prune`\n",
            info.root.display()
        ));
    }
    Ok(Exit::Done)
}
