//! How a hub carries out the outputs of attempts on workers.
//!
//! A worker sends what its agent has written, and no script: the hub has the definition of the stage
//! with which it started the attempt, checks everything again, and resolves the secrets itself.

use std::time::Duration;

use vik_base::report;
use vik_core::attempt::{HandOverFailure, Start};
use vik_core::outcome::FailureClass;
use vik_core::outputs::{self as core, Line, Output, OutputPolicy, Refusal, Rule};
use vik_core::workflow::Workflow;
use vik_workspace::{fs as private, git};

use super::{AppliedOutputs, NotApplied, OutputAttempt, OutputRequest, OutputRunner, secrets};
use crate::attempt::{pursuit, stage_context, vik_variables};
use crate::host::Host;
use crate::secrets::Resolver;
use crate::secrets::masked::masked;

/// Carries out on this hub what an attempt on a worker asks for, with the scripts and the policy of
/// `start`.
pub async fn apply_for_worker(
    host: &Host,
    workflow: &Workflow,
    start: &Start,
    request: &OutputRequest,
    attempt: impl OutputAttempt,
) -> AppliedOutputs {
    match prepare(host, workflow, start, request, &attempt).await {
        Ok(Prepared {
            policy,
            lines,
            secrets,
        }) => {
            let mut env = host.environment.shared();
            vik_variables(host, start, &mut env);
            let base_commit = request.base_commit.clone().filter(|commit| git::is_id(commit));
            env.extend(base_commit.map(|commit| ("VIK_BASE_COMMIT".to_owned(), commit)));
            env.extend(secrets);
            // Nothing is there on a hub.
            let workdir = host.layout.issue_dir(&start.issue.id);
            let mut values = stage_context(host, start, &workdir);
            if let Some(outputs) = values.get_mut("outputs") {
                outputs["state"] = requested_state(&lines).into();
            }
            let runner = OutputRunner {
                host,
                start,
                values: values.into(),
                env,
                lock: None,
                log: host.attempt_files(start).outputs_log(),
                attempt,
            };
            runner.apply(policy, lines).await
        }
        Err(refused) => refused.into(),
    }
}

/// The outputs that passed the checks.
struct Prepared<'s> {
    policy: &'s OutputPolicy,
    lines: Vec<Line>,
    secrets: Vec<(String, String)>,
}

async fn prepare<'s>(
    host: &Host,
    workflow: &Workflow,
    start: &'s Start,
    request: &OutputRequest,
    attempt: &impl OutputAttempt,
) -> Result<Prepared<'s>, NotApplied> {
    attempt.check()?;
    let Some(policy) = &start.stage.outputs else {
        let refusal = Refusal::of_file(Rule::NotAllowed, "this stage does not permit outputs");
        return Err(NotApplied::Refused(vec![refusal]));
    };
    let lines = core::read(request.lines.as_bytes(), &pursuit(start)).map_err(NotApplied::Refused)?;
    let refusals = core::check(&lines, policy, &core::counted_outputs(attempt.notes()));
    if !refusals.is_empty() {
        return Err(NotApplied::Refused(refusals));
    }
    let files = host.attempt_files(start);
    private::create_private_dir_all(files.dir())
        .map_err(|error| failed(format!("cannot create {}: {error}", files.dir().display()), false))?;
    let resolver = Resolver {
        host,
        secrets: &workflow.secrets,
        folder: files.dir(),
    };
    let values = resolver.values(&policy.secrets, attempt.killed()).await;
    let values = values.map_err(|error| {
        let needs_person = error.class() == FailureClass::Usage;
        failed(report::chain(&error), needs_person)
    })?;
    // The secrets are known only now.
    let refusals = secrets(&lines);
    if !refusals.is_empty() {
        return Err(NotApplied::Refused(refusals));
    }
    Ok(Prepared {
        secrets: values.of(&policy.secrets).collect(),
        policy,
        lines,
    })
}

fn requested_state(lines: &[Line]) -> &str {
    let state = lines.iter().find_map(|line| match &line.output {
        Output::State { state } => Some(state.as_str()),
        _ => None,
    });
    state.unwrap_or_default()
}

fn failed(reason: String, needs_person: bool) -> NotApplied {
    NotApplied::HandOver(HandOverFailure {
        step: "outputs".to_owned(),
        reason: masked(reason),
        wait: Duration::ZERO,
        needs_person,
    })
}
