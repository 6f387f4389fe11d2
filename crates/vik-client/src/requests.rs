//! The requests of the verbs and of `vik top`, one method each.

use std::time::Duration;

use serde_json::json;
use vik_api::{
    Action, AnswerQuestion, ApprovalDecision, DiffView, EventsPage, Explained, HandBack, IssuesPage, Link,
    MessagesPage, Retry, RunAgain, SendMessage, SentMessage, SessionDetail, SignInsPage, Status, Steered,
    Stop, TakeOver, WhichIssue,
};
use vik_core::approval::Answer;
use vik_core::ids::IssueId;
use vik_core::message::NewMessage;
use vik_core::question::{NewAnswer, Reply};
use vik_core::scheduler::{ApprovalReply, Command};

use crate::client::{Client, TIMEOUT};
use crate::endpoint::{Endpoint, encode};
use crate::error::ClientError;
use crate::line;

/// The timeout of a diff, for which the daemon starts processes.
const DIFF_TIMEOUT: Duration = Duration::from_secs(40);

impl Endpoint {
    /// Signs in with the code of a link that `vik status` prints, as a browser does.
    ///
    /// # Errors
    /// If the daemon cannot be asked, or refuses the code.
    pub async fn sign_in(url: &str, code: &str) -> Result<Self, ClientError> {
        #[derive(serde::Deserialize)]
        struct SignedIn {
            token: String,
        }
        let stranger = Self::Tcp {
            url: url.to_owned(),
            token: "none".to_owned(),
        };
        let client = Client::new(&stranger, "vik-top")?;
        let signed_in: SignedIn = client.post("sign-in", &json!({ "code": code })).await?;
        Ok(Self::Tcp {
            url: url.to_owned(),
            token: signed_in.token,
        })
    }
}

impl Client {
    /// Returns the status of the daemon.
    pub async fn state(&self) -> Result<Status, ClientError> {
        self.get("state", TIMEOUT).await
    }

    /// Returns a page of the issues, after this one.
    pub async fn issues(&self, after: Option<&IssueId>, limit: usize) -> Result<IssuesPage, ClientError> {
        let path = match after {
            None => format!("issues?limit={limit}"),
            Some(after) => format!("issues?limit={limit}&after={}", encode(after.as_str())),
        };
        self.get(&path, TIMEOUT).await
    }

    /// Returns the status, the attempts and the decisions of one issue.
    pub async fn issue(&self, id: &IssueId) -> Result<Explained, ClientError> {
        self.get(&of_issue(id, ""), TIMEOUT).await
    }

    /// Returns the details of an attempt.
    pub async fn session(&self, id: &str) -> Result<SessionDetail, ClientError> {
        self.get(&format!("sessions/{}", encode(id)), TIMEOUT).await
    }

    /// Returns a page of the events of an attempt, after this `seq`.
    pub async fn events(&self, id: &str, after: u64, limit: usize) -> Result<EventsPage, ClientError> {
        let path = format!("sessions/{}/events?after={after}&limit={limit}", encode(id));
        self.get(&path, TIMEOUT).await
    }

    /// Returns the branch of an issue against the commit at which it began.
    pub async fn issue_diff(&self, id: &IssueId) -> Result<DiffView, ClientError> {
        self.get(&of_issue(id, "/diff"), DIFF_TIMEOUT).await
    }

    /// Returns what an attempt changed.
    pub async fn diff(&self, id: &str) -> Result<DiffView, ClientError> {
        self.get(&format!("sessions/{}/diff", encode(id)), DIFF_TIMEOUT)
            .await
    }

