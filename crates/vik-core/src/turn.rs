//! The turns that a conversation has in the process of one attempt.
//!
//! The agent waits for input at the end of each turn. Its attempt reports the [`EndedTurn`], and
//! the scheduler answers with a [`GrantedTurn`], or refuses one.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attempt::Start;

/// A turn that came to its end, and after which the agent waits for input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedTurn {
    /// The number of the turn within its conversation, from 1.
    pub turn: u32,
    /// Whether `verify` passed, or the stage has none.
    pub is_verified: bool,
}

/// The permission to give an agent the prompt of another turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedTurn {
    /// The number of the turn within its conversation, from 2.
    pub turn: u32,
    /// The number of turns that the conversation may have.
    pub max: u32,
    /// Whether `verify` passed after the turn before.
    pub is_verified: bool,
}

impl GrantedTurn {
    /// Returns why the turn follows the one before, as the session log names it.
    pub fn why(self) -> &'static str {
        if self.is_verified {
            "state_unchanged"
        } else {
            "verify_failed"
        }
    }
}

/// A turn of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TurnView")]
pub struct TurnOfMax {
    /// Its number within the conversation, from 1.
    pub number: u32,
    /// The number of turns that the conversation may have.
    pub max: u32,
}

impl TurnOfMax {
    /// Returns the first turn of an attempt; `None` in a stage without `turns`.
    pub fn of(start: &Start) -> Option<Self> {
        let turns = start.stage.turns.filter(|_| start.turn > 0)?;
        Some(Self {
            number: start.turn,
            max: turns.max,
        })
    }
}

impl From<GrantedTurn> for TurnOfMax {
    fn from(granted: GrantedTurn) -> Self {
        Self {
            number: granted.turn,
            max: granted.max,
        }
    }
}

impl fmt::Display for TurnOfMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {} of {}", self.number, self.max)
    }
}
