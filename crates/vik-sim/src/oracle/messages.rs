//! Messages of people: each is taken once, or withdrawn, or waits in the ledger.

use std::collections::BTreeMap;

use vik_core::ids::{IssueId, MessageId};
use vik_core::scheduler::{Command, CommandResult};

use super::{Broken, Oracle, ensure};
use crate::disk::Disk;

const KEPT: &str = "a message waits in the ledger until an agent has taken it or it is withdrawn";

/// The messages that people sent, or that agents have taken.
#[derive(Default)]
pub(super) struct Messages(BTreeMap<MessageId, Known>);

struct Known {
    issue: IssueId,
    is_taken: bool,
    is_withdrawn: bool,
}

fn is_stored(disk: &Disk, issue: &IssueId, message: MessageId) -> bool {
    let machine = disk.machines.get(issue);
    machine.is_some_and(|machine| {
        machine
            .messages()
            .iter()
            .any(|waiting| waiting.message.id == message)
    })
}

impl Messages {
    fn known(&mut self, issue: &IssueId, message: MessageId) -> &mut Known {
        self.0.entry(message).or_insert_with(|| Known {
            issue: issue.clone(),
            is_taken: false,
            is_withdrawn: false,
        })
    }

    /// A withdrawal that was not committed did not happen.
    pub(super) fn crashed(&mut self, disk: &Disk) {
        for (message, known) in &mut self.0 {
            known.is_withdrawn &= !is_stored(disk, &known.issue, *message);
        }
    }

    pub(super) fn standing(&self, disk: &Disk) -> Result<(), Broken> {
        let lost = self.0.iter().find(|(message, known)| {
            !known.is_taken && !known.is_withdrawn && !is_stored(disk, &known.issue, **message)
        });
        ensure(lost.is_none(), KEPT, || {
            format!("{:?} is lost", lost.map(|(message, _)| message))
        })
    }
}

impl Oracle {
    /// Checks that a message is taken for the first time, and only if it is in the ledger.
    pub(crate) fn takes(&mut self, issue: &IssueId, message: MessageId, disk: &Disk) -> Result<(), Broken> {
        ensure(is_stored(disk, issue, message), KEPT, || {
            format!("{message} is not stored")
        })?;
        let known = self.messages.known(issue, message);
        ensure(!known.is_withdrawn, "a withdrawn message is not taken", || {
            message.to_string()
        })?;
        let is_first = !std::mem::replace(&mut known.is_taken, true);
        ensure(is_first, "a message is taken at most once", || {
            message.to_string()
        })
    }

    /// Handles the decision about a command.
    pub(super) fn message_decided(&mut self, ask: &Command, result: &CommandResult) {
        if let (Command::WithdrawMessage(withdrawal), CommandResult::Done(_)) = (ask, result) {
            let known = self.messages.known(&withdrawal.issue, withdrawal.message);
            known.is_withdrawn = true;
        }
    }

    /// Handles the answer to a command, which is durable now.
    pub(super) fn message_answered(&mut self, ask: &Command, result: &CommandResult) {
        if let (Command::SendMessage(new), CommandResult::Sent(message)) = (ask, result) {
            self.messages.known(&new.issue, message.id);
        }
    }
}
