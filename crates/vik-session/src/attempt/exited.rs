//! An attempt whose agent has no process left: its last output is read, and its end is evaluated.

use std::sync::Arc;

use vik_base::report;
use vik_base::report::describe_exit;
use vik_core::attempt::StopReason;
use vik_core::outcome::{FailureClass, Outcome};
use vik_proc::{Cause, ExitRecord, Proof, ShimLost, SpawnFailureKind};
use vik_store::AttemptFailure;
use vik_workspace::Fingerprint;

use super::agent_end::{AgentEnd, unproven_end_failure};
use super::finished::Finished;
use super::follow::OutputReader;
use super::full::overrun_failure;
use super::judged::Judged;
use super::opened::{AttemptContext, broken};
use super::session_log::ClosableLog;
use super::verdict::{EndCauses, Verdict};
use super::workplace::{Acquired, Workplace};
use crate::secrets::Values;

/// The attempt was detached, and its agent lives on.
#[derive(Debug)]
pub(super) struct Detached;

/// The end of an agent's process tree, before the last output of the agent is read.
pub(super) struct EndedTree<'a> {
    pub(super) cx: &'a AttemptContext<'a>,
    pub(super) end: Result<ExitRecord, ShimLost>,
    pub(super) reader: OutputReader,
    /// Why Vik stopped the agent.
    pub(super) stopping: Option<AttemptFailure>,
    /// Whether an earlier daemon wrote the last line of the session log.
    pub(super) log_is_ended: bool,
    /// Whether the agent's program is known to have been started.
    pub(super) ran: bool,
}

/// An attempt whose agent has no process left, or was never started.
pub(super) struct Exited<'a> {
    pub(super) cx: &'a AttemptContext<'a>,
    pub(super) log: ClosableLog,
    pub(super) agent: AgentEnd,
    pub(super) verdict: Verdict,
}

impl<'a> EndedTree<'a> {
    /// Processes the end of the agent's process tree and its last output.
    ///
    /// # Errors
    /// When the agent is detached and lives on.
    pub(super) async fn read_remaining(self) -> Result<Exited<'a>, Detached> {
        let Self {
            cx,
            end,
            reader,
            stopping,
            log_is_ended,
            ran,
        } = self;
        cx.exchange_login().await;
        if let Err(lost) = &end
            && lost.detached
        {
            if let Err(error) = reader.detach() {
                // The next daemon maps these events from the raw file.
                let error = report::chain(&error);
                tracing::warn!(error, "cannot write the last events to the session log");
            }
            return Err(Detached);
        }
        cx.end_steering();
        let (proof, known_agent) = match &end {
            Ok(record) => (record.proof.clone(), record.agent),
            Err(lost) => (lost.proof().clone(), lost.agent),
        };
        let lost = end.as_ref().err().map(|lost| {
            let reason = match proof {
                Proof::Reboot => "the machine was rebooted while it ran".to_owned(),
                _ => report::chain(lost),
            };
            AttemptFailure::of(Outcome::Lost, reason)
        });
        let mut agent = AgentEnd {
            ran: ran || known_agent.is_some() || reader.has_printed(),
            proof: Some(proof.name()),
            exit: end.ok(),
            ..AgentEnd::default()
        };
        let killed_by_shim = agent.exit.as_ref().and_then(|record| record.overrun.as_ref());
        let mut causes = EndCauses {
            unproven: unproven_end_failure(&proof),
            stopped: stopping,
            overrun: killed_by_shim.map(overrun_failure),
            lost,
            output: None,
        };
        let mut messages = cx.message_events();
        let log = match reader.finish().await {
            Ok(mut finished) => {
                let overrun = finished.overrun.as_ref().map(overrun_failure);
                causes.overrun = causes.overrun.or(overrun);
                agent.answered = Some(finished.answered);
                agent.partial_bytes = Some(finished.adapter.live().partial_bytes);
                cx.evaluate_output(&mut *finished.adapter, &mut agent);
                if finished.answered || agent.conclusion.ok {
                    cx.report_prompt_taken();
                }
                let log = finished.log.and_then(|mut log| {
                    cx.report_taken_messages(&finished.requests, &mut messages, &mut log)
                        .map_err(Arc::new)?;
                    Ok(log)
                });
                log.map_err(|error| {
                    cx.disk.note(&error);
                    broken("its output could not be stored", &*error)
                })
            }
            Err(error) => Err(broken("its output could not be stored", &error)),
        };
        let log = log.map_err(|failure| causes.output = Some(failure)).ok();
        let verdict = match causes.decisive() {
            Some(failure) => failure.into(),
            None => Verdict::default().and(cx.judge(&agent)),
        };
        Ok(Exited {
            cx,
            log: ClosableLog::new(log, log_is_ended),
            agent,
            verdict,
        })
    }
}

