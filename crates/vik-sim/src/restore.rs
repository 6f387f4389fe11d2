//! Faults planted into the data written to and read from the ledger.

use serde_json::Value;
use vik_core::changes::{Changes, Stored};
use vik_core::machine::IssueMachine;

use crate::fault::Fault;

/// Corrupts the state that a new daemon reads.
pub(crate) fn spoil(stored: &mut Stored, fault: Option<Fault>) {
    match fault {
        Some(Fault::CountersReset) => patch(stored, |machine| {
            machine["life"]["spend"] = serde_json::json!({"tokens": 0, "usd": 0});
            machine["life"]["attempts"] = 0.into();
        }),
        Some(Fault::LifeLimitMoved) => patch(stored, |machine| {
            let extra = machine["life"]["extra_attempts"].as_u64().unwrap_or_default();
            machine["life"]["extra_attempts"] = (extra + 5).into();
        }),
        Some(Fault::ParkedForgotten) => patch(stored, |machine| {
            if let Some(runs) = machine["runs"].as_array_mut() {
                runs.retain(|run| run["phase"].get("parked").is_none());
            }
        }),
        Some(Fault::HandOverForgotten) => patch_runs(stored, |run| {
            if run.get("hand_over").is_some() {
                run["hand_over"] = Value::Null;
                if let Some(phase) = run["phase"].get_mut("backing_off") {
                    phase["why"] = "backoff".into();
                }
            }
        }),
        Some(Fault::StopForgotten) => patch_runs(stored, |run| {
            if let Some(active) = run["phase"].get_mut("active") {
                active["stopping"] = Value::Null;
            }
        }),
        Some(Fault::MessagesForgotten) => patch(stored, |machine| {
            if let Some(machine) = machine.as_object_mut() {
                machine.remove("messages");
            }
        }),
        Some(Fault::ConversationsForgotten) => patch(stored, |machine| {
            if let Some(machine) = machine.as_object_mut() {
                machine.remove("conversations");
            }
        }),
        Some(Fault::ActivityForgotten) => patch(stored, |machine| {
            let stages = machine.get_mut("seen").and_then(Value::as_object_mut);
            for (_, seen) in stages.into_iter().flatten() {
                *seen = Value::Array(Vec::new());
            }
        }),
        Some(Fault::RoundsForgotten) => patch(stored, |machine| machine["life"]["rounds"] = 0.into()),
        Some(Fault::TurnsForgotten) => patch_runs(stored, |run| {
            if run.get("turns").is_some() {
                run["turns"] = 0.into();
            }
        }),
        Some(Fault::GrantForgotten) => patch_runs(stored, |run| {
            if let Some(active) = run["phase"].get_mut("active") {
                active["granted"] = Value::Null;
            }
        }),
        Some(Fault::PauseForgotten) => {
            stored.paused = false;
            patch(stored, |machine| machine["paused"] = false.into());
        }
        Some(Fault::TakeOverForgotten) => patch(stored, |machine| machine["taken_over"] = Value::Null),
        Some(Fault::ApprovalsWiden) => {
            for machine in &mut stored.machines {
                let (text, runs) = (machine.issue().text_fingerprint(), machine.runs().len());
                patch_one(machine, |value| {
                    for run in 0..runs {
                        value["runs"][run]["approved"] = serde_json::json!({ "text": text, "message": null });
                    }
                });
            }
        }
        Some(Fault::QuestionsForgotten) => patch_runs(stored, |run| {
            if let Some(since) = run["phase"].pointer("/asking/question/since").cloned() {
                let none = serde_json::json!({"secs": 0, "nanos": 0});
                run["phase"] = serde_json::json!({"backing_off":
                    {"since": since, "wait": none, "until": none, "why": "backoff"}});
            }
        }),
        Some(Fault::AnswersForgotten) => patch_runs(stored, |run| {
            run["answers"] = Value::Array(Vec::new());
        }),
        Some(Fault::AnswersRepeated) => patch_runs(stored, |run| {
            for answer in run
                .get_mut("answers")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                answer["is_read"] = false.into();
            }
        }),
        Some(Fault::WorkerForgotten) => patch(stored, |machine| machine["worker"] = Value::Null),
        Some(Fault::DayReset) => stored.days.clear(),
        _ => {}
    }
}

/// Corrupts the changes for the ledger.
pub(crate) fn spoil_changes(changes: &mut Changes, fault: Option<Fault>) {
    if fault == Some(Fault::ChargedTwice) {
        for ended in &mut changes.ended {
            ended.charged = ended.charged.plus(ended.charged);
        }
    }
}

/// Changes machines in serialized form, where private fields are accessible.
fn patch(stored: &mut Stored, change: impl Fn(&mut Value)) {
    for machine in &mut stored.machines {
        patch_one(machine, &change);
    }
}

fn patch_runs(stored: &mut Stored, change: impl Fn(&mut Value)) {
    patch(stored, |machine| {
        let runs = machine["runs"].as_array_mut().into_iter().flatten();
        runs.for_each(&change);
    });
}

fn patch_one(machine: &mut IssueMachine, change: impl Fn(&mut Value)) {
    let Ok(mut value) = serde_json::to_value(&*machine) else {
        return;
    };
    change(&mut value);
    if let Ok(changed) = serde_json::from_value::<IssueMachine>(value) {
        *machine = changed;
    }
}
