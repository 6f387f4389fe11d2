//! An attempt that runs on another machine.
//!
//! Between the loop on the hub and an attempt there are states, not queues. If the attempt runs on
//! a worker, both states travel as data: a [`CommandSnapshot`] down and an [`UpdateSnapshot`] up.
//! Either may be lost, repeated or overtaken by a later one. Only the latest one must arrive, and
//! whoever carries them sends it again until it has.
//!
//! ```text
//! hub                                     worker
//! CommandSender -> RemoteCommands  - - >  WorkerHandle::commands -> AttemptCommands
//! AttemptUpdates <- RemoteUpdates  < - -  WorkerHandle::next     <- UpdateSender
//! ```

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use vik_base::report;
use vik_core::approval::Request;
use vik_core::attempt::{AttemptResult, HandOverFailure};
use vik_core::ended::Ended;
use vik_core::ids::MessageId;
use vik_core::limits::Spend;

use super::commands::{AttemptCommands, CommandSender, CommandSnapshot};
use super::finish::{AttemptEnd, Finish};
use super::updates::{AttemptUpdates, UpdateSender, UpdateSnapshot};

/// The maximum number of bytes of a request's id, of the name of a tool and of a path.
const MAX_NAME: usize = 4096;

/// The maximum number of bytes of a command that waits for approval.
const MAX_COMMAND: usize = 64 * 1024;

/// The maximum number of paths of a call that waits for approval.
const MAX_PATHS: usize = 100;

/// The hub's end of an attempt on a worker, which passes the states on.
#[derive(Debug)]
pub struct RemoteLink {
    pub commands: RemoteCommands,
    pub updates: RemoteUpdates,
}

impl RemoteLink {
    pub(super) fn new(commands: AttemptCommands, updates: UpdateSender) -> Self {
        let commands = RemoteCommands {
            commands,
            taken: updates.taken(),
            last: CommandSnapshot::default(),
        };
        let updates = RemoteUpdates { updates, last: 0 };
        Self { commands, updates }
    }
}

/// What the hub wants of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteCommand {
    /// The worker needs this snapshot, which replaces all earlier ones.
    Send(CommandSnapshot),
    /// This hub leaves the attempt to the next one. No command follows, and the worker is not
    /// concerned: its attempt continues.
    Detach,
}

/// Receives the commands for an attempt on a worker.
#[derive(Debug)]
pub struct RemoteCommands {
    commands: AttemptCommands,
    /// The messages that the attempt has reported as taken.
    taken: watch::Receiver<Vec<MessageId>>,
    last: CommandSnapshot,
}

impl RemoteCommands {
    /// Waits for commands that the last snapshot lacks. Cancelling the call loses nothing.
    ///
    /// A new hub starts without any, and gets those again that the worker may lack.
    pub async fn next(&mut self) -> RemoteCommand {
        loop {
            let snapshot = self.snapshot();
            if snapshot != self.last {
                self.last = snapshot.clone();
                return RemoteCommand::Send(snapshot);
            }
            if self.commands.is_detached() {
                return RemoteCommand::Detach;
            }
            self.commands.changed().await;
        }
    }

    /// Waits until this hub leaves the attempt to the next one. It takes no command.
    pub async fn detached(&mut self) {
        self.commands.detached().await;
    }

    fn snapshot(&mut self) -> CommandSnapshot {
        let mut snapshot = self.commands.snapshot();
        // A worker that gets them again knows them.
        let taken = self.taken.borrow();
        let waits = |id: &MessageId| !taken.contains(id);
        self.last.messages.retain(|message| waits(&message.id));
        let messages = self.last.messages.iter().cloned();
        snapshot.messages.splice(0..0, messages);
        snapshot
    }
}

/// Passes the updates of an attempt on a worker to the loop. If it is dropped without a finish, the
/// attempt counts as detached from this hub.
#[derive(Debug)]
pub struct RemoteUpdates {
    updates: UpdateSender,
    /// The number of the last snapshot; 0 if there was none.
    last: u64,
}

impl RemoteUpdates {
    /// Reports what is new in a snapshot. One that is not newer than the last one changes nothing:
    /// an attempt runs once, on one worker, which numbers its snapshots.
    pub fn apply(&mut self, snapshot: UpdateSnapshot) {
        if snapshot.number <= self.last {
            return;
        }
        if self.last == 0 && snapshot.has_reported_awaits {
            // An earlier hub may have recorded a request that no longer waits.
            self.updates.awaits(snapshot.awaits.clone());
        }
        self.last = snapshot.number;
        self.updates.report(snapshot);
    }

