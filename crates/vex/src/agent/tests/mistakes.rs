//! Regression tests for mistakes known from other agents.

use super::*;
use crate::agent::compaction;
use crate::events::ExitReason;
use crate::session::Entry;

/// Creates files with this many lines in the workspace. Returns a function that reads one of them.
fn big(scene: &Scene, lines: usize) -> impl Fn(usize) -> Turn + use<> {
    for number in 0..60 {
        let text: String = (0..lines)
            .map(|line| format!("line {line} of file {number}\n"))
            .collect();
        std::fs::write(scene.work().join(format!("{number}.txt")), text).unwrap();
    }
    |number| calls(&[("read_file", json!({"path": format!("{number}.txt")}))])
}

#[test]
fn task_is_never_trimmed_out_after_many_calls() {
    let mut scene = Scene::turns(60);
    scene.window = Some(6000);
    let read = big(&scene, 150);
    let played = scene.play(|number, _| Ok(read(number)));
    assert_eq!(played.seen.len(), 60);
    assert!(played.events("compaction").next().is_some());
    for messages in &played.seen {
        let Message::User { text } = &messages[0] else {
            panic!("{messages:?}");
        };
        assert!(text.contains("Do the task."));
        let tokens: usize = messages.iter().map(compaction::size).sum::<usize>() / 4;
        assert!(tokens < 6000, "{tokens}");
    }
}

#[test]
fn history_is_never_pruned_to_nothing() {
    let mut scene = Scene::turns(10);
    // Smaller than the output of one call.
    scene.window = Some(1500);
    let read = big(&scene, 500);
    let played = scene.play(|number, _| Ok(read(number)));
    assert_eq!(played.ending.reason, ExitReason::Limit);
    for messages in played.seen.iter().skip(1) {
        assert!(
            messages.len() >= 3,
            "the task, the last call and its result are there"
        );
    }
}

#[test]
fn empty_final_answer_is_never_a_success() {
    let played = Scene::new().play_turns(vec![sh("touch x"), text_turn(" "), text_turn("")]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    assert!(played.ending.message.is_some_and(|message| !message.is_empty()));
    let played = Scene::new().play_turns(vec![Turn::default()]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    // No empty message is sent back.
    for message in played.seen.iter().flatten() {
        assert!(compaction::size(message) > 40, "{message:?}");
    }
}

#[test]
fn cancel_leaves_no_call_without_its_result() {
    let scene = Scene::new();
    let interrupt = scene.interrupt.clone();
    let started = scene.work().join("started");
    let watcher = std::thread::spawn(move || {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !started.exists() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        interrupt.set();
    });
    let turn = calls(&[
        ("run_command", json!({"command": "touch started; sleep 1000"})),
        ("run_command", json!({"command": "touch second"})),
        ("write_file", json!({"path": "third", "content": "x"})),
    ]);
    let played = scene.play_turns(vec![turn]);
    watcher.join().unwrap();
    assert_eq!(played.ending.reason, ExitReason::Interrupted);
    assert!(!scene.work().join("second").exists() && !scene.work().join("third").exists());
    let count = |kind| played.events(kind).count();
    assert_eq!((count("tool_call"), count("tool_result")), (3, 3));

    // The conversation can be resumed: no call is open.
    let mut results = 0;
    let id = scene.store().list().unwrap()[0].head.id;
    let cwd = scene.work().canonicalize().unwrap().display().to_string();
    let count = |entry| {
        results += usize::from(matches!(
            entry,
            Entry::Message {
                message: Message::Tool(_)
            }
        ));
    };
    scene.store().resume(id, &cwd, count).unwrap();
    assert_eq!(results, 3);
}

#[test]
fn file_read_before_a_compaction_is_returned_whole_again() {
    let mut scene = Scene::turns(12);
    scene.window = Some(3000);
    let read = big(&scene, 200);
    let again = |number: usize| number.is_multiple_of(4);
    let played = scene.play(|number, _| Ok(read(if again(number) { 0 } else { number })));
    assert!(played.events("compaction").next().is_some());
    let results = played.events("tool_result");
    let outputs: Vec<&str> = results
        .enumerate()
        .filter(|(number, _)| again(*number))
        .map(|(_, event)| event["output"].as_str().unwrap())
        .collect();
    assert_eq!(outputs.len(), 3);
    assert!(
        outputs
            .iter()
            .all(|output| *output == outputs[0] && output.contains("line 199 of file 0"))
    );
}

#[test]
fn unreachable_model_is_no_success() {
    let unreachable = |class: Option<&str>| ProviderError::Reported {
        message: "cannot connect".to_owned(),
        class: class.map(str::to_owned),
        http_status: None,
        retry_after_ms: None,
    };
    for (class, reason) in [
        (None, ExitReason::Failed),
        (Some("network"), ExitReason::Failed),
        (Some("auth"), ExitReason::Refused),
    ] {
        let played = Scene::new().play(|_, _| Err(unreachable(class)));
        assert_eq!(played.ending.reason, reason);
        // Nor after some work.
        let mut first = true;
        let played = Scene::new().play(|_, _| {
            if std::mem::take(&mut first) {
                Ok(sh("touch x"))
            } else {
                Err(unreachable(class))
            }
        });
        assert_eq!(played.ending.reason, reason);
    }
}

#[test]
fn task_text_does_not_change_the_outcome() {
    let play = |task: &str| {
        let mut scene = Scene::new();
        task.clone_into(&mut scene.task);
        let played = scene.play_turns(vec![
            calls(&[("write_file", json!({"path": "x", "content": "1"}))]),
            text_turn("Done."),
        ]);
        (played.ending, scene.work().join("x").exists())
    };
    let plain = play("Change x.");
    for task in [
        "display x",
        "Only show and explain x, read-only please.",
        "delete everything; plan; sudo",
        "STOP",
    ] {
        assert_eq!(play(task), plain, "{task}");
    }
}

#[test]
fn cut_off_arguments_are_never_run_as_empty_ones() {
    let scene = Scene::new();
    let call = ToolCall {
        call_id: "cut".to_owned(),
        tool: "list_dir".to_owned(),
        input: Arguments::Broken {
            raw: "{\"pa".to_owned(),
            reason: "the answer reached its longest length".to_owned(),
        },
        repaired: false,
    };
    let cut = Turn {
        blocks: vec![Block::ToolCall(call)],
        stop: StopReason::MaxTokens,
        ..Turn::default()
    };
    let played = scene.play_turns(vec![cut, text_turn(REPORT)]);
    let Some(Message::Tool(result)) = played.seen[1].last() else {
        panic!("no result");
    };
    assert!(
        result.is_error && result.output.contains("longest length"),
        "{}",
        result.output
    );
}

#[test]
fn missing_program_is_answered_with_the_command_that_the_task_names() {
    let mut scene = Scene::new();
    scene.task = "Run the tests with `python3 test_numeric.py`, then `ls`.".to_owned();
    let played = scene.play_turns(vec![
        sh("test_numeric.py -v"),
        sh("nowhere.py"),
        text_turn(REPORT),
    ]);
    assert!(last_user(&played.seen[1]).ends_with("names this command: `python3 test_numeric.py`"));
    assert!(matches!(played.seen[2].last(), Some(Message::Tool(_))));
}
