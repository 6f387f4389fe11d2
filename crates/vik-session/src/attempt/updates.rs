//! The updates that an attempt sends while it runs.

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use vik_core::approval::Request;
use vik_core::ids::MessageId;
use vik_core::limits::Spend;
use vik_core::turn::EndedTurn;

use super::finish::Finish;
use super::live::{Facts, Live};

/// An update of one attempt.
#[derive(Clone, Debug)]
pub enum AttemptUpdate {
    /// The total spend of the attempt so far.
    Spent(Spend),
    /// The request with which the attempt waits for a person; `None` if it no longer waits.
    Awaits(Option<Box<Request>>),
    /// The agent has taken these messages. Each may be reported more than once, also by a recovered
    /// attempt.
    MessagesTaken(Vec<MessageId>),
    /// The agent came to the end of a turn and waits for input. A recovered attempt may repeat it.
    TurnEnded(EndedTurn),
    /// The attempt finished. No update follows.
    Finished(Finish),
}

/// The latest updates of an attempt on another machine, as data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateSnapshot {
    /// Orders the snapshots of an attempt, from 1.
    pub(super) number: u64,
    pub facts: Facts,
    spent: Spend,
    pub(super) awaits: Option<Box<Request>>,
    /// Whether the attempt has ever reported a request, or that none waits.
    pub(super) has_reported_awaits: bool,
    /// The messages that the agent has taken, of all that it has been sent.
    taken: Vec<MessageId>,
    /// The turn that came to its end and about which nothing is decided.
    pub(super) turn: Option<EndedTurn>,
}

/// Sends the updates of one attempt; cheap to clone.
///
/// Nothing queues but the ids of taken messages, of which people write few: of each other kind, only
/// the latest value is kept until it is received.
#[derive(Clone, Debug)]
pub struct UpdateSender {
    facts: watch::Sender<Facts>,
    spent: watch::Sender<Spend>,
    awaits: watch::Sender<Option<Box<Request>>>,
    taken: watch::Sender<Vec<MessageId>>,
    turn: watch::Sender<EndedTurn>,
    finish: mpsc::Sender<Finish>,
}

impl UpdateSender {
    /// Changes the facts that [`Live`] shows. The loop does not wake up, so this may be called at any rate.
    pub fn set_facts(&self, change: impl FnOnce(&mut Facts)) {
        self.facts.send_modify(change);
    }

    /// Reports the total spend so far.
    pub fn spent(&self, spend: Spend) {
        self.spent.send_replace(spend);
    }

    /// Reports the request with which the attempt waits for a person, or that it no longer waits.
    pub fn awaits(&self, request: Option<Box<Request>>) {
        self.awaits.send_replace(request);
    }

    /// Reports that the agent has taken a message. A repeated report changes nothing.
    pub fn message_taken(&self, id: MessageId) {
        self.taken.send_if_modified(|taken| {
            let is_new = !taken.contains(&id);
            taken.extend(is_new.then_some(id));
            is_new
        });
    }

    /// Reports that the agent came to the end of a turn and waits for a decision.
    pub fn turn_ended(&self, ended: EndedTurn) {
        self.turn.send_replace(ended);
    }

    /// Reports that the attempt finished. Only the first report counts.
    pub fn finish(&self, finish: Finish) {
        let _ = self.finish.try_send(finish);
    }

    /// Reports what a snapshot has and earlier ones had not.
    pub(super) fn report(&self, snapshot: UpdateSnapshot) {
        let UpdateSnapshot {
            number: _,
            facts,
            spent,
            awaits,
            has_reported_awaits: _,
            taken,
            turn,
        } = snapshot;
        self.facts.send_replace(facts);
        replace(&self.spent, spent);
        replace(&self.awaits, awaits);
        taken.into_iter().for_each(|id| self.message_taken(id));
        turn.into_iter().for_each(|turn| replace(&self.turn, turn));
    }

