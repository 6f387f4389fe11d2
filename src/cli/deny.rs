//! `vik deny`

use std::path::Path;

use vik_core::approval::Answer;

use super::CliResult;
use super::answer::{AnswerArgs, answer};

/// Denies what waits for a person, optionally with an instruction.
pub fn run(workflow: &Path, args: &AnswerArgs) -> CliResult {
    answer(workflow, args, Answer::denied)
}
