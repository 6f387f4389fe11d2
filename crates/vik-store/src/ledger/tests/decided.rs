//! Decisions of a real scheduler, as the entries of a log have them.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use vik_core::attempt::{BeforeRunFailure, HandOverFailure, Start};
use vik_core::issue::Issue;
use vik_core::message::NewMessage;
use vik_core::outcome::FailureClass;
use vik_core::question::{NewAnswer, Question, Reply};
use vik_core::scheduler::{
    Actor, Command, Effect, Filter, HandBack, Input, Recalled, RetryRequest, Scheduler, TakeOver,
};
use vik_core::time::{Mono, Now};
use vik_core::turn::EndedTurn;

use super::*;

const WORKFLOW: &str = "
loop: { max_issue_concurrency: 2 }
issues: { pull: { command: list } }
agents: { coder: { runtime: codex, model: m, estimate: { tokens: 50, usd: 0.01 } } }
issue:
  terminal_states: [done]
  stages:
    plan:
      when: { state: todo }
      agent: coder
      prompt: p
      hooks: { after_run: move }
      turns: { max: 3 }
      questions: { timeout: 2h, default: 'yes' }
    work: { when: { state: doing }, agent: coder, prompt: p, approve: { before: true } }
";

const ISSUES: [&str; 3] = ["A-1", "../x'; DROP TABLE issues;--", "ünï \"q\" \\ 🦀"];
const STATES: [&str; 3] = ["todo", "doing", "done"];

/// Text that an encoding could change.
const TEXT: &str = "quote \" backslash \\ line\n tab\t, ünï 🦀, \u{2028} and </script>";

/// Something that happens to a daemon.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A pull returns each issue in the state with this number.
    Pulled([usize; 3]),
    /// The attempt that has run for the longest time ends with the result of this number.
    Ended(usize),
    /// The agent of that attempt comes to the end of a turn.
    TurnEnded,
    /// The oldest hand-over ends.
    HandOverEnded { succeeded: bool },
    /// A person gives the command of this number for an issue.
    Commanded(usize, &'static str),
    /// This number of minutes pass.
    Waited(u64),
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => prop::array::uniform3(0..3_usize).prop_map(Event::Pulled),
        4 => (0..RESULTS.len()).prop_map(Event::Ended),
        1 => Just(Event::TurnEnded),
        1 => any::<bool>().prop_map(|succeeded| Event::HandOverEnded { succeeded }),
        3 => (0..COMMANDS.len(), select(&ISSUES[..])).prop_map(|(number, issue)| Event::Commanded(number, issue)),
        2 => (1..300_u64).prop_map(Event::Waited),
    ]
}

/// The ways in which attempts end.
const RESULTS: [fn(&mut AttemptResult); 8] = [
    |_| {},
    |result| {
        result.outcome = Outcome::Failed;
        result.failure_class = Some(FailureClass::Verify);
        result.feedback = Some(TEXT.to_owned());
    },
    |result| {
        result.outcome = Outcome::Asked;
        result.question = Some(Box::new(Question {
            text: TEXT.to_owned(),
            choices: vec!["one".to_owned(), TEXT.to_owned()],
            default: None,
        }));
    },
    |result| result.outcome = Outcome::Lost,
    |result| {
        result.outcome = Outcome::Failed;
        result.failure_class = Some(FailureClass::Internal);
    },
    |result| {
        result.hand_over_failure = Some(Box::new(HandOverFailure {
            step: "after_run".to_owned(),
            reason: TEXT.to_owned(),
            wait: Duration::from_nanos(1_234_567_891),
            needs_person: false,
        }));
    },
    |result| {
        result.outcome = Outcome::Failed;
        result.failure_class = Some(FailureClass::RateLimit);
        result.resets_at = Some(at(100_000));
    },
    |result| {
        result.outcome = Outcome::Failed;
        result.before_run = Some(BeforeRunFailure::TryLater {
            wait: Duration::from_secs(30),
        });
    },
];

/// The commands of people for an issue.
const COMMANDS: [fn(IssueId) -> Command; 10] = [
    |_| Command::Pause(None),
    |_| Command::Resume(None),
    |issue| Command::Pause(Some(issue)),
    |issue| Command::Resume(Some(issue)),
    Command::Cancel,
    |issue| {
        Command::Retry(RetryRequest {
            issue,
            stage: None,
            attempts: Some(2),
            agent: false,
        })
    },
    |issue| {
        Command::SendMessage(NewMessage {
            issue,
            text: TEXT.to_owned(),
            interrupt: true,
        })
    },
    |issue| {
        Command::AnswerQuestion(NewAnswer {
            issue,
            stage: None,
            question: None,
            reply: Reply::Text(TEXT.to_owned()),
        })
    },
    |issue| {
        Command::TakeOver(TakeOver {
            issue,
            stage: None,
            wait: false,
        })
    },
    |issue| {
        Command::HandBack(HandBack {
            issue,
            message: Some(TEXT.to_owned()),
            files: vec![TEXT.to_owned()],
        })
    },
];

