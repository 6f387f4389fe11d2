//! Checks the server that coordinates the machines of a workflow.

use std::path::Path;

use jiff::SignedDuration;
use vik_core::worker::{Revision, WorkerState};
use vik_core::workflow::{Engine, Workflow};
use vik_session::host::Host;
use vik_temporal::engine::TemporalEngine;
use vik_temporal::examination::Examination;
use vik_workflow::WorkflowFile;

use super::Scratch;
use super::check::{Check, Group};

/// By how much clocks may differ: times of retries and days are those of the hub that leads.
const MAX_CLOCK_OFFSET: SignedDuration = SignedDuration::from_secs(5);

/// The shortest time after which a namespace may delete results that no hub has read.
const MIN_RETENTION: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

const SERVER: &str = "engine.server";

/// Returns the checks of the server, of its clock, and of the workers.
pub(super) async fn check(
    host: &Host,
    workflow_path: &Path,
    workflow: &Workflow,
    scratch: &Scratch,
) -> Vec<Check> {
    let Some(Engine::Temporal(temporal)) = &workflow.engine else {
        return Vec::new();
    };
    let own = match WorkflowFile::valid(workflow_path, |_| {}) {
        Ok(loaded) => Revision {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            workflow_digest: loaded.digest(),
        },
        // It is reported elsewhere.
        Err(_) => return Vec::new(),
    };
    let examined = match TemporalEngine::new(temporal.clone(), "vik doctor".to_owned()) {
        Ok(engine) => engine.examine(workflow, host, scratch.path(), own).await,
        Err(failure) => Err(failure),
    };
    match examined {
        Ok(found) => checks(temporal.address.as_str(), &temporal.namespace, &found),
        Err(failure) => vec![Check::failure(Group::Engine, SERVER, &failure)],
    }
}

fn checks(address: &str, namespace: &str, found: &Examination) -> Vec<Check> {
    let version = found.server_version.as_deref().unwrap_or("of an unknown version");
    let message = format!("Temporal {version} at {address} has the namespace `{namespace}`");
    let mut checks = vec![Check::ok(Group::Engine, SERVER, message)];
    checks.extend(found.retention.filter(|retention| *retention < MIN_RETENTION).map(|retention| {
        let message = format!(
            "the namespace `{namespace}` deletes the results of attempts after {} h: if no hub runs for longer, \
             they are lost",
            retention.as_secs() / 3600
        );
        Check::warning(Group::Engine, "engine.retention", "engine_retention", message)
            .hint("set the retention of the namespace to a day or more")
    }));
    checks.push(clock(found.clock_offset));
    checks.extend(workers(found));
    checks
}

fn clock(offset: Option<SignedDuration>) -> Check {
    const CLOCK: &str = "engine.clock";
    match offset {
        None => Check::ok(
            Group::Engine,
            CLOCK,
            "the clock was not compared: no hub leads whose heartbeats have a time",
        ),
        Some(offset) if offset.abs() > MAX_CLOCK_OFFSET => {
            let side = if offset.is_negative() {
                "behind"
            } else {
                "ahead of"
            };
            let message = format!(
                "the clock of this machine is {} s {side} that of the server",
                offset.abs().as_secs()
            );
            Check::warning(Group::Engine, CLOCK, "engine_clock", message)
                .hint("synchronise the clocks of all machines: retries and daily limits depend on them")
        }
        Some(_) => Check::ok(Group::Engine, CLOCK, "the clock agrees with that of the server"),
    }
}

fn workers(found: &Examination) -> Vec<Check> {
    const WORKERS: &str = "engine.workers";
    let Some(workers) = &found.workers else {
        let message = "no hub answers, so the workers are unknown";
        return vec![
            Check::warning(Group::Engine, WORKERS, "engine_no_hub", message)
                .hint("start one with `vik run --role hub`"),
        ];
    };
    let mut checks = Vec::new();
    for (worker, state) in workers.iter() {
        let (code, difference) = match state {
            WorkerState::MismatchedVersion => {
                let (theirs, own) = (&worker.revision.version, &workers.hub().version);
                (
                    "worker_version",
                    format!("has vik {theirs}, and this machine has {own}"),
                )
            }
            WorkerState::MismatchedWorkflow => (
                "worker_workflow",
                "has another workflow file than this machine".to_owned(),
            ),
            WorkerState::Ready | WorkerState::Draining | WorkerState::Lost => continue,
        };
        let message = format!("the worker `{}` {difference}", worker.name);
        checks.push(
            Check::warning(
                Group::Engine,
                format!("engine.worker.{}", worker.name),
                code,
                message,
            )
            .hint(
                "it gets nothing from a hub with the files of this machine; `vik worker install` updates it",
            ),
        );
    }
    let ready = workers.ready().count();
    checks.push(if ready > 0 {
        Check::ok(
            Group::Engine,
            WORKERS,
            vik_base::report::count(ready, "worker") + " ready",
        )
    } else {
        Check::warning(
            Group::Engine,
            WORKERS,
            "engine_no_worker",
            "no worker is ready for this workflow",
        )
        .hint("start one with `vik worker`, or see `vik status` for those that are not ready")
    });
    checks
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroU32;
    use std::time::Duration;

    use vik_core::worker::{Presence, Worker, Workers};

    use super::*;

    fn revision(version: &str, digest: &str) -> Revision {
        Revision {
            version: version.to_owned(),
            workflow_digest: digest.to_owned(),
        }
    }

    fn text(found: &Examination) -> String {
        let checks = checks("host:7233", "default", found).into_iter();
        let lines = checks.map(|check| {
            let hint = check.hint.map_or(String::new(), |hint| format!("\n    {hint}"));
            format!("{:?} {}: {}{hint}\n", check.status, check.check, check.message)
        });
        lines.collect()
    }

    #[test]
    fn server_that_is_as_it_should_be_has_no_warning() {
        let worker = Worker {
            name: "a".parse().unwrap(),
            labels: BTreeSet::new(),
            capacity: NonZeroU32::MIN,
            revision: revision("1", "x"),
            presence: Presence::Available,
        };
        let found = Examination {
            server_version: Some("1.32.0".to_owned()),
            retention: Some(MIN_RETENTION),
            clock_offset: Some(SignedDuration::from_millis(-20)),
            workers: Some(Workers::new(revision("1", "x"), [worker])),
        };
        insta::assert_snapshot!(text(&found));
    }

    #[test]
    fn differences_are_warnings_that_name_the_machine() {
        let worker = |name: &str, revision| Worker {
            name: name.parse().unwrap(),
            labels: BTreeSet::new(),
            capacity: NonZeroU32::MIN,
            revision,
            presence: Presence::Available,
        };
        let workers = [
            worker("old", revision("0", "x")),
            worker("other", revision("1", "y")),
        ];
        let found = Examination {
            server_version: None,
            retention: Some(Duration::from_secs(3600)),
            clock_offset: Some(SignedDuration::from_secs(-90)),
            workers: Some(Workers::new(revision("1", "x"), workers)),
        };
        insta::assert_snapshot!(text(&found));
        let unknown = Examination {
            clock_offset: None,
            workers: None,
            ..found
        };
        insta::assert_snapshot!(text(&unknown));
    }
}
