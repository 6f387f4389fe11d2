//! The adapter of `codex app-server`: Codex over JSON-RPC on stdout and stdin, which stays open.
//!
//! - Its items become the same events as those of `codex exec`: they have the same fields under
//!   other names.
//! - A message of a person is a `turn/start`: it takes part in the next request of the running turn,
//!   or starts another one. So it cannot miss its turn, as a `turn/steer` can. An item with its
//!   `clientId` shows that it was taken (measured with 0.169.0).
//! - A stage that asks before calls has the approval policy `untrusted`: Codex asks for approval of
//!   commands, patches and MCP tools and waits for the answer. Any other request, for example for more
//!   permissions, is refused.
//! - A call that ran without a request is reported: Codex knows other settings that allow calls.
//! - A refusal has no message in this protocol: the message is sent before it, as user input to the
//!   running turn.
//! - `unified_exec_tty`, which would let a model write to a running command, is off.

mod approvals;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde_json::value::{RawValue, to_raw_value};
use vik_core::event::Event;
use vik_core::ids::MessageId;
use vik_core::message::Message as PersonMessage;
use vik_core::outcome::{FailureClass, Usage};
use vik_core::workflow::{AgentProfile, Permission};

use super::adapter::Codex;
use super::line::{Item, TurnError};
use super::message::{
    Delta, ErrorNotification, FileChange, ItemNotification, Limits, Message, RateLimitsNotification,
    Resolved, ThreadRef, ThreadResult, TurnNotification, UsageNotification, UserNotification, Warning,
    is_partial,
};
use crate::launch::path_text;
use crate::request::{
    AgentRequest, ApprovalRequest, InitialInput, Outbox, Verdict, interrupt_request_id, is_interrupt_request,
    json_string, message_id, message_of_request, message_request_id,
};
use crate::state::{Session, note};
use crate::wire::{self, Text};
use crate::{
    Adapter, Arriving, Conclusion, Exit, LaunchError, PreviousTotal, RateLimit, Sink, UnansweredRequest,
};

/// The ids of Vik's own requests. Codex counts its ids separately, from zero.
const INITIALIZE: u64 = 1;
const THREAD: u64 = 2;
const TURN: u64 = 3;

/// The adapter of one session of Codex whose input stays open.
#[derive(Debug)]
pub(crate) struct AppServer {
    exec: Codex,
    outbox: Outbox,
    /// The request that starts or resumes the thread; the prompt follows it.
    thread_request: String,
    /// The method of `thread_request`.
    thread_method: &'static str,
    prompt: String,
    thread_id: Option<String>,
    /// The id and method of the request of Vik to which Codex has not responded yet. They are sent
    /// one after the other.
    unanswered: Option<(u64, &'static str)>,
    /// The requests for messages to which Codex has not responded yet.
    unanswered_messages: BTreeSet<UnansweredRequest>,
    /// The running turn of the thread.
    turn_id: Option<String>,
    /// Whether Vik has stopped the running turn for a message.
    is_interrupted: bool,
    /// Whether Codex has full access anyway, so that it cannot ask for more.
    has_full_access: bool,
    /// Whether Codex asks before each call.
    asks: bool,
    /// The calls that Codex asked about and that have not ended: their item or, for an MCP tool, its
    /// name.
    asked: Vec<String>,
    /// The thread and the turn of each approval request.
    turns: HashMap<String, (String, String)>,
    /// The paths of announced patches.
    patches: HashMap<String, Vec<String>>,
    limits: Option<Limits>,
    /// The class of a failure that the provider reported; more reliable than its text.
    failure_class: Option<FailureClass>,
}

impl AppServer {
    pub(crate) fn new(
        profile: &AgentProfile,
        previous_total: Option<PreviousTotal>,
        input: &InitialInput<'_>,
    ) -> Result<Self, LaunchError> {
        let has_full_access = input.in_sandbox || profile.permission == Permission::Full;
        let sandbox = match profile.permission {
            _ if has_full_access => "danger-full-access",
            Permission::ReadOnly => "read-only",
            Permission::WorkspaceWrite | Permission::Full => "workspace-write",
        };
        let (method, place) = match input.resume {
            Some(id) => (
                "thread/resume",
                format!(
                    r#""threadId":{},"cwd":{},"#,
                    json_string(id),
                    json_string(path_text(input.workdir)?)
                ),
            ),
            // It runs in the workspace. A `cwd` here would make Codex trust that folder for ever, and
            // use its `.codex`: files that the agent can write would allow calls and start programs.
            None => ("thread/start", String::new()),
        };
        let thread = format!(
            concat!(
                r#"{{"id":{id},"method":"{method}","params":{{{place}"model":{model},"#,
                r#""approvalPolicy":"{policy}","approvalsReviewer":"user","sandbox":"{sandbox}"}}}}"#
            ),
            id = THREAD,
            method = method,
            place = place,
            model = json_string(profile.model.as_deref().unwrap_or_default()),
            // With `never` Codex decides as `codex exec` does.
            policy = if input.asks { "untrusted" } else { "never" },
            sandbox = sandbox,
        );
        let initialize = format!(
            r#"{{"id":{INITIALIZE},"method":"initialize","params":{{"clientInfo":{{"name":"vik","version":"1"}}}}}}"#
        );
        Ok(Self {
            exec: Codex::new(profile, previous_total),
            outbox: Outbox::starting_with(initialize),
            thread_request: thread,
            thread_method: method,
            prompt: input.prompt.to_owned(),
            thread_id: None,
            unanswered: Some((INITIALIZE, "initialize")),
            unanswered_messages: BTreeSet::new(),
            turn_id: None,
            is_interrupted: false,
            has_full_access,
            asks: input.asks,
            asked: Vec::new(),
            turns: HashMap::new(),
            patches: HashMap::new(),
            limits: None,
            failure_class: None,
        })
    }

