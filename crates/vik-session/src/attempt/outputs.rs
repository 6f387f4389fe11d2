//! Applies the outputs that the agent requested: all are checked before the first one is applied,
//! and each is recorded before and after, so that none is applied twice.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use vik_base::failpoint;
use vik_base::report::{self, one_line};
use vik_core::event::Event;
use vik_core::outcome::FailureClass;
use vik_core::outputs::{
    self as core, CheckResult, Line, NextStep, OutputPolicy, OutputRule, Progress, Pursuit, Refusal, Rule,
    RunResult,
};
use vik_proc::Graces;
use vik_store::{AttemptFailure, OutputBook, OutputNote, StoreError, output_notes};
use vik_workspace::fs as private;

use super::live::LivePhase;
use super::runner::{Abort, AttemptRunner};
use crate::hooks::{self, HookError};
use crate::host::{ATTEMPT_MARK, env_value};
use crate::outputs::{self, FILE_NAME};

/// The number of refusals in a reason, and in the feedback for the next attempt.
const NAMED: usize = 3;
const MAX_REPORTED: usize = 20;

/// The maximum length of an output's summary in one line.
const SHOWN: usize = 100;

/// The result of one output, for the log.
#[derive(Debug)]
pub(super) struct OutputSummary {
    output: &'static str,
    status: &'static str,
    summary: Option<String>,
    key: Option<String>,
    reason: Option<String>,
}

impl OutputSummary {
    fn of(note: &OutputNote, own: bool) -> Self {
        let status = match note.progress {
            Progress::Applied if own => "applied",
            Progress::Applied => "skipped",
            Progress::Failed => "failed",
            Progress::Applying | Progress::Unknown => "unknown",
        };
        Self {
            output: note.output.kind().as_str(),
            status,
            summary: Some(one_line(note.output.summary(), SHOWN)),
            key: Some(note.key.to_string()),
            reason: note.detail.clone().filter(|_| status != "skipped"),
        }
    }

    pub(super) fn event(&self) -> Event<'_> {
        Event::Output {
            output: self.output.into(),
            status: self.status.into(),
            summary: self.summary.as_deref().map(Into::into),
            key: self.key.as_deref().map(Into::into),
            reason: self.reason.as_deref().map(Into::into),
        }
    }
}

/// The rendered scripts of one output.
struct Scripts {
    run: String,
    check: Option<String>,
}

/// The outputs of an agent, all of which passed the checks.
struct Checked {
    policy: OutputPolicy,
    lines: Vec<Line>,
    book: OutputBook,
}

