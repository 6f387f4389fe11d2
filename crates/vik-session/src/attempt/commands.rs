//! The commands that one attempt receives while it runs.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use vik_core::attempt::StopReason;
use vik_core::ids::MessageId;
use vik_core::limits::LimitHit;
use vik_core::machine::Answered;
use vik_core::message::Message;
use vik_core::outcome::Outcome;
use vik_core::turn::GrantedTurn;
use vik_proc::Lease;
use vik_store::AttemptFailure;

/// How urgently an attempt is to stop because its daemon stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopLevel {
    #[default]
    Run,
    /// Stop by the stop ladder.
    Stop,
    Kill,
}

/// All commands so far.
#[derive(Clone, Debug, Default)]
struct CommandState {
    own_stop: Option<StopReason>,
    /// The level of the daemon.
    level: StopLevel,
    detach: bool,
    warnings: Vec<LimitHit>,
    answers: Vec<Answered>,
    turn: Option<TurnDecision>,
}

/// All commands to an attempt so far that concern a worker on another machine, as data.
///
/// [`CommandSender::apply`] on the worker may get snapshots repeatedly and in any order, also those
/// of several hubs. There is no number that orders them, because each part only grows: the first
/// reason of a stop stays, the level rises, turns are decided one after another, and warnings,
/// answers and messages are added to those that the worker has. So an older snapshot contains
/// nothing that a newer one lacks, except what the attempt has reported to have handled.
///
/// It contains the last answer only: an attempt reports another request when it waits for no
/// earlier one, and the scheduler accepts an answer to the reported request alone. It contains the
/// messages that the attempt has not reported as taken, of which at most
/// [`MAX_WAITING`](vik_core::message::MAX_WAITING) wait. So its size depends on what people have
/// written and nobody has read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandSnapshot {
    own_stop: Option<StopReason>,
    level: StopLevel,
    warnings: Vec<LimitHit>,
    answer: Option<Answered>,
    turn: Option<TurnDecision>,
    /// In the order of their delivery.
    pub(super) messages: Vec<Message>,
}

/// What follows a turn that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnDecision {
    /// The number of the turn that has ended.
    pub turn: u32,
    /// The turn that follows it in the same process; `None` ends the agent's input.
    pub granted: Option<GrantedTurn>,
}

/// The messages of people for one attempt.
#[derive(Debug, Default)]
struct Inbox {
    waiting: VecDeque<Message>,
    /// The messages that the attempt has taken out, or that an earlier daemon has sent to its agent.
    taken: BTreeSet<MessageId>,
}

/// Sends commands to one attempt. A repeated one changes nothing. When it is dropped, the attempt
/// continues under the last commands.
#[derive(Debug)]
pub struct CommandSender {
    state: watch::Sender<CommandState>,
    inbox: watch::Sender<Inbox>,
    /// Whether the attempt runs on another machine.
    is_remote: bool,
}

impl CommandSender {
    /// Stops the attempt. The first reason wins.
    pub fn stop(&self, reason: StopReason) {
        self.state.send_if_modified(|state| {
            let first = state.own_stop.is_none();
            state.own_stop.get_or_insert(reason);
            first
        });
    }

    /// Returns whether the attempt was stopped for a reason of its own.
    pub fn is_stopped(&self) -> bool {
        self.state.borrow().own_stop.is_some()
    }

    /// Stops the attempt because the daemon stops. The level only rises.
    pub fn stop_with_daemon(&self, level: StopLevel) {
        self.state.send_if_modified(|state| {
            let rises = level > state.level;
            state.level = state.level.max(level);
            rises
        });
    }

    /// Reports that a limit is near, for the session log.
    pub fn warn(&self, limit: LimitHit) {
        self.state.send_if_modified(|state| {
            let is_new = !state.warnings.contains(&limit);
            state.warnings.extend(is_new.then_some(limit));
            is_new
        });
    }

    /// Delivers a person's answer to a request of the attempt. The first answer to it counts.
    pub fn answer(&self, answered: Answered) {
        self.state.send_if_modified(|state| {
            let mut answers = state.answers.iter();
            let is_new = answers.all(|known| known.request != answered.request);
            state.answers.extend(is_new.then_some(answered));
            is_new
        });
    }

