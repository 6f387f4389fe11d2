//! Fresh starts: a small model that made no progress gets the task once more, with the present
//! files and without what it wrote before, instead of a warning. What it wrote before mostly makes
//! it write the same again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::finish::RetryBudget;
use super::loop_detector::LoopDetector;
use super::workspace::described;
use super::{Agent, AnswerEffect, Ending};
use crate::conversation::{ToolCall, ToolResult};
use crate::events::ExitReason;
use crate::session::Entry;
use crate::snapshot::{Snapshot, State};
use crate::tools::{Attachment, NOT_READ, Tool as _, WriteFile, has_word};

/// How often a try may start afresh, beside those after a failed check.
const MAX_FRESH_STARTS: u32 = 6;
/// The temperature of the first sample, which is to be the likeliest one, and of the others, which
/// are to differ.
const TEMPERATURES: (f32, f32) = (0.2, 0.8);

/// Why such a model may not replace a file: it has no tool that reads it.
const NOT_SHOWN: &str = "was not shown to you, so it was not replaced. Write it only if it is shown now";

/// The share of the model's context that the shown files may take.
const FILES_SHARE: f64 = 0.25;

/// How much of the error of a call is repeated, in bytes.
const MAX_ERROR: usize = 1000;

/// Words before the name of a definition, in the usual languages.
const DEFINERS: [&str; 11] = [
    "def",
    "class",
    "fn",
    "func",
    "function",
    "struct",
    "enum",
    "trait",
    "interface",
    "impl",
    "module",
];

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleEnd {
    /// The next request starts afresh.
    Fresh,
    /// The conversation goes on.
    Continued,
}

impl SampleEnd {
    pub(super) fn is_fresh(self) -> bool {
        self == Self::Fresh
    }
}

/// The tries and samples of a run.
#[derive(Debug)]
pub(super) struct Samples {
    /// The files before the first change, if a try returns to them.
    snapshot: Option<Snapshot>,
    /// The result of the check with the first files.
    first_check: Option<ToolResult>,
    /// The state of the files at the start of the sample, if files are kept.
    files: Option<State>,
    /// The number of the try, from 1.
    attempt: u32,
    /// The number of all tries.
    tries: u32,
    /// The fresh starts of this try.
    fresh_starts: u32,
    /// Whether this is not the first sample of the run.
    is_other: bool,
}

impl Samples {
    pub(super) fn new(more_tries: u32) -> Self {
        Self {
            snapshot: None,
            files: None,
            first_check: None,
            attempt: 1,
            tries: more_tries.saturating_add(1),
            fresh_starts: 0,
            is_other: false,
        }
    }

    /// Returns the state of the present files, if files are kept.
    fn current_files(&self) -> Option<State> {
        self.snapshot.as_ref()?.state().ok()
    }

    /// Returns the temperature of the next request of a model that writes fences.
    pub(super) fn temperature(&self) -> f32 {
        let (first, other) = TEMPERATURES;
        if self.is_other { other } else { first }
    }
}

/// Returns the first part of what a call printed.
fn brief(output: &str) -> &str {
    let output = output.trim();
    &output[..output.floor_char_boundary(MAX_ERROR)]
}

