//! A concluded attempt: its end is recorded, and `after_run` and the report are left.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use vik_base::failpoint;
use vik_core::attempt::HandOverFailure;
use vik_core::ended::Ended;
use vik_core::outcome::{FailureClass, Outcome};
use vik_session_log::Reopened;
use vik_store::AttemptFailure;

use super::agent_end::AgentEnd;
use super::context::stage_context;
use super::finish::{AttemptEnd, Finish};
use super::full::failed_by_full_disk;
use super::live::LivePhase;
use super::opened::{AttemptContext, Opened};
use super::scripts::ScriptRunner;
use super::workplace::Acquired;
use crate::hooks::Hook;
use crate::secrets::masked::masked;

/// An attempt whose end is recorded.
pub(super) struct Concluded<'a> {
    pub(super) cx: &'a AttemptContext<'a>,
    pub(super) ended: Ended,
    /// The structured result of the agent, if there is one.
    pub(super) result: Option<Box<RawValue>>,
    /// The number of bytes of partial lines in the raw output, if it is known.
    pub(super) partial_bytes: Option<u64>,
    /// Why the work of an attempt that did not succeed was not saved.
    pub(super) not_saved: Option<HandOverFailure>,
    pub(super) acquired: Acquired,
}

impl<'a> Concluded<'a> {
    /// Resumes an attempt whose end an earlier daemon recorded.
    pub(super) async fn resume(opened: Opened<'a>, ended: Ended) -> Self {
        let Opened { cx, log } = opened;
        cx.report_recorded_messages(&ended.result);
        let agent = AgentEnd::default();
        cx.close_log(log.into(), &ended, &agent, &cx.output_results(Vec::new()));
        let mut concluded = Self {
            cx,
            ended,
            result: None,
            partial_bytes: None,
            not_saved: None,
            acquired: Acquired::default(),
        };
        if !cx.disk.is_broken() && concluded.needs_after_run() {
            // If this fails, `after_run` reports the error.
            concluded.acquired.secrets = cx.resolve_secrets().await.ok();
            concluded.result = cx.mapped_result().await;
        }
        concluded
    }

    /// Runs `after_run`, and reports the end.
    pub(super) async fn hand_over(mut self) -> Finish {
        let cx = self.cx;
        cx.remove_output_file();
        cx.remove_questions();
        cx.remove_extensions();
        // A process that is left may still write. Most output has no partial lines, and is not read
        // a second time.
        let still_written = self.ended.result.failure_class == Some(FailureClass::UnprovenEnd);
        if !still_written && self.partial_bytes != Some(0) {
            cx.remove_partial_lines().await;
        }
        failpoint::reach("log_ended");
        // The lock is held until the end.
        let acquired = std::mem::take(&mut self.acquired);
        if !cx.disk.is_broken() {
            let failure = self.after_run(acquired).await;
            let failure = failure.map(|failure| cx.after_run_failure(failure));
            if let Some(failure) = failure.or(self.not_saved.take()) {
                self.ended.result.hand_over_failure = Some(Box::new(failure));
            }
        }
        if let Some(error) = cx.disk.broken() {
            // The next daemon runs `after_run`.
            return Finish::StorageFailed(error);
        }
        if let Err(lost) = cx.check_lease()
            && !still_written
        {
            let result = &mut self.ended.result;
            (result.outcome, result.failure_class) = (lost.outcome, lost.class);
            (result.reason, result.hand_over_failure) = (Some(lost.reason), None);
        }
        Finish::Ended(Box::new(AttemptEnd {
            ended: self.ended,
            log: cx.files.log(),
        }))
    }

    /// Returns whether `after_run` is still to run: it follows every end except cancellation and a
    /// question, if there was a workspace, once all outputs are carried out.
    fn needs_after_run(&self) -> bool {
        !matches!(self.ended.result.outcome, Outcome::Cancelled | Outcome::Asked)
            && self.ended.result.hand_over_failure.is_none()
            && self.cx.check_lease().is_ok()
            && self.cx.start().stage.after_run.is_some()
            && self.cx.journal().had_workspace()
            && self.cx.script_result(Hook::AfterRun.as_str()).is_none()
    }

