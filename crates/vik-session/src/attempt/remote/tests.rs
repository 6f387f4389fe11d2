mod commands;
mod updates;

use std::sync::Arc;

use futures_util::FutureExt;
use jiff::Timestamp;
use proptest::sample::Index;
use serde::de::DeserializeOwned;
use vik_core::approval::{Answer, Call, Gate};
use vik_core::attempt::{AttemptResult, StopReason};
use vik_core::ended::Ended;
use vik_core::limits::{LimitHit, LimitScope, LimitUnit, Spend};
use vik_core::machine::Answered;
use vik_core::message::{MAX_BYTES, MAX_WAITING, Message};
use vik_core::money::MicroUsd;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::turn::{EndedTurn, GrantedTurn};
use vik_core::workflow::ApprovePolicy;
use vik_store::ledger::LedgerError;

use super::*;
use crate::attempt::{AttemptHandle, AttemptLink, AttemptUpdate, StopLevel, TurnDecision};

/// Returns a value as another machine gets it.
fn sent<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_slice(&serde_json::to_vec(value).unwrap()).unwrap()
}

fn size<T: Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).unwrap().len()
}

fn message(number: usize) -> Message {
    Message {
        id: MessageId(uuid::Uuid::from_u128(number as u128)),
        text: format!("Message {number}."),
        by: "a person".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        interrupt: false,
    }
}

fn limit(spent: u64) -> LimitHit {
    LimitHit {
        scope: LimitScope::Attempt,
        unit: LimitUnit::Tokens,
        spent,
        limit: 10,
    }
}

fn answered(number: usize) -> Answered {
    Answered {
        request: format!("request {number}"),
        answer: Answer::Approve { message: None },
        by: "a person".to_owned(),
    }
}

fn decision(turn: u32) -> TurnDecision {
    let granted = GrantedTurn {
        turn: turn + 1,
        max: 9,
        is_verified: true,
    };
    TurnDecision {
        turn,
        granted: (!turn.is_multiple_of(3)).then_some(granted),
    }
}

fn request(number: usize) -> Box<Request> {
    let id = format!("request {number}");
    let policy = ApprovePolicy::default();
    Box::new(Request::new(id, Gate::Call, &policy, Timestamp::UNIX_EPOCH))
}

fn ended_turn(turn: u32) -> EndedTurn {
    EndedTurn {
        turn,
        is_verified: true,
    }
}

/// Returns the commands that the hub sends now, if there are any.
fn next(link: &mut RemoteLink) -> Option<CommandSnapshot> {
    match link.commands.next().now_or_never()? {
        RemoteCommand::Send(snapshot) => Some(sent(&snapshot)),
        RemoteCommand::Detach => panic!("the hub detaches"),
    }
}

/// Returns the updates that a worker sends now, if there are any.
fn changed(worker: &mut WorkerHandle) -> Option<UpdateSnapshot> {
    match worker.next().now_or_never()? {
        WorkerUpdate::Changed(snapshot) => Some(sent(&snapshot)),
        WorkerUpdate::Finished(finish) => panic!("{finish:?}"),
    }
}

/// Returns all snapshots in the order that `order` selects, then the others.
fn shuffled<T>(mut snapshots: Vec<T>, order: &[Index]) -> Vec<T> {
    let mut shuffled = Vec::new();
    for at in order.iter().take(snapshots.len()) {
        shuffled.push(snapshots.remove(at.index(snapshots.len())));
    }
    shuffled.extend(snapshots);
    shuffled
}

fn worker() -> (WorkerHandle, AttemptLink) {
    let (handle, link) = AttemptHandle::new();
    (handle.into_worker(), link)
}

#[test]
fn remote_message_cannot_be_withdrawn_even_before_it_is_sent() {
    let (handle, mut link) = AttemptHandle::remote();
    handle.commands.deliver(message(1));
    assert!(
        !handle.commands.withdraw(message(1).id),
        "an earlier hub may have sent it"
    );
    let snapshot = next(&mut link).unwrap();
    assert!(!handle.commands.withdraw(message(1).id));
    let (worker, attempt) = worker();
    worker.commands.apply(snapshot);
    assert_eq!(attempt.commands.take_message(), Some(message(1)));
}

