//! Applies the outputs of an attempt: each is recorded before and after, so that none is applied
//! twice.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use vik_base::{failpoint, report};
use vik_core::attempt::HandOverFailure;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::outputs::{
    self as core, CheckResult, Line, NextStep, OutputKind, OutputRule, Progress, Recovery, RunResult,
};
use vik_core::retry_later::EX_TEMPFAIL;
use vik_proc::Graces;
use vik_store::{AttemptFailure, OutputBook, OutputNote};
use vik_workspace::fs as private;

use super::acceptance::Checked;
use super::live::LivePhase;
use super::opened::AttemptContext;
use super::outputs::{result_event, sample};
use super::scripts::ScriptRunner;
use crate::hooks::{self, HookError};
use crate::host::{ATTEMPT_MARK, env_value};
use crate::secrets::masked::masked;

/// The rendered scripts of one output.
struct Scripts {
    run: String,
    check: Option<String>,
}

/// Carries out outputs that passed the checks.
pub(super) struct OutputRunner<'s> {
    pub(super) scripts: ScriptRunner<'s>,
    pub(super) workdir: &'s Path,
    /// The results of the outputs so far.
    pub(super) results: &'s mut Vec<Event<'static>>,
}

/// Why the outputs were not all carried out.
#[derive(Debug)]
pub(super) enum NotApplied {
    /// The attempt must end.
    Attempt(AttemptFailure),
    /// An output failed. The work of the agent is done.
    HandOver(HandOverFailure),
}

impl From<AttemptFailure> for NotApplied {
    fn from(failure: AttemptFailure) -> Self {
        Self::Attempt(failure)
    }
}

/// Why an output was not carried out.
struct Reason {
    text: String,
    /// The shortest wait for which its command asked.
    wait: Duration,
    /// Whether its command exited with the code that asks to be tried again later.
    is_temporary: bool,
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self {
            text,
            wait: Duration::ZERO,
            is_temporary: false,
        }
    }
}

impl From<&HookError> for Reason {
    fn from(error: &HookError) -> Self {
        let (wait, is_temporary) = match *error {
            HookError::Failed {
                code, requested_wait, ..
            } => (requested_wait, code == Some(EX_TEMPFAIL)),
            // The command was not started.
            HookError::Write { .. } => (None, true),
            _ => (None, false),
        };
        Self {
            text: report::chain(error),
            wait: wait.unwrap_or_default(),
            is_temporary,
        }
    }
}

impl<'s> OutputRunner<'s> {
    fn cx(&self) -> &'s AttemptContext<'s> {
        self.scripts.cx
    }

    /// Carries out the outputs that were not carried out before, up to the first one that fails.
    pub(super) async fn apply(&mut self, checked: Checked) -> Result<(), NotApplied> {
        let Checked {
            policy,
            mut lines,
            mut book,
        } = checked;
        // In another state, the stage is over for Vik, and what is left would not be done.
        lines.sort_by_key(|line| line.output.kind() == OutputKind::State);
        if let Some(cause) = self.cx().attempt.commands.stop_cause() {
            return Err(cause.failure().into());
        }
        self.cx()
            .attempt
            .updates
            .set_facts(|facts| facts.phase = LivePhase::Finishing);
        for line in &lines {
            let Some(rule) = policy.rules.get(&line.output.kind()) else {
                continue;
            };
            self.output(&mut book, rule, &policy.secrets, line).await?;
        }
        Ok(())
    }