    /// Decides what follows a turn that has ended. The first decision about it counts, and none
    /// about an earlier one.
    pub fn decide_turn(&self, decision: TurnDecision) {
        self.state.send_if_modified(|state| {
            let is_new = state.turn.is_none_or(|last| last.turn < decision.turn);
            if is_new {
                state.turn = Some(decision);
            }
            is_new
        });
    }

    /// Delivers a message of a person. Messages are read in the order of their delivery; one that
    /// was delivered already is not added again.
    pub fn deliver(&self, message: Message) {
        self.inbox.send_if_modified(|inbox| {
            let mut waiting = inbox.waiting.iter();
            let is_new =
                !inbox.taken.contains(&message.id) && waiting.all(|waiting| waiting.id != message.id);
            if is_new {
                inbox.waiting.push_back(message);
            }
            is_new
        });
    }

    /// Withdraws a message. Returns false if the attempt has taken it out of its inbox: the agent
    /// may have read it.
    ///
    /// On another machine, each message that was delivered counts as taken, because this hub or an
    /// earlier one may have sent it, and no hub knows what the one before it has sent. It can be
    /// withdrawn when the attempt has ended.
    pub fn withdraw(&self, id: MessageId) -> bool {
        if self.is_remote {
            return false;
        }
        self.inbox.send_if_modified(|inbox| {
            let before = inbox.waiting.len();
            inbox.waiting.retain(|message| message.id != id);
            inbox.waiting.len() < before
        })
    }

    /// Returns the last turn that was decided about; 0 if there is none.
    pub(super) fn decided_turn(&self) -> u32 {
        self.state.borrow().turn.map_or(0, |decision| decision.turn)
    }

    /// Sends the commands of a snapshot to the attempt.
    pub fn apply(&self, snapshot: CommandSnapshot) {
        let CommandSnapshot {
            own_stop,
            level,
            warnings,
            answer,
            turn,
            messages,
        } = snapshot;
        own_stop.into_iter().for_each(|reason| self.stop(reason));
        self.stop_with_daemon(level);
        warnings.into_iter().for_each(|limit| self.warn(limit));
        answer.into_iter().for_each(|answered| self.answer(answered));
        turn.into_iter().for_each(|decision| self.decide_turn(decision));
        messages.into_iter().for_each(|message| self.deliver(message));
    }

    /// Detaches the attempt because the daemon exits and leaves its agents alive: as soon as the
    /// agent runs, the attempt releases it and returns. Preparation continues up to that point, and
    /// finishing continues to its end.
    pub fn detach(&self) {
        self.state.send_modify(|state| state.detach = true);
    }
}

/// Receives the commands of one attempt; cheap to clone.
#[derive(Clone, Debug)]
pub struct AttemptCommands {
    state: watch::Receiver<CommandState>,
    inbox: watch::Sender<Inbox>,
    /// The lease of the attempt on a worker. Its loss is a command, too: to kill the attempt.
    lease: Option<Lease>,
}

/// The reason of an attempt whose lease is lost.
const LEASE_LOST: &str = "its worker could not renew the lease";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The daemon stops, and all its attempts with it.
    All,
    /// Only this attempt stops.
    Own(StopReason),
    /// The lease of the attempt is lost. Another worker may start it.
    LeaseLost,
}

impl StopCause {
    /// Returns the failure with which the attempt ends.
    pub fn failure(&self) -> AttemptFailure {
        let (outcome, reason) = match self {
            Self::All => (Outcome::Cancelled, "Vik was stopped".to_owned()),
            Self::Own(reason @ StopReason::OverBudget(_)) => (Outcome::OverBudget, reason.to_string()),
            Self::Own(reason) => (Outcome::Cancelled, reason.to_string()),
            Self::LeaseLost => (Outcome::Lost, LEASE_LOST.to_owned()),
        };
        AttemptFailure::of(outcome, reason)
    }

