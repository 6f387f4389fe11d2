//! Carries out outputs that passed the checks: each is recorded before and after, so that none is
//! carried out twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vik_base::{failpoint, report};
use vik_core::attempt::{HandOverFailure, Start};
use vik_core::outcome::FailureClass;
use vik_core::outputs::{
    self as core, CheckResult, Line, NextStep, Output, OutputKind, OutputNote, OutputPolicy, OutputRule,
    Progress, Recovery, Refusal, RunResult,
};
use vik_core::retry_later::EX_TEMPFAIL;
use vik_proc::{FileLock, Graces};
use vik_store::AttemptFailure;
use vik_workspace::fs as private;

use crate::hooks::{self, HookError, ScriptContext};
use crate::host::{ATTEMPT_MARK, Host, env_value};
use crate::secrets::masked::masked;

/// The maximum length of the summary of an output in its note, in characters.
const SUMMARY: usize = 200;

/// What stops the outputs of an attempt.
pub trait OutputControl: Send + Sync {
    /// Checks that the attempt may take another step.
    ///
    /// # Errors
    /// When another one may have its place, with the reason.
    fn check(&self) -> Result<(), AttemptFailure>;

    /// Waits until the commands of outputs are to be killed.
    fn killed(&self) -> impl Future<Output = ()> + Send;

    /// Returns why the commands of outputs were killed; `None` if they were not.
    fn kill_failure(&self) -> Option<AttemptFailure>;
}

/// The attempt that requested outputs, with the book of its run.
pub trait OutputAttempt: OutputControl {
    /// Returns the book so far.
    fn notes(&self) -> &[OutputNote];

    /// Adds a note about an output to the book, for good.
    ///
    /// # Errors
    /// When it cannot be recorded. Then no effect may follow from it.
    fn record(
        &mut self,
        note: OutputNote,
        output: &Output,
    ) -> impl Future<Output = Result<(), AttemptFailure>> + Send;
}

/// What became of the outputs of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedOutputs {
    /// The results so far, in the order of the steps.
    pub results: Vec<OutputResult>,
    /// Why not all outputs were carried out.
    pub failure: Option<NotApplied>,
}

/// The result of one output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputResult {
    pub note: OutputNote,
    /// Whether this attempt has carried it out, and not an earlier one.
    pub is_own: bool,
}

/// Why outputs were not all carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotApplied {
    /// The attempt must end.
    Attempt(AttemptFailure),
    /// An output failed. The work of the agent is done.
    HandOver(HandOverFailure),
    /// The hub refuses the outputs, and has carried out none of them.
    Refused(Vec<Refusal>),
}

impl From<AttemptFailure> for NotApplied {
    fn from(failure: AttemptFailure) -> Self {
        Self::Attempt(failure)
    }
}

impl From<NotApplied> for AppliedOutputs {
    fn from(failure: NotApplied) -> Self {
        Self {
            results: Vec::new(),
            failure: Some(failure),
        }
    }
}

/// Carries out the outputs of one attempt.
pub struct OutputRunner<'r, A> {
    pub host: &'r Host,
    pub start: &'r Start,
    /// The values of templates, without those of an output.
    pub values: Value,
    /// The variables of the commands, with their secrets, without those of an output.
    pub env: BTreeMap<String, String>,
    /// The lock of the workspace, held until no process of a command is alive; `None` if the workspace
    /// is on a worker, which has pushed what the outputs need.
    pub lock: Option<&'r FileLock>,
    /// The log of the commands. Their other files are beside it.
    pub log: PathBuf,
    pub attempt: A,
}

/// The rendered scripts of one output.
struct Scripts {
    run: String,
    check: Option<String>,
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

impl<A: OutputAttempt> OutputRunner<'_, A> {
    /// Carries out the outputs that were not carried out before, up to the first one that fails.
    pub async fn apply(mut self, policy: &OutputPolicy, mut lines: Vec<Line>) -> AppliedOutputs {
        // In another state, the stage is over for Vik, and what is left would not be done.
        lines.sort_by_key(|line| line.output.kind() == OutputKind::State);
        let mut applied = AppliedOutputs::default();
        for line in &lines {
            let Some(rule) = policy.rules.get(&line.output.kind()) else {
                continue;
            };
            if let Err(failure) = self.output(&mut applied.results, rule, line).await {
                applied.failure = Some(failure);
                break;
            }
        }
        applied
    }

