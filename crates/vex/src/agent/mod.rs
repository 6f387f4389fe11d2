//! The agent loop: sends requests to the model and runs the tools that it calls, until the work is
//! done or the run ends for another reason.
//!
//! Every event is an entry of the session, which is recorded before it takes effect. The messages
//! to the model are the [`History`](crate::session::History) that follows from the entries.

mod calls;
pub mod compaction;
mod context_budget;
mod finish;
pub mod limits;
pub mod loop_detector;
pub mod output;
pub mod prompt;
mod retry_answer;
mod samples;
mod token_estimator;
pub mod verify;
mod workspace;

use std::ops::ControlFlow;
use std::path::PathBuf;

use self::finish::RetryBudget;
use self::limits::{Limits, Meter};
use self::loop_detector::LoopDetector;
use self::output::OutputSchema;
use self::samples::Samples;
use self::token_estimator::TokenEstimator;
use self::verify::Verify;
use crate::config::ContextSettings;
use crate::conversation::{Block, Message, ToolResult, Turn};
use crate::events::{ExitReason, Journal};
use crate::fences;
use crate::inbox::Inbox;
use crate::interrupt::Interrupt;
use crate::provider::learned::{LearnedForm, shown_by};
use crate::provider::{Progress, Provider, ProviderError, Request};
use crate::session::{Entry, Session};
use crate::tools::{Attachments, Toolbox};

/// How a run ended, and why if it failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Ending {
    pub reason: ExitReason,
    pub message: Option<String>,
    /// Vik's failure class, if it is certain.
    pub class: Option<String>,
}

impl Ending {
    /// Creates an unsuccessful ending.
    pub fn failed(reason: ExitReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: Some(message.into()),
            class: None,
        }
    }

    fn class(mut self, class: &str) -> Self {
        self.class = Some(class.to_owned());
        self
    }

    fn done() -> Self {
        Self {
            reason: ExitReason::Done,
            message: None,
            class: None,
        }
    }
}

/// The limits and checks of a run.
#[derive(Debug, Default)]
pub struct Settings {
    pub limits: Limits,
    /// The context window of the model, if it is known better than by the provider.
    pub window: Option<u64>,
    /// The shares of the window from which on old parts are left out.
    pub context: ContextSettings,
    /// Whether the model is asked for a summary when turns are left out and there is space.
    pub summaries: bool,
    /// The check that must pass.
    pub verify: Option<Verify>,
    /// How often the task is tried again from the first state of the files after an ending without
    /// success.
    pub more_tries: u32,
    /// Where the files of the workspace are kept for further tries and samples: a folder in which
    /// commands of the model cannot write.
    pub snapshots: Option<PathBuf>,
    /// Where the form of calls of an unknown model is remembered after its first call.
    pub learn: Option<LearnedForm>,
    /// Whether the model is asked once, before the end, if anything is left.
    pub second_look: bool,
    /// The schema of the final answer.
    pub output: Option<OutputSchema>,
}

/// The parts that a run works with.
pub struct Run<'a> {
    pub provider: &'a mut dyn Provider,
    pub tools: &'a Toolbox,
    pub journal: &'a Journal,
    pub interrupt: &'a Interrupt,
    /// The conversation, with the prompt.
    pub session: &'a mut Session,
    pub settings: &'a Settings,
    /// The messages of people that arrive during the run.
    pub inbox: &'a Inbox,
}

/// Runs the loop until it ends.
pub fn run(run: Run<'_>) -> Ending {
    let mut agent = Agent::new(run);
    let ending = agent.work();
    let end = Entry::End {
        reason: ending.reason.as_str().to_owned(),
    };
    match agent.run.session.record(end) {
        Err(error) if ending.reason == ExitReason::Done => log_failure(&error),
        _ => ending,
    }
}