impl<'a> Exited<'a> {
    /// Creates an attempt whose agent could not be started.
    pub(super) fn without_agent(
        cx: &'a AttemptContext<'a>,
        log: impl Into<ClosableLog>,
        failure: AttemptFailure,
    ) -> Self {
        Self {
            cx,
            log: log.into(),
            agent: AgentEnd::default(),
            verdict: failure.into(),
        }
    }

    /// Adds the workspace in which the agent ran.
    pub(super) fn with(self, secrets: Option<Values>, workplace: Workplace) -> Finished<'a> {
        Finished {
            exited: self,
            secrets,
            workplace,
        }
    }

    /// Enters the workspace in which the agent of an earlier daemon ran.
    ///
    /// # Errors
    /// The failed attempt. The result of the agent takes precedence over the state of its folder.
    pub(super) async fn enter(
        mut self,
        secrets: Option<Values>,
        before: Option<u64>,
    ) -> Result<Finished<'a>, Box<Judged<'a>>> {
        let mut acquired = Acquired {
            secrets,
            ..Acquired::default()
        };
        let entered = match self.cx.lock_workspace().await {
            Ok(lock) => match self.cx.reenter_workspace().await {
                Ok(folder) => Ok((lock, folder)),
                Err(failure) => {
                    acquired.lock = Some(lock);
                    Err(failure)
                }
            },
            Err(failure) => Err(failure),
        };
        match entered {
            Ok((lock, folder)) => {
                let workplace = Workplace {
                    lock,
                    folder,
                    before: before.map(Fingerprint),
                };
                Ok(self.with(acquired.secrets, workplace))
            }
            Err(failure) => {
                self.verdict = self.verdict.and(Err(failure));
                Err(Box::new(Judged::new(self, acquired)))
            }
        }
    }
}

impl AttemptContext<'_> {
    /// Returns what the agent's end means if Vik did not stop it.
    fn judge(&self, agent: &AgentEnd) -> Result<(), AttemptFailure> {
        if let Some(record) = &agent.exit {
            if let Some(failure) = &record.spawn_error {
                let class = match failure.kind {
                    SpawnFailureKind::NoResources | SpawnFailureKind::Other => FailureClass::Internal,
                    _ => FailureClass::Usage,
                };
                return Err(AttemptFailure::failed(
                    class,
                    format!("the agent {}", describe_exit(record)),
                ));
            }
            match record.cause {
                Cause::LifelineLost => {
                    return Err(AttemptFailure::of(
                        Outcome::Lost,
                        "the daemon died, and its agent was stopped",
                    ));
                }
                Cause::LeaseLost => {
                    return Err(AttemptFailure::of(
                        Outcome::Lost,
                        "its worker could not renew the lease, and its agent was stopped",
                    ));
                }
                Cause::Stopped | Cause::Killed => {
                    if let Some(cause) = self.attempt.commands.stop_cause() {
                        return Err(cause.failure());
                    }
                    return Err(AttemptFailure::of(
                        Outcome::Lost,
                        "its agent was stopped while no daemon ran",
                    ));
                }
                Cause::Exited | Cause::SpawnFailed => {}
            }
        }
        // The agent reported the usage so late that it ended before it could be stopped.
        if let Some(hit) = self
            .reached_limit(agent)
            .filter(|_| !agent.conclusion.over_budget)
        {
            return Err(AttemptFailure::of(
                Outcome::OverBudget,
                StopReason::OverBudget(hit).to_string(),
            ));
        }
        if agent.conclusion.ok {
            return Ok(());
        }
        let how = agent.exit.as_ref().map(describe_exit).unwrap_or_default();
        let reported = agent.conclusion.reason.clone();
        let reason = reported.unwrap_or_else(|| format!("the agent {how}"));
        if agent.conclusion.over_budget {
            return Err(AttemptFailure::of(
                Outcome::OverBudget,
                match self.start().budget.describe() {
                    Some(budget) => format!("the agent stopped at its budget of {budget}: {reason}"),
                    None => reason,
                },
            ));
        }
        let reason = if agent.resume_failure.is_some() {
            format!("cannot resume the earlier conversation: {reason}")
        } else {
            reason
        };
        Err(AttemptFailure::failed(
            agent.conclusion.failure_class.unwrap_or(FailureClass::Agent),
            reason,
        ))
    }
}
