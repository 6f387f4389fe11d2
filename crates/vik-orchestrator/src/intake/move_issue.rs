//! Moves an issue to another state, at the request of a person.

use serde::Deserialize;
use vik_base::report;
use vik_base::report::describe_exit;
use vik_core::ids::IssueId;
use vik_core::scheduler::LookupResult;
use vik_core::workflow::Workflow;
use vik_proc::{Limits, Output, ShimSpec};
use vik_session::host::{Host, os_env};
use vik_session::secrets::Resolver;
use vik_session::secrets::masked::read_tail;
use vik_workspace::fs::create_private_dir_all;

/// The maximum answer of the tracker, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveResult {
    /// The issue was moved from this state.
    Moved { from: String },
    /// The issue was in the state already.
    AlreadyThere,
    /// The tracker does not have the issue.
    Missing,
}

/// The answer of the verb `move` of the tracker protocol.
#[derive(Deserialize)]
struct Answer {
    moved: bool,
    state: String,
}

/// Looks up the state of an issue, and moves it from there. A person who moves it at the same time
/// is not overridden.
///
/// # Errors
/// When the workflow has no tracker, or the tracker fails; the message is for people.
pub async fn move_issue(
    host: &Host,
    workflow: &Workflow,
    issue: &IssueId,
    to: &str,
    cancel: impl Future<Output = ()>,
) -> Result<MoveResult, String> {
    let mut cancel = std::pin::pin!(cancel);
    let Some(show) = &workflow.show else {
        return Err("the workflow has no `issues.tracker`".to_owned());
    };
    let found = super::show(host, workflow, show, issue, &mut cancel).await;
    let from = match found.map_err(|error| report::chain(&error))? {
        LookupResult::Missing => return Ok(MoveResult::Missing),
        LookupResult::Unknown => return Err("the tracker did not show the issue".to_owned()),
        LookupResult::Snapshot(issue) if *issue.state == *to => return Ok(MoveResult::AlreadyThere),
        LookupResult::Snapshot(issue) => issue.state.to_string(),
    };
    let request = ["move", issue.as_str(), "--from", from.as_str(), "--to", to];
    let command = workflow.tracker_command(&request);
    let command = command.ok_or("the workflow has no `issues.tracker`")?;
    let folder = host.layout.service_dir().join("move");
    create_private_dir_all(&folder).map_err(|error| format!("cannot prepare the move: {error}"))?;
    let resolver = Resolver {
        host,
        secrets: &workflow.secrets,
        folder: &folder,
    };
    let secrets = &workflow.pull.secrets;
    let values = resolver.values(secrets, &mut cancel).await;
    let values = values.map_err(|error| report::chain(&error))?;
    let mut env = host.command_env();
    env.extend(values.of(secrets));
    let stderr = folder.join(format!("move-{}.stderr", uuid::Uuid::now_v7()));
    let mut spec = ShimSpec::command("sh", &host.workflow_dir);
    spec.args = vec!["-c".into(), command.into()];
    spec.env = os_env(env);
    spec.stderr = Output::Append(stderr.clone());
    let limits = Limits {
        timeout: show.timeout.0,
        max_bytes: MAX_ANSWER,
    };
    let run = host.supervisor.output(&spec, limits, cancel).await;
    let problem = report::tail_lines(&read_tail(&stderr, 4096), 5);
    let _ = std::fs::remove_file(&stderr);
    let run = run.map_err(|error| report::chain(&error))?;
    if run.timed_out {
        return Err(format!(
            "the tracker did not move the issue within {}",
            show.timeout
        ));
    }
    if run.exit.code != Some(0) {
        let how = describe_exit(&run.exit);
        return Err(format!("the tracker {how}{}", super::on_stderr(&problem)));
    }
    let answer: Answer = serde_json::from_slice(&run.stdout)
        .map_err(|error| format!("the tracker did not answer in its protocol: {error}"))?;
    if answer.moved {
        Ok(MoveResult::Moved { from })
    } else {
        Err(format!(
            "somebody moved the issue to `{}` at the same time",
            answer.state
        ))
    }
}