    /// Applies one output, unless it was applied before.
    async fn output(
        &mut self,
        results: &mut Vec<OutputResult>,
        rule: &OutputRule,
        line: &Line,
    ) -> Result<(), NotApplied> {
        self.attempt.check()?;
        let scripts = self.rendered(rule, line)?;
        let last = core::last_note(self.attempt.notes(), &line.key).cloned();
        if let Some(note) = last.as_ref().filter(|note| note.progress == Progress::Applying) {
            let attempt_id = note.attempt_id.to_string();
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
                let own = self.start.attempt_id;
                results.extend(last.map(|note| OutputResult {
                    is_own: note.attempt_id == own,
                    note,
                }));
                return Ok(());
            }
            (NextStep::Check, Some(check)) => {
                let (check_result, why) = self.run_check(check, line).await;
                if let Some(end) = core::after_check(check_result) {
                    return self.close_output(results, line, (end, recovery), why).await;
                }
            }
            (NextStep::Leave | NextStep::Check, _) => {
                let why =
                    "Vik was interrupted while its command ran, and no `check` is configured to find out";
                let why = Some(why.to_owned().into());
                let end = (Progress::Unknown, recovery);
                return self.close_output(results, line, end, why).await;
            }
            (NextStep::Run, _) => {}
        }
        let recovery = rule.recovery();
        self.attempt.check()?;
        self.note_output(line, (Progress::Applying, recovery), None)
            .await?;
        failpoint::reach("output_applying");
        let done = self.output_script("run", &scripts.run, line).await;
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
                let (check_result, detail) = self.run_check(check, line).await;
                why = detail;
                Some(check_result)
            }
            _ => None,
        };
        let end = core::after_run(ran, check_result);
        let closed = self.close_output(results, line, (end, recovery), why).await;
        failpoint::reach("output_applied");
        closed
    }

    /// Runs the check of an output. Returns its result and the reason.
    async fn run_check(&self, check: &str, line: &Line) -> (CheckResult, Option<Reason>) {
        match self.output_script("check", check, line).await {
            Ok(()) => (CheckResult::Done, None),
            Err(HookError::Failed { code: Some(1), .. }) => (
                CheckResult::NotDone,
                Some("its `check` did not find it".to_owned().into()),
            ),
            Err(error) => (CheckResult::Unclear, Some(Reason::from(&error))),
        }
    }

    /// Records how an output ended, and returns what that means for the hand-over.
    async fn close_output(
        &mut self,
        results: &mut Vec<OutputResult>,
        line: &Line,
        (end, recovery): (Progress, Recovery),
        why: Option<Reason>,
    ) -> Result<(), NotApplied> {
        let why = why.filter(|_| end != Progress::Applied);
        let detail = why.as_ref().map(|why| masked(why.text.clone()));
        let note = self.note_output(line, (end, recovery), detail).await?;
        results.push(OutputResult { note, is_own: true });
        if matches!(end, Progress::Applied | Progress::Applying) {
            return Ok(());
        }
        // The script was killed along with everything else.
        if let Some(failure) = self.attempt.kill_failure() {
            return Err(failure.into());
        }
        let why = why.unwrap_or_else(|| String::new().into());
        let (text, is_temporary) = match end {
            Progress::Failed => (why.text, why.is_temporary),
            Progress::Unknown if recovery == Recovery::Repeat => (why.text, true),
            _ => (
                format!(
                    "it may have been carried out, and is not repeated without a conclusive `check`: {}",
                    why.text
                ),
                false,
            ),
        };
        let needs_person = recovery == Recovery::Person && !is_temporary;
        Err(not_carried_out(line, &text, why.wait, needs_person))
    }

    async fn note_output(
        &mut self,
        line: &Line,
        (progress, recovery): (Progress, Recovery),
        detail: Option<String>,
    ) -> Result<OutputNote, AttemptFailure> {
        let note = OutputNote {
            at: Timestamp::now(),
            attempt_id: self.start.attempt_id,
            key: line.key.clone(),
            kind: line.output.kind(),
            summary: report::one_line(line.output.summary(), SUMMARY),
            progress,
            is_keyed: recovery == Recovery::Repeat,
            detail,
        };
        self.attempt.record(note.clone(), &line.output).await?;
        Ok(note)
    }

    /// Returns the commands of an output. The first one pushes too if the workspace is here.
    fn rendered(&self, rule: &OutputRule, line: &Line) -> Result<Scripts, NotApplied> {
        let push = rule.push.as_deref().filter(|_| self.lock.is_some());
        let run = format!("{}{}", push.unwrap_or_default(), rule.run);
        let check = rule.check.as_deref();
        Ok(Scripts {
            run: self.render("run", &run, line)?,
            check: check.map(|check| self.render("check", check, line)).transpose()?,
        })
    }
}

