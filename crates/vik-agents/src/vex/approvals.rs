//! The input of vex that stays open: messages of people (`vex exec --messages`), and native approval
//! before each call (`--ask`), in which vex decides nothing itself. A vex without these flags exits
//! with a usage error.

use serde::Deserialize;
use vik_core::approval::Call;
use vik_core::message::Message;

use crate::request::{AgentRequest, ApprovalRequest, Outbox, Verdict, json_string, message_id};
use crate::wire::{self, Text};

/// The pending requests of one session.
#[derive(Debug)]
pub(super) struct Approvals {
    outbox: Outbox,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct AskEvent<'a> {
    ask: Text<'a>,
    tool: Text<'a>,
    command: Option<Text<'a>>,
    #[serde(default)]
    paths: Vec<Text<'a>>,
    writes: bool,
}

impl Approvals {
    pub(super) fn new(prompt: &str) -> Self {
        Self {
            outbox: Outbox::starting_with(format!(r#"{{"prompt":{}}}"#, json_string(prompt))),
        }
    }

    pub(super) fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    pub(super) fn on_ask(&mut self, line: &str) {
        let Some(event) = wire::object::<AskEvent<'_>>(line) else {
            let why = "invalid approval request from vex".to_owned();
            return self.outbox.push(AgentRequest::ProtocolError(why));
        };
        let id = event.ask.0.into_owned();
        self.outbox.push(AgentRequest::Approval(ApprovalRequest {
            call: Call {
                tool: event.tool.0.into_owned(),
                command: event.command.map(|command| command.0.into_owned()),
                paths: event.paths.into_iter().map(|path| path.0.into_owned()).collect(),
            },
            writes: event.writes,
            answer_prefix: answer_prefix(&id),
            id,
        }));
    }
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct TakenEvent<'a> {
    id: Text<'a>,
}

impl Approvals {
    /// Handles the event that a message was taken.
    pub(super) fn on_taken(&mut self, line: &str) -> Option<()> {
        let event: TakenEvent<'_> = wire::object(line)?;
        let id = message_id(event.id.as_str())?;
        self.outbox.push(AgentRequest::MessageTaken { id });
        Some(())
    }
}

/// Returns the line that sends a message of a person.
pub(super) fn message_line(message: &Message) -> String {
    let interrupt = if message.interrupt {
        r#","interrupt":true"#
    } else {
        ""
    };
    format!(
        r#"{{"message":{{"id":{},"text":{}{interrupt}}}}}"#,
        json_string(&message.id.to_string()),
        json_string(&message.text)
    )
}

fn answer_prefix(id: &str) -> String {
    format!(r#"{{"ask":{}"#, json_string(id))
}

/// Returns the line that answers an approval request.
pub(super) fn answer(approval: &ApprovalRequest, verdict: Verdict<'_>) -> String {
    let head = &approval.answer_prefix;
    match verdict {
        Verdict::Allow => format!(r#"{head},"decision":"allow"}}"#),
        Verdict::Refuse(message) => {
            format!(r#"{head},"decision":"deny","message":{}}}"#, json_string(message))
        }
    }
}
