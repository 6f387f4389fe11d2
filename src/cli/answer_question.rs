//! `vik answer`

use std::path::{Path, PathBuf};

use clap::Args;
use vik_base::report::{ErrorCode, Exit, one_line};
use vik_core::ids::{AttemptId, IssueId, StageName};
use vik_core::message::check_text;
use vik_core::question::{AnswerRefusal, NewAnswer, Reply};
use vik_core::scheduler::Command;
use vik_orchestrator::api_view;

use super::client::{self, ActionOutcome};
use super::completion::stages;
use super::issue_arg::IssueAndText;
use super::text_input::text;
use super::{CliResult, print};

/// `vik answer`
#[derive(Debug, Args)]
#[command(
    after_help = "`vik status` and `vik show ISSUE` show open questions with their choices. The next attempt \
                  continues the conversation of the agent with the answer; it uses up no attempt. Any text is an \
                  answer, also to a question with choices.\n\nWithout TEXT, or with `-`, the text is read from stdin. \
                  Without a daemon, the answer is recorded for the next `vik run`. Only people can answer: the \
                  command is refused in agents and their children."
)]
pub struct AnswerQuestionArgs {
    #[command(flatten)]
    pub issue: IssueAndText,
    /// Read the text from a file
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Answer with a choice of the question, by its number from 1
    #[arg(long, value_name = "N", conflicts_with = "file")]
    pub choice: Option<usize>,
    /// Stage, if several stages have open questions
    #[arg(long, value_name = "NAME", add = stages())]
    pub stage: Option<String>,
    /// Answer only this question; `vik status --json` prints the id
    #[arg(long, value_name = "ID")]
    pub question: Option<String>,
}

pub fn run(workflow: &Path, args: &AnswerQuestionArgs) -> CliResult {
    let reply = match args.choice {
        Some(number) => {
            args.issue.without_text("--choice")?;
            Reply::Choice(number)
        }
        None => {
            let text = text(
                "answer",
                &args.issue,
                args.file.as_deref(),
                ErrorCode::AnswerInvalid,
            )?;
            check_text(&text).map_err(|refusal| api_view::answer_refused(&AnswerRefusal::Text(refusal)))?;
            Reply::Text(text)
        }
    };
    let question = args.question.as_deref().map(uuid::Uuid::try_parse).transpose();
    let question = question.map_err(|_| api_view::answer_refused(&AnswerRefusal::OtherQuestion))?;
    let answer = NewAnswer {
        issue: IssueId::new(args.issue.id()),
        stage: args.stage.clone().map(StageName::new),
        question: question.map(AttemptId),
        reply,
    };
    match client::act(workflow, Command::AnswerQuestion(answer))? {
        ActionOutcome::Applied(_) => {
            print(&format!("issue {}: answered\n", one_line(args.issue.id(), 60)));
            Ok(Exit::Done)
        }
        ActionOutcome::Nothing(_) => Err(api_view::answer_refused(&AnswerRefusal::NoQuestion)),
    }
}