    fn message(&mut self, line: &str, message: &Message<'_>, sink: &mut Sink<'_>) {
        match (&message.method, message.id) {
            (Some(method), Some(id)) => self.request(method.as_str(), id, message.params),
            (Some(method), None) => self.notification(line, method.as_str(), message.params, sink),
            (None, Some(id)) => self.response(line, id, message, sink),
            (None, None) => wire::emit_unparsed(line, sink),
        }
    }

    /// Handles a response to one of Vik's requests.
    fn response(&mut self, line: &str, id: &RawValue, message: &Message<'_>, sink: &mut Sink<'_>) {
        let Some(id) = id.get().parse::<u64>().ok().filter(|id| *id <= TURN) else {
            return self.message_response(id, message.error);
        };
        self.unanswered = self.unanswered.filter(|(pending, _)| *pending != id);
        if message.error.is_some() {
            let error: Option<TurnError<'_>> = wire::read(message.error);
            let message = error.map_or(Cow::Borrowed("Codex rejected the session"), |error| {
                error.message.0
            });
            self.exec.failed(&message, None, sink);
            return self.outbox.close();
        }
        match id {
            INITIALIZE => {
                self.outbox.send(r#"{"method":"initialized"}"#);
                let thread = self.thread_request.clone();
                self.outbox.send(thread);
                self.unanswered = Some((THREAD, self.thread_method));
            }
            // Two daemons sent a request each: an earlier version wrote it in another way.
            THREAD if self.thread_id.is_some() => {}
            THREAD => match wire::read::<ThreadResult<'_>>(message.result) {
                Some(result) => {
                    let id = result.thread.id.0.into_owned();
                    self.exec.on_thread_started(Some(Cow::Borrowed(&id)), sink);
                    let turn = format!(
                        r#"{{"id":{TURN},"method":"turn/start","params":{{"threadId":{},"input":[{{"type":"text","text":{}}}]}}}}"#,
                        json_string(&id),
                        json_string(&self.prompt)
                    );
                    self.thread_id = Some(id);
                    self.outbox.send(turn);
                    self.unanswered = Some((TURN, "turn/start"));
                }
                None => {
                    self.outbox.push(AgentRequest::ProtocolError(
                        "Codex returned no thread id".to_owned(),
                    ));
                    wire::emit_unparsed(line, sink);
                }
            },
            _ => {}
        }
    }