/// Events that lead to data of every kind.
pub(super) fn every_kind() -> Vec<Event> {
    use Event::{Commanded, Ended, HandOverEnded, Pulled, TurnEnded, Waited};
    let pulled = Pulled([0, 1, 0]);
    let mut events = vec![pulled, TurnEnded, pulled];
    for result in 0..RESULTS.len() {
        // The second pull follows the end, and the back-off is over by the third one.
        events.extend([pulled, Ended(result), pulled, Waited(20), pulled]);
    }
    events.push(HandOverEnded { succeeded: false });
    for command in 0..COMMANDS.len() {
        let ends = [HandOverEnded { succeeded: true }, Ended(2), Ended(2)];
        events.push(Commanded(command, ISSUES[2]));
        events.extend(ends.into_iter().chain([pulled]));
    }
    events.extend([Waited(300), Pulled([0, 2, 1])]);
    events
}

/// A scheduler whose decisions are committed to a ledger.
struct Daemon<'a> {
    scheduler: Scheduler,
    ledger: &'a Ledger,
    now: Now,
    running: Vec<Start>,
    hand_overs: Vec<Start>,
    decided: Vec<Changes>,
}

/// Commits what a scheduler decides on these events, and returns it.
pub(super) fn decide(ledger: &Ledger, events: &[Event]) -> Vec<Changes> {
    let workflow = vik_workflow_reader::load(WORKFLOW).workflow.unwrap();
    let mut daemon = Daemon {
        scheduler: Scheduler::new(Arc::new(workflow), Filter::default(), [3; 6]),
        ledger,
        now: Now {
            wall: at(0),
            mono: Mono(Duration::from_nanos(987_654_321)),
        },
        running: Vec::new(),
        hand_overs: Vec::new(),
        decided: Vec::new(),
    };
    for event in events {
        daemon.on_event(*event);
    }
    daemon.decided
}

impl Daemon<'_> {
    fn on_event(&mut self, event: Event) {
        match event {
            Event::Pulled(states) => {
                self.handle(Input::PullStarted);
                let issues: Vec<_> = ISSUES
                    .iter()
                    .zip(states)
                    .map(|(id, state)| issue(id, STATES[state]))
                    .collect();
                let unknown = self.scheduler.unknown(&issues);
                let machines = self.ledger.recall(unknown.clone()).wait().unwrap();
                let recalled = Recalled::new(unknown, machines);
                self.handle(Input::Pulled { issues, recalled });
            }
            Event::Ended(number) if !self.running.is_empty() => {
                let start = self.running.remove(0);
                self.handle(Input::Ended {
                    issue: start.issue.id,
                    attempt_id: start.attempt_id,
                    report: result(number),
                });
            }
            Event::TurnEnded if !self.running.is_empty() => {
                let start = &self.running[0];
                let ended = EndedTurn {
                    turn: start.turn,
                    is_verified: true,
                };
                self.handle(Input::TurnEnded {
                    issue: start.issue.id.clone(),
                    attempt_id: start.attempt_id,
                    ended,
                });
            }
            Event::HandOverEnded { succeeded } if !self.hand_overs.is_empty() => {
                let start = self.hand_overs.remove(0);
                let failure = result(5).hand_over_failure.unwrap();
                self.handle(Input::HandOverEnded {
                    issue: start.issue.id,
                    attempt_id: start.attempt_id,
                    result: if succeeded { Ok(()) } else { Err(*failure) },
                });
            }
            Event::Ended(_) | Event::TurnEnded | Event::HandOverEnded { .. } => {}
            Event::Commanded(number, issue) => {
                let command = COMMANDS[number](issue.into());
                self.handle(Input::Command(0, command, Actor::person(TEXT)));
            }
            Event::Waited(minutes) => {
                let wait = Duration::from_secs(minutes * 60);
                self.now.wall += wait;
                self.now.mono = self.now.mono.plus(wait);
                self.handle(Input::Tick);
            }
        }
    }

    fn handle(&mut self, input: Input) {
        let effects = self.scheduler.handle(self.now, input);
        let changes = self.scheduler.take_changes();
        self.ledger.commit(changes.clone()).wait().unwrap();
        if changes != Changes::default() {
            self.decided.push(changes);
        }
        for effect in effects {
            match effect {
                Effect::Start(start) => self.running.push(*start),
                Effect::HandOver(start) => self.hand_overs.push(*start),
                _ => {}
            }
        }
    }
}

fn issue(id: &str, state: &str) -> Issue {
    let item = json!({"id": id, "title": TEXT, "state": state, "priority": 0.1, "created_at": at(1), "description": TEXT});
    Issue::parse(&item.to_string()).unwrap()
}

fn result(number: usize) -> AttemptResult {
    let mut result = AttemptResult {
        ran: true,
        answered: Some(true),
        changed: Some(true),
        spend: Some(ended(0, 1_234_567_890_123).charged),
        provider_session_id: Some(TEXT.to_owned()),
        proof: Some("subreaper".to_owned()),
        ..AttemptResult::new(Outcome::Succeeded)
    };
    RESULTS[number](&mut result);
    result
}
