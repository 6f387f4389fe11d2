//! Requests to the loop: of the API, of webhooks and of the schedule.

use std::sync::Arc;

use tokio::sync::oneshot;
use vik_api::{Action, ErrorBody, Explanation, IssuesPage, MessagesPage, PullView, SCHEMA, Status};
use vik_base::failpoint;
use vik_base::report::ErrorCode;
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::scheduler::{Actor, Command, CommandResult, Input};

use vik_core::workflow::Workflow;

use crate::progress::Progress;
use crate::status::StatusParts;
use crate::{Orchestrator, api_view};

/// A request to the loop, with the channel for its response.
#[derive(Debug)]
pub enum ControlRequest {
    /// The status of the daemon.
    Status(oneshot::Sender<Box<Status>>),
    /// The issues by id.
    Issues {
        /// Only issues after this one.
        after: Option<IssueId>,
        /// Only issues with this text in their id, title or state, ignoring case.
        query: Option<String>,
        /// The maximum number of issues.
        limit: u32,
        answer: oneshot::Sender<IssuesPage>,
    },
    /// The status of an issue, when it starts next, and the issue; `None` if it is unknown.
    Explain {
        issue: IssueId,
        answer: oneshot::Sender<Option<(Explanation, Issue)>>,
    },
    /// The messages of people that wait for an agent of an issue; `None` if it is unknown.
    Messages {
        issue: IssueId,
        answer: oneshot::Sender<Option<MessagesPage>>,
    },
    /// The workflow that is in force.
    Workflow(oneshot::Sender<Arc<Workflow>>),
    /// The latest pulls, latest first.
    Pulls(oneshot::Sender<Vec<PullView>>),
    /// An action of a person or of a component.
    Act {
        action: Action,
        by: Actor,
        answer: oneshot::Sender<ActionResult>,
    },
}

/// The result of an [`Action`], or why the loop cannot decide it.
pub type ActionResult = Result<CommandResult, ErrorBody>;

impl Orchestrator {
    pub(super) fn on_control_request(&mut self, request: ControlRequest) {
        // A client may have disconnected, so a response may have no receiver.
        match request {
            ControlRequest::Status(answer) => {
                let _ = answer.send(Box::new(self.current_status()));
            }
            ControlRequest::Issues {
                after,
                query,
                limit,
                answer,
            } => {
                let _ = answer.send(self.issues(after.as_ref(), query.as_deref(), limit));
            }
            ControlRequest::Explain { issue, answer } => {
                let now = self.now();
                let mut explanation = api_view::explanation(&self.scheduler, &self.workflow, &issue, now);
                if let Some(explanation) = &mut explanation {
                    explanation.workspace = self.retention.why_kept(&issue, &self.workflow);
                }
                let machine = self.scheduler.machine(&issue);
                let _ = answer.send(explanation.zip(machine.map(|machine| machine.issue().clone())));
            }
            ControlRequest::Messages { issue, answer } => {
                let _ = answer.send(self.messages(&issue));
            }
            ControlRequest::Workflow(answer) => {
                let _ = answer.send(Arc::clone(&self.workflow));
            }
            ControlRequest::Pulls(answer) => {
                let _ = answer.send(self.pulls.recent().cloned().collect());
            }
            ControlRequest::Act { action, by, answer } => {
                let issue = action.issue().map(IssueId::as_str);
                tracing::info!(%by, action = action.as_str(), issue, "request received");
                self.act(action, by, answer);
            }
        }
    }

    fn act(&mut self, action: Action, by: Actor, answer: oneshot::Sender<ActionResult>) {
        match action {
            Action::Command(command) => {
                let is_drain = command == Command::Drain;
                self.ask(command, by, answer);
                if is_drain {
                    self.drain();
                }
                return;
            }
            Action::RunAgain { issue, stage } => {
                let request = self.requests.add(answer);
                if let Some(result) = self.run_again(issue, stage, by, request) {
                    self.requests.respond(request, result);
                }
                return;
            }
            Action::HandBack { issue, message } => {
                let request = self.requests.add(answer);
                if let Some(result) = self.hand_back(issue, message, by, request) {
                    self.requests.respond(request, result);
                }
                return;
            }
            Action::Refresh => self.refresh(),
            Action::Stop { keep_sessions: true } => self.stop_keeping_sessions(),
            Action::Stop { keep_sessions: false } => {
                // A repeated request does not skip the grace; a second signal does.
                if !self.lifecycle.stops_attempts() {
                    self.stop();
                }
            }
        }
        let _ = answer.send(Ok(CommandResult::Done(0)));
    }

    fn current_status(&self) -> Status {
        self.status.status(&StatusParts {
            scheduler: &self.scheduler,
            workflow: &self.workflow,
            edits: &self.edits,
            lifecycle: &self.lifecycle,
            attempts: &self.attempts,
            pulls: &self.pulls,
            retention: &self.retention,
            now: self.now(),
        })
    }

    /// Returns a page of all known issues.
    fn issues(&self, after: Option<&IssueId>, query: Option<&str>, limit: u32) -> IssuesPage {
        let query = query.map(str::to_lowercase).filter(|query| !query.is_empty());
        let is_match = |id: &IssueId| {
            let (Some(query), Some(machine)) = (&query, self.scheduler.machine(id)) else {
                return true;
            };
            let issue = machine.issue();
            [id.as_str(), &issue.title, &issue.state]
                .iter()
                .any(|text| text.to_lowercase().contains(query.as_str()))
        };
        let mut ids: Vec<&IssueId> = self.scheduler.issues().filter(|id| is_match(id)).collect();
        ids.sort();
        let total = ids.len();
        let start = after.map_or(0, |after| ids.partition_point(|id| *id <= after));
        let limit = limit as usize;
        let now = self.now();
        let page = &ids[start..(start + limit).min(total)];
        IssuesPage {
            schema: SCHEMA,
            issues: page
                .iter()
                .filter_map(|id| api_view::explanation(&self.scheduler, &self.workflow, id, now))
                .collect(),
            next: page
                .last()
                .filter(|_| start + limit < total)
                .map(|id| (*id).clone()),
            total,
        }
    }

    /// Passes a command to the scheduler. The response is sent when the decision is on disk.
    fn ask(&mut self, mut command: Command, by: Actor, answer: oneshot::Sender<ActionResult>) {
        if let Some(broken) = self.lifecycle.broken() {
            let _ = answer.send(Err(ErrorBody {
                code: ErrorCode::Ledger.to_string(),
                message: vik_base::report::chain(&broken.failure),
                hint: Some("the daemon is shutting down".to_owned()),
            }));
            return;
        }
        if let Command::WithdrawMessage(withdrawal) = &mut command {
            withdrawal.is_unread = self.take_back(withdrawal);
        }
        if matches!(command, Command::SendMessage(_)) {
            failpoint::reach("message_decided");
        }
        let changes_messages = matches!(command, Command::SendMessage(_) | Command::WithdrawMessage(_));
        let issue = command.issue().filter(|_| changes_messages).cloned();
        let number = self.requests.add(answer);
        self.handle(Input::Command(number, command, by));
        if let Some(issue) = issue {
            self.effects.publish(&Progress::Messages(&issue));
        }
    }
}