struct Agent<'a> {
    run: Run<'a>,
    meter: Meter,
    estimator: TokenEstimator,
    retry_budget: RetryBudget,
    loop_detector: LoopDetector,
    /// Whether another process worked on this conversation before.
    is_resumed: bool,
    /// Whether any call was run, other than notes.
    called: bool,
    /// Whether any call was run since the check failed.
    called_since_check: bool,
    /// Whether a plan was written.
    planned: bool,
    /// Whether the model was corrected for a loop and has called nothing since.
    corrected: bool,
    /// Why the last calls were refused, if the model did nothing else since.
    denied: Option<String>,
    samples: Samples,
    learn: Option<LearnedForm>,
    /// The last result of the check, until the model is shown it.
    last_check: Option<ToolResult>,
    /// The files that the first message shows.
    shown: Attachments,
    /// What the calls of the last answer did.
    answer: AnswerEffect,
}

/// What the calls of an answer did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AnswerEffect {
    /// Whether a tool changed a file.
    changed: bool,
    /// Whether a command or another tool succeeded.
    succeeded: bool,
    /// Why the last call failed.
    error: String,
    /// The files that it wrote or changed, or tried to.
    paths: Vec<String>,
    /// What the last command that failed printed.
    failed_command: Option<String>,
}

impl<'a> Agent<'a> {
    fn new(run: Run<'a>) -> Self {
        let history = run.session.history();
        let tools: usize = run
            .tools
            .definitions()
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.to_string().len() + 60)
            .sum();
        let window = run.settings.window.or(run.provider.model().context_window);
        let estimator = TokenEstimator::new(window, run.session.head().system.len() + tools);
        run.tools.plan().set(history.plan().to_vec());
        run.provider.resume(history.answers());
        Self {
            meter: Meter::new(run.settings.limits),
            estimator,
            retry_budget: RetryBudget::default(),
            loop_detector: LoopDetector::default(),
            is_resumed: history.answers() > 0,
            called: history.answers() > 0,
            called_since_check: true,
            planned: false,
            corrected: false,
            denied: None,
            learn: run.settings.learn.clone(),
            samples: Samples::new(run.settings.more_tries),
            last_check: None,
            shown: Attachments::default(),
            answer: AnswerEffect::default(),
            run,
        }
    }

    fn work(&mut self) -> Ending {
        let limits = self.run.settings.limits;
        if limits.usd.is_some() && !self.run.provider.model().priced {
            let model = &self.run.provider.model().model;
            let message = format!("cannot enforce the limit in USD: the price of {model} is unknown");
            return Ending::failed(ExitReason::Config, message);
        }
        if let Some(time) = limits.time
            && let Err(error) = self.run.interrupt.stop_after(time)
        {
            return Ending::failed(
                ExitReason::Failed,
                format!("cannot enforce the time limit: {error}"),
            );
        }
        let mut step = self.keep_files();
        if let Some(turn) = self.run.session.cut_off_answer().cloned() {
            // An earlier process received the final answer; only the end is missing.
            self.report_answer(&turn);
            step = self.finish(turn.stop, turn.text().trim());
        } else if step.is_continue() && self.writes_fences() {
            step = self.show_workspace();
        }
        loop {
            match step {
                ControlFlow::Continue(()) => step = self.turn(),
                // A message that arrived during the last answer is read before the end.
                ControlFlow::Break(ending)
                    if ending.reason == ExitReason::Done && !self.run.inbox.close_if_empty() =>
                {
                    // What is done stays, whatever becomes of the message.
                    step = self.keep_files();
                }
                ControlFlow::Break(ending) => match self.start_next_try(ending) {
                    ControlFlow::Continue(()) => step = ControlFlow::Continue(()),
                    ControlFlow::Break(ending) => return ending,
                },
            }
        }
    }

    /// Sends one request and handles its answer.
    fn turn(&mut self) -> ControlFlow<Ending> {
        self.check_may_proceed()?;
        self.take_messages()?;
        self.make_room()?;
        let estimate = self.estimator.tokens(self.run.session.history().bytes());
        if let Some(why) = self.meter.forbids(estimate) {
            return ControlFlow::Break(Ending::failed(ExitReason::Limit, why));
        }
        let Some(turn) = self.ask()? else {
            // What changed is in the next request.
            return ControlFlow::Continue(());
        };
        self.meter.answered();
        if self.learn_form(&turn)? {
            return ControlFlow::Continue(());
        }
        let turn = if self.writes_fences() {
            fences::read(turn, self.only_file(), self.run.session.history().answers())
        } else {
            turn
        };
        self.report_answer(&turn);
        let calls: Vec<_> = turn.tool_calls().cloned().collect();
        let stop = turn.stop;
        let text = turn.text();
        if has_content(&turn) {
            self.record(Message::Assistant(turn))?;
        }
        if calls.is_empty() {
            self.finish(stop, text.trim())?;
        } else {
            if self.writes_fences() && self.refuse_loss(&calls)?.is_fresh() {
                return ControlFlow::Continue(());
            }
            self.call(&calls)?;
            if self.writes_fences() && self.end_sample()?.is_fresh() {
                return ControlFlow::Continue(());
            }
        }
        self.check_for_loop(&text)
    }

    fn check_may_proceed(&self) -> ControlFlow<Ending> {
        if self.run.interrupt.is_set() {
            return ControlFlow::Break(self.interrupted());
        }
        if self.run.journal.is_closed() {
            let message = "the output was closed";
            return ControlFlow::Break(Ending::failed(ExitReason::Failed, message));
        }
        ControlFlow::Continue(())
    }

    fn interrupted(&self) -> Ending {
        match self.run.settings.limits.time {
            Some(time) if self.run.interrupt.timed_out() => {
                let message = format!("reached the time limit of {} s", time.as_secs_f64());
                Ending::failed(ExitReason::Limit, message)
            }
            _ => Ending::failed(ExitReason::Interrupted, "interrupted by a signal"),
        }
    }

    /// Puts the waiting messages of people into the conversation.
    fn take_messages(&mut self) -> ControlFlow<Ending> {
        while let Some(message) = self.run.inbox.take() {
            self.record_entry(Entry::Prompt { text: message.text })?;
            self.run.journal.message_taken(&message.id);
            self.retry_budget = RetryBudget::default();
        }
        ControlFlow::Continue(())
    }

    /// Remembers how an unknown model calls tools, after its first call. Returns whether it starts
    /// afresh in another form.
    fn learn_form(&mut self, turn: &Turn) -> ControlFlow<Ending, bool> {
        let Some((place, form)) = self
            .learn
            .take_if(|_| shown_by(turn).is_some())
            .zip(shown_by(turn))
        else {
            return ControlFlow::Continue(false);
        };
        if let Err(error) = place.remember(form) {
            self.run
                .journal
                .warning(&format!("cannot remember how the model calls tools: {error}"));
        }
        if form == self.run.provider.model().tool_calls {
            return ControlFlow::Continue(false);
        }
        self.run.provider.set_tool_calls(form);
        self.keep_files()?;
        self.run_first_check();
        self.start_other_sample(
            "the model writes calls as text: it writes files in fences from now on",
            "",
        )?;
        ControlFlow::Continue(true)
    }

    /// Returns the next answer of the model; `None` if another request must be sent, because a message
    /// stopped this one or its answer was empty. Shortens the conversation first if it is too long.
    fn ask(&mut self) -> ControlFlow<Ending, Option<Turn>> {
        let mut shortened = 0;
        let writes_fences = self.writes_fences();
        loop {
            let run = &mut self.run;
            let history = run.session.history();
            let request = Request {
                system: &run.session.head().system,
                messages: history.messages(),
                tools: run.tools.definitions(),
                output_schema: run.settings.output.as_ref().map(OutputSchema::schema),
                temperature: writes_fences.then(|| self.samples.temperature()),
            };
            let bytes = history.bytes();
            let journal = run.journal;
            let mut empty = Vec::new();
            let mut progress = |progress: Progress<'_>| match progress {
                Progress::Empty(turn) => empty.push(turn.clone()),
                progress => journal.progress(&progress),
            };
            let step = run.inbox.start_step(run.interrupt);
            let answer = run.provider.turn(request, &mut progress, &step.interrupt);
            self.count_empty(&empty);
            let error = match answer {
                Ok(turn) => {
                    self.estimator.learn(bytes, &turn);
                    self.add_usage(&turn);
                    return ControlFlow::Continue(Some(turn));
                }
                Err(error) => error,
            };
            match error {
                ProviderError::Interrupted if !self.run.interrupt.is_set() => {
                    return ControlFlow::Continue(None);
                }
                // The same request would give the same empty answer; a different one may not.
                ProviderError::Empty(why) if writes_fences || self.retry_budget.allow_empty() => {
                    self.retry_empty(&why)?;
                    return ControlFlow::Continue(None);
                }
                ProviderError::Overflow(_) if shortened < 2 && self.overflow(shortened)? => shortened += 1,
                error => return ControlFlow::Break(self.no_answer(error)),
            }
        }
    }

    /// Counts empty answers, each as a turn. Their request may have been repeated by the provider.
    fn count_empty(&mut self, answers: &[Turn]) {
        for answer in answers {
            self.add_usage(answer);
            self.meter.answered();
        }
    }

    fn add_usage(&mut self, turn: &Turn) {
        self.meter.paid(turn);
        let window = self.run.provider.model().context_window;
        self.run.journal.add_usage(turn.usage, turn.cost_usd, window);
    }

    /// Returns whether this process or an earlier one changed a file or ran a command.
    fn acted(&self) -> bool {
        let mut acted = self.is_resumed;
        self.run.journal.evidence(|evidence| {
            acted |= !evidence.files_changed.is_empty() || !evidence.commands.is_empty();
        });
        acted
    }

    fn report_answer(&self, turn: &Turn) {
        let thinking = turn.thinking();
        if !thinking.trim().is_empty() {
            self.run.journal.reasoning(&thinking);
        }
        let text = turn.text();
        if !text.trim().is_empty() {
            self.run.journal.message(&text);
        }
    }

    fn record(&mut self, message: Message) -> ControlFlow<Ending> {
        self.record_entry(Entry::Message { message })
    }

    fn record_entry(&mut self, entry: Entry) -> ControlFlow<Ending> {
        match self.run.session.record(entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(log_failure(&error)),
        }
    }

    fn no_answer(&mut self, error: ProviderError) -> Ending {
        let message = error.to_string();
        match error {
            ProviderError::Config(_) => Ending::failed(ExitReason::Config, message),
            // The recording has ended, so its last answer decides.
            ProviderError::Diverged(_) => {
                match (self.denied.take(), self.retry_budget.take_nudged_ending()) {
                    (Some(denial), _) if !self.retry_budget.failed_check() => {
                        Ending::failed(ExitReason::Denied, denial)
                    }
                    (_, Some(ending)) => ending,
                    (_, None) => Ending::failed(ExitReason::Failed, message),
                }
            }
            ProviderError::Reported { class, .. } => {
                let reason = match class.as_deref() {
                    Some("auth" | "model") => ExitReason::Refused,
                    _ => ExitReason::Failed,
                };
                Ending {
                    class,
                    ..Ending::failed(reason, message)
                }
            }
            ProviderError::Empty(_) => Ending::failed(ExitReason::Failed, message).class("network"),
            ProviderError::Overflow(_) => Ending::failed(ExitReason::Failed, message).class("context"),
            ProviderError::Interrupted => self.interrupted(),
        }
    }
}

/// Returns whether an answer has content that a provider accepts back: thinking alone is not.
fn has_content(turn: &Turn) -> bool {
    turn.blocks.iter().any(|block| match block {
        Block::Text { text } => !text.trim().is_empty(),
        Block::Thinking { .. } => false,
        Block::ToolCall(_) | Block::Native { .. } => true,
    })
}

fn log_failure(error: &dyn std::error::Error) -> Ending {
    let why = error.source().map(|source| format!(": {source}"));
    let message = format!("cannot write the session log: {error}{}", why.unwrap_or_default());
    Ending::failed(ExitReason::Failed, message)
}

#[cfg(test)]
mod tests;
