//! The chain of stages of an attempt, from the record of its start to `after_run`, or from the step
//! at which an earlier daemon left it.

use std::time::Duration;

use vik_core::outcome::Outcome;
use vik_proc::Proof;
use vik_proc::identity::boot_id;
use vik_store::{AttemptFailure, ResumePoint};

use super::commands::StopCause;
use super::concluded::Concluded;
use super::exited::Detached;
use super::finish::{AttemptEnd, Finish};
use super::judged::Judged;
use super::opened::{Attempt, AttemptContext, OpenError, Opened};
use super::recover::EarlierAgent;
use super::workplace::Acquired;

/// The wait before an attempt that cannot be opened because of too many open files is tried again.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Runs the attempt, or resumes it where an earlier daemon left it. Returns a report in every case,
/// unless the attempt was detached or the storage failed.
pub async fn run(attempt: Attempt) -> Finish {
    let attempt = attempt.under_lease();
    let files = attempt.host.attempt_files(&attempt.start);
    let mut waits = false;
    loop {
        match AttemptContext::open(&attempt, &files) {
            Ok((cx, log)) => return Opened { cx: &cx, log }.run().await,
            Err(OpenError::Failed(failure)) => {
                let end = AttemptEnd::broken(&attempt.host, &attempt.start, failure).await;
                return Finish::Ended(Box::new(end));
            }
            Err(OpenError::StorageFailed(error)) => return Finish::StorageFailed(error),
            // Its agent may be alive under its shim.
            Err(OpenError::TooManyOpenFiles) => {
                if !std::mem::replace(&mut waits, true) {
                    tracing::warn!("too many open files: the attempt waits until some are closed");
                }
                tokio::select! {
                    () = attempt.commands.detached() => return Finish::Detached,
                    () = attempt.commands.lease_lost() => {
                        let failure = StopCause::LeaseLost.failure();
                        let end = AttemptEnd::broken(&attempt.host, &attempt.start, failure).await;
                        return Finish::Ended(Box::new(end));
                    }
                    () = tokio::time::sleep(OPEN_AGAIN_AFTER) => {}
                }
            }
        }
    }
}

impl<'a> Opened<'a> {
    async fn run(self) -> Finish {
        let cx = self.cx;
        let plan = cx.journal().plan(&boot_id());
        let concluded = match plan {
            ResumePoint::Over { ended } => Concluded::resume(self, *ended).await,
            plan => {
                let mut judged = match self.pursue(plan).await {
                    Ok(judged) => judged,
                    Err(Detached) => {
                        return cx.disk.broken().map_or(Finish::Detached, Finish::StorageFailed);
                    }
                };
                judged.save_work().await;
                match judged.conclude().await {
                    Ok(concluded) => concluded,
                    Err(error) => return Finish::StorageFailed(error),
                }
            }
        };
        concluded.hand_over().await
    }

    /// Takes the steps up to the outcome of the attempt.
    async fn pursue(self, plan: ResumePoint) -> Result<Judged<'a>, Detached> {
        let cx = self.cx;
        let finished = match plan {
            ResumePoint::Attach {
                boot_id,
                shim,
                agent,
                before,
                stopping,
            } => {
                // An attempt whose secrets cannot be masked must stop.
                let (secrets, unresolved) = match cx.resolve_secrets().await {
                    Ok(secrets) => (Some(secrets), None),
                    Err(failure) => (None, Some(failure)),
                };
                let earlier = EarlierAgent {
                    boot_id,
                    shim,
                    agent,
                    stopping: stopping.or(unresolved),
                };
                let exited = self.recover_agent(earlier).await?;
                exited.enter(secrets, before).await
            }
            ResumePoint::Rebooted => {
                cx.exchange_login().await;
                let reason = "the machine was rebooted before the agent started";
                let failure = AttemptFailure::of(Outcome::Lost, reason);
                let mut judged = Judged::without_agent(cx, self.log, failure, Acquired::default());
                judged.exited.agent.proof = Some(Proof::Reboot.name());
                Err(Box::new(judged))
            }
            ResumePoint::Prepare | ResumePoint::Over { .. } => match self.prepare().await {
                Ok(prepared) => Ok(prepared.run_agent().await?),
                Err(judged) => Err(judged),
            },
        };
        match finished {
            Ok(finished) => finished.judge().await,
            Err(judged) => Ok(*judged),
        }
    }
}