#[test]
fn remote_detach_follows_the_commands_before_it_and_concerns_the_hub_only() {
    let (handle, mut link) = AttemptHandle::remote();
    assert_eq!(next(&mut link), None);
    handle.commands.detach();
    handle.commands.stop(StopReason::Cancelled);
    let (worker, attempt) = worker();
    worker.commands.apply(next(&mut link).unwrap());
    let detach = link.commands.next().now_or_never();
    assert_eq!(detach, Some(RemoteCommand::Detach));
    assert!(attempt.commands.stop_cause().is_some());
    assert_eq!(attempt.commands.detached().now_or_never(), None);
}

#[test]
fn new_hub_gets_to_know_that_a_request_no_longer_waits() {
    let (mut worker, attempt) = worker();
    attempt.updates.spent(Spend::default());
    let (mut handle, mut link) = AttemptHandle::remote();
    link.updates.apply(changed(&mut worker).unwrap());
    let update = handle.updates.next().now_or_never();
    assert!(update.is_none(), "nothing has ever waited: {update:?}");
    for request in [Some(request(1)), None] {
        attempt.updates.awaits(request);
    }
    attempt.updates.set_facts(|facts| facts.events = 1);
    changed(&mut worker).unwrap();
    attempt.updates.set_facts(|facts| facts.events = 2);
    let (mut handle, mut link) = AttemptHandle::remote();
    link.updates.apply(changed(&mut worker).unwrap());
    let update = handle.updates.next().now_or_never();
    assert!(matches!(update, Some(AttemptUpdate::Awaits(None))), "{update:?}");
}

#[test]
fn decided_turn_is_not_reported_to_the_next_hub() {
    let (mut worker, attempt) = worker();
    attempt.updates.turn_ended(ended_turn(1));
    assert_eq!(changed(&mut worker).unwrap().turn, Some(ended_turn(1)));
    let (handle, mut link) = AttemptHandle::remote();
    handle.commands.decide_turn(decision(1));
    worker.commands.apply(next(&mut link).unwrap());
    attempt.updates.set_facts(|facts| facts.events = 1);
    assert_eq!(changed(&mut worker).unwrap().turn, None);
    attempt.updates.turn_ended(ended_turn(2));
    assert_eq!(changed(&mut worker).unwrap().turn, Some(ended_turn(2)));
}

#[test]
fn worker_finish_keeps_the_whole_result() {
    let failure = HandOverFailure {
        step: "after_run".to_owned(),
        reason: "no route".to_owned(),
        wait: std::time::Duration::from_secs(7),
        needs_person: true,
    };
    let result = AttemptResult {
        failure_class: Some(FailureClass::Verify),
        feedback: Some("a test fails".to_owned()),
        changed: Some(true),
        ran: true,
        answered: Some(false),
        resets_at: Some(Timestamp::UNIX_EPOCH),
        resume_failed: true,
        hand_over_failure: Some(Box::new(failure.clone())),
        turn: 3,
        ..AttemptResult::new(Outcome::Failed)
    };
    let end = AttemptEnd {
        ended: Ended {
            duration_ms: 7,
            last_message: Some("hm".to_owned()),
            ..Ended::new(result, Spend::default())
        },
        log: "/sessions/1.jsonl".into(),
    };
    let ends = [
        WorkerEnd::from(Finish::Ended(Box::new(end.clone()))),
        Finish::HandedOver(Err(failure)).into(),
        Finish::HandedOver(Ok(())).into(),
        Finish::Detached.into(),
    ];
    for end in &ends {
        assert_eq!(sent(end), *end);
    }
    assert_eq!(ends[0], WorkerEnd::Ended(Box::new(end)));
}

