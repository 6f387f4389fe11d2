//! `vik message`

use axum::Extension;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use vik_api::{MessagesPage, SendMessage, SentMessage, Steered};
use vik_core::ids::{IssueId, MessageId};
use vik_core::message::{MessageRefusal, NewMessage, Withdrawal};
use vik_core::scheduler::{Command, CommandResult};
use vik_orchestrator::{ControlRequest, api_view};

use super::{Caller, MAX_TEXT_BODY};
use crate::http::answer::{Answer, Input, IssueInPath, Json, Refusal};
use crate::http::daemon::Daemon;
use crate::http::route::{Route, json};

const PATH: &str = "/issues/{id}/messages";

pub fn send_route() -> Route {
    Route::post::<SendMessage>(
        PATH,
        "Send a message to the agent of the issue: the running one, or that of the next attempt",
        post(send).layer(DefaultBodyLimit::max(MAX_TEXT_BODY)),
    )
    .gives(json::<SentMessage>())
    .accepts()
}

pub fn list_route() -> Route {
    Route::get(
        PATH,
        "List the messages that wait for an agent of the issue, oldest first",
        json::<MessagesPage>(),
        get(list),
    )
}

pub fn withdraw_route() -> Route {
    Route::delete(
        "/issues/{id}/messages/{message}",
        "Withdraw a message that no agent has taken",
        delete(withdraw),
    )
}

async fn send(
    (State(daemon), Extension(by)): Caller,
    IssueInPath(issue): IssueInPath,
    Input(SendMessage { text, interrupt }): Input<SendMessage>,
) -> Result<(StatusCode, Json<SentMessage>), Refusal> {
    let command = Command::SendMessage(NewMessage {
        issue: issue.clone(),
        text,
        interrupt,
    });
    let message = match daemon.decide(command.into(), by).await? {
        CommandResult::Sent(message) => *message,
        other => return Err(Refusal::of_result(other, Some(&issue))),
    };
    let page = messages(&daemon, issue).await?;
    let id = message.id.to_string();
    let waiting = page.messages.into_iter().find(|waiting| waiting.id == id);
    let sent = SentMessage {
        message: waiting.unwrap_or_else(|| message.into()),
        delivery: page.delivery,
    };
    Ok((StatusCode::ACCEPTED, Json(sent)))
}

async fn list(
    State(daemon): State<std::sync::Arc<Daemon>>,
    IssueInPath(issue): IssueInPath,
) -> Answer<MessagesPage> {
    messages(&daemon, issue).await.map(Json)
}

async fn withdraw(
    (State(daemon), Extension(by)): Caller,
    Path((issue, message)): Path<(String, String)>,
) -> Answer<Steered> {
    let Ok(message) = uuid::Uuid::try_parse(&message) else {
        return Err(api_view::message_refused(&MessageRefusal::NotWaiting).into());
    };
    let command = Command::WithdrawMessage(Withdrawal {
        issue: IssueId::new(issue),
        message: MessageId(message),
        // The daemon's loop finds it out.
        is_unread: false,
    });
    daemon.act(command.into(), by).await
}

async fn messages(daemon: &Daemon, issue: IssueId) -> Result<MessagesPage, Refusal> {
    let request = |answer| ControlRequest::Messages {
        issue: issue.clone(),
        answer,
    };
    let page = daemon.ask(request).await?;
    page.ok_or_else(|| Refusal::unknown_issue(&issue))
}
