//! `vik retry`

use std::path::Path;

use vik_api::Verb;
use vik_base::report::{Exit, count, one_line};
use vik_core::ids::StageName;

use super::args::RetryArgs;
use super::client::{self, RequestOutcome as Did};
use super::{CliResult, print};

pub fn run(workflow: &Path, args: &RetryArgs) -> CliResult {
    let verb = Verb::Retry {
        issue: args.issue.as_str().into(),
        stage: args.stage.clone().map(StageName::new),
        attempts: args.attempts,
    };
    let id = one_line(&args.issue, 60);
    print(&match client::send_command(workflow, verb, Some(&args.issue))? {
        Did::Nothing(why) => format!("nothing to retry: {why}\n"),
        Did::Applied(stages) => {
            let stages = match &args.stage {
                Some(stage) => format!("stage `{}`", one_line(stage, 60)),
                None => count(stages as u64, "parked stage"),
            };
            let more = match args.attempts {
                None => String::new(),
                Some(more) => format!(", allowing another {}", count(more.into(), "attempt")),
            };
            format!("retrying {stages} of issue {id}{more}; see when it runs with `vik explain {id}`\n")
        }
    });
    Ok(Exit::Done)
}
