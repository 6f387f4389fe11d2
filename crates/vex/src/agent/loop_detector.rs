//! Notices a model that goes in circles: first it is told once, then the run ends.
//!
//! What counts as going on is a fact, never a guess about words: a file was changed in a way in which it was not
//! changed before, or a call gave something that it had not given before. Either clears all that was held against
//! the model. Reading on in a file, polling logs that grow and running the tests again after an edit are going on.
//! Without that, these are circles:
//!
//! - the same call with the same result, three times;
//! - the same error of the same tool, three times;
//! - turns that repeat each other in turns (A B A B, up to four different ones);
//! - the same words, three turns long;
//! - a number of turns with nothing changed and nothing learnt.
//!
//! How long something took is left out of the comparison: a test that fails in 0.02 s and then in 0.03 s fails the same.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::conversation::{ToolCall, ToolResult};

/// Turns without any progress after which a run is corrected, where nothing else is set.
pub const IDLE_TURNS: u32 = 15;

/// How often the same thing may happen.
const MAX_REPEATS: u32 = 3;

/// The longest circle that is looked for, in turns.
const MAX_CYCLE_TURNS: usize = 4;

/// What a call is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes files.
    Change,
    /// It learns something.
    Read,
    /// It notes something for itself, which is no progress.
    Note,
}

/// A way of going in circles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    /// The same call with the same result.
    SameCall,
    /// The same error.
    SameError,
    /// Turns that repeat each other.
    PingPong,
    /// The same words.
    SameText,
    /// Nothing changed, nothing learnt.
    Idle,
}

impl LoopKind {
    /// The name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SameCall => "same_call",
            Self::SameError => "same_error",
            Self::PingPong => "ping_pong",
            Self::SameText => "same_words",
            Self::Idle => "idle",
        }
    }
}

/// What is to be done after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnAction {
    /// Go on.
    Continue,
    /// Tell the model this, once.
    Correct {
        /// What it does.
        circle: LoopKind,
        /// What it is told.
        message: String,
    },
    /// End the run: it was told, and goes on in circles.
    Stop {
        /// What it does.
        circle: LoopKind,
        /// Why the run ends, for people.
        message: String,
    },
}

/// Watches the turns of a run.
#[derive(Debug)]
pub struct LoopDetector {
    idle_limit: u32,
    /// Every call with its result, and every change, so far.
    known: HashSet<u64>,
    /// The same calls and errors since the last progress.
    counts: HashMap<u64, u32>,
    /// What this turn did.
    turn: Vec<u64>,
    /// Whether this turn went on.
    progress: bool,
    /// What this turn repeated too often, and which tool that was.
    repeated: Option<(LoopKind, String)>,
    /// The last turns, the latest last. Those that repeat others brought nothing new.
    turns: VecDeque<u64>,
    last_text: u64,
    same_text_turns: u32,
    idle: u32,
    corrected: bool,
}

impl LoopDetector {
    /// Watches a run that may be idle for so many turns.
    pub fn new(idle_turns: u32) -> Self {
        Self {
            idle_limit: idle_turns.max(1),
            known: HashSet::new(),
            counts: HashMap::new(),
            turn: Vec::new(),
            progress: false,
            repeated: None,
            turns: VecDeque::new(),
            last_text: 0,
            same_text_turns: 0,
            idle: 0,
            corrected: false,
        }
    }

    /// A call got its result.
    pub fn record_call(&mut self, call: &ToolCall, result: &ToolResult, effect: Effect) {
        let asked = hash_of(&(&call.tool, call.input.json().map(ToString::to_string)));
        let output = without_durations(&result.output);
        let deed = hash_of(&(asked, result.is_error, result.exit_code, &output));
        self.turn.push(deed);
        // A command that fails tells something; a tool that fails was used in a wrong way.
        let learnt = !result.is_error || result.exit_code.is_some();
        let fresh = match effect {
            Effect::Change => learnt && self.known.insert(asked),
            Effect::Read => self.known.insert(deed) && learnt,
            Effect::Note => false,
        };
        if fresh {
            self.mark_progress();
        }
        self.count(deed, LoopKind::SameCall, &call.tool);
        if result.is_error {
            self.count(hash_of(&(&call.tool, &output)), LoopKind::SameError, &call.tool);
        }
    }