impl AttemptRunner<'_> {
    pub(super) fn output_file(&self) -> PathBuf {
        self.files.outputs_dir().join(FILE_NAME)
    }

    /// Returns the section that Vik adds to the prompt.
    pub(super) fn output_section(&self, template: &str, fence: &vik_template::Fence) -> String {
        let policy = self.start().stage.outputs.as_ref();
        let done = match policy {
            Some(_) => self.last_notes(),
            None => Vec::new(),
        };
        let done: Vec<_> = done
            .into_iter()
            .filter(|note| note.progress == Progress::Applied)
            .map(|note| note.output)
            .collect();
        outputs::section(policy, &self.output_file(), &done, template, fence)
    }

    /// Returns the last note of each output of the run, in the order of the first notes.
    fn last_notes(&self) -> Vec<OutputNote> {
        let mut last: Vec<OutputNote> = Vec::new();
        for note in output_notes(&self.files.output_book(self.start().run)) {
            match last.iter_mut().find(|known| known.key == note.key) {
                Some(known) => *known = note,
                None => last.push(note),
            }
        }
        last
    }

    /// Returns the results of the outputs for the log, from the book if another daemon applied
    /// them.
    pub(super) fn take_output_summaries(&mut self) -> Vec<OutputSummary> {
        let summaries = std::mem::take(&mut self.output_summaries);
        if !summaries.is_empty() || self.start().stage.outputs.is_none() {
            return summaries;
        }
        let own = self.start().attempt_id;
        let notes = self.last_notes().into_iter();
        notes
            .filter(|note| note.session == own)
            .map(|note| OutputSummary::of(&note, true))
            .collect()
    }

    /// Removes the agent's file, whose content is kept elsewhere.
    pub(super) fn remove_output_file(&self) {
        if self.start().stage.outputs.is_some() {
            let _ = std::fs::remove_dir_all(self.files.outputs_dir());
        }
    }

    /// Runs the steps between the agent's end and success: `verify`, a person's approval if one is
    /// required, and the outputs.
    pub(super) async fn run_acceptance(&mut self, workdir: &Path) -> Result<(), Abort> {
        // `verify` runs code that the agent wrote.
        self.take_outputs().await?;
        self.verify(workdir).await?;
        let checked = self.checked_outputs()?;
        let asked_for = checked
            .as_ref()
            .map(|checked| outputs::to_be_approved(&checked.lines, &checked.policy))
            .unwrap_or_default();
        self.accept_result(asked_for).await?;
        match checked {
            Some(checked) => Ok(self.apply_outputs(checked, workdir).await?),
            None => Ok(()),
        }
    }

    /// Copies the agent's outputs once. No process of the agent is alive any more.
    async fn take_outputs(&mut self) -> Result<(), AttemptFailure> {
        let (from, to) = (self.output_file(), self.files.outputs());
        if self.start().stage.outputs.is_none() || to.exists() {
            return Ok(());
        }
        let path = to.clone();
        let taken = spawn_blocking(move || match outputs::read_output_file(&from) {
            Ok(bytes) => private::write_atomic(&to, &bytes).map(Ok),
            Err(error) => Ok(Err(error)),
        });
        match taken.await.map_err(std::io::Error::other).flatten() {
            Ok(Ok(())) => {
                failpoint::reach("outputs_taken");
                Ok(())
            }
            Ok(Err(error)) => {
                let refusal = Refusal::of_file(Rule::NotText, format!("cannot read the file: {error}"));
                Err(self.refuse(&[refusal]))
            }
            Err(source) => Err(self.cannot_keep(&StoreError::Write { path, source })),
        }
    }

    /// Returns the requested outputs if all of them are allowed.
    fn checked_outputs(&mut self) -> Result<Option<Checked>, AttemptFailure> {
        let Some(policy) = self.start().stage.outputs.clone() else {
            return Ok(None);
        };
        let path = self.files.outputs();
        let text =
            private::read(&path).map_err(|source| self.cannot_keep(&StoreError::Read { path, source }))?;
        let start = self.start();
        let pursuit = Pursuit {
            issue: &start.issue.id,
            stage: &start.stage.name,
            run: start.run,
        };
        let lines = match core::read(&text, &pursuit) {
            Ok(lines) => lines,
            Err(refusals) => return Err(self.refuse(&refusals)),
        };
        if lines.is_empty() {
            return Ok(None);
        }
        let secrets = outputs::secrets(&lines);
        if !secrets.is_empty() {
            return Err(self.refuse(&secrets));
        }
        let book =
            OutputBook::open(&self.files.output_book(start.run)).map_err(|error| self.cannot_keep(&error))?;
        // Failed outputs were not applied and do not count.
        let notes = book.notes().iter().filter(|note| {
            let last = book.last(&note.key);
            last.is_some_and(|last| last.progress != Progress::Failed)
        });
        let earlier = notes.map(|note| (note.key.clone(), note.output.kind())).collect();
        let refusals = core::check(&lines, &policy, &earlier);
        if !refusals.is_empty() {
            return Err(self.refuse(&refusals));
        }
        Ok(Some(Checked { policy, lines, book }))
    }

    async fn apply_outputs(&mut self, checked: Checked, workdir: &Path) -> Result<(), AttemptFailure> {
        let Checked {
            policy,
            lines,
            mut book,
        } = checked;
        if let Some(halt) = self.attempt.commands.stop_cause() {
            return Err(halt.failure());
        }
        self.attempt
            .updates
            .set_facts(|facts| facts.phase = LivePhase::Finishing);
        for line in &lines {
            let Some(rule) = policy.rules.get(&line.output.kind()) else {
                continue;
            };
            self.output(&mut book, rule, &policy.secrets, line, workdir)
                .await?;
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
        workdir: &Path,
    ) -> Result<(), AttemptFailure> {
        let scripts = self.scripts(rule, line, workdir)?;
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
                let own = self.start().attempt_id;
                self.output_summaries
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
        self.output_summaries
            .extend(book.last(&line.key).map(|note| OutputSummary::of(note, true)));
        let name = format!("the output on line {} (`{}`)", line.number, line.output.kind());
        let why = why.unwrap_or_default();
        let reason = match end {
            Progress::Applied | Progress::Applying => return Ok(()),
            // The script was killed along with everything else.
            _ if self.attempt.commands.is_killed() => {
                let halt = self.attempt.commands.stop_cause();
                return Err(halt.map_or_else(
                    || AttemptFailure::of(vik_core::outcome::Outcome::Cancelled, why),
                    |halt| halt.failure(),
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
            session: self.start().attempt_id,
            key: line.key.clone(),
            progress,
            output: line.output.clone(),
            detail,
        };
        book.record_durably(note)
            .map_err(|error| self.cannot_keep(&error))
    }

    fn cannot_keep(&self, error: &StoreError) -> AttemptFailure {
        self.note_disk_error(error);
        let reason = format!("cannot record the results of outputs: {}", report::chain(error));
        AttemptFailure::failed(FailureClass::Hook, reason)
    }

    /// Returns the failure of an attempt whose outputs are refused: none of them is applied.
    fn refuse(&mut self, refusals: &[Refusal]) -> AttemptFailure {
        let list = |max: usize, between: &str| {
            let some: Vec<_> = refusals.iter().take(max).map(ToString::to_string).collect();
            let more = match refusals.len().saturating_sub(max) {
                0 => String::new(),
                more => format!("{between}and {more} more"),
            };
            some.join(between) + &more
        };
        let reason = format!("its outputs were rejected: {}", list(NAMED, "; "));
        let feedback = format!(
            "What you asked for in the file of outputs is refused, and none of it was done:\n- {}\nAsk again for what these \
             rules allow.\n",
            list(MAX_REPORTED, "\n- ")
        );
        self.output_summaries = refusals
            .iter()
            .take(MAX_REPORTED)
            .map(|refusal| OutputSummary {
                output: refusal.kind.map_or("", core::OutputKind::as_str),
                status: "refused",
                summary: None,
                key: None,
                reason: Some(refusal.to_string()),
            })
            .collect();
        AttemptFailure {
            feedback: Some(feedback),
            ..AttemptFailure::failed(FailureClass::Verify, reason)
        }
    }

    fn scripts(&self, rule: &OutputRule, line: &Line, workdir: &Path) -> Result<Scripts, AttemptFailure> {
        let mut context = self.context(workdir);
        context["output"] = output_value(line, &self.body_file());
        let kind = line.output.kind();
        let render = |name: &str, source: &str| {
            vik_template::script(source, &context).map_err(|error| {
                self.hook_failure(&HookError::Template {
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
        self.files.outputs_log().with_extension("body")
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
        let log = self.files.outputs_log();
        let (body, json) = (self.body_file(), log.with_extension("json"));
        let text = serde_json::to_string(&line.output).unwrap_or_default();
        for (path, text) in [(&body, line.output.body()), (&json, &text)] {
            private::write_private(path, text.as_bytes()).map_err(|source| HookError::Write {
                path: path.clone(),
                source,
            })?;
        }
        let folder = &self.host().workflow_dir;
        let mut place = self.place(folder, self.start().stage.hook_timeout.0, secrets);
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
        let stop = self.attempt.commands.killed();
        let done = hooks::run(self.host(), &name, script, place, &log, stop).await;
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

/// Returns `output.*` without an output: every field is "".
pub fn sample() -> Value {
    json!({"kind": "", "key": "", "file": "", "body": "", "title": "", "label": "", "state": "", "base": ""})
}