    /// Applies one output, unless it was applied before.
    async fn output(
        &mut self,
        book: &mut OutputBook,
        rule: &OutputRule,
        secrets: &[String],
        line: &Line,
    ) -> Result<(), NotApplied> {
        self.cx().check_lease()?;
        let scripts = self.rendered(rule, line)?;
        let last = book.last(&line.key).cloned();
        if let Some(note) = last.as_ref().filter(|note| note.progress == Progress::Applying) {
            let attempt_id = note.session.to_string();
            let (_, alive) = vik_proc::end_marked(ATTEMPT_MARK, &attempt_id, &[], &Graces::short()).await;
            if !alive.is_empty() {
                let reason = format!(
                    "cannot kill the processes of an interrupted output (`{}`)",
                    line.output.kind()
                );
                return Err(AttemptFailure::failed(FailureClass::UnprovenEnd, reason).into());
            }
        }
        let recovery = match rule.recovery() {
            // It was a command of the workflow then, which left no key in the tracker.
            Recovery::Repeat if last.as_ref().is_some_and(|note| !note.is_keyed) => Recovery::Person,
            recovery => recovery,
        };
        let next = core::next(last.as_ref().map(|note| note.progress), recovery);
        match (next, &scripts.check) {
            (NextStep::Skip, _) => {
                let own = self.cx().start().attempt_id;
                self.results
                    .extend(last.map(|note| result_event(&note, note.session == own)));
                return Ok(());
            }
            (NextStep::Check, Some(check)) => {
                let (check_result, why) = self.run_check(check, secrets, line).await;
                if let Some(end) = core::after_check(check_result) {
                    return self.close_output(book, line, (end, recovery), why);
                }
            }
            (NextStep::Leave | NextStep::Check, _) => {
                let why =
                    "Vik was interrupted while its command ran, and no `check` is configured to find out";
                return self.close_output(
                    book,
                    line,
                    (Progress::Unknown, recovery),
                    Some(why.to_owned().into()),
                );
            }
            (NextStep::Run, _) => {}
        }
        let recovery = rule.recovery();
        self.cx().check_lease()?;
        self.note_output(book, line, (Progress::Applying, recovery), None)?;
        failpoint::reach("output_applying");
        let done = self.output_script("run", &scripts.run, secrets, line).await;
        failpoint::reach("output_ran");
        let (ran, mut why) = match done {
            Ok(()) => (RunResult::Well, None),
            // The script ended on its own, or was never started.
            Err(error @ (HookError::Failed { code: Some(_), .. } | HookError::Write { .. })) => {
                (RunResult::Failed, Some(Reason::from(&error)))
            }
            Err(error) => (RunResult::CutOff, Some(Reason::from(&error))),
        };
        let check_result = match (&scripts.check, ran) {
            (Some(check), RunResult::Well) => {
                let (check_result, detail) = self.run_check(check, secrets, line).await;
                why = detail;
                Some(check_result)
            }
            _ => None,
        };
        let end = core::after_run(ran, check_result);
        let closed = self.close_output(book, line, (end, recovery), why);
        failpoint::reach("output_applied");
        closed
    }

    /// Runs the check of an output. Returns its result and the reason.
    async fn run_check(&self, check: &str, secrets: &[String], line: &Line) -> (CheckResult, Option<Reason>) {
        match self.output_script("check", check, secrets, line).await {
            Ok(()) => (CheckResult::Done, None),
            Err(HookError::Failed { code: Some(1), .. }) => (
                CheckResult::NotDone,
                Some("its `check` did not find it".to_owned().into()),
            ),
            Err(error) => (CheckResult::Unclear, Some(Reason::from(&error))),
        }
    }

    /// Records how an output ended, and returns what that means for the hand-over.
    fn close_output(
        &mut self,
        book: &mut OutputBook,
        line: &Line,
        (end, recovery): (Progress, Recovery),
        why: Option<Reason>,
    ) -> Result<(), NotApplied> {
        let why = why.filter(|_| end != Progress::Applied);
        self.note_output(
            book,
            line,
            (end, recovery),
            why.as_ref().map(|why| why.text.clone()),
        )?;
        self.results
            .extend(book.last(&line.key).map(|note| result_event(note, true)));
        let why = why.unwrap_or_else(|| String::new().into());
        let (text, is_temporary) = match end {
            Progress::Applied | Progress::Applying => return Ok(()),
            // The script was killed along with everything else.
            _ if self.cx().attempt.commands.is_killed() => {
                let cause = self.cx().attempt.commands.stop_cause();
                let failure = cause.map_or_else(
                    || AttemptFailure::of(Outcome::Cancelled, why.text),
                    |cause| cause.failure(),
                );
                return Err(failure.into());
            }
            Progress::Failed => (why.text, why.is_temporary),
            Progress::Unknown if recovery == Recovery::Repeat => (why.text, true),
            Progress::Unknown => (
                format!(
                    "it may have been carried out, and is not repeated without a conclusive `check`: {}",
                    why.text
                ),
                false,
            ),
        };
        Err(NotApplied::HandOver(HandOverFailure {
            step: format!("outputs.{}", line.output.kind()),
            reason: masked(format!(
                "the output on line {} (`{}`): {text}",
                line.number,
                line.output.kind()
            )),
            wait: why.wait,
            needs_person: recovery == Recovery::Person && !is_temporary,
        }))
    }

