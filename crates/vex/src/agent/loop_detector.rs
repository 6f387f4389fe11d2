//! Detects a model that repeats itself without progress: it is corrected once, then the run ends.
//!
//! Progress is a fact, never a guess about the text: a file changed in a way in which it had not
//! changed before, or a call gave a result that it had not given before. Progress resets all
//! counters. Reading on in a file, polling logs that grow and running the tests again after an edit
//! are progress. Without progress, these are loops:
//!
//! - the same call with the same result, three times;
//! - the same error of the same tool, three times;
//! - turns that repeat in a cycle (A B A B, up to four different ones);
//! - the same text, three turns long;
//! - a number of turns that changed nothing and found nothing new.
//!
//! Durations are left out of the comparison: a test that fails in 0.02 s and then in 0.03 s fails
//! in the same way.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::conversation::{ToolCall, ToolResult};

/// The default number of turns without progress after which a run is corrected.
pub const IDLE_TURNS: u32 = 15;

/// How often the same event may happen.
const MAX_REPEATS: u32 = 3;

/// The maximum length of a detected cycle, in turns.
const MAX_CYCLE_TURNS: usize = 4;

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Change,
    Read,
    /// Only writes a note of the model, which is not progress.
    Note,
}

/// A kind of loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    SameCall,
    SameError,
    PingPong,
    SameText,
    /// Nothing changed and nothing new was read.
    Idle,
}

impl LoopKind {
    /// Returns the name in events.
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

/// What to do after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnAction {
    Continue,
    /// Sends this message to the model, once.
    Correct {
        circle: LoopKind,
        message: String,
    },
    /// Ends the run: the model was corrected and repeats itself again.
    Stop {
        circle: LoopKind,
        /// Why the run ends, for people.
        message: String,
    },
}

/// Detects loops over the turns of a run.
#[derive(Debug, Default)]
pub struct LoopDetector {
    /// Every call with its result, and every change, so far.
    known: HashSet<u64>,
    /// How often each call and error happened since the last progress.
    counts: HashMap<u64, u32>,
    /// The calls of this turn.
    turn: Vec<u64>,
    /// Whether this turn made progress.
    progress: bool,
    /// What this turn repeated too often, and the tool.
    repeated: Option<(LoopKind, String)>,
    /// The last turns, the latest last.
    turns: VecDeque<u64>,
    last_text: u64,
    same_text_turns: u32,
    idle: u32,
    corrected: bool,
}

impl LoopDetector {
    /// Records a call with its result.
    pub fn record_call(&mut self, call: &ToolCall, result: &ToolResult, effect: Effect) {
        let asked = hash_of(&(&call.tool, call.input.json().map(ToString::to_string)));
        let output = without_durations(&result.output);
        let deed = hash_of(&(asked, result.is_error, result.exit_code, &output));
        self.turn.push(deed);
        // A command that fails gives information; a tool that fails was called in a wrong way.
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

    /// Ends a turn whose text is `text`.
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
            None if self.idle >= IDLE_TURNS => Some((LoopKind::Idle, String::new())),
            None => None,
        };
        match circle {
            None => TurnAction::Continue,
            Some((circle, tool)) => self.correct_or_stop(circle, &tool),
        }
    }

    /// Forgets everything read so far, after a compaction: the model may read it again.
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

    /// Returns whether the last turns repeat the ones before them.
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
            let message = format!("{finding}, even after a correction");
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

/// Returns the text with every duration and time of day replaced by a mark.
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
