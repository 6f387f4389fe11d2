//! `vik approve`

use std::path::Path;

use vik_core::approval::Answer;

use super::CliResult;
use super::answer::{AnswerArgs, answer};

/// Approves what waits for a person.
pub fn run(workflow: &Path, args: &AnswerArgs) -> CliResult {
    answer(workflow, args, |message| Answer::Approve { message })
}
