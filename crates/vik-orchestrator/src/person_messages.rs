//! The messages of people that wait for an agent.

use vik_api::{Delivery, DeliveryTo, MessagesPage, SCHEMA};
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;
use vik_core::message::Withdrawal;
use vik_session::attempt::Steering;

use crate::{Orchestrator, api_view};

impl Orchestrator {
    /// Takes a message back from the attempt that has it. Returns false if the agent may have read
    /// it.
    pub(crate) fn take_back(&self, withdrawal: &Withdrawal) -> bool {
        let machine = self.scheduler.machine(&withdrawal.issue);
        let mut waiting = machine.into_iter().flat_map(IssueMachine::messages);
        let waiting = waiting.find(|waiting| waiting.message.id == withdrawal.message);
        let attempt = waiting.and_then(|waiting| waiting.attempt);
        attempt
            .and_then(|attempt_id| self.attempts.commands(attempt_id))
            .is_some_and(|(commands, _)| commands.withdraw(withdrawal.message))
    }

    /// Returns the messages that wait for an agent of an issue; `None` if it is unknown.
    pub(crate) fn messages(&self, issue: &IssueId) -> Option<MessagesPage> {
        let machine = self.scheduler.machine(issue)?;
        Some(MessagesPage {
            schema: SCHEMA,
            issue_id: issue.clone(),
            messages: api_view::messages(machine),
            delivery: self.delivery(machine),
        })
    }

    /// Returns what happens to a message that is sent now.
    fn delivery(&self, machine: &IssueMachine) -> Delivery {
        if let Some(start) = machine.message_recipient() {
            let attempt = self.attempts.get(start.attempt_id);
            let steering = attempt.and_then(|attempt| attempt.live.get().steering);
            let (to, because) = match steering.unwrap_or_default() {
                Steering::Ready => (DeliveryTo::Agent, None),
                Steering::NotYet => (
                    DeliveryTo::Agent,
                    Some("the agent does not read messages yet".to_owned()),
                ),
                Steering::No { why } => (
                    DeliveryTo::NextAttempt,
                    Some(format!("the agent cannot be steered: {why}")),
                ),
            };
            return Delivery {
                to,
                session_id: Some(start.attempt_id.to_string()),
                stage: Some(start.stage.name.clone()),
                agent: Some(start.stage.agent.clone()),
                because,
                hint: None,
            };
        }
        let explanation = self.scheduler.explain(&machine.issue().id, self.now());
        let hold = explanation.and_then(|explanation| {
            let stages = explanation.stages.into_iter();
            explanation
                .hold
                .or_else(|| stages.filter_map(|stage| stage.hold).next())
        });
        let hold = hold.as_ref().map(api_view::hold);
        Delivery {
            to: DeliveryTo::NextAttempt,
            session_id: None,
            stage: None,
            agent: None,
            because: hold.as_ref().map(|hold| hold.detail.clone()),
            hint: hold.and_then(|hold| hold.freed_by),
        }
    }
}
