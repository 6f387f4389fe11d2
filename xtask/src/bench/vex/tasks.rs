//! The tasks of the agents, as scripts of the model.

use clap::ValueEnum;
use serde_json::{Value, json};

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Task {
    /// No tool call
    Nothing,
    /// One tool call
    OneCall,
    /// Fifty tool calls, one per answer
    FiftyCalls,
    /// One tool call with 10 MB of output
    Output,
    /// An answer of 100 KB in pieces of 5 bytes
    Answer,
    /// An answer of 200 KB in pieces of 5 bytes
    LongAnswer,
}

impl Task {
    /// Returns the name in the table.
    pub fn label(self) -> &'static str {
        match self {
            Self::Nothing => "no tool call",
            Self::OneCall => "one tool call",
            Self::FiftyCalls => "50 tool calls",
            Self::Output => "10 MB of tool output",
            Self::Answer => "an answer of 100 KB in pieces of 5 bytes",
            Self::LongAnswer => "an answer of 200 KB in pieces of 5 bytes",
        }
    }

    /// Returns the number of requests.
    pub fn answers(self) -> usize {
        self.script().as_array().map_or(0, Vec::len)
    }

    /// Returns the script of the model.
    pub fn script(self) -> Value {
        let done = json!({"text": "The task is done, and all that was asked for was looked at."});
        match self {
            Self::Nothing => json!([done]),
            Self::OneCall => json!([{"run": "echo hello"}, done]),
            Self::FiftyCalls => {
                let mut turns: Vec<Value> = (1..=50)
                    .map(|n| json!({"run": format!("echo step {n}")}))
                    .collect();
                turns.push(done);
                Value::Array(turns)
            }
            Self::Output => {
                let run = "yes 'one more line of the log that somebody has to read' | head -c 10485760";
                json!([{"run": run}, done])
            }
            Self::Answer => long(100_000),
            Self::LongAnswer => long(200_000),
        }
    }
}

fn long(bytes: usize) -> Value {
    let text: String = (0..bytes / 10).map(|n| format!("word{n:05} ")).collect();
    json!([{"text": text, "chunk_chars": 5}])
}
