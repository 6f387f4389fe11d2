//! `vik doctor --orphans`: lists every process of Vik on this host and its owner.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use vik_base::report::{Exit, one_line, stdout_width, table_within};
use vik_daemon::{Instance, InstanceInfo, Presence};
use vik_proc::{Audited, ProcessId};
use vik_session::host::{ATTEMPT_MARK, INSTANCE_MARK, SHIM_MARK};
use vik_workflow::absolute;

use super::super::{CliResult, print, print_json};

/// The owner of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Owner {
    /// A running daemon, usually through a shim.
    Daemon,
    /// A shim without a daemon: it ends the process after its grace, unless a daemon attaches.
    Shim,
    #[serde(rename = "nobody")]
    Unowned,
}

/// A process of Vik.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct OwnedProcess {
    pid: i32,
    command: String,
    pub(super) owner: Owner,
    shim_pid: Option<i32>,
    daemon_pid: Option<i32>,
    attempt_id: Option<String>,
    instance: Option<String>,
    workflow_path: Option<PathBuf>,
    census: Option<PathBuf>,
}

/// An instance that is, or was, on this host.
pub(super) struct KnownInstance {
    pub(super) info: InstanceInfo,
    pub(super) runs: bool,
}

/// Audits the host. Lists the processes of this workflow, or those of `all` workflows. Returns exit 1
/// if one of them has no owner.
pub fn run(workflow: &Path, all: bool, json: bool) -> CliResult {
    let own = Instance::of(&absolute(workflow))?.name();
    let known = known();
    let censuses: Vec<_> = known
        .values()
        .flat_map(|known| vik_workspace::censuses(&known.info.root))
        .collect();
    let audited = vik_proc::audit(&[INSTANCE_MARK, ATTEMPT_MARK, SHIM_MARK], &censuses);
    let ancestors = |pid| vik_proc::identity::ancestors(pid);
    let is_listed = |process: &OwnedProcess| all || process.instance.as_ref() == Some(&own);
    let (found, others): (Vec<_>, Vec<_>) = audited
        .iter()
        .map(|process| find_owner(process, &audited, &known, ancestors))
        .partition(is_listed);
    if json {
        let orphans = found
            .iter()
            .filter(|process| process.owner == Owner::Unowned)
            .count();
        print_json(&serde_json::json!({
            "schema": vik_api::SCHEMA,
            "orphans": orphans,
            "processes": found,
        }));
    } else {
        print(&text(&found, all, stdout_width()));
        if !others.is_empty() {
            print(&format!(
                "{} of other workflows; `--all` lists them\n",
                count(others.len())
            ));
        }
    }
    Ok(if found.iter().any(|process| process.owner == Owner::Unowned) {
        Exit::Failed
    } else {
        Exit::Done
    })
}

/// Returns all instances of this user, by name.
fn known() -> HashMap<String, KnownInstance> {
    Instance::all()
        .into_iter()
        .filter_map(|instance| {
            let info = instance.read()?;
            let runs = matches!(instance.presence(), Presence::Running(_));
            Some((instance.name(), KnownInstance { info, runs }))
        })
        .collect()
}