    /// The turn is over; it said these words.
    pub fn end_turn(&mut self, text: &str) -> TurnAction {
        let text = text.trim();
        let deeds = std::mem::take(&mut self.turn);
        let repeated = self.repeated.take();
        self.turns
            .push_back(hash_of(&(deeds.is_empty().then_some(text), deeds)));
        if self.turns.len() > 2 * MAX_CYCLE_TURNS {
            self.turns.pop_front();
        }
        let text_hash = hash_of(&text);
        self.same_text_turns = match self.last_text == text_hash {
            _ if text.is_empty() => 0,
            true => self.same_text_turns + 1,
            false => 1,
        };
        self.last_text = text_hash;
        if std::mem::take(&mut self.progress) {
            self.same_text_turns = self.same_text_turns.min(1);
            return TurnAction::Continue;
        }
        self.idle += 1;
        let circle = match repeated {
            Some((circle, tool)) => Some((circle, tool)),
            None if self.same_text_turns >= MAX_REPEATS => Some((LoopKind::SameText, String::new())),
            None if self.repeats_cycle() => Some((LoopKind::PingPong, String::new())),
            None if self.idle >= self.idle_limit => Some((LoopKind::Idle, String::new())),
            None => None,
        };
        match circle {
            None => TurnAction::Continue,
            Some((circle, tool)) => self.correct_or_stop(circle, &tool),
        }
    }

    /// What the model knew was cut away: it may look at everything again.
    pub fn forget(&mut self) {
        self.known.clear();
        self.turns.clear();
        self.mark_progress();
    }

    fn mark_progress(&mut self) {
        self.progress = true;
        self.counts.clear();
        self.repeated = None;
        self.idle = 0;
        self.corrected = false;
    }

    fn count(&mut self, key_hash: u64, circle: LoopKind, tool: &str) {
        let count = self.counts.entry(hash_of(&(key_hash, circle as u8))).or_default();
        *count += 1;
        if *count >= MAX_REPEATS && self.repeated.is_none() {
            self.repeated = Some((circle, tool.to_owned()));
        }
    }

    /// Whether the last turns repeat the ones before them.
    fn repeats_cycle(&self) -> bool {
        let turns = self.turns.len();
        (2..=MAX_CYCLE_TURNS).any(|length| {
            turns >= 2 * length && {
                let from = turns - 2 * length;
                (from..from + length).all(|at| self.turns[at] == self.turns[at + length])
            }
        })
    }

    fn correct_or_stop(&mut self, circle: LoopKind, tool: &str) -> TurnAction {
        let finding = match circle {
            LoopKind::SameCall => format!("the same call of {tool} gave the same result {MAX_REPEATS} times"),
            LoopKind::SameError => format!("{tool} failed with the same error {MAX_REPEATS} times"),
            LoopKind::PingPong => "the same steps are repeated with the same results".to_owned(),
            LoopKind::SameText => {
                format!("the same words were said {MAX_REPEATS} times, and nothing came of it")
            }
            LoopKind::Idle => format!("{} turns changed nothing and found nothing new", self.idle),
        };
        if self.corrected {
            let message = format!("{finding}, also after a correction");
            return TurnAction::Stop { circle, message };
        }
        self.corrected = true;
        if circle == LoopKind::Idle {
            self.idle = 0;
        }
        let message = format!(
            "You go in circles: {finding}. Do not repeat it. Look at what the results say and try something different. If \
             the task is done, say so and what you did; if it cannot be done, say why."
        );
        TurnAction::Correct { circle, message }
    }
}

fn hash_of(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The text with every duration and time of day replaced by one mark.
fn without_durations(text: &str) -> String {
    const UNITS: [&str; 10] = [
        "s", "ms", "us", "µs", "ns", "sec", "secs", "second", "seconds", "m",
    ];
    let mut kept = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(start) = remaining.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = remaining.split_at(start);
        kept.push_str(before);
        let length = number
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':')
            .unwrap_or(number.len());
        let (number, behind) = number.split_at(length);
        let suffix = behind.strip_prefix(' ').unwrap_or(behind);
        let unit: &str = &suffix[..suffix
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(suffix.len())];
        let apart = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let clock = number.split(':').count() == 3;
        if !apart && (clock || UNITS.contains(&unit)) {
            kept.push('#');
        } else {
            kept.push_str(number);
        }
        remaining = behind;
    }
    kept.push_str(remaining);
    kept
}

#[cfg(test)]
mod tests;
