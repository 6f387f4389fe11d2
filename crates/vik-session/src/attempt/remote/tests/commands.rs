//! Commands that are lost, repeated and overtaken on their way to a worker.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Command {
    Stop(StopReason),
    StopAll(StopLevel),
    Warn(u64),
    Answer(usize),
    DecideTurn(u32),
    Deliver(usize),
}

impl Command {
    fn send(&self, to: &CommandSender) {
        match self {
            Self::Stop(reason) => to.stop(reason.clone()),
            Self::StopAll(level) => to.stop_with_daemon(*level),
            Self::Warn(spent) => to.warn(limit(*spent)),
            Self::Answer(number) => to.answer(answered(*number)),
            Self::DecideTurn(turn) => to.decide_turn(decision(*turn)),
            Self::Deliver(number) => to.deliver(message(*number)),
        }
    }
}

/// Something that happens to the commands of an attempt. The numbers of answers, turns and messages
/// are those of their order.
#[derive(Clone, Debug)]
enum Act {
    Give(Command),
    /// The hub sends its commands.
    Send,
    /// Commands that were sent arrive, perhaps again.
    Arrive(Index),
    /// The agent takes a message.
    Take,
    /// The hub gets to know of all messages that were taken.
    Report,
    /// Another hub leads, and repeats what the worker may lack.
    ReplaceHub,
}

fn act() -> impl Strategy<Value = Act> {
    let reasons = [StopReason::Terminal, StopReason::Cancelled];
    let levels = [StopLevel::Stop, StopLevel::Kill];
    let command = prop_oneof![
        1 => prop::sample::select(reasons.to_vec()).prop_map(Command::Stop),
        1 => prop::sample::select(levels.to_vec()).prop_map(Command::StopAll),
        2 => (0..4_u64).prop_map(Command::Warn),
        2 => Just(Command::Answer(0)),
        2 => Just(Command::DecideTurn(0)),
        4 => Just(Command::Deliver(0)),
    ];
    prop_oneof![
        12 => command.prop_map(Act::Give),
        6 => Just(Act::Send),
        6 => any::<Index>().prop_map(Act::Arrive),
        3 => Just(Act::Take),
        2 => Just(Act::Report),
        1 => Just(Act::ReplaceHub),
    ]
}

/// An attempt on a worker, and the same attempt on the machine of the loop.
struct Commanded {
    hub: (AttemptHandle, RemoteLink),
    worker: (WorkerHandle, AttemptLink),
    local: (AttemptHandle, AttemptLink),
    in_transit: Vec<CommandSnapshot>,
    given: Vec<Command>,
    /// The messages that the agent has taken, and the number of those that the hub knows.
    taken: Vec<MessageId>,
    reported: usize,
    answers: usize,
    turns: u32,
    messages: usize,
}

impl Commanded {
    fn new() -> Self {
        Self {
            hub: AttemptHandle::remote(),
            worker: worker(),
            local: AttemptHandle::new(),
            in_transit: Vec::new(),
            given: Vec::new(),
            taken: Vec::new(),
            reported: 0,
            answers: 0,
            turns: 0,
            messages: 0,
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Give(command) => self.give(command),
            Act::Send => self.in_transit.extend(next(&mut self.hub.1)),
            Act::Arrive(at) => {
                if !self.in_transit.is_empty() {
                    let snapshot = at.get(&self.in_transit).clone();
                    self.worker.0.commands.apply(snapshot);
                }
            }
            Act::Take => {
                if let Some(message) = self.worker.1.commands.take_message() {
                    self.taken.push(message.id);
                    self.worker.1.updates.message_taken(message.id);
                }
            }
            Act::Report => {
                if let Some(updates) = changed(&mut self.worker.0) {
                    self.hub.1.updates.apply(updates);
                    self.reported = self.taken.len();
                }
            }
            Act::ReplaceHub => {
                self.hub = AttemptHandle::remote();
                for command in &self.given {
                    let is_over = match command {
                        Command::Answer(number) => *number < self.answers,
                        Command::DecideTurn(turn) => *turn < self.turns,
                        Command::Deliver(number) => {
                            self.taken[..self.reported].contains(&message(*number).id)
                        }
                        Command::Stop(_) | Command::StopAll(_) | Command::Warn(_) => false,
                    };
                    if !is_over {
                        command.send(&self.hub.0.commands);
                    }
                }
            }
        }
    }

    fn give(&mut self, mut command: Command) {
        match &mut command {
            Command::Answer(number) => {
                self.answers += 1;
                *number = self.answers;
            }
            Command::DecideTurn(turn) => {
                self.turns += 1;
                *turn = self.turns;
            }
            Command::Deliver(number) => {
                self.messages += 1;
                *number = self.messages;
            }
            Command::Stop(_) | Command::StopAll(_) | Command::Warn(_) => {}
        }
        command.send(&self.hub.0.commands);
        command.send(&self.local.0.commands);
        self.given.push(command);
    }

    /// Has everything arrive in this order, and compares both attempts.
    fn check(mut self, order: &[Index]) -> Result<(), TestCaseError> {
        self.in_transit.extend(next(&mut self.hub.1));
        prop_assert_eq!(next(&mut self.hub.1), None);
        for snapshot in shuffled(std::mem::take(&mut self.in_transit), order) {
            self.worker.0.commands.apply(snapshot);
        }
        let (remote, local) = (&self.worker.1.commands, &self.local.1.commands);
        prop_assert_eq!(remote.stop_cause(), local.stop_cause());
        prop_assert_eq!(remote.is_killed(), local.is_killed());
        prop_assert_eq!(remote.warned(0).now_or_never(), local.warned(0).now_or_never());
        let last = answered(self.answers).request;
        prop_assert_eq!(
            remote.answered(&last).now_or_never(),
            local.answered(&last).now_or_never()
        );
        prop_assert_eq!(
            remote.turn_decided(self.turns).now_or_never(),
            local.turn_decided(self.turns).now_or_never()
        );
        let remaining = std::iter::from_fn(|| remote.take_message());
        self.taken.extend(remaining.map(|message| message.id));
        let all = std::iter::from_fn(|| local.take_message());
        prop_assert_eq!(self.taken, all.map(|message| message.id).collect::<Vec<_>>());
        Ok(())
    }
}

proptest! {
    /// Whatever is lost, repeated or overtaken, and whichever hub leads, a worker ends up with the
    /// commands that an attempt on the same machine has: each message once and in order.
    #[test]
    fn commands_arrive_as_on_one_machine(
        acts in prop::collection::vec(act(), 0..40),
        order in prop::collection::vec(any::<Index>(), 0..20),
    ) {
        let mut commanded = Commanded::new();
        for act in acts {
            commanded.act(act);
        }
        commanded.check(&order)?;
    }
}
