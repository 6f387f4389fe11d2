//! The open input of an agent: messages of people, and the approval of tool calls. A call out of scope is refused at once, a call that a rule names
//! waits for a person, every other call is allowed.
//!
//! The agent's questions are in its output, which every daemon reads again. Answers are in the
//! journal before they are sent to the agent, and sent answers are in the file of its standard
//! input. So a daemon may die at any point, and the next one resumes there.

mod input;
mod places;
mod refusal;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use vik_agents::{
    Adapter, AgentRequest, ApprovalRequest, InitialInput, InputMode, PreviousTotal, Verdict, driver,
};

use vik_base::report;
use vik_core::approval::{self, Answer, Call, Request, TIME_LIMIT};
use vik_core::event::Event;
use vik_core::ids::AttemptId;
use vik_core::machine::Answered;
use vik_core::outcome::FailureClass;
use vik_core::scope::Scope;
use vik_core::workflow::{ApprovePolicy, CallRule};
use vik_store::{AttemptFailure, Journal, NotedTurn, Step, StoreError};
use vik_workspace::fs as private;

pub(super) use self::input::Input;
use self::places::places;
use self::refusal::Refusal;
use super::follow::{FollowError, OutputReader};
use super::input_mode::asks_before_calls;
use super::messages::Messages;
use super::opened::AttemptContext;
use super::turns::Turns;
use super::updates::UpdateSender;

/// The name in `by` if the agent itself withdrew its request.
const AGENT: &str = "the agent";

/// The maximum number of bytes of a call in the session log.
const DETAIL: usize = 2000;

/// The approvals of one agent's tool calls, and the messages to it.
pub(super) struct ToolCallApprovals {
    scope: Option<Scope>,
    policy: Option<ApprovePolicy>,
    workdir: PathBuf,
    journal: Arc<Mutex<Journal>>,
    session: AttemptId,
    updates: UpdateSender,
    input: Input,
    messages: Messages,
    waited: WaitTime,
    /// The waiting calls in the order of their requests.
    waiting: Vec<Waiting>,
    /// The id of the request that was reported last.
    shown: Option<String>,
}

/// The time that was spent waiting for people.
#[derive(Debug, Default)]
struct WaitTime {
    open: usize,
    since: Option<Timestamp>,
    over: SignedDuration,
}

impl WaitTime {
    fn start(&mut self, at: Timestamp) {
        self.open += 1;
        self.since.get_or_insert(at);
    }

    fn end(&mut self, at: Timestamp) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0
            && let Some(since) = self.since.take()
        {
            self.over += at.duration_since(since).max(SignedDuration::ZERO);
        }
    }

    fn total(&self, now: Timestamp) -> Duration {
        let open = self.since.map(|since| now.duration_since(since));
        let total = self.over + open.unwrap_or_default().max(SignedDuration::ZERO);
        total.unsigned_abs()
    }

    fn of(journal: &Journal) -> Self {
        let mut waited = Self::default();
        for (at, step) in journal.timed_steps() {
            match step {
                Step::Asked { request } if request.gate == approval::Gate::Call => waited.start(at),
                Step::Answered { .. } if waited.open > 0 => waited.end(at),
                _ => {}
            }
        }
        waited
    }
}

struct Waiting {
    ask: ApprovalRequest,
    request: Request,
}