    /// Handles a response to a message. A refusal's own message may arrive after the end of its turn,
    /// so its response says nothing.
    fn message_response(&mut self, id: &RawValue, error: Option<&RawValue>) {
        let id = wire::text(Some(id)).unwrap_or_default();
        self.unanswered_messages.retain(|request| {
            let sent = request.message.map(|message| match request.method {
                "turn/interrupt" => interrupt_request_id(message),
                _ => message_request_id(message),
            });
            sent.as_deref() != Some(&*id)
        });
        match (message_of_request(&id), wire::present(error)) {
            (Some(id), Some(error)) => {
                let error: Option<TurnError<'_>> = wire::read(Some(error));
                let why = error.map_or_else(String::new, |error| error.message.0.into_owned());
                self.outbox.push(AgentRequest::MessageRejected { id, why });
            }
            (None, None) => self.is_interrupted |= is_interrupt_request(&id),
            _ => {}
        }
    }

    fn notification(&mut self, line: &str, method: &str, params: Option<&RawValue>, sink: &mut Sink<'_>) {
        let known = match method {
            "item/started" | "item/completed" => self.item(line, method, params, sink),
            "thread/tokenUsage/updated" => self.usage(params, sink),
            "account/rateLimits/updated" => self.rate_limits(params, sink),
            "error" => self.error(params, sink),
            "turn/started" => self.turn_started(params),
            "turn/completed" => self.turn_completed(params, sink),
            "serverRequest/resolved" => wire::read::<Resolved<'_>>(params).map(|resolved| {
                let id = resolved.request_id.get().to_owned();
                self.outbox.push(AgentRequest::Withdraw { id });
            }),
            "warning" | "configWarning" | "deprecationNotice" => warning(params, sink),
            method if is_partial(method) => {
                self.exec.session.live.count_partial_line(line);
                if let Some((kind, text)) = self.arriving(method, params) {
                    self.exec.session.arrived(kind, &text);
                }
                Some(())
            }
            method if is_heartbeat(method) => {
                self.exec.session.live.heartbeats += 1;
                Some(())
            }
            method if is_ignored(method) => Some(()),
            _ => None,
        };
        if known.is_none() {
            wire::emit_unparsed(line, sink);
        }
    }

    /// Returns whether a notification belongs to the thread of the attempt and not to one of its
    /// sub-agents.
    fn is_main(&self, params: Option<&RawValue>) -> Option<bool> {
        let thread: ThreadRef<'_> = wire::read(params)?;
        Some(Some(thread.thread_id.as_str()) == self.thread_id.as_deref())
    }

    /// Returns the part of an answer of the main thread. The output of a tool is none.
    fn arriving<'a>(&self, method: &str, params: Option<&'a RawValue>) -> Option<(Arriving, Cow<'a, str>)> {
        let kind = match method {
            "item/agentMessage/delta" | "item/plan/delta" => Arriving::Text,
            method if method.starts_with("item/reasoning/") => Arriving::Thinking,
            _ => return None,
        };
        let delta: Delta<'_> = wire::read(params).filter(|_| self.is_main(params) == Some(true))?;
        Some((kind, delta.delta.0))
    }

    fn item(
        &mut self,
        line: &str,
        method: &str,
        params: Option<&RawValue>,
        sink: &mut Sink<'_>,
    ) -> Option<()> {
        let is_main = self.is_main(params)?;
        let ItemNotification { item } = wire::read(params)?;
        let id = item.id.as_ref()?;
        let changes: Option<Vec<FileChange<'_>>> = wire::read(item.changes);
        if let (Some(changes), "item/started") = (&changes, method) {
            let paths = changes.iter().flat_map(FileChange::paths).collect();
            self.patches.insert(id.0.clone().into_owned(), paths);
        }
        let changes = changes.and_then(|changes| to_raw_value(&changes).ok());
        let kind = snake_case(item.kind.as_str());
        match &*kind {
            // Vik's own input.
            "user_message" => {
                if is_main && method == "item/started" {
                    self.user_message(params);
                }
                return Some(());
            }
            "agent_message" | "reasoning" if !is_main || method == "item/started" => return Some(()),
            _ => {}
        }
        let item = to_exec_item(item, kind, changes.as_deref());
        if method == "item/started" {
            self.exec.item_started(line, &item, sink);
        } else {
            self.on_item_completed(&item);
            self.exec.item_completed(line, item, sink);
        }
        Some(())
    }

    /// Handles input that Codex has taken.
    fn user_message(&mut self, params: Option<&RawValue>) {
        let client_id = wire::read::<UserNotification<'_>>(params).and_then(|user| user.item.client_id);
        if let Some(id) = client_id.and_then(|id| message_id(id.as_str())) {
            self.outbox.push(AgentRequest::MessageTaken { id });
        }
    }

    fn usage(&mut self, params: Option<&RawValue>, sink: &mut Sink<'_>) -> Option<()> {
        let notification: UsageNotification<'_> = wire::read(params)?;
        if Some(notification.thread_id.as_str()) == self.thread_id.as_deref() {
            let live = &mut self.exec.session.live;
            let last = notification.token_usage.last.map(Usage::from);
            live.context_used = last.map(|last| last.input_tokens.saturating_add(last.output_tokens));
            live.context_window = notification.token_usage.model_context_window;
            self.exec
                .record_usage(notification.token_usage.total.into(), sink);
        }
        Some(())
    }

    fn rate_limits(&mut self, params: Option<&RawValue>, sink: &mut Sink<'_>) -> Option<()> {
        let notification: RateLimitsNotification = wire::read(params)?;
        let Some(limits) = notification.rate_limits.fullest()? else {
            return Some(());
        };
        self.exec.session.live.rate_limit = Some(RateLimit {
            used_percent: limits.used_percent,
            resets_at: limits.resets_at,
        });
        if self.limits.replace(limits) != Some(limits) {
            sink(Event::RateLimit {
                status: None,
                resets_at_unix: limits.resets_at,
                utilization: Some(limits.used_percent / 100.0),
            });
        }
        Some(())
    }

    fn error(&mut self, params: Option<&RawValue>, sink: &mut Sink<'_>) -> Option<()> {
        let notification: ErrorNotification<'_> = wire::read(params)?;
        let class = notification.error.class();
        self.failure_class = class.or(self.failure_class);
        let message = notification.error.message.0;
        self.exec.session.error(message, false, class, None, sink);
        Some(())
    }

    fn turn_started(&mut self, params: Option<&RawValue>) -> Option<()> {
        if self.is_main(params)? {
            let started: Option<TurnNotification<'_>> = wire::read(params);
            self.turn_id = started.and_then(|started| Some(started.turn.id?.0.into_owned()));
            self.failure_class = None;
            self.exec.on_turn_started();
        }
        Some(())
    }

    fn turn_completed(&mut self, params: Option<&RawValue>, sink: &mut Sink<'_>) -> Option<()> {
        let TurnNotification { thread_id, turn } = wire::read(params)?;
        if Some(thread_id.as_str()) != self.thread_id.as_deref() {
            return Some(());
        }
        self.turn_id = None;
        let is_interrupted = std::mem::take(&mut self.is_interrupted);
        let succeeded = turn.status.as_str() == "completed";
        match turn.status.as_str() {
            "completed" => self.exec.completed(sink),
            "interrupted" if is_interrupted => self.exec.on_interrupted(sink),
            status => {
                let otherwise = || Cow::Owned(format!("the turn was {status}"));
                let class = turn.error.as_ref().and_then(|error| error.class());
                self.failure_class = class.or(self.failure_class);
                let message = turn.error.map_or_else(otherwise, |error| error.message.0);
                self.exec.failed(&message, self.failure_class, sink);
            }
        }
        self.outbox.push(AgentRequest::TurnEnded { succeeded });
        Some(())
    }
}

