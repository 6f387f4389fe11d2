//! What happened in a world: a hash of all of it, and the last events in full.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};

use vik_core::ids::AttemptId;
use vik_core::outcome::Outcome;

/// So many events are kept for a report, where nothing else is said.
pub const KEPT: usize = 40;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty),* } = $label:literal;)*) => {
        /// One event. Issues are told by their number.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the fields say what they are")]
        pub enum Event {
            $($(#[$doc])* $name { $($(#[$field_doc])* $field: $kind),* },)*
        }

        /// The names of all kinds of events.
        pub const KINDS: &[&str] = &[$($label),*];

        impl Event {
            /// Its kind: an index into [`KINDS`].
            fn kind(&self) -> usize {
                let mut at = 0;
                $(if matches!(self, Self::$name { .. }) { return at; } at += 1;)*
                at
            }
        }
    };
}

events! {
    /// Time passes.
    Time { ms: u64 } = "time passes";
    /// The wall clock is set.
    Jump { ms: i64 } = "wall clock jumps";
    /// The scheduler is told that time passed.
    Tick {} = "tick";
    /// A daemon starts.
    Boot { taken_up: usize, known: usize } = "daemon starts";
    /// The daemon dies.
    Crash { uncommitted: usize, not_acted: usize } = "daemon dies";
    /// The machine loses power: the daemon and all processes die.
    Reboot {} = "power cut";
    /// The ledger commits.
    Commit { batches: usize, of: usize } = "commit";
    /// The ledger commits, and the daemon dies before it hears of it.
    CommitUnheard { batches: usize } = "commit, unheard";
    /// The commit is torn by a crash, and lost.
    CommitLost { batches: usize } = "commit, lost";
    /// A pull begins.
    PullStarts {} = "pull begins";
    /// A pull ends well.
    Pulled { brought: usize, lie: &'static str } = "pull ends";
    /// A pull fails.
    PullFails {} = "pull fails";
    /// A look at one issue is answered.
    Shown { issue: usize, seen: &'static str } = "look at one issue";
    /// Somebody changes an issue.
    Edited { issue: usize, detail: &'static str } = "issue changes";
    /// A session's own task does a step.
    Task { attempt_id: AttemptId, step: &'static str } = "attempt's step";
    /// An agent works.
    Works { attempt_id: AttemptId, tokens: u64, micro_usd: u64 } = "agent works";
    /// A process tree is gone.
    Exited { attempt_id: AttemptId, how: &'static str } = "process tree ends";
    /// The scheduler is told what an attempt has spent.
    Spent { attempt_id: AttemptId, tokens: u64, micro_usd: u64 } = "spend told";
    /// The scheduler is told the end of an attempt.
    Ended { attempt_id: AttemptId, outcome: Outcome } = "end told";
    /// An old report comes again.
    Again { attempt_id: AttemptId, detail: &'static str } = "old report again";
    /// A person asks.
    Asks { detail: &'static str, issue: Option<usize> } = "person asks";
    /// The workflow is edited.
    Reloads { detail: &'static str } = "workflow edited";
    /// The machine's load changes.
    Load { high: bool } = "load changes";
    /// A start is decided.
    DecidesStart { issue: usize, attempt_id: AttemptId, attempt: u32 } = "start decided";
    /// A stop is decided.
    DecidesStop { attempt_id: AttemptId, why: &'static str } = "stop decided";
    /// A run is parked.
    Parks { issue: usize, reason: &'static str } = "parked";
    /// A run waits.
    BacksOff { issue: usize, ms: u64 } = "backs off";
    /// A run is over, or freed.
    RunOver { issue: usize, freed: bool } = "run over";
    /// An effect is carried out.
    Acts { detail: &'static str } = "effect carried out";
    /// A workspace is removed, or is found to be worth keeping.
    Removed { issue: usize, removed: bool } = "workspace removed";
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What happened so far.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: Fnv,
    step: u64,
    kept: usize,
    last: VecDeque<(u64, Event)>,
    counts: Vec<u64>,
}

impl Trace {
    /// Of a world whose last so many events are kept.
    pub fn new(kept: usize) -> Self {
        Self {
            hash: Fnv(0xcbf2_9ce4_8422_2325),
            step: 0,
            kept,
            last: VecDeque::new(),
            counts: vec![0; KINDS.len()],
        }
    }

    /// The next step begins.
    pub fn step(&mut self) -> u64 {
        self.step += 1;
        self.step
    }

    /// How many steps there were.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Notes an event.
    pub fn note(&mut self, event: Event) {
        let kind = event.kind();
        self.counts[kind] += 1;
        (self.step, &event).hash(&mut self.hash);
        if self.last.len() >= self.kept {
            self.last.pop_front();
        }
        self.last.push_back((self.step, event));
    }

    /// Of everything so far: two worlds with the same one went the same way.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// How many events of each kind there were, in the order of [`KINDS`].
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The last events, oldest first, each with its step.
    pub fn last(&self) -> Vec<String> {
        let line = |(step, event): &(u64, Event)| format!("{step:>6}  {event}");
        self.last.iter().map(line).collect()
    }
}

/// FNV-1a, eight bytes at a time where there are that many: a fixed algorithm, and cheap.
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
