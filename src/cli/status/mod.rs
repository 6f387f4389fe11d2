//! `vik status`

mod retention;
mod text;

#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use vik_api::{Daemon, DaemonState, Status};

pub use text::text;

use vik_base::report::{ErrorCode, Exit, Failure, stdout_width, table};
use vik_daemon::{Instance, InstanceInfo, Presence};
use vik_workflow::absolute;

use super::positional::Positional;
use super::{CliResult, client, print, print_json, stop};

/// `vik status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub workflow: Positional,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// List all daemons of this user
    #[arg(long)]
    pub all: bool,
    /// Print a link to sign in to the dashboard, which can be used once [default: on a terminal]
    #[arg(long, conflicts_with_all = ["json", "all"])]
    pub link: bool,
}

/// Shows one daemon, or all daemons of this user.
pub fn run(workflow: &Path, args: &StatusArgs) -> CliResult {
    if args.all {
        return all(args);
    }
    let path = absolute(workflow);
    let instance = Instance::of(&path)?;
    let status = status_of(&instance, &path)?;
    let is_absent = matches!(status.daemon.state, DaemonState::NotRunning | DaemonState::Dead);
    if args.json {
        print_json(&status);
    } else if is_absent {
        let failure = client::no_daemon(&path);
        return Err(
            match (stop::count_orphaned_agents(&instance), status.daemon.state) {
                (0, DaemonState::Dead) => failure
                    .cause("the last daemon exited without cleaning up; `vik run -d` recovers its attempts"),
                (0, _) => failure,
                (count, _) => failure.cause(stop::orphan_notice(count)),
            },
        );
    } else {
        print(&text(&status, Timestamp::now(), stdout_width()));
        // In the output of a script, the link would be a secret in a file.
        if status.api.is_some()
            && (args.link || std::io::stdout().is_terminal())
            && let Presence::Running(info) = instance.presence()
            && let Ok(Some(link)) = client::request(&instance, &info, async |client| client.link().await)
        {
            print(&format!("open {} (can be used once)\n", link.url));
        }
    }
    Ok(if is_absent { Exit::NoDaemon } else { Exit::Done })
}

fn status_of(instance: &Instance, path: &Path) -> Result<Status, Failure> {
    let mut presence = instance.presence();
    if let Presence::Running(info) = &presence {
        match client::status(instance, info)? {
            Some(status) => return Ok(status),
            None => presence = instance.presence(),
        }
    }
    match presence {
        Presence::Dead(info) => Ok(absent(DaemonState::Dead, Some(&info), path)),
        Presence::None => Ok(absent(DaemonState::NotRunning, None, path)),
        Presence::Running(_) | Presence::Starting => Err(client::daemon_starting(path)),
    }
}

fn absent(state: DaemonState, info: Option<&InstanceInfo>, path: &Path) -> Status {
    Status::of(Daemon {
        state,
        workflow_path: info.map_or_else(|| path.to_owned(), |info| info.workflow_path.clone()),
        ..Daemon::default()
    })
}

fn all(args: &StatusArgs) -> CliResult {
    let mut found = Vec::new();
    for instance in Instance::all() {
        let Some(info) = instance.read().filter(|info| info.ended_at.is_none()) else {
            continue;
        };
        match status_of(&instance, &info.workflow_path) {
            Ok(status) => found.push(status),
            Err(failure) => {
                let state = match failure.code() == ErrorCode::NoLeader.as_str() {
                    true => DaemonState::Following,
                    false => DaemonState::Dead,
                };
                found.push(absent(state, Some(&info), &info.workflow_path));
            }
        }
    }
    found.sort_by(|a, b| a.daemon.workflow_path.cmp(&b.daemon.workflow_path));
    if args.json {
        print_json(&found);
    } else if found.is_empty() {
        print("no daemon is running\n");
    } else {
        let rows: Vec<_> = found
            .iter()
            .map(|status| {
                [
                    state(status.daemon.state).to_owned(),
                    status
                        .daemon
                        .pid
                        .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
                    status.sessions.len().to_string(),
                    status.parked.len().to_string(),
                    status.daemon.workflow_path.to_string_lossy().into_owned(),
                ]
            })
            .collect();
        print(&table(["STATE", "PID", "RUNNING", "PARKED", "WORKFLOW"], &rows));
    }
    Ok(Exit::Done)
}

fn state(state: DaemonState) -> &'static str {
    match state {
        DaemonState::Running => "running",
        DaemonState::Following => "following",
        DaemonState::Draining => "draining",
        DaemonState::Stopping => "stopping",
        DaemonState::NotRunning => "not running",
        DaemonState::Dead => "dead",
    }
}