impl Agent<'_> {
    /// Returns whether the model writes its changes in fences.
    pub(super) fn writes_fences(&self) -> bool {
        self.run.provider.model().tool_calls.in_fences()
    }

    /// Keeps the files, as they are now, if a further try or sample may return to them.
    pub(super) fn keep_files(&mut self) -> ControlFlow<Ending> {
        let has_tries = self.samples.tries > 1;
        let may_restore = has_tries || (self.writes_fences() && self.run.settings.verify.is_some());
        if !may_restore {
            return ControlFlow::Continue(());
        }
        self.samples.first_check = None;
        let root = self.run.tools.root().path();
        self.run.tools.stop_background_commands();
        let taken = match &self.run.settings.snapshots {
            Some(place) => Snapshot::take(root, place, self.run.interrupt).map_err(|error| error.to_string()),
            None => Err("there is no folder for the files of the workspace: set HOME or VEX_HOME".to_owned()),
        };
        match taken {
            Ok((snapshot, left)) => {
                self.samples.snapshot = Some(snapshot);
                for copy in left {
                    let text =
                        "an earlier run, which did not end properly, left a copy of its first files in";
                    self.run.journal.warning(&format!("{text} {}", copy.display()));
                }
            }
            Err(_) if self.run.interrupt.is_set() => return ControlFlow::Break(self.interrupted()),
            Err(error) if has_tries => {
                return ControlFlow::Break(Ending::failed(ExitReason::Config, error));
            }
            Err(error) => self.run.journal.warning(&error),
        }
        ControlFlow::Continue(())
    }

    /// Runs the check with the first files.
    pub(super) fn run_first_check(&mut self) {
        if let Some(verify) = &self.run.settings.verify {
            let result = verify.run(self.run.tools, self.run.interrupt);
            self.run.journal.verify(&verify.command, &result);
            self.samples.first_check = Some(result.clone());
            self.last_check = Some(result);
        }
    }

    /// Shows the model the workspace, after a first run of the check.
    pub(super) fn show_workspace(&mut self) -> ControlFlow<Ending> {
        self.run_first_check();
        self.called_since_check = false;
        self.samples.files = self.samples.current_files();
        let text = self.described();
        self.record_entry(Entry::Environment { text })
    }

    /// Ends a sample: runs the check after a change, and starts afresh after an answer of which
    /// nothing worked.
    pub(super) fn end_sample(&mut self) -> ControlFlow<Ending, SampleEnd> {
        let settings = self.run.settings;
        let answer = &self.answer;
        let has_changed = answer.changed || self.has_changed_files();
        // Where no files are kept, a change is always possible; but only the next sample shows this file.
        let is_unseen = !answer.changed && self.samples.files.is_none() && answer.error.contains(NOT_READ);
        if (is_unseen || !has_changed) && !answer.succeeded {
            let error = answer.error.replace(NOT_READ, NOT_SHOWN);
            let note = format!("Your last answer changed nothing: {}", brief(&error));
            self.start_other_sample("nothing in the answer worked", &note)?;
            return ControlFlow::Continue(SampleEnd::Fresh);
        }
        let Some(verify) = settings.verify.as_ref().filter(|_| settings.output.is_none()) else {
            return ControlFlow::Continue(SampleEnd::Continued);
        };
        if !has_changed {
            // It only looked.
            return ControlFlow::Continue(SampleEnd::Continued);
        }
        if self.run_check(verify)? {
            self.run
                .journal
                .message(&format!("The check `{}` passes.", verify.command));
            return ControlFlow::Break(Ending::done());
        }
        ControlFlow::Continue(SampleEnd::Fresh)
    }

    /// Returns whether the workspace differs from that at the start of the sample; `true` if that is
    /// not known.
    pub(super) fn has_changed_files(&self) -> bool {
        let samples = &self.samples;
        samples.files.is_none() || samples.current_files() != samples.files
    }

    /// Starts afresh after a failed check: first from the first state of the files, since a wrong
    /// change misleads a small model; every second time from the present one, so that what is wrong
    /// in several places can be mended step by step.
    pub(super) fn start_after_check(&mut self, failed_checks: u32) -> ControlFlow<Ending> {
        let failed = self.answer.failed_command.as_deref();
        let failed = failed.map_or_else(String::new, |output| {
            format!("A command of your last answer failed: {}\n", brief(output))
        });
        if !failed_checks.is_multiple_of(2) {
            self.restore_files()?;
            return self.start_afresh("the check failed; the files were restored", &failed);
        }
        let note = format!(
            "{failed}The files above are what your last answer made of them. The check still fails: find out why, and change \
             something else."
        );
        self.start_afresh("the check failed", &note)
    }

    /// Starts afresh because the model made no progress, for `reason`; the run ends if it did so too
    /// often.
    pub(super) fn start_other_sample(&mut self, reason: &str, note: &str) -> ControlFlow<Ending> {
        self.samples.fresh_starts += 1;
        if self.samples.fresh_starts > MAX_FRESH_STARTS {
            return ControlFlow::Break(Ending::failed(
                ExitReason::NoProgress,
                format!("{reason}, repeatedly"),
            ));
        }
        if self.writes_fences() {
            // What it made of the files before did not help it.
            self.restore_files()?;
        }
        self.start_afresh(reason, note)
    }

    /// Starts the next try after an ending without success, if there is one. Otherwise returns the
    /// ending.
    pub(super) fn start_next_try(&mut self, ending: Ending) -> ControlFlow<Ending> {
        let may_help = match ending.reason {
            ExitReason::NoProgress | ExitReason::Denied => true,
            ExitReason::Failed => ending.class.as_deref() == Some("verify"),
            _ => false,
        };
        if !may_help || self.samples.attempt >= self.samples.tries || self.run.interrupt.is_set() {
            return ControlFlow::Break(ending);
        }
        self.samples.attempt += 1;
        self.samples.fresh_starts = 0;
        self.restore_files()?;
        let message = ending.message.unwrap_or_default();
        let reason = format!(
            "try {} of {}: {message}",
            self.samples.attempt, self.samples.tries
        );
        self.retry_budget = RetryBudget::default();
        self.called = false;
        self.start_afresh(&reason, "")
    }

    fn restore_files(&mut self) -> ControlFlow<Ending> {
        let Some(snapshot) = &self.samples.snapshot else {
            return ControlFlow::Continue(());
        };
        // They may hold ports, and would write files during or after it.
        self.run.tools.stop_background_commands();
        if let Err(error) = snapshot.restore() {
            let copy = snapshot.leave().display();
            let message = format!("{error}; the files as they were at first are in {copy}");
            return ControlFlow::Break(Ending::failed(ExitReason::Failed, message));
        }
        self.last_check.clone_from(&self.samples.first_check);
        self.run
            .journal
            .evidence(|evidence| evidence.files_changed.clear());
        ControlFlow::Continue(())
    }

    fn start_afresh(&mut self, reason: &str, note: &str) -> ControlFlow<Ending> {
        self.run.journal.guard("fresh_start", reason);
        self.loop_detector = LoopDetector::default();
        self.samples.is_other = true;
        self.corrected = false;
        self.planned = false;
        self.denied = None;
        self.called_since_check = !self.writes_fences();
        self.run.tools.plan().set(Vec::new());
        self.run.tools.forget_files();
        self.samples.files = self.samples.current_files();
        if self.writes_fences() {
            let text = self.described();
            self.record_entry(Entry::Environment { text })?;
        }
        self.answer = AnswerEffect::default();
        self.record_entry(Entry::FreshStart {
            note: note.to_owned(),
        })
    }

    /// Describes the workspace with the latest result of the check.
    fn described(&mut self) -> String {
        let run = &self.run;
        let check = run.settings.verify.as_ref().zip(self.last_check.as_ref());
        let mut task = run.session.history().prompts().join("\n");
        // What the last answer was about belongs to the task.
        for path in &self.answer.paths {
            task.push('\n');
            task.push_str(path);
        }
        let room = self.estimator.bytes(FILES_SHARE);
        let (text, files) = described(run.tools, &task, check, room, run.journal, run.interrupt);
        self.shown = files;
        text
    }

    /// Returns the path of the only file, to which a fence without a path belongs.
    pub(super) fn only_file(&self) -> Option<&str> {
        match (&self.shown.shown[..], &self.shown.others[..]) {
            ([only], []) => Some(&only.path),
            _ => None,
        }
    }

    /// Starts afresh instead of running calls that would remove a definition without need: a small
    /// model that writes a whole file often leaves out what it did not change.
    pub(super) fn refuse_loss(&mut self, calls: &[ToolCall]) -> ControlFlow<Ending, SampleEnd> {
        let task = self.run.session.history().prompts().join("\n");
        let Some((path, name)) = lost_definition(calls, &self.shown.shown, &task) else {
            return ControlFlow::Continue(SampleEnd::Continued);
        };
        let reason = format!("the answer leaves out `{name}` of {path}");
        let note = format!(
            "Your last answer was not used: it left out `{name}` of {path}, which the task does not ask to remove. Write the \
             whole file, with everything that stays."
        );
        self.start_other_sample(&reason, &note)?;
        ControlFlow::Continue(SampleEnd::Fresh)
    }
}