impl Adapter for AppServer {
    fn session(&self) -> &Session {
        self.exec.session()
    }

    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        match wire::object::<Message<'_>>(line) {
            Some(message) => self.message(line, &message, sink),
            None => wire::emit_unparsed(line, sink),
        }
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        let mut conclusion = self.exec.conclude(exit, stderr_tail);
        if conclusion.failure_class == Some(FailureClass::RateLimit) {
            let resets_at = self.limits.and_then(|limits| limits.resets_at);
            conclusion.resets_at = resets_at.and_then(|at| Timestamp::from_second(at).ok());
        }
        conclusion
    }

    fn is_partial(&self, line: &str) -> bool {
        self.exec.is_partial(line)
    }

    fn outbox(&mut self) -> Option<&mut Outbox> {
        Some(&mut self.outbox)
    }

    fn answer(&self, approval: &ApprovalRequest, verdict: Verdict<'_>) -> Vec<String> {
        self.answer_approval(approval, verdict)
    }

    fn message_lines(&self, message: &PersonMessage) -> Option<Vec<String>> {
        let thread = json_string(self.thread_id.as_deref()?);
        let interrupt = self.turn_id.as_ref().filter(|_| message.interrupt).map(|turn| {
            format!(
                r#"{},"method":"turn/interrupt","params":{{"threadId":{thread},"turnId":{}}}}}"#,
                request_head(&interrupt_request_id(message.id)),
                json_string(turn),
            )
        });
        let line = format!(
            concat!(
                r#"{},"method":"turn/start","params":{{"threadId":{},"clientUserMessageId":{},"#,
                r#""input":[{{"type":"text","text":{}}}]}}}}"#
            ),
            request_head(&message_request_id(message.id)),
            thread,
            json_string(&message.id.to_string()),
            json_string(&message.text),
        );
        Some(interrupt.into_iter().chain([line]).collect())
    }

    fn unanswered_request(&self) -> Option<UnansweredRequest> {
        let started = self.unanswered.map(|(_, method)| UnansweredRequest {
            message: None,
            method,
        });
        started.or_else(|| self.unanswered_messages.first().copied())
    }

    fn on_message_sent(&mut self, id: MessageId, lines: &[String]) {
        let ids = [
            ("turn/start", message_request_id(id)),
            ("turn/interrupt", interrupt_request_id(id)),
        ];
        for (method, request) in ids {
            let head = request_head(&request);
            if lines.iter().any(|line| line.starts_with(&head)) {
                let message = Some(id);
                self.unanswered_messages
                    .insert(UnansweredRequest { message, method });
            }
        }
    }
}

