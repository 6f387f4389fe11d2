//! `vik drain`

use std::path::Path;
use std::time::Duration;

use clap::Args;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::scheduler::Command;
use vik_daemon::Instance;
use vik_workflow::absolute;

use super::client::{self, ActionOutcome};
use super::{CliResult, print, stop};

/// `vik drain`
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Wait until the daemon has exited
    #[arg(long)]
    pub wait: bool,
    /// Seconds to wait [default: no limit]
    #[arg(long, value_name = "SECS", requires = "wait")]
    pub timeout: Option<u64>,
}

/// Drains the daemon: lets running attempts end, then ends the daemon.
pub fn run(workflow: &Path, args: &DrainArgs) -> CliResult {
    let instance = Instance::of(&absolute(workflow))?;
    match client::act(workflow, Command::Drain)? {
        ActionOutcome::Nothing(why) => print(&format!("nothing to do: {why}\n")),
        ActionOutcome::Applied(_) => {
            print("draining: no new attempts start, and vik exits when the running ones have ended\n");
        }
    }
    if !args.wait {
        return Ok(Exit::Done);
    }
    if stop::wait_until_stopped(&instance, args.timeout.map(Duration::from_secs)) {
        print("vik exited\n");
        return Ok(Exit::Done);
    }
    Err(Failure::new(
        Exit::TimedOut,
        ErrorCode::DrainTimeout,
        "attempts are still running",
    )
    .hint("`vik status` shows the running attempts; `vik stop` stops them"))
}
