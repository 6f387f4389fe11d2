//! Three hundred turns with two megabytes of output.

use super::*;
use crate::agent::compaction;
use crate::events::ExitReason;

const TURNS: usize = 300;

/// Returns what a provider would send of the messages.
fn lines(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .map(|message| serde_json::to_string(message).unwrap())
        .collect()
}

#[test]
fn requests_keep_task_and_plan_and_extend_each_other() {
    let mut scene = Scene::new();
    scene.window = Some(128_000);
    scene.task = "Translate every file of the catalogue, one after the other.".to_owned();
    for number in 0..TURNS {
        let text: String = (0..180)
            .map(|line| format!("file {number} line {line}: some words to translate\n"))
            .collect();
        std::fs::write(scene.work().join(format!("{number}.txt")), text).unwrap();
    }
    let plan = |number: usize| {
        json!({"steps": [{"text": format!("files up to {number}"), "status": "done"},
                         {"text": "all other files of the catalogue", "status": "in_progress"}]})
    };
    let answer = |number: usize, messages: &[Message]| {
        let bytes: usize = messages.iter().map(compaction::size).sum();
        let tokens = bytes as u64 / 4;
        assert!(tokens < 128_000, "request {number} has {tokens} tokens");
        let turn = match number {
            n if n + 1 == TURNS => text_turn("All files of the catalogue are translated."),
            n if n % 50 == 0 => calls(&[("update_plan", plan(n))]),
            n => calls(&[("read_file", json!({"path": format!("{n}.txt")}))]),
        };
        Ok(used(turn, tokens + 500, 0.0))
    };
    let played = scene.play(answer);
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert_eq!(played.seen.len(), TURNS);
    let output: usize = played
        .events("tool_result")
        .map(|event| event["output"].as_str().unwrap().len())
        .sum();
    assert!(output > 2_000_000, "{output} bytes of output");

    let compactions = played.events("compaction").count();
    assert!(compactions > 3, "{compactions}");
    let mut extends = 0;
    for (number, pair) in played.seen.windows(2).enumerate() {
        let (before, after) = (lines(&pair[0]), lines(&pair[1]));
        extends += usize::from(after.starts_with(&before));
        let all = after.concat();
        assert!(all.contains(&scene.task), "request {number}");
        let step = format!("files up to {}", number / 50 * 50);
        assert!(all.contains(&step), "request {number}: the plan");
    }
    // All requests but those right after a compaction.
    assert_eq!(extends + compactions, TURNS - 1);
    assert!(extends * 100 > TURNS * 95, "{extends} of {TURNS}");

    // A process that resumes the conversation has the messages of the next request.
    let listed = scene.store().list().unwrap();
    scene.origin = Origin::Resume(listed[0].head.id);
    let again = scene.play(|_, _| Ok(text_turn(REPORT)));
    let (last, next) = (lines(played.seen.last().unwrap()), lines(&again.seen[0]));
    assert!(next.starts_with(&last), "the same bytes, from the log");
}