    fn note_output(
        &self,
        book: &mut OutputBook,
        line: &Line,
        (progress, recovery): (Progress, Recovery),
        detail: Option<String>,
    ) -> Result<(), AttemptFailure> {
        let note = OutputNote {
            at: Timestamp::now(),
            session: self.cx().start().attempt_id,
            key: line.key.clone(),
            progress,
            is_keyed: recovery == Recovery::Repeat,
            output: line.output.clone(),
            detail,
        };
        book.record_durably(note)
            .map_err(|error| self.cx().cannot_keep(&error))
    }

    fn rendered(&self, rule: &OutputRule, line: &Line) -> Result<Scripts, NotApplied> {
        let mut context = self.cx().context(self.workdir);
        context["output"] = output_value(line, &self.body_file());
        let kind = line.output.kind();
        let render = |name: &str, source: &str| {
            vik_template::script(source, &context).map_err(|error| {
                let step = format!("outputs.{kind}");
                let name = format!("{step}.{name}");
                let source = Box::new(error);
                NotApplied::HandOver(HandOverFailure {
                    step,
                    reason: masked(report::chain(&HookError::Template { name, source })),
                    wait: Duration::ZERO,
                    needs_person: false,
                })
            })
        };
        Ok(Scripts {
            run: render("run", &rule.run)?,
            check: rule
                .check
                .as_deref()
                .map(|check| render("check", check))
                .transpose()?,
        })
    }

    fn body_file(&self) -> PathBuf {
        self.cx().files.outputs_log().with_extension("body")
    }

    /// Runs a command of an output in the folder of the workflow, which the agent cannot write.
    async fn output_script(
        &self,
        which: &str,
        script: &str,
        secrets: &[String],
        line: &Line,
    ) -> Result<(), HookError> {
        let name = format!("outputs.{}.{which}", line.output.kind());
        let log = self.cx().files.outputs_log();
        let (body, json) = (self.body_file(), log.with_extension("json"));
        let text = serde_json::to_string(&line.output).unwrap_or_default();
        for (path, text) in [(&body, line.output.body()), (&json, &text)] {
            private::write_private(path, text.as_bytes()).map_err(|source| HookError::Write {
                path: path.clone(),
                source,
            })?;
        }
        let folder = &self.cx().host().workflow_dir;
        let mut place = self
            .scripts
            .place(folder, self.cx().start().stage.hook_timeout.0, secrets);
        place.stdin = Some(&json);
        let mut own = vec![
            ("VIK_OUTPUT_KIND", line.output.kind().to_string()),
            ("VIK_OUTPUT_KEY", line.key.to_string()),
            ("VIK_OUTPUT_FILE", body.to_string_lossy().into_owned()),
        ];
        for (field, value) in line.output.fields() {
            let variable = match field {
                "label" => "VIK_OUTPUT_LABEL",
                "state" => "VIK_OUTPUT_STATE",
                "base" => "VIK_OUTPUT_BASE",
                _ => "VIK_OUTPUT_TITLE",
            };
            own.push((variable, value.to_owned()));
        }
        let own = own
            .into_iter()
            .map(|(name, value)| (name.to_owned(), env_value(&value)));
        place.env.extend(own);
        // The agent's work is complete. If the command were cut off, the tracker would not learn of
        // it. Its own timeout bounds the wait.
        let stop = self.cx().attempt.commands.killed();
        let done = hooks::run(self.cx().host(), &name, script, place, &log, stop).await;
        let _ = (std::fs::remove_file(&body), std::fs::remove_file(&json));
        done
    }
}

/// Returns `output.*` for the commands.
fn output_value(line: &Line, file: &Path) -> Value {
    let mut value = sample();
    value["kind"] = line.output.kind().as_str().into();
    value["key"] = line.key.as_str().into();
    value["file"] = file.to_string_lossy().into();
    value["body"] = line.output.body().into();
    for (name, text) in line.output.fields() {
        value[name] = text.into();
    }
    value
}