    /// Requests an action. A stop is available on the control socket only.
    pub async fn act(&self, action: &Action) -> Result<Steered, ClientError> {
        let nothing = serde_json::Map::new();
        let which = |issue: &Option<IssueId>| WhichIssue {
            issue_id: issue.clone(),
        };
        match action {
            Action::Refresh => self.post("refresh", &nothing).await,
            Action::Stop { keep_sessions } => self.stop(*keep_sessions).await,
            Action::RunAgain { issue, stage } => {
                let body = RunAgain { stage: stage.clone() };
                self.post(&of_issue(issue, "/run-again"), &body).await
            }
            Action::HandBack { issue, message } => {
                let body = HandBack {
                    message: message.clone(),
                };
                self.post(&of_issue(issue, "/hand-back"), &body).await
            }
            // The daemon itself finds the changed files.
            Action::Command(Command::HandBack(request)) => {
                let body = HandBack {
                    message: request.message.clone(),
                };
                self.post(&of_issue(&request.issue, "/hand-back"), &body).await
            }
            Action::Command(Command::TakeOver(request)) => {
                let body = TakeOver {
                    stage: request.stage.clone(),
                    wait: request.wait,
                };
                self.post(&of_issue(&request.issue, "/take-over"), &body).await
            }
            Action::Command(Command::Pause(issue)) => self.post("pause", &which(issue)).await,
            Action::Command(Command::Resume(issue)) => self.post("resume", &which(issue)).await,
            Action::Command(Command::Cancel(issue)) => self.post(&of_issue(issue, "/cancel"), &nothing).await,
            Action::Command(Command::Retry(request)) => {
                let body = Retry {
                    stage: request.stage.clone(),
                    attempts: request.attempts,
                    agent: request.agent,
                };
                self.post(&of_issue(&request.issue, "/retry"), &body).await
            }
            Action::Command(Command::Answer(reply)) => self.answer(reply).await,
            Action::Command(Command::AnswerQuestion(answer)) => self.answer_question(answer).await,
            Action::Command(Command::SendMessage(message)) => {
                self.send_message(message).await?;
                Ok(Steered {
                    count: 1,
                    nothing: None,
                })
            }
            Action::Command(Command::WithdrawMessage(withdrawal)) => {
                self.withdraw_message(&withdrawal.issue, &withdrawal.message.to_string())
                    .await
            }
            Action::Command(Command::Drain) => self.post("drain", &nothing).await,
        }
    }

    async fn answer(&self, reply: &ApprovalReply) -> Result<Steered, ClientError> {
        let verb = match reply.answer {
            Answer::Approve { .. } => "/approve",
            Answer::Deny { .. } | Answer::Instruct { .. } => "/deny",
        };
        let body = ApprovalDecision {
            stage: reply.stage.clone(),
            request: reply.request.clone(),
            message: reply.answer.message().map(str::to_owned),
        };
        self.post(&of_issue(&reply.issue, verb), &body).await
    }

    async fn answer_question(&self, answer: &NewAnswer) -> Result<Steered, ClientError> {
        let (text, choice) = match &answer.reply {
            Reply::Text(text) => (Some(text.clone()), None),
            Reply::Choice(choice) => (None, Some(u32::try_from(*choice).unwrap_or(u32::MAX))),
        };
        let body = AnswerQuestion {
            stage: answer.stage.clone(),
            question: answer.question.map(|id| id.to_string()),
            text,
            choice,
        };
        self.post(&of_issue(&answer.issue, "/answer"), &body).await
    }

    /// Sends a message to the agent of an issue.
    pub async fn send_message(&self, message: &NewMessage) -> Result<SentMessage, ClientError> {
        let body = SendMessage {
            text: message.text.clone(),
            interrupt: message.interrupt,
        };
        self.post(&of_issue(&message.issue, "/messages"), &body).await
    }

    /// Returns the messages that wait for an agent of an issue.
    pub async fn messages(&self, issue: &IssueId) -> Result<MessagesPage, ClientError> {
        self.get(&of_issue(issue, "/messages"), TIMEOUT).await
    }

    /// Withdraws a message that no agent has taken.
    pub async fn withdraw_message(&self, issue: &IssueId, message: &str) -> Result<Steered, ClientError> {
        let path = format!("{}/{}", of_issue(issue, "/messages"), encode(message));
        self.delete(&path).await
    }

    async fn stop(&self, keep_sessions: bool) -> Result<Steered, ClientError> {
        match (self.post("stop", &Stop { keep_sessions }).await, self.socket()) {
            (Err(error), Some(socket)) if error.is_unknown_path() => {
                line::stop(self, socket, keep_sessions).await
            }
            (result, _) => result,
        }
    }

    /// Creates a link that opens the dashboard once. Available on the control socket only.
    pub async fn link(&self) -> Result<Link, ClientError> {
        self.post("link", &serde_json::Map::new()).await
    }

    /// Lists the browsers that are signed in to the dashboard.
    pub async fn sign_ins(&self) -> Result<SignInsPage, ClientError> {
        self.get("sign-ins", TIMEOUT).await
    }

    /// Signs out one browser, or all of them. All is available on the control socket only.
    pub async fn revoke_sign_in(&self, id: Option<&str>) -> Result<Steered, ClientError> {
        let path = match id {
            Some(id) => format!("sign-ins/{}/revoke", encode(id)),
            None => "sign-ins/revoke".to_owned(),
        };
        self.post(&path, &serde_json::Map::new()).await
    }
}

/// Returns a path of one issue.
fn of_issue(id: &IssueId, path: &str) -> String {
    format!("issues/{}{path}", encode(id.as_str()))
}