    /// Returns why `after_run` failed, in this daemon or in an earlier one.
    async fn after_run(&self, acquired: Acquired) -> Option<AttemptFailure> {
        let start = self.cx.start();
        let Some(source) = start.stage.after_run.as_ref().filter(|_| self.needs_after_run()) else {
            return self.cx.script_result(Hook::AfterRun.as_str()).flatten();
        };
        let updates = &self.cx.attempt.updates;
        updates.set_facts(|facts| facts.phase = LivePhase::Finishing);
        let failure = self.run_after(source, acquired).await.err()?;
        let error = &failure.reason;
        tracing::error!(error, "after_run failed");
        Some(failure)
    }

    pub(super) async fn run_after(&self, source: &str, acquired: Acquired) -> Result<(), AttemptFailure> {
        let cx = self.cx;
        let lock = match acquired.lock {
            Some(lock) => lock,
            None => cx.lock_workspace().await?,
        };
        let secrets = match acquired.secrets {
            Some(secrets) => secrets,
            None => cx.resolve_secrets().await?,
        };
        let folder = match acquired.folder {
            Some(folder) => folder,
            None => cx.reenter_workspace().await?,
        };
        let mut context = stage_context(cx.host(), cx.start(), folder.path());
        context.insert("session".to_owned(), self.session_value());
        let scripts = ScriptRunner {
            cx,
            secrets: &secrets,
            lock: &lock,
            folder: Some(&folder),
        };
        let context = Value::Object(context);
        let is_done = matches!(cx.script_result(Hook::AfterRun.as_str()), Some(None));
        if cx.spec.durable.is_none() || !is_done {
            scripts
                .repeat_hook(Hook::AfterRun, source, folder.path(), &context)
                .await?;
        }
        // The hook may have changed the workspace, for example committed the work.
        scripts.save_work(&folder).await.map(drop)
    }

    fn session_value(&self) -> Value {
        let ended = &self.ended;
        let result = self.result.as_ref();
        let result = result
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or(Value::Null);
        let log = self.cx.files.log().to_string_lossy().into_owned();
        json!({
            "id": self.cx.id,
            "outcome": ended.result.outcome.as_str(),
            "failure_class": ended.result.failure_class.map_or("", FailureClass::as_str),
            "reason": ended.result.reason.as_deref().unwrap_or(""),
            "exit_code": ended.result.exit_code,
            "last_message": ended.last_message.as_deref().unwrap_or(""),
            "usage": ended.result.usage,
            "cost": ended.cost_usd,
            "cost_usd": ended.cost_usd,
            "log": log,
            "log_path": log,
            "result": result,
        })
    }
}

impl AttemptContext<'_> {
    /// Returns the failure of the hand-over for that of its script: `after_run` may run twice.
    pub(super) fn after_run_failure(&self, failure: AttemptFailure) -> HandOverFailure {
        let failure = match self.disk.is_full() {
            true => failed_by_full_disk(failure, None),
            false => failure,
        };
        HandOverFailure {
            step: Hook::AfterRun.to_string(),
            reason: masked(failure.reason),
            wait: failure.requested_wait.unwrap_or_default(),
            needs_person: false,
        }
    }

    /// Maps the agent's output again to get its structured result. The log already contains every
    /// event.
    pub(super) async fn mapped_result(&self) -> Option<Box<RawValue>> {
        let log = vik_session_log::SessionLog::reopen(&self.files.log()).ok()?.log;
        let reader = self.open_reader(Reopened {
            log,
            agent_events: u64::MAX,
            is_ended: true,
        });
        let mut finished = reader.ok()?.finish().await.ok()?;
        let mut agent = AgentEnd {
            exit: vik_proc::read_exit_record(&self.files.exit()).ok(),
            ..AgentEnd::default()
        };
        self.evaluate_output(&mut *finished.adapter, &mut agent);
        agent.conclusion.result
    }
}