/// Returns the start of a request with this id.
fn request_head(id: &str) -> String {
    format!(r#"{{"id":{}"#, json_string(id))
}

/// Returns whether a notification shows only that Codex is running, and nothing of its work.
fn is_heartbeat(method: &str) -> bool {
    const FAMILIES: [&str; 6] = [
        "account/",
        "app/",
        "mcpServer/",
        "model/",
        "remoteControl/",
        "skills/",
    ];
    FAMILIES.iter().any(|family| method.starts_with(family))
}

/// Returns whether a notification has nothing for the log.
fn is_ignored(method: &str) -> bool {
    const FAMILIES: [&str; 2] = ["hook/", "thread/"];
    const OTHERS: [&str; 7] = [
        "item/commandExecution/terminalInteraction",
        "item/fileChange/patchUpdated",
        "item/mcpToolCall/progress",
        "item/reasoning/summaryPartAdded",
        "turn/diff/updated",
        "turn/moderationMetadata",
        "turn/plan/updated",
    ];
    OTHERS.contains(&method) || FAMILIES.iter().any(|family| method.starts_with(family))
}

fn warning(params: Option<&RawValue>, sink: &mut Sink<'_>) -> Option<()> {
    let warning: Warning<'_> = wire::read(params)?;
    sink(note(warning.message.or(warning.summary)?.0));
    Some(())
}

/// Converts an item to the form that `codex exec` prints.
fn to_exec_item<'a>(item: Item<'a>, kind: String, changes: Option<&'a RawValue>) -> Item<'a> {
    let thought = || {
        let parts: Vec<String> = wire::read(item.summary)?;
        Some(Text(Cow::Owned(parts.join("\n\n")))).filter(|text| !text.0.is_empty())
    };
    let status = item.status.as_ref().map(|status| snake_case(status.as_str()));
    Item {
        text: if kind == "reasoning" { thought() } else { item.text },
        kind: Text(Cow::Owned(kind)),
        message: None,
        status: status.map(|status| Text(Cow::Owned(status))),
        changes,
        ..item
    }
}

/// Converts a name such as `commandExecution` to `command_execution`, as `codex exec` writes it.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