    /// Returns the limit that was reached, if that is the reason.
    pub fn limit(&self) -> Option<LimitHit> {
        match self {
            Self::Own(StopReason::OverBudget(hit)) => Some(*hit),
            _ => None,
        }
    }
}

impl AttemptCommands {
    /// Creates the two ends of the commands. `is_remote` is whether the receiver sends them to
    /// another machine.
    pub(super) fn channel(is_remote: bool) -> (CommandSender, Self) {
        let (sender, state) = watch::channel(CommandState::default());
        let inbox = watch::Sender::new(Inbox::default());
        let sender = CommandSender {
            state: sender,
            inbox: inbox.clone(),
            is_remote,
        };
        let commands = Self {
            state,
            inbox,
            lease: None,
        };
        (sender, commands)
    }

    /// Sets the lease of the attempt.
    pub(super) fn set_lease(&mut self, lease: Lease) {
        self.lease = Some(lease);
    }

    /// Returns whether the lease of the attempt is lost.
    pub fn is_lease_lost(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_lost)
    }

    /// Waits until the lease of the attempt is lost; never returns if it has none.
    pub async fn lease_lost(&self) {
        match &self.lease {
            // Most attempts have no lease, and their tasks no memory for it.
            Some(lease) => Box::pin(lease.lost()).await,
            None => std::future::pending().await,
        }
    }

    /// Returns why the attempt must stop now, or `None`. A lost lease wins, then its own reason.
    pub fn stop_cause(&self) -> Option<StopCause> {
        if self.is_lease_lost() {
            return Some(StopCause::LeaseLost);
        }
        self.state.borrow().stop_cause()
    }

    /// Waits until the attempt must stop, and returns why.
    pub async fn stopped(&self) -> StopCause {
        tokio::select! {
            biased;
            () = self.lease_lost() => StopCause::LeaseLost,
            cause = self.find(CommandState::stop_cause) => cause,
        }
    }

    /// Returns whether the attempt is to be killed.
    pub fn is_killed(&self) -> bool {
        self.is_lease_lost() || self.state.borrow().level >= StopLevel::Kill
    }

    /// Waits until the attempt is to be killed.
    pub async fn killed(&self) {
        tokio::select! {
            () = self.lease_lost() => {}
            () = self.find(|state| (state.level >= StopLevel::Kill).then_some(())) => {}
        }
    }

    /// Waits until the attempt is to detach from its agent.
    pub async fn detached(&self) {
        self.find(|state| state.detach.then_some(())).await;
    }

    /// Waits until there are more than `seen` warnings, and returns the new ones.
    pub async fn warned(&self, seen: usize) -> Vec<LimitHit> {
        self.find(|state| {
            state
                .warnings
                .get(seen..)
                .filter(|new| !new.is_empty())
                .map(<[_]>::to_vec)
        })
        .await
    }

    /// Waits for the answer to the request with this id.
    pub async fn answered(&self, request: &str) -> Answered {
        self.find(|state| {
            let mut answers = state.answers.iter();
            answers.find(|answered| answered.request == request).cloned()
        })
        .await
    }

    /// Waits for the decision about what follows this turn.
    pub async fn turn_decided(&self, turn: u32) -> TurnDecision {
        self.find(|state| state.turn.filter(|decision| decision.turn == turn))
            .await
    }

    /// Waits until the inbox contains a message.
    pub async fn message_delivered(&self) {
        let mut inbox = self.inbox.subscribe();
        // The attempt itself holds a sender.
        let _ = inbox.wait_for(|inbox| !inbox.waiting.is_empty()).await;
    }

    /// Returns the oldest message of the inbox, which stays there.
    pub fn first_message(&self) -> Option<Message> {
        self.inbox.borrow().waiting.front().cloned()
    }

    /// Takes the oldest message out of the inbox. From then on it cannot be withdrawn.
    pub fn take_message(&self) -> Option<Message> {
        let mut message = None;
        self.inbox.send_if_modified(|inbox| {
            message = inbox.waiting.pop_front();
            inbox.taken.extend(message.iter().map(|message| message.id));
            message.is_some()
        });
        message
    }

    /// Marks messages that an earlier daemon has sent to the agent: they cannot be withdrawn.
    pub(super) fn mark_sent(&self, sent: &BTreeSet<MessageId>) {
        self.inbox.send_if_modified(|inbox| {
            inbox.waiting.retain(|message| !sent.contains(&message.id));
            inbox.taken.extend(sent);
            !sent.is_empty()
        });
    }

    /// Waits until there are commands that the last [`snapshot`](Self::snapshot) lacks. Cancelling
    /// the call loses nothing.
    pub(super) async fn changed(&mut self) {
        let mut inbox = self.inbox.subscribe();
        tokio::select! {
            Ok(()) = self.state.changed() => {}
            _ = inbox.wait_for(|inbox| !inbox.waiting.is_empty()) => {}
        }
    }

    /// Returns all commands so far, with the messages that no earlier call returned. These count as
    /// taken.
    pub(super) fn snapshot(&mut self) -> CommandSnapshot {
        let messages = std::iter::from_fn(|| self.take_message()).collect();
        let state = self.state.borrow_and_update();
        CommandSnapshot {
            own_stop: state.own_stop.clone(),
            level: state.level,
            warnings: state.warnings.clone(),
            answer: state.answers.last().cloned(),
            turn: state.turn,
            messages,
        }
    }

    /// Returns whether the attempt is to detach from its agent.
    pub(super) fn is_detached(&self) -> bool {
        self.state.borrow().detach
    }

    /// Waits until `select` finds something.
    async fn find<T>(&self, select: impl Fn(&CommandState) -> Option<T>) -> T {
        let mut receiver = self.state.clone();
        let found = receiver
            .wait_for(|state| select(state).is_some())
            .await
            .ok()
            .and_then(|state| select(&state));
        match found {
            Some(found) => found,
            // The sender was dropped: no command follows.
            None => std::future::pending().await,
        }
    }
}