impl AttemptContext<'_> {
    /// Returns how the agent gets its input.
    pub(super) fn input_mode(&self) -> InputMode {
        if asks_before_calls(self.start(), &self.spec.profile) {
            InputMode::Approvals
        } else if self.spec.not_steerable_because.is_none() {
            InputMode::Messages
        } else {
            InputMode::Prompt
        }
    }

    /// Returns the adapter of the agent. An earlier daemon may have started it: then its input is
    /// open if it has a file.
    pub(super) fn adapter(&self, before: Option<PreviousTotal>) -> Result<Box<dyn Adapter>, AttemptFailure> {
        let profile = &self.spec.profile;
        if !self.files.stdin().exists() {
            return Ok(driver(profile.runtime).adapter(profile, before));
        }
        let start = self.start();
        let failed = |reason: String| AttemptFailure::failed(FailureClass::Usage, reason);
        let prompt = private::read(&self.files.prompt())
            .and_then(|text| String::from_utf8(text).map_err(std::io::Error::other))
            .map_err(|error| failed(format!("cannot read the prompt: {error}")))?;
        let initial_input = InitialInput {
            prompt: &prompt,
            workdir: &self.host().layout.issue_dir(&start.issue.id),
            resume: start
                .resume
                .as_ref()
                .map(|resume| resume.provider_session_id.as_str()),
            in_sandbox: self.sandbox_policy().is_some(),
            asks: self.input_mode().asks(),
        };
        driver(profile.runtime)
            .interactive_adapter(profile, before, &initial_input)
            .map_err(|error| failed(report::chain(&error)))
    }

    /// Returns the approvals of, and the messages to, an agent whose input is open; `None` for any
    /// other.
    pub(super) fn tool_call_approvals(&self) -> Result<Option<ToolCallApprovals>, StoreError> {
        let path = self.files.stdin();
        if !path.exists() {
            return Ok(None);
        }
        let start = self.start();
        let journal = self.shared_journal();
        let waited = WaitTime::of(&journal.lock().unwrap_or_else(PoisonError::into_inner));
        let scope = start.intent.scope.clone();
        Ok(Some(ToolCallApprovals {
            // An agent that refuses such calls itself checks the path that it actually opens.
            scope: scope.filter(|_| !driver(self.spec.profile.runtime).enforces_scope()),
            policy: start.stage.approve.clone(),
            workdir: self.host().layout.issue_dir(&start.issue.id),
            journal,
            session: start.attempt_id,
            updates: self.attempt.updates.clone(),
            input: Input::open(&path)?,
            messages: self.messages(),
            waited,
            waiting: Vec::new(),
            shown: None,
        }))
    }
}

impl ToolCallApprovals {
    /// Handles the agent's new requests, and answers those whose time limit has passed.
    pub(super) fn poll(
        &mut self,
        reader: &mut OutputReader,
        turns: Option<&mut Turns<'_>>,
    ) -> Result<(), FollowError> {
        for request in reader.take_requests() {
            match request {
                AgentRequest::Send(line) => self.input.write_once(&line).map_err(FollowError::Answer)?,
                AgentRequest::Approval(ask) => self.ask(ask, reader)?,
                AgentRequest::Unasked(call) => self.check_unasked(&call)?,
                AgentRequest::Withdraw { id } => self.withdraw(&id, reader)?,
                AgentRequest::MessageTaken { id } => self.messages.on_taken(id, reader)?,
                AgentRequest::MessageRejected { id, why } => self.messages.on_rejected(id, &why, reader)?,
                AgentRequest::TurnEnded { succeeded } => self.messages.on_turn_ended(succeeded),
                AgentRequest::Close => self.input.end().map_err(FollowError::Answer)?,
                AgentRequest::ProtocolError(why) => return Err(FollowError::Broken(why)),
            }
        }
        let now = Timestamp::now();
        while let Some(expired) = self.waiting.iter().find(|waiting| waiting.request.until <= now) {
            let answered = Answered {
                request: expired.request.id.clone(),
                answer: Answer::at_the_limit(expired.request.on_timeout),
                by: TIME_LIMIT.to_owned(),
            };
            self.on_answer(&answered, reader)?;
        }
        self.messages.poll(&mut self.input, reader, turns)?;
        self.show();
        Ok(())
    }

    /// Sends the messages that an earlier daemon was about to send.
    pub(super) fn resume_messages(&mut self, reader: &mut OutputReader) -> Result<(), FollowError> {
        self.messages.resume(&mut self.input, reader)
    }

    /// Records the prompt of another turn, and sends it. Returns false if the agent takes none.
    pub(super) fn send_turn(
        &mut self,
        turn: NotedTurn,
        reader: &mut OutputReader,
    ) -> Result<bool, FollowError> {
        self.messages.send_turn(turn, &mut self.input, reader)
    }