    /// Returns the spend that was reported last.
    pub(super) fn last_spent(&self) -> Spend {
        *self.spent.borrow()
    }

    /// Returns a reader of the messages that were taken.
    pub(super) fn taken(&self) -> watch::Receiver<Vec<MessageId>> {
        self.taken.subscribe()
    }
}

/// Sends a value, unless it is the last one.
fn replace<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|last| {
        let is_new = *last != value;
        *last = value;
        is_new
    });
}

/// Receives the updates of one attempt.
#[derive(Debug)]
pub struct AttemptUpdates {
    facts: watch::Receiver<Facts>,
    spent: watch::Receiver<Spend>,
    awaits: watch::Receiver<Option<Box<Request>>>,
    /// Whether a snapshot had a value of `awaits`.
    has_reported_awaits: bool,
    /// All that were taken, of which the first `taken_before` are returned.
    taken: watch::Receiver<Vec<MessageId>>,
    taken_before: usize,
    turn: watch::Receiver<EndedTurn>,
    finish: mpsc::Receiver<Finish>,
    /// Received, but not returned yet, because updates that were sent before come first.
    finished: Option<Finish>,
}

impl AttemptUpdates {
    /// Creates the two ends of the updates.
    pub(super) fn channel() -> (UpdateSender, Self) {
        let (finish, finish_receiver) = mpsc::channel(1);
        let sender = UpdateSender {
            facts: watch::Sender::default(),
            spent: watch::Sender::default(),
            awaits: watch::Sender::default(),
            taken: watch::Sender::default(),
            turn: watch::Sender::default(),
            finish,
        };
        let receiver = Self {
            facts: sender.facts.subscribe(),
            spent: sender.spent.subscribe(),
            awaits: sender.awaits.subscribe(),
            has_reported_awaits: false,
            taken: sender.taken.subscribe(),
            taken_before: 0,
            turn: sender.turn.subscribe(),
            finish: finish_receiver,
            finished: None,
        };
        (sender, receiver)
    }

    /// Returns a reader of the current facts.
    pub fn live(&self) -> Live {
        Live::new(self.facts.clone())
    }

    /// Waits for the next update; see [`AttemptHandle`](super::AttemptHandle) for their order.
    /// Cancelling the call loses nothing.
    pub async fn next(&mut self) -> AttemptUpdate {
        if self.finished.is_none() {
            tokio::select! {
                biased;
                Ok(()) = self.spent.changed() => return AttemptUpdate::Spent(*self.spent.borrow()),
                Ok(()) = self.awaits.changed() => return AttemptUpdate::Awaits(self.awaits.borrow().clone()),
                // Returned below.
                Ok(()) = self.taken.changed() => {}
                Ok(()) = self.turn.changed() => return AttemptUpdate::TurnEnded(*self.turn.borrow()),
                // Without a sender, the attempt was dropped, and its agent may live on.
                finish = self.finish.recv() => self.finished = Some(finish.unwrap_or(Finish::Detached)),
            }
        }
        if self.taken.borrow().len() > self.taken_before {
            return self.messages_taken();
        }
        let spent = self.spent.borrow_and_update();
        if spent.has_changed() {
            return AttemptUpdate::Spent(*spent);
        }
        let awaits = self.awaits.borrow_and_update();
        if awaits.has_changed() {
            return AttemptUpdate::Awaits(awaits.clone());
        }
        AttemptUpdate::Finished(self.finished.take().unwrap_or(Finish::Detached))
    }

    /// Waits until something has changed since the last [`snapshot`](Self::snapshot), or the attempt
    /// has finished. The snapshot after that has all updates that were sent before. Cancelling the
    /// call loses nothing.
    pub(super) async fn changed(&mut self) -> Option<Finish> {
        tokio::select! {
            biased;
            // Without a sender, the attempt was dropped, and its agent may live on.
            finish = self.finish.recv() => return Some(finish.unwrap_or(Finish::Detached)),
            Ok(()) = self.facts.changed() => {}
            Ok(()) = self.spent.changed() => {}
            Ok(()) = self.awaits.changed() => {}
            Ok(()) = self.taken.changed() => {}
            Ok(()) = self.turn.changed() => {}
        }
        None
    }