impl CommandState {
    fn stop_cause(&self) -> Option<StopCause> {
        let own = self.own_stop.clone().map(StopCause::Own);
        own.or_else(|| (self.level >= StopLevel::Stop).then_some(StopCause::All))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use vik_proc::BootTime;

    use super::*;

    #[tokio::test]
    async fn loss_of_the_lease_kills_the_attempt_and_is_its_only_reason() {
        let (sender, mut commands) = AttemptCommands::channel(false);
        let (lease_sender, lease) = Lease::new(BootTime::now().saturating_add(Duration::from_secs(60)));
        commands.set_lease(lease);
        assert_eq!((commands.stop_cause(), commands.is_killed()), (None, false));
        sender.stop(StopReason::Cancelled);
        let own = StopCause::Own(StopReason::Cancelled);
        assert_eq!((commands.stop_cause(), commands.is_killed()), (Some(own), false));
        lease_sender.end();
        assert_eq!(commands.stop_cause(), Some(StopCause::LeaseLost));
        assert_eq!(commands.stopped().await, StopCause::LeaseLost);
        commands.killed().await;
        assert!(commands.is_killed());
        assert_eq!(StopCause::LeaseLost.failure().outcome, Outcome::Lost);
    }

    #[test]
    fn message_that_an_agent_may_have_cannot_be_withdrawn() {
        let message = |number| Message {
            id: MessageId(uuid::Uuid::from_u128(number)),
            text: "a".to_owned(),
            by: "a person".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            interrupt: false,
        };
        let (sender, commands) = AttemptCommands::channel(false);
        // The scheduler does not know what an earlier daemon has sent, and delivers it again.
        sender.deliver(message(1));
        commands.mark_sent(&BTreeSet::from([message(1).id, message(2).id]));
        sender.deliver(message(2));
        sender.deliver(message(3));
        sender.deliver(message(4));
        assert!(!sender.withdraw(message(1).id) && !sender.withdraw(message(2).id));
        assert_eq!(commands.take_message(), Some(message(3)));
        sender.deliver(message(3));
        assert!(!sender.withdraw(message(3).id));
        assert!(sender.withdraw(message(4).id));
        assert_eq!(commands.first_message(), None);
    }
}