    /// Handles an answer. An answer to a request that is no longer waiting is ignored.
    pub(super) fn on_answer(
        &mut self,
        answered: &Answered,
        reader: &mut OutputReader,
    ) -> Result<(), FollowError> {
        let asked = |waiting: &Waiting| waiting.request.id == answered.request;
        if let Some(at) = self.waiting.iter().position(asked) {
            let Waiting { ask, request } = self.waiting.remove(at);
            self.note_answer(answered)?;
            let decision = match answered.answer {
                Answer::Approve { .. } => "approved",
                Answer::Deny { .. } | Answer::Instruct { .. } => "denied",
            };
            let call = request.call.unwrap_or_default();
            log_decision(reader, &answered.by, &call, decision, answered.answer.message())?;
            self.send_answer(&ask, &call, answered, reader)?;
        }
        self.show();
        Ok(())
    }

    /// Returns the id of the request that is shown to people. While there is one, no timeout of the
    /// attempt runs.
    pub(super) fn pending_request(&self) -> Option<&str> {
        self.waiting.first().map(|waiting| waiting.request.id.as_str())
    }

    /// Returns how long the attempt has waited for people since its start.
    pub(super) fn time_waited(&self) -> Duration {
        self.waited.total(Timestamp::now())
    }

    fn ask(&mut self, ask: ApprovalRequest, reader: &mut OutputReader) -> Result<(), FollowError> {
        if self.input.has(&ask.answer_prefix) {
            return Ok(());
        }
        let (call, outside) = self.resolve_paths(&ask.call);
        let outside = outside.filter(|_| ask.writes);
        let id = format!("{}.{}", self.session, ask.id);
        let known = self.journal().answer_to(&id).cloned();
        if let Some(answered) = known {
            return self.send_answer(&ask, &call, &answered, reader);
        }
        if let (Some(path), Some(scope)) = (&outside, &self.scope) {
            let message = Refusal::scope(path, scope).to_json();
            log_decision(reader, "scope", &call, "denied", Some(&message))?;
            return self.write_answer(&ask, Verdict::Refuse(&message), reader);
        }
        let Some(policy) = &self.policy else {
            return self.write_answer(&ask, Verdict::Allow, reader);
        };
        let Some(why) = policy.rule_for(&call).map(CallRule::message) else {
            return self.write_answer(&ask, Verdict::Allow, reader);
        };
        let known = self.journal().request(&id).cloned();
        let request = match known {
            Some(request) => request,
            None => {
                let request = Request::new(id, approval::Gate::Call, policy, Timestamp::now());
                let (call, rule) = (Some(call), Some(why));
                self.start_waiting(
                    Request {
                        call,
                        rule,
                        ..request
                    },
                    reader,
                )?
            }
        };
        self.waiting.push(Waiting { ask, request });
        Ok(())
    }

    /// Fails if a rule applies to a call that has run without an approval request.
    fn check_unasked(&self, call: &Call) -> Result<(), FollowError> {
        let (call, _) = self.resolve_paths(call);
        let rule = self.policy.as_ref().and_then(|policy| policy.rule_for(&call));
        rule.map_or(Ok(()), |rule| {
            Err(FollowError::Broken(format!(
                "the agent called {} without a request for approval, which the rule `{}` requires",
                call.tool,
                rule.message(),
            )))
        })
    }

    /// Records that a call waits for a person.
    fn start_waiting(&mut self, request: Request, reader: &mut OutputReader) -> Result<Request, FollowError> {
        self.log_approval(Step::Asked {
            request: Box::new(request.clone()),
        })?;
        self.waited.start(request.since);
        let call = request.call.as_ref();
        log_decision(
            reader,
            "vik",
            call.unwrap_or(&Call::default()),
            "requested",
            request.rule.as_deref(),
        )?;
        Ok(request)
    }