/// Determines the owner of a process.
pub(super) fn find_owner(
    audited: &Audited,
    all: &[Audited],
    known: &HashMap<String, KnownInstance>,
    ancestors: impl Fn(i32) -> Vec<ProcessId>,
) -> OwnedProcess {
    let mark = |source: &Audited, name: &str| {
        let mark = source.marks.iter().find(|mark| mark.name == name)?;
        Some(mark.value.clone())
    };
    let shim = audited.shim;
    let owning_shim = shim.and_then(|shim| all.iter().find(|other| other.process == shim));
    let by_root = audited.census.as_ref().and_then(|census| {
        let has = |(_, known): &(&String, &KnownInstance)| census.starts_with(&known.info.root);
        known.iter().find(has).map(|(name, _)| name.clone())
    });
    let instance = owning_shim
        .and_then(|shim| mark(shim, SHIM_MARK))
        .or_else(|| mark(audited, SHIM_MARK))
        .or_else(|| mark(audited, INSTANCE_MARK))
        .or(by_root);
    let home = instance.as_ref().and_then(|name| known.get(name));
    // A daemon that an agent's hook started has the marks of that agent.
    let lineage: Vec<_> = std::iter::once(audited.process)
        .chain(ancestors(audited.process.pid))
        .collect();
    let ancestor_daemon = known
        .values()
        .find(|known| known.runs && lineage.contains(&known.info.process));
    let daemon = match shim {
        Some(_) => home.filter(|known| known.runs).or(ancestor_daemon),
        None => ancestor_daemon,
    };
    let owner = match (daemon, shim) {
        (Some(_), _) => Owner::Daemon,
        (None, Some(_)) => Owner::Shim,
        (None, None) => Owner::Unowned,
    };
    let attempt_of_census = |census: &PathBuf| {
        let stem = census.file_stem()?.to_str()?;
        stem.get(stem.len().checked_sub(36)?..).map(str::to_owned)
    };
    OwnedProcess {
        pid: audited.process.pid,
        command: audited.command.clone(),
        owner,
        shim_pid: shim.map(|shim| shim.pid),
        daemon_pid: daemon.map(|known| known.info.process.pid),
        attempt_id: mark(audited, ATTEMPT_MARK)
            .or_else(|| audited.census.as_ref().and_then(attempt_of_census)),
        instance,
        workflow_path: home.map(|known| known.info.workflow_path.clone()),
        census: audited.census.clone(),
    }
}

pub(super) fn text(found: &[OwnedProcess], all: bool, width: usize) -> String {
    if found.is_empty() && all {
        return "no Vik processes visible to this user on this host\n".to_owned();
    }
    if found.is_empty() {
        return "no processes of this workflow\n".to_owned();
    }
    let rows: Vec<_> = found
        .iter()
        .map(|process| {
            let owner = match (process.owner, process.daemon_pid, process.shim_pid) {
                (Owner::Daemon, Some(daemon), _) => format!("daemon {daemon}"),
                (Owner::Shim, _, Some(shim)) if shim == process.pid => "waiting for daemon".to_owned(),
                (Owner::Shim, _, Some(shim)) => format!("shim {shim}, no daemon"),
                _ => "none".to_owned(),
            };
            let workflow = process.workflow_path.as_ref();
            let part_of = match all {
                true => workflow.map_or("unknown workflow".into(), |path| path.display().to_string()),
                false => process.attempt_id.clone().unwrap_or_default(),
            };
            [
                process.pid.to_string(),
                one_line(&process.command, 20),
                owner,
                part_of,
            ]
        })
        .collect();
    let part_of = if all { "WORKFLOW" } else { "ATTEMPT" };
    let mut out = table_within(width, ["PID", "COMMAND", "OWNER", part_of], &rows);
    out.push('\n');
    out.push_str(&summary(found));
    out
}

fn count(processes: usize) -> String {
    format!("{processes} process{}", if processes == 1 { "" } else { "es" })
}

fn summary(found: &[OwnedProcess]) -> String {
    let of = |owner| found.iter().filter(|process| process.owner == owner).count();
    let (orphans, waiting) = (of(Owner::Unowned), of(Owner::Shim));
    let mut out = format!(
        "{}: {} owned by a daemon, {waiting} by a shim alone, {orphans} orphaned\n",
        count(found.len()),
        of(Owner::Daemon),
    );
    let mut workflows: Vec<_> = found
        .iter()
        .filter(|process| process.owner != Owner::Daemon)
        .filter_map(|process| process.workflow_path.as_ref())
        .collect();
    workflows.sort_unstable();
    workflows.dedup();
    for workflow in workflows {
        out.push_str(&format!(
            "  stop the processes with `vik stop {0}`, or recover the attempts with `vik run -d {0}`\n",
            workflow.display()
        ));
    }
    if found
        .iter()
        .any(|process| process.owner == Owner::Unowned && process.workflow_path.is_none())
    {
        out.push_str("  stop processes of unknown workflows by pid: `kill PID`\n");
    }
    out
}