    /// Reports how the attempt finished.
    pub fn finish(self, finish: Finish) {
        self.updates.finish(finish);
    }

    /// Reports that the attempt ended with this result, which no worker has sent. It spent what the
    /// worker has reported. `log` is the path of its session log.
    pub fn finish_without_worker(self, result: AttemptResult, estimate: Spend, log: PathBuf) {
        let spent = self.updates.last_spent();
        let result = AttemptResult {
            ran: self.last > 0,
            spend: (spent != Spend::default()).then_some(spent),
            ..result
        };
        let ended = Ended::new(result, estimate);
        self.updates
            .finish(Finish::Ended(Box::new(AttemptEnd { ended, log })));
    }
}

/// The worker's handle of an attempt that a hub commands.
#[derive(Debug)]
pub struct WorkerHandle {
    /// Commands of this worker, and those of the hub ([`CommandSender::apply`]).
    pub commands: CommandSender,
    updates: AttemptUpdates,
    /// The number of the last snapshot.
    last: u64,
}

/// What the hub needs of a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerUpdate {
    /// These are the latest updates, which replace all earlier ones.
    Changed(UpdateSnapshot),
    /// The attempt finished. No update follows.
    Finished(WorkerFinish),
}

/// How an attempt finished on a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerFinish {
    /// The last updates, to be applied first: nobody knows whether they arrived by themselves.
    pub updates: UpdateSnapshot,
    pub end: WorkerEnd,
}

/// The end of an attempt on a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerEnd {
    Ended(Box<AttemptEnd>),
    /// A repeated hand-over ended.
    HandedOver(Result<(), HandOverFailure>),
    /// The worker left the attempt without an end, and its agent may live on. This is no failure of
    /// the hub, which decides what becomes of the attempt.
    Left {
        /// The error of the worker's disk, if that is the reason.
        why: Option<String>,
    },
}

impl From<Finish> for WorkerEnd {
    fn from(finish: Finish) -> Self {
        match finish {
            Finish::Ended(end) => Self::Ended(end),
            Finish::HandedOver(result) => Self::HandedOver(result),
            Finish::Detached => Self::Left { why: None },
            Finish::StorageFailed(error) => Self::Left {
                why: Some(report::chain(&*error)),
            },
        }
    }
}

impl WorkerHandle {
    pub(super) fn new(commands: CommandSender, updates: AttemptUpdates) -> Self {
        Self {
            commands,
            updates,
            last: 0,
        }
    }

    /// Waits until an update, also of the facts, has changed since the last call, or the attempt has
    /// finished, after which no call follows. Facts change at any rate, so the caller decides how
    /// often it calls. Cancelling the call loses nothing.
    ///
    /// The size of a snapshot does not depend on what an agent prints: an overlong text of a call
    /// that waits for approval is cut, and says so.
    pub async fn next(&mut self) -> WorkerUpdate {
        let finish = self.updates.changed().await;
        self.last += 1;
        let mut updates = self.updates.snapshot(self.last);
        // A decided turn is not decided again, also by the next hub.
        let decided = self.commands.decided_turn();
        updates.turn = updates.turn.filter(|ended| ended.turn > decided);
        if let Some(request) = &mut updates.awaits {
            shorten(request);
        }
        match finish {
            None => WorkerUpdate::Changed(updates),
            Some(finish) => WorkerUpdate::Finished(WorkerFinish {
                updates,
                end: finish.into(),
            }),
        }
    }
}

/// Cuts the texts of an agent. If the id is cut, which no known agent needs, the attempt ignores
/// answers to the request, and its time limit decides.
fn shorten(request: &mut Request) {
    cut(&mut request.id, MAX_NAME);
    let Some(call) = &mut request.call else {
        return;
    };
    cut(&mut call.tool, MAX_NAME);
    call.command
        .iter_mut()
        .for_each(|command| cut(command, MAX_COMMAND));
    let more = call.paths.len().saturating_sub(MAX_PATHS);
    call.paths.truncate(MAX_PATHS);
    call.paths.iter_mut().for_each(|path| cut(path, MAX_NAME));
    if more > 0 {
        call.paths.push(format!("… ({more} more paths are not shown)"));
    }
}

fn cut(text: &mut String, max: usize) {
    let kept = text.floor_char_boundary(max);
    let more = text.len() - kept;
    if more > 0 {
        text.truncate(kept);
        let _ = write!(text, "… ({more} more bytes are not shown)");
    }
}

#[cfg(test)]
mod tests;