#[test]
fn broken_disk_of_a_worker_is_not_that_of_the_hub() {
    let end = WorkerEnd::from(Finish::StorageFailed(Arc::new(LedgerError::Stopped)));
    let why = Some("the writer of the ledger has ended".to_owned());
    assert_eq!(end, WorkerEnd::Left { why });
}

#[test]
fn attempt_without_a_worker_ends_with_what_its_worker_reported() {
    let estimate = Spend {
        tokens: 9,
        usd: MicroUsd(9),
    };
    let lost = || AttemptResult::new(Outcome::Lost);
    let finish = |link: RemoteLink, mut handle: AttemptHandle| {
        link.updates.finish_without_worker(lost(), estimate, "log".into());
        loop {
            match handle.updates.next().now_or_never().unwrap() {
                AttemptUpdate::Finished(Finish::Ended(end)) => return *end,
                AttemptUpdate::Finished(finish) => panic!("{finish:?}"),
                _ => {}
            }
        }
    };
    let (handle, link) = AttemptHandle::remote();
    let silent = finish(link, handle);
    assert_eq!(silent.log, PathBuf::from("log"));
    assert_eq!(silent.ended, Ended::new(lost(), estimate));

    let (handle, mut link) = AttemptHandle::remote();
    let (mut worker, attempt) = worker();
    let spent = Spend {
        tokens: 4,
        usd: MicroUsd(5),
    };
    attempt.updates.spent(spent);
    link.updates.apply(changed(&mut worker).unwrap());
    let reported = finish(link, handle).ended;
    assert_eq!((reported.result.ran, reported.result.spend), (true, Some(spent)));
}

#[test]
fn command_snapshot_holds_only_what_is_unread() {
    let (handle, mut link) = AttemptHandle::remote();
    let (mut worker, attempt) = worker();
    let text = "x".repeat(MAX_BYTES);
    for number in 1..=3 * MAX_WAITING {
        handle.commands.answer(Answered {
            answer: Answer::Instruct {
                message: text.clone(),
            },
            ..answered(number)
        });
        handle.commands.deliver(Message {
            text: text.clone(),
            ..message(number)
        });
        let snapshot = next(&mut link).unwrap();
        assert_eq!(snapshot.messages.len(), 1);
        assert!(size(&snapshot) < 2 * MAX_BYTES + 1000);
        worker.commands.apply(snapshot);
        let taken = attempt.commands.take_message().unwrap();
        attempt.updates.message_taken(taken.id);
        link.updates.apply(changed(&mut worker).unwrap());
        assert_eq!(next(&mut link), None, "what was read needs no snapshot");
    }
}

#[test]
fn update_snapshot_does_not_grow_with_the_output_of_an_agent() {
    let (mut worker, attempt) = worker();
    let (long, path) = ("ä".repeat(MAX_COMMAND), "ä".repeat(MAX_NAME));
    let mut request = request(1);
    request.id.clone_from(&long);
    request.call = Some(Call {
        tool: long.clone(),
        command: Some(long.clone()),
        paths: vec![path; 1000],
    });
    attempt.updates.awaits(Some(request));
    for events in 0..10_000 {
        attempt.updates.set_facts(|facts| facts.events = events);
        attempt.updates.spent(Spend {
            tokens: events,
            usd: MicroUsd(events),
        });
        attempt.updates.message_taken(message(1).id);
    }
    let snapshot = changed(&mut worker).unwrap();
    assert!(size(&snapshot) < 512 * 1024, "{}", size(&snapshot));
    assert_eq!(snapshot.facts.events, 9999);
    let call = snapshot.awaits.unwrap().call.unwrap();
    let command = call.command.unwrap();
    let more = format!("… ({MAX_COMMAND} more bytes are not shown)");
    assert_eq!(command.strip_prefix(&long[..MAX_COMMAND]), Some(&*more));
    assert_eq!(call.paths.last().unwrap(), "… (900 more paths are not shown)");
}
