//! `vik status`

use std::path::Path;

use jiff::Timestamp;
use vik_api::{Daemon, DaemonState, PullCounts, Response, SCHEMA, Status, Verb};

use super::args::StatusArgs;
use super::{Done, client, print, print_json};
use crate::daemon::{Instance, InstanceInfo, Presence};
use crate::report::{Exit, Failure, ago, cost, one_line, table, tokens};
use crate::workflow_file::absolute;

/// Shows one daemon, or all.
pub fn run(workflow: &Path, args: &StatusArgs) -> Done {
    if args.all {
        return all(args);
    }
    let path = absolute(workflow);
    let instance = Instance::of(&path)?;
    let status = of(&instance, &path)?;
    let runs = matches!(status.daemon.state, DaemonState::NotRunning | DaemonState::Dead);
    if args.json {
        print_json(&status);
    } else if runs {
        let failure = client::no_daemon(&path);
        return Err(match status.daemon.state {
            DaemonState::Dead => {
                failure.cause("the last one ended without cleaning up; `vik stop` ends what it left")
            }
            _ => failure,
        });
    } else {
        print(&text(&status, Timestamp::now()));
    }
    Ok(if runs { Exit::NoDaemon } else { Exit::Done })
}

fn of(instance: &Instance, path: &Path) -> Result<Status, Failure> {
    match instance.presence() {
        Presence::Running(info) => match client::request(&info, Verb::Status)? {
            Response::Status(status) => Ok(*status),
            _ => Err(client::nonsense()),
        },
        Presence::Starting => Err(client::find(path)
            .err()
            .unwrap_or_else(|| client::no_daemon(path))),
        Presence::Dead(info) => Ok(absent(DaemonState::Dead, Some(&info), path)),
        Presence::None => Ok(absent(DaemonState::NotRunning, None, path)),
    }
}

fn absent(state: DaemonState, info: Option<&InstanceInfo>, path: &Path) -> Status {
    Status {
        schema: SCHEMA,
        daemon: Daemon {
            state,
            pid: None,
            started_at: None,
            version: None,
            workflow_path: info.map_or_else(|| path.to_owned(), |info| info.workflow_path.clone()),
            home: None,
        },
        last_pull: None,
        pulls: PullCounts::default(),
        sessions: Vec::new(),
        parked: Vec::new(),
        waiting: Vec::new(),
        waiting_more: 0,
        paused: false,
        paused_issues: Vec::new(),
        workflow: None,
        day: None,
        ledger: None,
    }
}

fn all(args: &StatusArgs) -> Done {
    let mut found = Vec::new();
    for instance in Instance::all() {
        let Some(info) = instance.read().filter(|info| info.ended_at.is_none()) else {
            continue;
        };
        match of(&instance, &info.workflow_path) {
            Ok(status) => found.push(status),
            Err(_) => found.push(absent(DaemonState::Dead, Some(&info), &info.workflow_path)),
        }
    }
    found.sort_by(|a, b| a.daemon.workflow_path.cmp(&b.daemon.workflow_path));
    if args.json {
        print_json(&found);
    } else if found.is_empty() {
        print("no daemon runs\n");
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
        DaemonState::Draining => "draining",
        DaemonState::Stopping => "stopping",
        DaemonState::NotRunning => "not running",
        DaemonState::Dead => "dead",
    }
}

/// The status for people.
pub fn text(status: &Status, now: Timestamp) -> String {
    let daemon = &status.daemon;
    let since = daemon
        .started_at
        .map(|at| format!(" for {}", ago(at, now)))
        .unwrap_or_default();
    let mut out = format!(
        "vik {}{since} (pid {}) · {} running · {} waiting · {} parked\n",
        state(daemon.state),
        daemon.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        status.sessions.len(),
        status.waiting.len(),
        status.parked.len(),
    );
    out.push_str(&format!("workflow {}\n", daemon.workflow_path.display()));
    out.push_str(&match &status.last_pull {
        None => "no pull has ended yet\n".to_owned(),
        Some(pull) if pull.ok => {
            let skipped = if pull.skipped > 0 {
                format!(", {} skipped", pull.skipped)
            } else {
                String::new()
            };
            format!(
                "last pull {} ago: {} issues{skipped}\n",
                ago(pull.at, now),
                pull.issues
            )
        }
        Some(pull) => format!(
            "last pull {} ago FAILED ({} in a row): {}\n",
            ago(pull.at, now),
            status.pulls.failed_in_a_row,
            one_line(pull.error.as_deref().unwrap_or(""), 300)
        ),
    });
    if !status.sessions.is_empty() {
        let rows: Vec<_> = status
            .sessions
            .iter()
            .map(|session| {
                [
                    one_line(session.issue_id.as_str(), 30),
                    session.stage.to_string(),
                    session.agent.to_string(),
                    session.attempt.to_string(),
                    ago(session.since, now),
                    session
                        .last_event_at
                        .map_or_else(|| "-".to_owned(), |at| ago(at, now)),
                    tokens(session.usage),
                    cost(session.cost_usd),
                    one_line(session.activity.as_deref().unwrap_or(&session.phase), 60),
                ]
            })
            .collect();
        let header = [
            "ISSUE", "STAGE", "AGENT", "TRY", "SINCE", "HEARD", "TOKENS", "COST", "NOW",
        ];
        out.push('\n');
        out.push_str(&table(header, &rows));
    }
    if !status.parked.is_empty() {
        let rows: Vec<_> = status
            .parked
            .iter()
            .map(|parked| {
                let id = one_line(parked.issue_id.as_str(), 30);
                [
                    id,
                    parked.stage.to_string(),
                    ago(parked.since, now),
                    parked.reason.clone(),
                    one_line(&parked.detail, 100),
                ]
            })
            .collect();
        out.push('\n');
        out.push_str(&table(["PARKED", "STAGE", "SINCE", "REASON", "WHY"], &rows));
    }
    if !status.waiting.is_empty() {
        const SHOWN: usize = 20;
        let rows: Vec<_> = status
            .waiting
            .iter()
            .take(SHOWN)
            .map(|waiting| {
                let until = waiting
                    .until
                    .map_or_else(|| "-".to_owned(), |until| ago(now, until));
                let id = one_line(waiting.issue_id.as_str(), 30);
                [
                    id,
                    waiting.stage.to_string(),
                    until,
                    waiting.reason.clone(),
                    waiting.attempts.to_string(),
                ]
            })
            .collect();
        out.push('\n');
        out.push_str(&table(["WAITING", "STAGE", "IN", "FOR", "ATTEMPTS"], &rows));
        if status.waiting.len() > SHOWN {
            out.push_str(&format!("… and {} more\n", status.waiting.len() - SHOWN));
        }
    }
    out
}
