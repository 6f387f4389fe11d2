//! `vik git durable`: the steps of an attempt in a durable workspace.

use vik_api::ErrorBody;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_workspace::git::durable::{
    Durable, DurableResult, NUMBER_VARIABLE, PushFence, QUEUE_VARIABLE, REMOTE_VARIABLE, WorkRef,
};
use vik_workspace::git::{GitError, Record, View};

use super::args::{DurableArgs, DurableStep, GitArgs};
use super::target::Target;
use crate::cli::{CliResult, print};

/// Why a step failed.
struct StepError {
    reason: String,
    is_temporary: bool,
}

impl DurableArgs {
    /// Carries out the step, and prints its result as JSON, also that of a step that failed.
    pub fn run(&self, workflow: &std::path::Path, args: &GitArgs) -> CliResult {
        let result = Target::find(workflow, args)
            .map_err(|failure| failed(&failure.body(), false))
            .and_then(|target| self.run_in(&target))
            .unwrap_or_else(|StepError { reason, is_temporary }| DurableResult::Failed {
                reason,
                is_temporary,
            });
        print(&format!("{}\n", serde_json::json!(result)));
        Ok(Exit::Done)
    }

    fn run_in(&self, target: &Target) -> Result<DurableResult, StepError> {
        let refused = |failure: Failure| failed(&failure.body(), false);
        let record = target.read_record().map_err(refused)?;
        let name = self
            .remote
            .as_deref()
            .or(record.default_remote())
            .unwrap_or("origin");
        let remote = record.remotes.get(name).ok_or_else(|| StepError {
            reason: format!("no remote `{name}` existed after `after_create`"),
            is_temporary: false,
        })?;
        target
            .refuse_inside(remote.push_url.as_ref().unwrap_or(&remote.url))
            .map_err(refused)?;
        let durable = Durable {
            layout: &target.layout,
            issue: &target.issue,
            workspace: &target.workspace,
            record: &record,
            remote: name,
            work_ref: WorkRef::new(&self.queue, &target.issue),
            number: self.number,
        };
        let done = match self.step {
            DurableStep::Claim => durable.claim(),
            DurableStep::Save => durable.save(),
            DurableStep::Remove => durable.remove(),
        };
        done.map_err(|error| {
            let is_temporary = matches!(error, GitError::Git { .. } | GitError::Io { .. });
            failed(&super::failure(&error).body(), is_temporary)
        })
    }
}

/// Returns the fence for a push to a remote: in the hooks of an attempt that saves its work there.
pub fn fence(
    target: &Target,
    view: &View,
    record: &Record,
    remote: &str,
) -> Result<Option<PushFence>, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(number), Some(queue)) = (variable(NUMBER_VARIABLE), variable(QUEUE_VARIABLE)) else {
        return Ok(None);
    };
    let own = variable(REMOTE_VARIABLE);
    let own = own.as_deref().or(record.default_remote()).unwrap_or("origin");
    let (Ok(number), true) = (number.parse(), own == remote) else {
        return Ok(None);
    };
    let durable = Durable {
        layout: &target.layout,
        issue: &target.issue,
        workspace: &target.workspace,
        record,
        remote,
        work_ref: WorkRef::new(&queue, &target.issue),
        number,
    };
    let fence = durable.fence(view).map_err(|error| super::failure(&error))?;
    fence.map(Some).map_err(|holder| {
        let heading = format!("a newer attempt holds the issue ({holder}), so nothing was pushed");
        Failure::new(Exit::Failed, ErrorCode::GitStale, heading)
    })
}

fn failed(body: &ErrorBody, is_temporary: bool) -> StepError {
    let hint = body.hint.iter().map(|hint| format!("; {hint}"));
    StepError {
        reason: [body.message.clone()].into_iter().chain(hint).collect(),
        is_temporary,
    }
}
