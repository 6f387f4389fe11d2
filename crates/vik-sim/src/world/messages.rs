//! Messages of people on their way to agents.

use vik_core::attempt::Start;
use vik_core::ids::{IssueId, MessageId};
use vik_core::message::{NewMessage, Withdrawal};
use vik_core::question::{NewAnswer, Reply};
use vik_core::scheduler::{Command, Input};

use super::{Held, World};
use crate::oracle::Broken;

impl World {
    /// Returns the command that sends a message.
    pub(super) fn message_to(&mut self, issue: IssueId) -> Command {
        Command::SendMessage(NewMessage {
            issue,
            text: self.rng.pick(&["hello", "", "\u{1b}[2J"]).to_owned(),
            interrupt: self.rng.percent(20),
        })
    }

    /// Returns the command that answers a question, which may be none or an invalid one.
    pub(super) fn answer_to(&mut self, issue: IssueId) -> Command {
        let reply = match self.rng.below(4) {
            0 => Reply::Choice(self.rng.below(4)),
            1 => Reply::Text(self.rng.pick(&["", "\u{1b}[2J"]).to_owned()),
            _ => Reply::Text("this".to_owned()),
        };
        Command::AnswerQuestion(NewAnswer {
            issue,
            stage: None,
            question: None,
            reply,
        })
    }

    /// Returns the command that withdraws a random message, which its attempt gives back first if it
    /// has not read it.
    pub(super) fn withdrawal_from(&mut self, issue: IssueId) -> Command {
        let scheduler = self.daemon.as_ref().map(super::Daemon::scheduler);
        let machine = scheduler.and_then(|scheduler| scheduler.machine(&issue));
        let waiting = machine.map_or(&[][..], |machine| machine.messages());
        if waiting.is_empty() {
            return self.message_to(issue);
        }
        let waiting = &waiting[self.rng.below(waiting.len())];
        let (message, attempt) = (waiting.message.id, waiting.attempt);
        let task = self
            .daemon
            .as_mut()
            .and_then(|daemon| daemon.tasks.get_mut(&attempt?));
        let is_unread = task.is_some_and(|task| {
            let before = task.inbox.len();
            task.inbox.retain(|one| one.id != message);
            task.inbox.len() < before
        });
        Command::WithdrawMessage(Withdrawal {
            issue,
            message,
            is_unread,
        })
    }

    /// A random agent takes the oldest message in its inbox.
    pub(super) fn agent_reads(&mut self) -> Result<bool, Broken> {
        let Some(daemon) = &mut self.daemon else {
            return Ok(false);
        };
        let is_alive = |tree: &crate::host::Tree| !tree.given_up;
        let mut readers: Vec<_> = daemon
            .tasks
            .iter_mut()
            .filter(|(attempt_id, task)| {
                let tree = self.host.trees.get(attempt_id);
                tree.is_some_and(is_alive) && !task.inbox.is_empty()
            })
            .map(|(_, task)| task)
            .collect();
        let Some(task) = self.rng.take(&mut readers) else {
            return Ok(false);
        };
        let Some(message) = task.inbox.pop_front() else {
            return Ok(false);
        };
        task.unreported.push(message.id);
        let start = task.start().clone();
        self.takes(&start, &[message.id])?;
        Ok(true)
    }

    /// Records that the agent of an attempt has taken messages.
    pub(super) fn takes(&mut self, start: &Start, messages: &[MessageId]) -> Held {
        if let Some(files) = self.host.files.get_mut(&start.attempt_id) {
            files.taken.extend(messages);
        }
        for message in messages {
            self.oracle.takes(&start.issue.id, *message, &self.disk)?;
        }
        Ok(())
    }

    pub(super) fn taken_messages_are_reported(&mut self) -> Result<bool, Broken> {
        let Some(daemon) = &mut self.daemon else {
            return Ok(false);
        };
        let mut tasks = daemon.tasks.iter_mut();
        let Some((attempt_id, task)) = tasks.find(|(_, task)| !task.unreported.is_empty()) else {
            return Ok(false);
        };
        let input = Input::MessagesTaken {
            issue: task.issue().clone(),
            attempt_id: *attempt_id,
            messages: std::mem::take(&mut task.unreported),
        };
        self.send(input)?;
        Ok(true)
    }
}