    /// Returns the call with its paths relative to the workspace, and a path of it out of scope.
    fn resolve_paths(&self, named: &Call) -> (Call, Option<String>) {
        let mut call = Call {
            paths: Vec::new(),
            ..named.clone()
        };
        let mut outside = None;
        for path in &named.paths {
            let Some(places) = places(&self.workdir, path) else {
                outside.get_or_insert_with(|| path.clone());
                call.paths.push(path.clone());
                continue;
            };
            let scope = self.scope.as_ref();
            if scope.is_some_and(|scope| !places.iter().all(|place| scope.matches(place))) {
                outside.get_or_insert_with(|| path.clone());
            }
            let places = places.iter().map(|place| place.to_string_lossy().into_owned());
            call.paths.extend(places);
        }
        (call, outside)
    }

    /// Records an answer before it is sent to anyone.
    fn note_answer(&mut self, answered: &Answered) -> Result<(), FollowError> {
        self.log_approval(Step::Answered {
            answered: answered.clone(),
        })?;
        self.waited.end(Timestamp::now());
        Ok(())
    }

    /// Sends an answer to the agent.
    fn send_answer(
        &mut self,
        ask: &ApprovalRequest,
        call: &Call,
        answered: &Answered,
        reader: &OutputReader,
    ) -> Result<(), FollowError> {
        if let Answer::Approve { .. } = answered.answer {
            return self.write_answer(ask, Verdict::Allow, reader);
        }
        let rule = self.policy.as_ref().and_then(|policy| policy.rule_for(call));
        let message = Refusal::answer(answered, rule).to_json();
        self.write_answer(ask, Verdict::Refuse(&message), reader)
    }

    fn write_answer(
        &mut self,
        ask: &ApprovalRequest,
        verdict: Verdict<'_>,
        reader: &OutputReader,
    ) -> Result<(), FollowError> {
        for line in reader.answer(ask, verdict) {
            self.input.write_once(&line).map_err(FollowError::Answer)?;
        }
        Ok(())
    }

    /// Handles the withdrawal of a request: later answers to it are ignored.
    fn withdraw(&mut self, id: &str, reader: &mut OutputReader) -> Result<(), FollowError> {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.ask.id == id) {
            let waiting = self.waiting.remove(at);
            let answered = Answered {
                request: waiting.request.id,
                answer: Answer::Deny { message: None },
                by: AGENT.to_owned(),
            };
            self.note_answer(&answered)?;
            let call = waiting.request.call.unwrap_or_default();
            log_decision(reader, AGENT, &call, "denied", Some("it is no longer waiting"))?;
        }
        Ok(())
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_approval(&self, step: Step) -> Result<(), FollowError> {
        self.journal().record(step).map_err(FollowError::Answer)
    }

    /// Drops all waiting requests because the agent has ended.
    pub(super) fn close(mut self) {
        self.waiting.clear();
        self.show();
    }

    /// Reports the first waiting request to the scheduler if it has changed.
    fn show(&mut self) {
        let first = self.waiting.first().map(|waiting| &waiting.request);
        if first.map(|request| &request.id) == self.shown.as_ref() {
            return;
        }
        self.shown = first.map(|request| request.id.clone());
        self.updates.awaits(first.cloned().map(Box::new));
    }
}

/// Writes the decision about a call to the session log.
fn log_decision(
    reader: &mut OutputReader,
    by: &str,
    call: &Call,
    decision: &str,
    message: Option<&str>,
) -> Result<(), FollowError> {
    let subject = call.command.clone().unwrap_or_else(|| call.paths.join(", "));
    let subject = &subject[..subject.floor_char_boundary(DETAIL)];
    let detail = match message {
        Some(message) if subject.is_empty() => message.to_owned(),
        Some(message) => format!("{subject}: {message}"),
        None => subject.to_owned(),
    };
    let event = Event::Approval {
        by: Some(by.into()),
        tool: call.tool.as_str().into(),
        decision: decision.into(),
        detail: Some(vik_mask::mask(&detail).into_owned().into()),
    };
    reader.append_event(Timestamp::now(), &event)
}

#[cfg(test)]
mod tests;
