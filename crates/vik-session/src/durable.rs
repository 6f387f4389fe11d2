//! `vik git durable`, by which attempts and removals reach the saved work of a workspace.

use std::path::Path;

use vik_base::report;
use vik_core::workflow::{Engine, Workflow};
use vik_proc::{CommandRun, Limits, Mark, Output, ShimSpec};
use vik_store::DurableSpec;
use vik_workspace::git::durable::DurableResult;

use crate::hooks::ScriptContext;
use crate::host::{ATTEMPT_MARK, Host, os_env};
use crate::secrets::masked::read_tail;

/// The queue of workflows that run on one machine.
const LOCAL_QUEUE: &str = "local";

/// The maximum output of a step, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The number of bytes at the end of its errors that are shown.
const TAIL_BYTES: u64 = 2 * 1024;

/// Returns where a workflow saves the work of its workspaces.
pub fn spec_of(workflow: &Workflow) -> Option<DurableSpec> {
    let durable = workflow.workspace_durable.as_ref()?;
    let queue = match &workflow.engine {
        Some(Engine::Temporal(temporal)) => temporal.task_queue.as_str(),
        None => LOCAL_QUEUE,
    };
    Some(DurableSpec {
        remote: durable.remote.clone(),
        queue: queue.to_owned(),
    })
}

/// Returns the command of a step. Its result is printed, and its errors go to `log`.
pub fn command(
    host: &Host,
    spec: &DurableSpec,
    step: &str,
    number: u64,
    place: &ScriptContext<'_>,
    log: &Path,
) -> ShimSpec {
    let number = number.to_string();
    let mut args = vec![
        "git",
        "durable",
        step,
        "--number",
        &number,
        "--queue",
        &spec.queue,
    ];
    if let Some(remote) = &spec.remote {
        args.extend(["--remote", remote]);
    }
    let mut command = ShimSpec::command(&host.vik, place.cwd);
    command.args = args.into_iter().map(Into::into).collect();
    command.env = os_env(place.env.clone());
    command.mark = Some(Mark::new(ATTEMPT_MARK, place.attempt));
    (command.stdout, command.stderr) = (Output::Inherit, Output::Append(log.to_owned()));
    command
}

/// Returns the limits of a step.
pub fn limits(place: &ScriptContext<'_>) -> Limits {
    Limits {
        timeout: place.timeout,
        max_bytes: MAX_OUTPUT_BYTES,
    }
}

/// Reads the result of a step.
pub fn read_result(run: &CommandRun, log: &Path) -> DurableResult {
    let reason = if run.timed_out {
        "took too long".to_owned()
    } else if run.cancelled {
        "was stopped".to_owned()
    } else {
        match serde_json::from_slice(&run.stdout) {
            Ok(result) if run.is_success() => return result,
            _ => format!(
                "{}: {}",
                report::describe_exit(&run.exit),
                read_tail(log, TAIL_BYTES)
            ),
        }
    };
    DurableResult::Failed {
        reason: format!("`vik git durable` {reason}"),
        is_temporary: true,
    }
}
