//! The prompt of an attempt, with the commands that it contains.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_blocking;
use vik_base::report;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::workflow::PromptSource;
use vik_store::{AttemptFailure, Step};
use vik_template::{Fence, Part};
use vik_workspace::fs as private;

use super::approval::human_message;
use super::context::stage_context;
use super::opened::AttemptContext;
use super::scripts::{PROMPT, ScriptRunner};
use super::{activity, intent, messages, questions};
use crate::hooks::{self, Hook};

/// The prompt of an agent that resumes an earlier conversation, if the workflow does not define
/// one.
const RESUME_PROMPT: &str = "\
Your work on this issue was cut off before it was done. Go on where you were: look at what is in the working directory \
first, and do not do again what is done already.
{% if attempt.feedback %}
What you had done did not pass the check. The end of what it printed:

{{ attempt.feedback }}
{% endif %}";

/// The prompt of a further turn of a conversation (`turns`).
const TURN_PROMPT: &str = "\
{% if attempt.feedback %}\
What you have done did not pass the check. Continue in this conversation until it passes. The end of what it printed:

{{ attempt.feedback }}
{% else %}\
Your last turn ended, but the issue is still in the state in which you started. Continue where you were: do not do \
again what is done already. If nothing is left to do, bring the issue out of this state as your first instructions \
describe.
{% endif %}";

impl ScriptRunner<'_> {
    /// Renders the prompt. Its commands may have side effects, so they run only once.
    pub(super) async fn prompt(&self, workdir: &Path, context: &Value) -> Result<(), AttemptFailure> {
        match self.cx.script_result(PROMPT) {
            Some(None) => return Ok(()),
            Some(Some(failure)) => return Err(failure),
            None => {}
        }
        let failed = |text: String| AttemptFailure::failed(FailureClass::Hook, text);
        let (source, name) = self.cx.prompt_template().await?;
        let fence = activity::fence(self.cx.start(), context);
        let prompt = vik_template::fenced_prompt(&source, context, &fence).map_err(|error| {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            failed(format!("{name}: {}{hint}", report::chain(&error)))
        })?;
        let has_commands = prompt
            .parts
            .iter()
            .any(|part| matches!(part, Part::Command { .. }));
        if has_commands {
            self.cx.note_started(PROMPT).await?;
        }
        let mut added = intent::section(&self.cx.start().intent, &source, &fence);
        added.push_str(&activity::section(self.cx.start(), &source, &fence));
        added.push_str(&human_message(self.cx.start(), &source));
        added.push_str(&questions::answers_section(&self.cx.start().answers, &fence));
        added.push_str(&messages::prompt_section(&self.cx.start().messages));
        added.push_str(&self.cx.output_section(&source, &fence));
        added.push_str(&self.cx.skills_section().await?);
        if self.cx.can_ask() {
            added.push_str(&questions::section(&questions::file(self.cx.files)));
        }
        let written = self.write_prompt(workdir, &prompt.parts, &fence, &added).await;
        if written.is_err() && self.cx.disk_fails().await {
            return written;
        }
        if has_commands {
            self.cx
                .note_for_good(Step::Finished {
                    script: PROMPT.to_owned(),
                    trouble: written.as_ref().err().cloned(),
                })
                .await?;
        }
        written
    }

    async fn write_prompt(
        &self,
        workdir: &Path,
        parts: &[Part],
        fence: &Fence,
        added: &str,
    ) -> Result<(), AttemptFailure> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Command { script, has_data, .. } => {
                    let names = &self.cx.start().stage.hook_secrets;
                    let mut place = self.place(workdir, Duration::ZERO, names);
                    // These commands run in the workspace like `before_run`.
                    self.cx.confine_script(Hook::BeforeRun, workdir, &mut place)?;
                    let file = self.cx.files.hook(PROMPT).with_extension("sh");
                    let stop = async {
                        self.cx.attempt.commands.stopped().await;
                    };
                    let output = hooks::prompt_command(self.cx.host(), script, place, &file, stop).await;
                    let output = output.map_err(|error| self.cx.hook_failure(&error))?;
                    if *has_data && fence.is_closed() {
                        text.push_str(&fence.data(&output));
                    } else {
                        text.push_str(&output);
                    }
                }
            }
        }
        text.push_str(added);
        let text = fence.with_explanation(text);
        // The prompt is sent to a provider and shown to people.
        let text = vik_mask::mask(&text);
        private::write_private(&self.cx.files.prompt(), text.as_bytes()).map_err(|error| {
            AttemptFailure::failed(FailureClass::Hook, format!("cannot write the prompt: {error}"))
        })
    }
}

impl AttemptContext<'_> {
    /// Returns the prompt of another turn in the same process. `feedback` is the output of the
    /// `verify` that failed.
    pub(super) fn turn_prompt(&self, feedback: Option<&str>) -> Result<String, AttemptFailure> {
        let start = Start {
            previous: Some(AttemptResult {
                feedback: feedback.map(str::to_owned),
                ..AttemptResult::new(Outcome::Succeeded)
            }),
            ..self.start().clone()
        };
        let workdir = self.host().layout.issue_dir(&start.issue.id);
        let context = Value::Object(stage_context(self.host(), &start, &workdir));
        let fence = activity::fence(&start, &context);
        let prompt = vik_template::fenced_prompt(TURN_PROMPT, &context, &fence).map_err(|error| {
            let reason = format!("the prompt of a turn: {}", report::chain(&error));
            AttemptFailure::failed(FailureClass::Hook, reason)
        })?;
        let texts = prompt.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Command { .. } => None,
        });
        let text = fence.with_explanation(texts.collect());
        // The prompt is sent to a provider and shown to people.
        Ok(vik_mask::mask(&text).into_owned())
    }

    /// Returns the prompt's template and its name in messages.
    async fn prompt_template(&self) -> Result<(String, String), AttemptFailure> {
        let stage = &self.start().stage;
        if self.start().continues_turns() {
            return Ok((TURN_PROMPT.to_owned(), "the prompt of a turn".to_owned()));
        }
        if self.start().resume.is_some() && !self.start().follows_up() {
            let template = stage.resume_prompt.as_deref().unwrap_or(RESUME_PROMPT);
            return Ok((template.to_owned(), "the resume prompt".to_owned()));
        }
        let (host, prompts) = (Arc::clone(&self.attempt.host), Arc::clone(&self.attempt.prompts));
        let prompt = stage.prompt.clone();
        let name = match &prompt {
            PromptSource::File(file) => format!("the prompt {file}"),
            PromptSource::Inline(_) => "the prompt".to_owned(),
        };
        let failed = |text: String| AttemptFailure::failed(FailureClass::Hook, text);
        // The file is read again after a restart. It may be on a disk that does not answer, and
        // stopping must not wait for that.
        tokio::select! {
            read = spawn_blocking(move || prompts.source(&host.workflow_dir, &prompt)) => match read {
                Ok(source) => Ok((source.map_err(failed)?, name)),
                Err(error) => Err(failed(format!("{name}: {error}"))),
            },
            cause = self.attempt.commands.stopped() => Err(cause.failure()),
        }
    }
}
