//! `vik tracker output`: carries out an output of an agent through the tracker of the workflow.

use std::io::Read;

use serde_json::Value;
use vik_core::outputs::Output;
use vik_tracker::protocol::{
    CallError, IssueDraft, MessageBody, Moved, ProgramTracker, Protocol, PullRequestDraft, Request, call,
};

use super::TIMEOUT;
use super::args::{OutputArgs, read};

/// Carries out the output on standard input, and returns the answer of the tracker. Each verb of
/// the protocol can be repeated, so this can be as well.
pub(super) fn carry_out(args: &OutputArgs, stdin: &mut dyn Read) -> Result<Value, CallError> {
    let (program, arguments) = args
        .program
        .split_first()
        .ok_or_else(|| CallError::Usage("no tracker given".to_owned()))?;
    let tracker = ProgramTracker::new(program, arguments, TIMEOUT)?;
    let id = args.issue.clone();
    let request = match read(stdin)? {
        Output::State { state } => return move_issue(&tracker, args, &state),
        Output::Comment { body } => Request::Comment {
            id,
            key: args.key()?,
            input: MessageBody { body },
        },
        Output::Label { label } => Request::Label {
            id,
            add: vec![label],
            remove: Vec::new(),
        },
        Output::PullRequest { title, body, base } => Request::OpenPullRequest {
            head: format!("vik/{}", args.issue),
            input: PullRequestDraft { title, body, base },
        },
        Output::Issue { title, body } => Request::Create {
            key: args.key()?,
            input: IssueDraft {
                title,
                body,
                state: None,
                labels: Vec::new(),
            },
        },
    };
    tracker.call(&request)
}

/// Moves the issue from any of the states of its stage. From another one a person has moved it.
fn move_issue(tracker: &dyn Protocol, args: &OutputArgs, to: &str) -> Result<Value, CallError> {
    let mut untried = args.from.clone();
    let mut from = args.from[0].clone();
    loop {
        untried.retain(|state| *state != from);
        let request = Request::Move {
            id: args.issue.clone(),
            from,
            to: to.to_owned(),
        };
        let moved: Moved = match call(tracker, &request) {
            // It may have been moved. If Vik saw it elsewhere, it would not ask again.
            Err(CallError::Later { wait, .. }) if wait.is_zero() => call(tracker, &request)?,
            moved => moved?,
        };
        if moved.moved || moved.state == to {
            return serde_json::to_value(&moved).map_err(|error| CallError::Failed(error.to_string()));
        }
        if !untried.contains(&moved.state) {
            return Err(CallError::Failed(format!(
                "the issue {} was not moved to `{to}`: meanwhile it is in the state `{}`",
                args.issue, moved.state
            )));
        }
        from = moved.state;
    }
}
