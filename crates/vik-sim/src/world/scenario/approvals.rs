//! Starts that a person has to approve.

use jiff::SignedDuration;
use vik_core::approval::{Answer, Request};
use vik_core::scheduler::ApprovalReply;

use super::*;

/// Three issues, whose first stage needs an approval within an hour.
struct Asked {
    world: Scenario,
    tracker: Vec<Item>,
}

fn asked(on_timeout: &str) -> Asked {
    let world = Scenario::new(&format!(
        "issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  stages:
    plan: {{ when: {{ state: todo }}, agent: a, prompt: p, approve: {{ before: true, timeout: 1h, on_timeout: {on_timeout} }} }}
    code: {{ when: {{ state: review }}, agent: a, prompt: p }}
"
    ));
    let tracker = (0..3).map(todo).collect();
    let mut asked = Asked { world, tracker };
    asked.pull();
    assert_eq!(asked.requests().len(), 3);
    asked
}

fn approve(message: Option<&str>) -> Answer {
    let message = message.map(ToOwned::to_owned);
    Answer::Approve { message }
}

impl Asked {
    fn pull(&mut self) {
        self.world.pull(&self.tracker);
    }

    /// A person edits the first issue.
    fn edit(&mut self) {
        let edited = self.tracker[0].clone().with(|item| item.description += 1);
        self.tracker[0] = edited;
    }

    /// Fails the last attempt, and passes its back-off.
    fn fail(&mut self) {
        self.world.end(ran(Outcome::Failed));
        self.pull();
        self.world.wait(60);
        self.pull();
    }

    fn requests(&self) -> Vec<Request> {
        let pending = self.world.scheduler().pending_approvals();
        pending
            .into_iter()
            .map(|pending| pending.request.clone())
            .collect()
    }

    /// Answers the request of the first issue, and returns whether it was accepted.
    fn answer(&mut self, answer: Answer, request: Option<&str>) -> bool {
        let reply = ApprovalReply {
            issue: id(0),
            stage: None,
            request: request.map(ToOwned::to_owned),
            answer,
        };
        self.world.command(Command::Answer(reply));
        self.world.result() == Some(&CommandResult::Done(1))
    }

    fn starts(&self) -> usize {
        self.world.starts.len()
    }

    fn denied(&self) -> bool {
        let hold = self.world.hold_of(0, "plan");
        let reason = ParkReason::Denied;
        matches!(hold, Some(Hold::Parked { reason: of, .. }) if of == reason)
    }
}

#[test]
fn issue_edited_after_its_approval_waits_again() {
    let mut asked = asked("deny");
    assert!(matches!(asked.world.quiescence(), Quiescence::At(_)));
    let before = asked.requests()[0].id.clone();
    // The person has not seen the present text.
    asked.edit();
    asked.pull();
    let after = asked.requests()[0].id.clone();
    assert_ne!(before, after);
    assert!(!asked.answer(approve(None), Some(&before)));
    assert_eq!(asked.starts(), 0);
    assert!(asked.answer(approve(Some("gently")), Some(&after)));
    assert_eq!(asked.starts(), 1);
    assert_eq!(asked.world.starts[0].message.as_deref(), Some("gently"));
    // It failed, and its text was changed: the new text is not approved.
    asked.edit();
    asked.fail();
    assert_eq!((asked.starts(), asked.requests().len()), (1, 3));
    assert!(asked.answer(approve(None), None));
    assert_eq!(asked.starts(), 2);
    asked.fail();
    assert_eq!(asked.starts(), 3, "it is repeated as it was approved");
}

#[test]
fn passed_time_limit_answers_right_after_a_restart() {
    let mut asked = asked("approve");
    let until = asked.requests()[0].until;
    let wait = SignedDuration::try_from(asked.world.next_wakeup().unwrap()).unwrap();
    assert!(asked.world.now().wall + wait <= until);
    // Time has passed since the last input.
    asked.world.pass(3_601);
    let now = asked.world.now().mono;
    assert!(matches!(asked.world.quiescence(), Quiescence::At(then) if then <= now));
    // The first input of the next daemon applies the default answer.
    asked.world.crash();
    assert_eq!(asked.requests().len(), 0);
    asked.pull();
    assert_eq!(asked.starts(), 3);
}

#[test]
fn denied_start_stays_parked_after_its_stage_state_changes() {
    let mut asked = asked("deny");
    asked.world.edit("state: todo", "state: later");
    assert!(asked.answer(Answer::denied(None), None));
    // The move to that state is no change by a person to the denied issue.
    asked.tracker[0] = later(0);
    asked.pull();
    assert_eq!((asked.starts(), asked.requests().len()), (0, 0));
    assert!(asked.denied());
}

#[test]
fn denied_start_stays_parked_and_the_time_limit_denies() {
    for answer in [
        Answer::Deny { message: None },
        Answer::Instruct {
            message: "not so".to_owned(),
        },
    ] {
        let mut asked = asked("deny");
        assert!(asked.answer(answer, None));
        assert!(asked.denied());
        assert_eq!(asked.requests().len(), 2);
        asked.world.crash();
        asked.pull();
        // Restarts do not restart the hour.
        asked.world.wait(3_500).crash();
        asked.pull();
        asked.world.wait(101);
        assert_eq!(asked.requests().len(), 0);
        assert_eq!(asked.starts(), 0);
    }
}