impl<A: OutputControl> OutputRunner<'_, A> {
    /// Pushes what an output needs of the workspace, which is here. It can be repeated.
    ///
    /// # Errors
    /// When the command fails or is killed.
    pub async fn push(&self, rule: &OutputRule, line: &Line) -> Result<(), NotApplied> {
        let Some(push) = &rule.push else {
            return Ok(());
        };
        self.attempt.check()?;
        let script = self.render("push", push, line)?;
        let pushed = self.output_script("push", &script, line).await;
        pushed.map_err(|error| match self.attempt.kill_failure() {
            Some(failure) => failure.into(),
            None => {
                let Reason { text, wait, .. } = Reason::from(&error);
                not_carried_out(line, &text, wait, false)
            }
        })
    }

    fn render(&self, name: &str, source: &str, line: &Line) -> Result<String, NotApplied> {
        let mut values = self.values.clone();
        values["output"] = output_value(line, &self.body_file());
        vik_template::script(source, &values).map_err(|error| {
            let step = format!("outputs.{}", line.output.kind());
            let name = format!("{step}.{name}");
            let source = Box::new(error);
            NotApplied::HandOver(HandOverFailure {
                step,
                reason: masked(report::chain(&HookError::Template { name, source })),
                wait: Duration::ZERO,
                needs_person: false,
            })
        })
    }

    fn body_file(&self) -> PathBuf {
        self.log.with_extension("body")
    }

    /// Runs a command of an output in the folder of the workflow, which the agent cannot write.
    async fn output_script(&self, which: &str, script: &str, line: &Line) -> Result<(), HookError> {
        let name = format!("outputs.{}.{which}", line.output.kind());
        let (body, json) = (self.body_file(), self.log.with_extension("json"));
        let text = serde_json::to_string(&line.output).unwrap_or_default();
        for (path, text) in [(&body, line.output.body()), (&json, &text)] {
            private::write_private(path, text.as_bytes()).map_err(|source| HookError::Write {
                path: path.clone(),
                source,
            })?;
        }
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
        let mut env = self.env.clone();
        env.extend(own);
        let attempt_id = self.start.attempt_id.to_string();
        let place = ScriptContext {
            cwd: &self.host.workflow_dir,
            env,
            attempt: &attempt_id,
            timeout: self.start.stage.hook_timeout.0,
            sandbox: None,
            runs_agent_code: false,
            stdin: Some(&json),
            lock: self.lock,
        };
        // The agent's work is complete. If the command were cut off, the tracker would not learn of
        // it. Its own timeout bounds the wait.
        let stop = self.attempt.killed();
        let done = hooks::run(self.host, &name, script, place, &self.log, stop).await;
        let _ = (std::fs::remove_file(&body), std::fs::remove_file(&json));
        done
    }
}

fn not_carried_out(line: &Line, text: &str, wait: Duration, needs_person: bool) -> NotApplied {
    let kind = line.output.kind();
    NotApplied::HandOver(HandOverFailure {
        step: format!("outputs.{kind}"),
        reason: masked(format!("the output on line {} (`{kind}`): {text}", line.number)),
        wait,
        needs_person,
    })
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
