//! Updates that are lost, repeated and overtaken on their way from a worker.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Update {
    Events(u64),
    Spent(u64),
    Awaits(Option<usize>),
    Taken(usize),
    TurnEnded(u32),
}

impl Update {
    fn send(&self, to: &UpdateSender) {
        match self {
            Self::Events(events) => to.set_facts(|facts| facts.events = *events),
            Self::Spent(tokens) => to.spent(Spend {
                tokens: *tokens,
                usd: MicroUsd(0),
            }),
            Self::Awaits(number) => to.awaits(number.map(request)),
            Self::Taken(number) => to.message_taken(message(*number).id),
            Self::TurnEnded(turn) => to.turn_ended(ended_turn(*turn)),
        }
    }
}

/// Something that happens to the updates of an attempt.
#[derive(Clone, Debug)]
enum Act {
    Report(Update),
    /// The worker sends its updates.
    Send,
    /// Updates that were sent arrive, perhaps again.
    Arrive(Index),
    /// The loop receives all updates.
    Receive,
}

fn act() -> impl Strategy<Value = Act> {
    let update = prop_oneof![
        2 => (0..9_u64).prop_map(Update::Events),
        2 => (0..9_u64).prop_map(Update::Spent),
        3 => prop::option::of(0..3_usize).prop_map(Update::Awaits),
        3 => (0..9_usize).prop_map(Update::Taken),
        2 => (1..9_u32).prop_map(Update::TurnEnded),
    ];
    prop_oneof![
        12 => update.prop_map(Act::Report),
        5 => Just(Act::Send),
        5 => any::<Index>().prop_map(Act::Arrive),
        3 => Just(Act::Receive),
    ]
}

/// What a loop has received.
#[derive(Debug, Default, PartialEq)]
struct Received {
    spent: Spend,
    awaits: Option<Box<Request>>,
    taken: Vec<MessageId>,
    turn: Option<EndedTurn>,
    is_finished: bool,
}

impl Received {
    fn receive(&mut self, handle: &mut AttemptHandle) {
        while !self.is_finished {
            let Some(update) = handle.updates.next().now_or_never() else {
                return;
            };
            match update {
                AttemptUpdate::Spent(spent) => self.spent = spent,
                AttemptUpdate::Awaits(request) => self.awaits = request,
                AttemptUpdate::MessagesTaken(ids) => self.taken.extend(ids),
                AttemptUpdate::TurnEnded(ended) => self.turn = Some(ended),
                AttemptUpdate::Finished(Finish::Detached) => self.is_finished = true,
                AttemptUpdate::Finished(other) => panic!("{other:?}"),
            }
        }
    }
}

struct Reported {
    hub: (AttemptHandle, RemoteLink),
    worker: (WorkerHandle, AttemptLink),
    local: (AttemptHandle, AttemptLink),
    in_transit: Vec<UpdateSnapshot>,
    by_hub: Received,
    by_local: Received,
}

impl Reported {
    fn new() -> Self {
        Self {
            hub: AttemptHandle::remote(),
            worker: worker(),
            local: AttemptHandle::new(),
            in_transit: Vec::new(),
            by_hub: Received::default(),
            by_local: Received::default(),
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Report(update) => {
                update.send(&self.worker.1.updates);
                update.send(&self.local.1.updates);
            }
            Act::Send => self.in_transit.extend(changed(&mut self.worker.0)),
            Act::Arrive(at) => {
                if !self.in_transit.is_empty() {
                    let snapshot = at.get(&self.in_transit).clone();
                    self.hub.1.updates.apply(snapshot);
                }
            }
            Act::Receive => {
                self.by_hub.receive(&mut self.hub.0);
                self.by_local.receive(&mut self.local.0);
            }
        }
    }

    /// Has everything arrive in this order, and compares both attempts before and after their ends.
    fn check(mut self, order: &[Index]) -> Result<(), TestCaseError> {
        self.in_transit.extend(changed(&mut self.worker.0));
        for snapshot in shuffled(std::mem::take(&mut self.in_transit), order) {
            self.hub.1.updates.apply(snapshot);
        }
        self.act(&Act::Receive);
        prop_assert_eq!(&self.by_hub, &self.by_local);
        prop_assert_eq!(self.hub.0.updates.live().get(), self.local.0.updates.live().get());

        // These updates arrive with the finish only.
        for update in [Update::Spent(100), Update::Taken(100), Update::Events(100)] {
            self.act(&Act::Report(update));
        }
        for to in [&self.worker.1.updates, &self.local.1.updates] {
            to.finish(Finish::Detached);
        }
        let WorkerUpdate::Finished(finish) = self.worker.0.next().now_or_never().unwrap() else {
            panic!("the finish comes at once");
        };
        let finish = sent(&finish);
        prop_assert_eq!(finish.end, WorkerEnd::Left { why: None });
        self.hub.1.updates.apply(finish.updates);
        self.hub.1.updates.finish(Finish::Detached);
        self.by_hub.receive(&mut self.hub.0);
        self.by_local.receive(&mut self.local.0);
        prop_assert!(self.by_hub.is_finished);
        prop_assert_eq!(&self.by_hub, &self.by_local);
        prop_assert_eq!(self.hub.0.updates.live().get(), self.local.0.updates.live().get());
        Ok(())
    }
}

proptest! {
    /// Whatever is lost, repeated or overtaken, the loop ends up with the updates that it gets from an
    /// attempt on the same machine: each taken message once, and the finish last.
    #[test]
    fn updates_arrive_as_on_one_machine(
        acts in prop::collection::vec(act(), 0..40),
        order in prop::collection::vec(any::<Index>(), 0..40),
    ) {
        let mut reported = Reported::new();
        for act in &acts {
            reported.act(act);
        }
        reported.check(&order)?;
    }
}
