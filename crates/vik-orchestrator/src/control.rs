//! Answers the requests of the control socket.

use tokio::sync::oneshot;
use vik_api::{ErrorBody, IssuesPage, PROTOCOL, Response, SCHEMA, Verb};
use vik_base::report::ErrorCode;
use vik_core::ids::IssueId;
use vik_core::scheduler::{Actor, ApprovalReply, Command, CommandResult, Input, RetryRequest};
use vik_session::attempt::StopLevel;

use super::{ControlRequest, Orchestrator};
use crate::api_view;

impl Orchestrator {
    pub(super) fn on_control_request(&mut self, control_request: ControlRequest) {
        let ControlRequest {
            request,
            by,
            answer: answer_to,
        } = control_request;
        if request.v != PROTOCOL {
            return respond(
                answer_to,
                error(
                    ErrorCode::Protocol,
                    format!("this daemon speaks version {PROTOCOL} of the control protocol"),
                    "use the same version of vik, or `vik restart`",
                ),
            );
        }
        if steers(&request.verb) {
            tracing::info!(%by, verb = ?request.verb, "request received");
        }
        match request.verb {
            Verb::Status => respond(answer_to, Response::Status(Box::new(self.status()))),
            Verb::Refresh => {
                self.refresh();
                respond(answer_to, Response::Accepted);
            }
            Verb::Stop { keep_sessions: true } => {
                self.stop_keeping_sessions();
                respond(answer_to, Response::Accepted);
            }
            Verb::Stop { keep_sessions: false } => {
                // A repeated request does not skip the grace; a second signal does.
                if self.stop == StopLevel::Run {
                    self.stop();
                }
                respond(answer_to, Response::Accepted);
            }
            Verb::Pause { issue } => self.ask(Command::Pause(issue), by, answer_to),
            Verb::Resume { issue } => self.ask(Command::Resume(issue), by, answer_to),
            Verb::Cancel { issue } => self.ask(Command::Cancel(issue), by, answer_to),
            Verb::Retry {
                issue,
                stage,
                attempts,
            } => {
                let request = RetryRequest {
                    issue,
                    stage,
                    attempts,
                };
                self.ask(Command::Retry(request), by, answer_to);
            }
            Verb::Answer {
                issue,
                stage,
                request,
                answer,
            } => {
                let reply = ApprovalReply {
                    issue,
                    stage,
                    request,
                    answer,
                };
                self.ask(Command::Answer(reply), by, answer_to);
            }
            Verb::Drain => {
                self.ask(Command::Drain, by, answer_to);
                self.drain();
            }
            Verb::Issues { after, query, limit } => {
                let page = self.issues(after.as_ref(), query.as_deref(), limit);
                respond(answer_to, Response::Issues(Box::new(page)));
            }
            // The control socket answers these itself.
            Verb::Link | Verb::SignIns | Verb::RevokeSignIn { .. } => respond(
                answer_to,
                Response::Nothing {
                    why: "HTTP is not served on TCP".to_owned(),
                },
            ),
            Verb::Explain { issue } => {
                let explanation = api_view::explanation(&self.scheduler, &self.workflow, &issue, self.now());
                let explanation = explanation.map_or(Response::NotFound, |explanation| {
                    Response::Explanation(Box::new(explanation))
                });
                respond(answer_to, explanation);
            }
        }
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
    fn ask(&mut self, command: Command, by: Actor, answer: oneshot::Sender<Response>) {
        if let Some(broken) = &self.broken {
            let message = vik_base::report::chain(&broken.error);
            return respond(
                answer,
                error(ErrorCode::Ledger, message, "the daemon is shutting down"),
            );
        }
        self.next_request += 1;
        self.answers.insert(self.next_request, answer);
        self.handle(Input::Command(self.next_request, command, by));
    }
}

/// Returns whether a verb changes what the daemon does.
fn steers(verb: &Verb) -> bool {
    !matches!(
        verb,
        Verb::Status
            | Verb::Issues { .. }
            | Verb::Explain { .. }
            | Verb::Link
            | Verb::SignIns
            | Verb::RevokeSignIn { .. }
    )
}

fn respond(answer: oneshot::Sender<Response>, response: Response) {
    // The client may have disconnected.
    let _ = answer.send(response);
}

/// Converts the result of a command to a response.
pub(super) fn response(answer: &CommandResult) -> Response {
    match answer {
        CommandResult::Done(count) => Response::Done { count: *count },
        CommandResult::UnknownIssue => Response::NotFound,
        CommandResult::NoEffect(why) => Response::Nothing {
            why: (*why).to_owned(),
        },
    }
}

fn error(code: ErrorCode, message: String, hint: &str) -> Response {
    Response::Error(ErrorBody {
        code: code.to_string(),
        message,
        hint: Some(hint.to_owned()),
    })
}