/// Returns a file and a definition in it that is in no file after these calls, although the task does
/// not name it.
fn lost_definition<'a>(
    calls: &[ToolCall],
    shown: &'a [Attachment],
    task: &str,
) -> Option<(&'a str, &'a str)> {
    let written = calls.iter().filter(|call| call.tool == WriteFile::NAME);
    let written: Vec<(&str, &str)> = written
        .filter_map(|call| {
            let input = call.input.json()?;
            Some((input["path"].as_str()?, input["content"].as_str()?))
        })
        .collect();
    // Of a file that is written twice, the last content counts.
    let written: BTreeMap<&str, &str> = written.into_iter().collect();
    let replaced = |file: &&Attachment| written.contains_key(file.path.as_str());
    shown.iter().filter(replaced).find_map(|file| {
        let stays =
            |name: &str| written.values().any(|content| has_word(content, name)) || has_word(task, name);
        let lost = definitions(&file.content).find(|name| !stays(name))?;
        Some((file.path.as_str(), lost))
    })
}

/// Returns the names that a file defines.
fn definitions(content: &str) -> impl Iterator<Item = &str> {
    content.lines().filter_map(|line| {
        let mut words = line
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty());
        words.by_ref().take(4).find(|word| DEFINERS.contains(word))?;
        words.next().filter(|name| name.len() > 1)
    })
}
