//! Records the events of a world: a hash of all, and the last ones in full.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use vik_core::ids::AttemptId;
use vik_core::outcome::Outcome;

/// The default number of events that are kept for a report.
pub const KEPT: usize = 40;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty),* } = $label:literal;)*) => {
        /// An event. Issues are identified by their number.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Event {
            $($(#[$doc])* $name { $($(#[$field_doc])* $field: $kind),* },)*
        }

        /// The names of all kinds of events.
        pub const KINDS: &[&str] = &[$($label),*];

        impl Event {
            /// Returns its kind: an index into [`KINDS`].
            fn kind(&self) -> usize {
                let mut at = 0;
                $(if matches!(self, Self::$name { .. }) { return at; } at += 1;)*
                at
            }
        }
    };
}

events! {
    Time { ms: u64 } = "time passes";
    /// The wall clock is set.
    Jump { ms: i64 } = "wall clock jumps";
    /// The scheduler receives a tick.
    Tick {} = "tick";
    Boot { taken_up: usize, known: usize } = "daemon starts";
    Crash { uncommitted: usize, not_acted: usize } = "daemon dies";
    /// The machine loses power: the daemon and all processes die.
    Reboot {} = "power cut";
    Commit { batches: usize, of: usize } = "commit";
    /// The ledger commits, and the daemon dies before the confirmation.
    CommitUnheard { batches: usize } = "commit, unconfirmed";
    /// A crash tears the commit, which is lost.
    CommitLost { batches: usize } = "commit, lost";
    PullStarts {} = "pull starts";
    /// A pull succeeds.
    Pulled { brought: usize, lie: &'static str } = "pull succeeds";
    PullFails {} = "pull fails";
    /// A lookup ends.
    Shown { issue: usize, seen: &'static str } = "lookup ends";
    /// An issue changes.
    Edited { issue: usize, detail: &'static str } = "issue changes";
    /// The task of an attempt performs a step.
    Task { attempt_id: AttemptId, step: &'static str } = "attempt step";
    Works { attempt_id: AttemptId, tokens: u64, micro_usd: u64 } = "agent works";
    /// A process tree has exited.
    Exited { attempt_id: AttemptId, how: &'static str } = "process tree exits";
    /// The scheduler receives the spending of an attempt.
    Spent { attempt_id: AttemptId, tokens: u64, micro_usd: u64 } = "spending reported";
    /// The scheduler receives the end of an attempt.
    Ended { attempt_id: AttemptId, outcome: Outcome } = "end reported";
    /// A try to hand work over ends.
    HandedOver { attempt_id: AttemptId, done: bool } = "hand-over ends";
    /// An old report is repeated.
    Again { attempt_id: AttemptId, detail: &'static str } = "old report repeated";
    Asks { detail: &'static str, issue: Option<usize> } = "command of a person";
    /// The workflow is edited.
    Reloads { detail: &'static str } = "workflow edited";
    /// The machine's load changes.
    Load { high: bool } = "load changes";
    /// An attempt is started.
    DecidesStart { issue: usize, attempt_id: AttemptId, attempt: u32 } = "start decided";
    /// An attempt is stopped.
    DecidesStop { attempt_id: AttemptId, why: &'static str } = "stop decided";
    /// A run is parked.
    Parks { issue: usize, reason: &'static str } = "parked";
    BacksOff { issue: usize, ms: u64 } = "backoff";
    /// A run ends, or is freed.
    RunOver { issue: usize, freed: bool } = "run ends";
    /// An effect is carried out.
    Acts { detail: &'static str } = "effect carried out";
    /// A search finds data of an issue that is too old.
    Expired { issue: usize } = "old data found";
    /// A workspace is removed, or kept.
    Removed { issue: usize, removed: bool } = "workspace removed";
    WorkerChanges { worker: usize, how: &'static str } = "worker changes";
    /// The scheduler receives the list of workers.
    Announced { ready: usize, listed: usize } = "workers announced";
    /// An attempt is started on a worker.
    Places { attempt_id: AttemptId, worker: String } = "worker chosen";
}

#[derive(Clone, Debug)]
pub struct Trace {
    hash: Fnv,
    step: u64,
    kept: usize,
    last: VecDeque<(u64, Event)>,
    counts: Vec<u64>,
}

impl Trace {
    /// Creates a trace that keeps this many last events.
    pub fn new(kept: usize) -> Self {
        Self {
            hash: Fnv(0xcbf2_9ce4_8422_2325),
            step: 0,
            kept,
            last: VecDeque::new(),
            counts: vec![0; KINDS.len()],
        }
    }

    /// Starts the next step, and returns its number.
    pub fn step(&mut self) -> u64 {
        self.step += 1;
        self.step
    }

    /// Returns the number of steps.
    pub fn steps(&self) -> u64 {
        self.step
    }

    pub fn note(&mut self, event: Event) {
        let kind = event.kind();
        self.counts[kind] += 1;
        (self.step, &event).hash(&mut self.hash);
        if self.last.len() >= self.kept {
            self.last.pop_front();
        }
        self.last.push_back((self.step, event));
    }

    /// Returns the hash of all events: worlds with equal hashes made the same decisions.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// Returns the number of events of each kind, in the order of [`KINDS`].
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the last events, oldest first, each with its step.
    pub fn last(&self) -> Vec<String> {
        let line = |(step, event): &(u64, Event)| format!("{step:>6}  {event:?}");
        self.last.iter().map(line).collect()
    }
}

/// FNV-1a over words of up to eight bytes: a fixed and fast algorithm.
#[derive(Clone, Copy, Debug)]
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut buffer = [0; 8];
            buffer[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_le_bytes(buffer)).wrapping_mul(0x0100_0000_01b3);
            self.0 ^= self.0 >> 29;
        }
    }
}