    /// Returns the latest updates.
    pub(super) fn snapshot(&mut self, number: u64) -> UpdateSnapshot {
        let turn = *self.turn.borrow_and_update();
        let awaits = self.awaits.borrow_and_update();
        self.has_reported_awaits |= awaits.has_changed();
        UpdateSnapshot {
            number,
            facts: self.facts.borrow_and_update().clone(),
            spent: *self.spent.borrow_and_update(),
            awaits: awaits.clone(),
            has_reported_awaits: self.has_reported_awaits,
            taken: self.taken.borrow_and_update().clone(),
            turn: (turn.turn > 0).then_some(turn),
        }
    }

    /// Returns the messages that were taken since the last call.
    fn messages_taken(&mut self) -> AttemptUpdate {
        let taken = self.taken.borrow_and_update();
        let new = taken.get(self.taken_before..).unwrap_or_default().to_vec();
        self.taken_before = taken.len();
        AttemptUpdate::MessagesTaken(new)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use vik_core::money::MicroUsd;

    use super::*;

    fn spend(tokens: u64) -> Spend {
        Spend {
            tokens,
            usd: MicroUsd::default(),
        }
    }

    /// Returns the updates that can be received now, up to the finish.
    fn received(updates: &mut AttemptUpdates) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(update) = updates.next().now_or_never() {
            let is_last = matches!(update, AttemptUpdate::Finished(_));
            all.push(match update {
                AttemptUpdate::Spent(spend) => format!("spent {}", spend.tokens),
                AttemptUpdate::Awaits(request) => format!("awaits {}", request.is_some()),
                AttemptUpdate::MessagesTaken(ids) => format!("taken {}", ids.len()),
                AttemptUpdate::TurnEnded(ended) => format!("turn {}", ended.turn),
                AttemptUpdate::Finished(Finish::Detached) => "detached".to_owned(),
                AttemptUpdate::Finished(other) => format!("{other:?}"),
            });
            if is_last {
                break;
            }
        }
        all
    }

    #[test]
    fn flood_of_updates_keeps_the_latest_value_of_each_kind() {
        let (sender, mut updates) = AttemptUpdates::channel();
        for tokens in 1..=1000 {
            sender.set_facts(|facts| facts.events = tokens);
            sender.spent(spend(tokens));
            sender.awaits(None);
        }
        assert_eq!(received(&mut updates), ["spent 1000", "awaits false"]);
        assert_eq!(updates.live().get().events, 1000);
        assert!(received(&mut updates).is_empty());
    }

    #[test]
    fn finish_follows_all_updates_that_were_sent_before_it() {
        let (sender, mut updates) = AttemptUpdates::channel();
        sender.finish(Finish::Detached);
        // The receiver has taken the finish when it sees the others.
        sender.spent(spend(7));
        sender.awaits(None);
        for id in 1..=3 {
            sender.message_taken(MessageId(uuid::Uuid::from_u128(id)));
        }
        drop(sender);
        assert_eq!(
            received(&mut updates),
            ["spent 7", "awaits false", "taken 3", "detached"]
        );
    }

    #[test]
    fn dropped_attempt_counts_as_detached() {
        let (sender, mut updates) = AttemptUpdates::channel();
        let (live, clone) = (updates.live(), sender.clone());
        drop(sender);
        assert!(received(&mut updates).is_empty(), "a clone may still send");
        clone.set_facts(|facts| facts.events = 3);
        drop(clone);
        assert_eq!(received(&mut updates), ["detached"]);
        assert_eq!(live.get().events, 3, "the last facts remain");
    }
}
