//! Hands issues back that people had taken over.

use vik_api::ErrorBody;
use vik_base::report::ErrorCode;
use vik_core::ids::IssueId;
use vik_core::scheduler::{Actor, Command, CommandResult, HandBack, Input, not_to_be_handed_back};

use crate::tasks::ReturnedIssue;
use crate::{ActionResult, Orchestrator};

impl Orchestrator {
    /// Has the changes of the person recorded before their hold ends. Returns the response if there
    /// is nothing to hand back.
    pub(crate) fn hand_back(
        &mut self,
        issue: IssueId,
        message: Option<String>,
        by: Actor,
        request: u64,
    ) -> Option<ActionResult> {
        let Some(machine) = self.scheduler.machine(&issue) else {
            return Some(Ok(CommandResult::UnknownIssue));
        };
        let why = not_to_be_handed_back(machine);
        let Some(hold) = machine.taken_over().filter(|_| why.is_none()) else {
            return Some(Ok(CommandResult::NoEffect(why.unwrap_or_default())));
        };
        let request = ReturnedIssue {
            issue,
            message,
            by,
            request,
        };
        self.tasks.record_changes(request, hold, &mut *self.effects);
        None
    }

    /// Ends the hold of the person, once their changes are recorded.
    pub(crate) fn on_changes_recorded(
        &mut self,
        returned: ReturnedIssue,
        result: Result<Vec<String>, String>,
    ) {
        let ReturnedIssue {
            issue,
            message,
            by,
            request,
        } = returned;
        match result {
            Ok(files) => {
                let command = Command::HandBack(HandBack {
                    issue,
                    message,
                    files,
                });
                self.handle(Input::Command(request, command, by));
            }
            Err(message) => {
                let refusal = ErrorBody {
                    code: ErrorCode::InUse.to_string(),
                    message: format!("cannot hand the issue back: {message}"),
                    hint: None,
                };
                self.requests.respond(request, Err(refusal));
            }
        }
    }
}
