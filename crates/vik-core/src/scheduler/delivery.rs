//! The messages of people: they wait in the machine of their issue until an agent has taken them.

use super::{Actor, CommandResult, DecisionSubject, Effect, Scheduler};
use crate::decision_kind::DecisionKind;
use crate::ids::{AttemptId, IssueId, MessageId};
use crate::message::{self, MAX_WAITING, Message, MessageRefusal, NewMessage, Withdrawal};
use crate::plural::count;
use crate::time::Now;

impl Scheduler {
    pub(super) fn send_message(&mut self, new: NewMessage, by: &Actor, now: Now) -> CommandResult {
        let NewMessage {
            issue,
            text,
            interrupt,
        } = new;
        let Some(machine) = self.machines.get_mut(&issue) else {
            return CommandResult::UnknownIssue;
        };
        if let Err(refusal) = message::check_text(&text) {
            return CommandResult::Refused(refusal);
        }
        let state = &machine.issue().state;
        // A running agent gets it even if the issue has been closed meanwhile.
        if self.workflow.is_terminal(state) && !machine.is_active() {
            return CommandResult::Refused(MessageRefusal::Finished((**state).into()));
        }
        if machine.messages().len() >= MAX_WAITING {
            return CommandResult::Refused(MessageRefusal::TooMany);
        }
        let message = Message {
            id: self.ids.message(now),
            text,
            by: by.to_string(),
            at: now.wall,
            interrupt,
        };
        let attempt_id = machine.add_message(message.clone());
        if let Some(attempt_id) = attempt_id {
            self.effects.push(Effect::DeliverMessage {
                attempt_id,
                message: message.clone(),
            });
        }
        // The transcript of the attempt that takes it has the text.
        let detail = format!(
            "message {} of {} from {by}",
            message.id,
            count(message.text.len(), "byte")
        );
        let about = DecisionSubject {
            attempt_id,
            ..DecisionSubject::from(&issue)
        };
        self.decide(now, DecisionKind::Message, about, detail);
        self.changed.insert(issue);
        CommandResult::Sent(Box::new(message))
    }

    pub(super) fn withdraw_message(
        &mut self,
        withdrawal: &Withdrawal,
        by: &Actor,
        now: Now,
    ) -> CommandResult {
        let Withdrawal {
            issue,
            message,
            is_unread,
        } = withdrawal;
        let Some(machine) = self.machines.get_mut(issue) else {
            return CommandResult::UnknownIssue;
        };
        let mut waiting = machine.messages().iter();
        let Some(waiting) = waiting.find(|waiting| waiting.message.id == *message) else {
            return CommandResult::Refused(MessageRefusal::NotWaiting);
        };
        if waiting.attempt.is_some() && !is_unread {
            return CommandResult::Refused(MessageRefusal::MayBeRead);
        }
        machine.remove_messages(&[*message]);
        let detail = format!("message {message} withdrawn by {by}");
        self.decide(now, DecisionKind::WithdrawMessage, issue, detail);
        self.changed.insert(issue.clone());
        CommandResult::Done(1)
    }

    pub(super) fn on_messages_taken(
        &mut self,
        issue: &IssueId,
        attempt_id: AttemptId,
        messages: &[MessageId],
        now: Now,
    ) {
        let Some(machine) = self.machines.get_mut(issue) else {
            return;
        };
        let taken = machine.remove_messages(messages);
        // A recovered attempt repeats its reports.
        if taken == 0 {
            return;
        }
        let about = DecisionSubject {
            attempt_id: Some(attempt_id),
            ..DecisionSubject::from(issue)
        };
        let detail = format!("the agent has taken {}", count(taken, "message"));
        self.decide(now, DecisionKind::MessagesTaken, about, detail);
        self.changed.insert(issue.clone());
    }

    /// Delivers the messages again that attempts of an earlier daemon may not have received, in
    /// their order.
    pub(super) fn deliver_again(&mut self) {
        for machine in self.machines.values() {
            let undelivered = machine.undelivered_messages();
            self.effects
                .extend(undelivered.map(|(attempt_id, message)| Effect::DeliverMessage {
                    attempt_id,
                    message: message.clone(),
                }));
        }
    }
}
