//! Runs a stage again whose run has ended, at the request of a person.

use vik_api::ErrorBody;
use vik_base::report::ErrorCode;
use vik_core::ids::{IssueId, StageName};
use vik_core::machine::Run;
use vik_core::scheduler::{Actor, CommandResult, Input};

use crate::intake::MoveResult;
use crate::tasks::MoveBack;
use crate::{ActionResult, Orchestrator};

impl Orchestrator {
    /// Moves an issue back to the state of a stage. The next pull shows it, and the stage starts as
    /// for any issue that gets there. Returns the response if nothing is to be moved.
    pub(crate) fn run_again(
        &mut self,
        issue: IssueId,
        stage: StageName,
        by: Actor,
        request: u64,
    ) -> Option<ActionResult> {
        let error = |code: ErrorCode, message: String, hint| {
            Some(Err(ErrorBody {
                code: code.to_string(),
                message,
                hint,
            }))
        };
        let Some(definition) = self.workflow.stage(&stage) else {
            let message = format!("the workflow has no stage `{stage}`");
            return error(ErrorCode::UnknownStage, message, None);
        };
        let to = definition.when.first_state().to_owned();
        if self.workflow.tracker.is_none() {
            let message = "the workflow has no `issues.tracker`, so Vik cannot move issues".to_owned();
            let hint = format!("move the issue to `{to}` in the tracker: the stage then runs again");
            return error(ErrorCode::BadRequest, message, Some(hint));
        }
        let machine = self.scheduler.machine(&issue);
        if machine.is_some_and(|machine| machine.runs().iter().any(Run::is_busy)) {
            return Some(Ok(CommandResult::NoEffect("a stage of the issue is running")));
        }
        let request = MoveBack {
            issue,
            stage,
            to,
            by,
            request,
        };
        self.tasks.move_back(request, &mut *self.effects);
        None
    }

    /// Responds to a request to run a stage again, and records the move.
    pub(crate) fn on_moved_back(&mut self, move_back: MoveBack, result: Result<MoveResult, String>) {
        let MoveBack {
            issue,
            stage,
            to,
            by,
            request,
        } = move_back;
        let result = match result {
            Ok(MoveResult::Moved { from }) => {
                self.handle(Input::MovedBack {
                    issue,
                    stage,
                    from,
                    to,
                    by,
                });
                self.refresh();
                Ok(CommandResult::Done(1))
            }
            Ok(MoveResult::AlreadyThere) => {
                self.refresh();
                Ok(CommandResult::NoEffect(
                    "the issue is in the state of the stage already",
                ))
            }
            Ok(MoveResult::Missing) => Ok(CommandResult::UnknownIssue),
            Err(message) => Err(ErrorBody {
                code: ErrorCode::TrackerFailed.to_string(),
                message,
                hint: None,
            }),
        };
        self.requests.respond(request, result);
    }
}
