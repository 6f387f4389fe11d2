//! `vik message`

use std::path::{Path, PathBuf};

use clap::Args;
use vik_api::{Delivery, DeliveryTo, MessageView, MessagesPage, SCHEMA, SentMessage};
use vik_base::report::{ErrorCode, Failure, date_time, one_line};
use vik_core::ids::{IssueId, MessageId};
use vik_core::message::{MessageRefusal, NewMessage, Withdrawal, check_text};
use vik_core::scheduler::{Command, CommandResult};
use vik_orchestrator::api_view;
use vik_workflow::{WorkflowFile, absolute};

use super::issue_arg::IssueAndText;
use super::text_input::text;
use super::{CliResult, client, history, print_result};

/// `vik message`
#[derive(Debug, Args)]
#[command(
    after_help = "The running agent reads the text after its current step. If no agent runs, or it cannot be \
                  steered, the message waits and is part of the prompt of the next attempt, which continues the \
                  conversation where it can. Until an agent has taken it, a message can be withdrawn.\n\nWithout \
                  TEXT, or with `-`, the text is read from stdin. Only people can send messages: the command is \
                  refused in agents and their children."
)]
pub struct MessageArgs {
    #[command(flatten)]
    pub issue: IssueAndText,
    /// Read the text from a file
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Stop the agent's current step for the message, without ending the attempt
    #[arg(long)]
    pub interrupt: bool,
    /// List the messages that wait for an agent
    #[arg(long, conflicts_with_all = ["file", "interrupt", "withdraw"])]
    pub list: bool,
    /// Withdraw a message that no agent has taken; --list prints the ids
    #[arg(long, value_name = "ID", conflicts_with_all = ["file", "interrupt"])]
    pub withdraw: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(workflow: &Path, args: &MessageArgs) -> CliResult {
    let issue = IssueId::new(args.issue.id());
    if args.list {
        args.issue.without_text("--list")?;
        list(workflow, &issue, args.json)
    } else if let Some(id) = &args.withdraw {
        args.issue.without_text("--withdraw")?;
        withdraw(workflow, &issue, id, args.json)
    } else {
        let message = NewMessage {
            issue,
            text: text(
                "message",
                &args.issue,
                args.file.as_deref(),
                ErrorCode::MessageInvalid,
            )?,
            interrupt: args.interrupt,
        };
        send(workflow, message, args.json)
    }
}

fn send(workflow: &Path, message: NewMessage, json: bool) -> CliResult {
    check_text(&message.text).map_err(|refusal| api_view::message_refused(&refusal))?;
    let issue = message.issue.clone();
    let sent = match client::find_running(workflow)? {
        Some((instance, info)) => {
            let send = async |client: &vik_client::Client| client.send_message(&message).await;
            let sent = client::request(&instance, &info, send)?;
            // It may have stored the message before it ended.
            let hint = format!(
                "`vik message {} --list` shows whether the message was stored",
                one_line(issue.as_str(), 60)
            );
            sent.ok_or_else(|| client::no_daemon(&info.workflow_path).hint(hint))?
        }
        None => match offline(workflow, Command::SendMessage(message))? {
            CommandResult::Sent(message) => SentMessage {
                message: MessageView::from(*message),
                delivery: without_daemon(),
            },
            other => return Err(client::offline_refusal(other, Some(&issue))),
        },
    };
    print_result(json, &sent, || sent_text(&issue, &sent))
}

/// Returns what happens to a message, for people.
fn sent_text(issue: &IssueId, sent: &SentMessage) -> String {
    let id = one_line(issue.as_str(), 60);
    let mut text = format!("issue {id}: {}\n", delivery_text(&sent.delivery));
    if let Some(hint) = &sent.delivery.hint {
        text.push_str(&format!("to start it: {hint}\n"));
    }
    let message = &sent.message.id;
    text.push_str(&format!(
        "to withdraw it before an agent takes it: `vik message {id} --withdraw {message}`\n"
    ));
    text
}

fn delivery_text(delivery: &Delivery) -> String {
    let Delivery {
        to,
        stage,
        agent,
        because,
        ..
    } = delivery;
    let because = because.as_deref().map(|because| one_line(because, 300));
    match (to, agent, stage) {
        (DeliveryTo::Agent, Some(agent), Some(stage)) => {
            let later = because.map_or_else(String::new, |because| format!("; {because}"));
            format!("sent to the running agent ({agent}, stage {stage}){later}")
        }
        _ => match because {
            Some(because) => format!("waits: {because}; the next attempt gets it"),
            None => "waits: the next attempt gets it".to_owned(),
        },
    }
}

fn list(workflow: &Path, issue: &IssueId, json: bool) -> CliResult {
    let page = match client::find_running(workflow)? {
        Some((instance, info)) => {
            let list = async |client: &vik_client::Client| client.messages(issue).await;
            let page = client::request(&instance, &info, list)?;
            page.ok_or_else(|| client::no_daemon(&info.workflow_path))?
        }
        None => stored(workflow, issue)?,
    };
    print_result(json, &page, || list_text(&page))
}

/// Returns the waiting messages for people.
fn list_text(page: &MessagesPage) -> String {
    let id = one_line(page.issue_id.as_str(), 60);
    if page.messages.is_empty() {
        return format!("issue {id}: no message waits\n");
    }
    let mut text = String::new();
    for message in &page.messages {
        let MessageView {
            id,
            text: body,
            by,
            at,
            ..
        } = message;
        let interrupt = if message.interrupt { ", interrupts" } else { "" };
        let has_it = if page.is_delivered(message) {
            "delivered, not taken"
        } else {
            "waits for the next attempt"
        };
        text.push_str(&format!(
            "{id}  {has_it}{interrupt}\n  {}, {}\n",
            one_line(by, 100),
            date_time(*at)
        ));
        for line in body.lines() {
            text.push_str(&format!("  | {}\n", vik_core::visible::visible(line)));
        }
    }
    text
}

/// Returns the messages that the ledger has.
fn stored(workflow: &Path, issue: &IssueId) -> Result<MessagesPage, Failure> {
    let layout = history::layout(&absolute(workflow))?;
    let ledger = history::ledger(layout.root()).ok_or_else(|| api_view::unknown_issue(issue.as_str()))?;
    let machines = ledger.recall(std::slice::from_ref(issue));
    let machine = machines?.pop();
    let machine = machine.ok_or_else(|| api_view::unknown_issue(issue.as_str()))?;
    Ok(MessagesPage {
        schema: SCHEMA,
        issue_id: issue.clone(),
        messages: api_view::messages(&machine),
        delivery: without_daemon(),
    })
}

fn withdraw(workflow: &Path, issue: &IssueId, id: &str, json: bool) -> CliResult {
    let message = uuid::Uuid::try_parse(id).map(MessageId);
    let message = message.map_err(|_| api_view::message_refused(&MessageRefusal::NotWaiting))?;
    match client::find_running(workflow)? {
        Some((instance, info)) => {
            let withdraw = async |client: &vik_client::Client| {
                client.withdraw_message(issue, &message.to_string()).await
            };
            let done = client::request(&instance, &info, withdraw)?;
            done.ok_or_else(|| client::no_daemon(&info.workflow_path))?;
        }
        None => {
            let withdrawal = Withdrawal {
                issue: issue.clone(),
                message,
                is_unread: false,
            };
            match offline(workflow, Command::WithdrawMessage(withdrawal))? {
                CommandResult::Done(_) => {}
                other => return Err(client::offline_refusal(other, Some(issue))),
            }
        }
    }
    let withdrawn = serde_json::json!({ "schema": SCHEMA, "withdrawn": message.to_string() });
    print_result(json, &withdrawn, || {
        format!("issue {}: message withdrawn\n", one_line(issue.as_str(), 60))
    })
}

/// Applies a command to the ledger; the next daemon does what follows from it.
fn offline(workflow: &Path, command: Command) -> Result<CommandResult, Failure> {
    let loaded = WorkflowFile::valid(&absolute(workflow), |_| {})?;
    vik_daemon::offline::apply(&loaded, command)
}

fn without_daemon() -> Delivery {
    Delivery {
        to: DeliveryTo::NextAttempt,
        session_id: None,
        stage: None,
        agent: None,
        because: Some("no daemon is running".to_owned()),
        hint: Some("`vik run`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn delivery(to: DeliveryTo, because: Option<&str>) -> Delivery {
        Delivery {
            to,
            session_id: Some("s".to_owned()),
            stage: Some("implement".into()),
            agent: Some("claude".into()),
            because: because.map(str::to_owned),
            hint: None,
        }
    }

    #[test]
    fn delivery_names_the_agent_or_the_reason_to_wait() {
        let text = delivery_text(&delivery(DeliveryTo::Agent, None));
        assert_eq!(text, "sent to the running agent (claude, stage implement)");
        let text = delivery_text(&delivery(
            DeliveryTo::NextAttempt,
            Some("the agent cannot be steered: `runtime: command`"),
        ));
        assert_eq!(
            text,
            "waits: the agent cannot be steered: `runtime: command`; the next attempt gets it"
        );
        assert_eq!(
            delivery_text(&without_daemon()),
            "waits: no daemon is running; the next attempt gets it"
        );
    }

    #[test]
    fn list_shows_control_sequences_as_codes() {
        let message = MessageView {
            id: "1".to_owned(),
            text: "one\n\u{1b}[2J".to_owned(),
            by: "a person (command line, pid 7)".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            interrupt: true,
            session_id: None,
            in_prompt: false,
        };
        let page = MessagesPage {
            schema: SCHEMA,
            issue_id: "7".into(),
            messages: vec![message],
            delivery: without_daemon(),
        };
        let text = list_text(&page);
        assert!(
            text.starts_with("1  waits for the next attempt, interrupts\n"),
            "{text}"
        );
        // The attempt that has a message can have an agent that takes none.
        for (to, shown) in [
            (DeliveryTo::Agent, "1  delivered, not taken"),
            (DeliveryTo::NextAttempt, "1  waits for the next attempt"),
        ] {
            let mut page = page.clone();
            page.messages[0].session_id = Some("s".to_owned());
            page.delivery.session_id = Some("s".to_owned());
            page.delivery.to = to;
            assert!(list_text(&page).starts_with(shown), "{to:?}");
        }
        assert!(text.contains("  | one\n") && !text.contains('\u{1b}'), "{text}");
    }
}
