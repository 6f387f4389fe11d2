//! Moves an issue to another state, at the request of a person.

use serde::Deserialize;
use vik_base::report;
use vik_base::report::describe_exit;
use vik_core::ids::IssueId;
use vik_core::workflow::Workflow;
use vik_proc::{Limits, Output, ShimSpec};
use vik_session::host::{Host, os_env};
use vik_session::secrets::Resolver;
use vik_session::secrets::masked::read_tail;
use vik_workspace::fs::create_private_dir_all;

/// The maximum answer of the tracker, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The answer of the verb `move` of the tracker protocol.
#[derive(Deserialize)]
struct Answer {
    moved: bool,
    state: String,
}

/// Moves an issue, if it is in the state `from`. A person who has moved it is not overridden.
///
/// # Errors
/// When the workflow has no tracker, the tracker fails, or the issue was moved; the message is for
/// people.
pub async fn move_issue(
    host: &Host,
    workflow: &Workflow,
    issue: &IssueId,
    (from, to): (&str, &str),
    cancel: impl Future<Output = ()>,
) -> Result<(), String> {
    let mut cancel = std::pin::pin!(cancel);
    let request = ["move", issue.as_str(), "--from", from, "--to", to];
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
        timeout: workflow.pull.timeout.0,
        max_bytes: MAX_ANSWER,
    };
    let run = host.supervisor.output(&spec, limits, cancel).await;
    let problem = report::tail_lines(&read_tail(&stderr, 4096), 5);
    let _ = std::fs::remove_file(&stderr);
    let run = run.map_err(|error| report::chain(&error))?;
    if run.timed_out {
        return Err(format!(
            "the tracker did not move the issue within {}",
            workflow.pull.timeout
        ));
    }
    if run.exit.code != Some(0) {
        let how = describe_exit(&run.exit);
        return Err(format!("the tracker {how}{}", super::on_stderr(&problem)));
    }
    let answer: Answer = serde_json::from_slice(&run.stdout)
        .map_err(|error| format!("the tracker did not answer in its protocol: {error}"))?;
    if answer.moved {
        Ok(())
    } else {
        Err(format!(
            "somebody moved the issue to `{}` at the same time",
            answer.state
        ))
    }
}
