//! Applies the outputs of an attempt: each is recorded before and after, so that none is applied
//! twice.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;
use vik_base::{failpoint, report};
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::outputs::{self as core, CheckResult, Line, NextStep, OutputRule, Progress, RunResult};
use vik_proc::Graces;
use vik_store::{AttemptFailure, OutputBook, OutputNote};
use vik_workspace::fs as private;

use super::acceptance::{Acceptance, Checked};
use super::live::LivePhase;
use super::outputs::{OutputSummary, sample};
use crate::hooks::{self, HookError};
use crate::host::{ATTEMPT_MARK, env_value};

/// The rendered scripts of one output.
struct Scripts {
    run: String,
    check: Option<String>,
}

impl Acceptance<'_> {
    pub(super) async fn apply_outputs(&mut self, checked: Checked) -> Result<(), AttemptFailure> {
        let Checked {
            policy,
            lines,
            mut book,
        } = checked;
        if let Some(cause) = self.cx().attempt.commands.stop_cause() {
            return Err(cause.failure());
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
    ) -> Result<(), AttemptFailure> {
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
                return Err(AttemptFailure::failed(FailureClass::UnprovenEnd, reason));
            }
        }
        let next = core::next(last.as_ref().map(|note| note.progress), scripts.check.is_some());
        match (next, &scripts.check) {
            (NextStep::Skip, _) => {
                let own = self.cx().start().attempt_id;
                self.summaries
                    .extend(last.map(|note| OutputSummary::of(&note, note.session == own)));
                return Ok(());
            }
            (NextStep::Check, Some(check)) => {
                let (check_result, why) = self.run_check(check, secrets, line).await;
                if let Some(end) = core::after_check(check_result) {
                    return self.close_output(book, line, end, why);
                }
            }
            (NextStep::Leave | NextStep::Check, _) => {
                let why =
                    "Vik was interrupted while its command ran, and no `check` is configured to find out";
                return self.close_output(book, line, Progress::Unknown, Some(why.to_owned()));
            }
            (NextStep::Run, _) => {}
        }
        self.note_output(book, line, Progress::Applying, None)?;
        failpoint::reach("output_applying");
        let done = self.output_script("run", &scripts.run, secrets, line).await;
        failpoint::reach("output_ran");
        let (ran, mut why) = match done {
            Ok(()) => (RunResult::Well, None),
            // The script ended on its own, or was never started.
            Err(error @ (HookError::Failed { code: Some(_), .. } | HookError::Write { .. })) => {
                (RunResult::Failed, Some(report::chain(&error)))
            }
            Err(error) => (RunResult::CutOff, Some(report::chain(&error))),
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
        let closed = self.close_output(book, line, end, why);
        failpoint::reach("output_applied");
        closed
    }

    /// Runs the check of an output. Returns its result and the reason.
    async fn run_check(&self, check: &str, secrets: &[String], line: &Line) -> (CheckResult, Option<String>) {
        match self.output_script("check", check, secrets, line).await {
            Ok(()) => (CheckResult::Done, None),
            Err(HookError::Failed { code: Some(1), .. }) => (
                CheckResult::NotDone,
                Some("its `check` did not find it".to_owned()),
            ),
            Err(error) => (CheckResult::Unclear, Some(report::chain(&error))),
        }
    }

    /// Records how an output ended, and returns what that means for the attempt.
    fn close_output(
        &mut self,
        book: &mut OutputBook,
        line: &Line,
        end: Progress,
        why: Option<String>,
    ) -> Result<(), AttemptFailure> {
        let why = why.filter(|_| end != Progress::Applied);
        self.note_output(book, line, end, why.clone())?;
        self.summaries
            .extend(book.last(&line.key).map(|note| OutputSummary::of(note, true)));
        let name = format!("the output on line {} (`{}`)", line.number, line.output.kind());
        let why = why.unwrap_or_default();
        let reason = match end {
            Progress::Applied | Progress::Applying => return Ok(()),
            // The script was killed along with everything else.
            _ if self.cx().attempt.commands.is_killed() => {
                let cause = self.cx().attempt.commands.stop_cause();
                return Err(cause.map_or_else(
                    || AttemptFailure::of(Outcome::Cancelled, why),
                    |cause| cause.failure(),
                ));
            }
            Progress::Failed => format!("{name} failed: {why}"),
            Progress::Unknown => {
                format!(
                    "{name} may have been applied, and is not retried without a conclusive `check`: {why}"
                )
            }
        };
        Err(AttemptFailure::failed(FailureClass::Hook, reason))
    }

    fn note_output(
        &self,
        book: &mut OutputBook,
        line: &Line,
        progress: Progress,
        detail: Option<String>,
    ) -> Result<(), AttemptFailure> {
        let note = OutputNote {
            at: Timestamp::now(),
            session: self.cx().start().attempt_id,
            key: line.key.clone(),
            progress,
            output: line.output.clone(),
            detail,
        };
        book.record_durably(note)
            .map_err(|error| self.cx().cannot_keep(&error))
    }

    fn rendered(&self, rule: &OutputRule, line: &Line) -> Result<Scripts, AttemptFailure> {
        let mut context = self.cx().context(self.workdir);
        context["output"] = output_value(line, &self.body_file());
        let kind = line.output.kind();
        let render = |name: &str, source: &str| {
            vik_template::script(source, &context).map_err(|error| {
                self.cx().hook_failure(&HookError::Template {
                    name: format!("outputs.{kind}.{name}"),
                    source: Box::new(error),
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
