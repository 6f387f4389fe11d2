//! Runs a stage again whose run has ended, at the request of a person.

use vik_api::ErrorBody;
use vik_base::report::ErrorCode;
use vik_core::ids::{IssueId, StageName};
use vik_core::machine::Run;
use vik_core::scheduler::{Actor, CommandResult, Input, LookupResult, TAKEN_OVER};

use crate::tasks::MoveBack;
use crate::{ActionResult, Orchestrator};

fn failure(code: ErrorCode, message: String, hint: Option<String>) -> ActionResult {
    Err(ErrorBody {
        code: code.to_string(),
        message,
        hint,
    })
}

impl Orchestrator {
    /// Looks up an issue that a person wants moved back to the state of a stage. The next pull shows
    /// the move, and the stage starts as for any issue that gets there. Returns the response if
    /// nothing is to be moved.
    pub(crate) fn run_again(
        &mut self,
        issue: IssueId,
        stage: StageName,
        by: Actor,
        request: u64,
    ) -> Option<ActionResult> {
        let Some(definition) = self.workflow.stage(&stage) else {
            let known = self.workflow.stage_names().cloned().collect();
            return Some(Ok(CommandResult::UnknownStage { stage, known }));
        };
        let to = definition.when.first_state().to_owned();
        if self.workflow.tracker.is_none() {
            let message = "the workflow has no `issues.tracker`, so Vik cannot move issues".to_owned();
            let hint = format!("move the issue to `{to}` in the tracker: the stage then runs again");
            return Some(failure(ErrorCode::CannotMove, message, Some(hint)));
        }
        if let Some(result) = self.refuse_busy(&issue) {
            return Some(result);
        }
        let request = MoveBack {
            issue,
            stage,
            to,
            by,
            request,
        };
        self.tasks.look_up_for_move(request, &mut *self.effects);
        None
    }

    fn refuse_busy(&self, issue: &IssueId) -> Option<ActionResult> {
        let machine = self.scheduler.machine(issue)?;
        if machine.taken_over().is_some() {
            return Some(Ok(CommandResult::NoEffect(TAKEN_OVER)));
        }
        let is_busy = machine.runs().iter().any(Run::is_busy);
        is_busy.then_some(Ok(CommandResult::NoEffect("a stage of the issue is running")))
    }

    /// Moves the issue that was looked up, if the stage will take it then. Returns the response if
    /// nothing is to be moved.
    pub(crate) fn on_found_for_move(
        &mut self,
        request: MoveBack,
        found: Result<LookupResult, String>,
    ) -> Option<ActionResult> {
        let mut issue = match found {
            Ok(LookupResult::Snapshot(issue)) => *issue,
            Ok(LookupResult::Missing) => return Some(Ok(CommandResult::UnknownIssue)),
            Ok(LookupResult::Unknown) => {
                let message = "the tracker did not show the issue".to_owned();
                return Some(failure(ErrorCode::TrackerFailed, message, None));
            }
            Err(message) => return Some(failure(ErrorCode::TrackerFailed, message, None)),
        };
        // It can have started, and the workflow can have changed, during the lookup.
        if let Some(result) = self.refuse_busy(&request.issue) {
            return Some(result);
        }
        let from = std::mem::replace(&mut issue.state, request.to.as_str().into()).to_string();
        if from == request.to {
            self.refresh();
            let same = CommandResult::NoEffect("the issue is in the state of the stage already");
            return Some(Ok(same));
        }
        let stage = self.workflow.stage(&request.stage);
        if !stage.is_some_and(|stage| issue.is_taken_by(&stage.when)) {
            let labels = stage
                .map(|stage| stage.when.labels.join("`, `"))
                .unwrap_or_default();
            let message = format!(
                "the stage `{}` takes only issues with the labels `{labels}`",
                request.stage
            );
            let hint = "add them in the tracker first".to_owned();
            return Some(failure(ErrorCode::CannotMove, message, Some(hint)));
        }
        self.tasks.move_back(request, from, &mut *self.effects);
        None
    }

    /// Responds to a request to run a stage again, and records the move.
    pub(crate) fn on_moved_back(&mut self, move_back: MoveBack, from: String, result: Result<(), String>) {
        let MoveBack {
            issue,
            stage,
            to,
            by,
            request,
        } = move_back;
        let result = match result {
            Ok(()) => {
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
            Err(message) => failure(ErrorCode::TrackerFailed, message, None),
        };
        self.requests.respond(request, result);
    }
}
