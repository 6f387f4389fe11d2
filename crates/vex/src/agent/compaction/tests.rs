use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::conversation::ToolCall;
use crate::plan::StepStatus;
use crate::session::{Entry, History};
use crate::tools::testing::result;

const TASK: &str = "Rename the module `alpha` to `beta` everywhere.";

#[derive(Clone, Debug)]
enum Part {
    /// An answer with calls: the length of its text and the outputs.
    Calls(usize, Vec<(Kind, usize)>),
    /// An answer without calls, followed by a message to the model.
    Answered(usize),
    Prompt,
    Plan,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write,
    Command(i32),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let kind = prop_oneof![
        Just(Kind::Read),
        Just(Kind::Write),
        (0..2).prop_map(Kind::Command)
    ];
    let output = (kind, prop_oneof![0..50usize, 200..3000usize]);
    let part = prop_oneof![
        6 => (0..400usize, prop::collection::vec(output, 1..4)).prop_map(|(text, calls)| Part::Calls(text, calls)),
        1 => (1..400usize).prop_map(Part::Answered),
        1 => Just(Part::Prompt),
        1 => Just(Part::Plan),
    ];
    prop::collection::vec(part, 0..30)
}

fn history(parts: &[Part]) -> History {
    let mut history = History::default();
    history.apply(Entry::Prompt {
        text: TASK.to_owned(),
    });
    let mut number = 0;
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Plan => history.apply(Entry::Plan {
                steps: vec![Step {
                    text: format!("step of {index}"),
                    status: StepStatus::Pending,
                }],
            }),
            Part::Prompt => history.apply(Entry::Prompt {
                text: format!("prompt {index}"),
            }),
            Part::Answered(length) => {
                answer(&mut history, *length, Vec::new());
                user(&mut history, "The check fails.");
            }
            Part::Calls(length, outputs) => {
                let mut results = Vec::new();
                let mut calls = Vec::new();
                for (kind, size) in outputs {
                    number += 1;
                    let call_id = format!("call {number}");
                    let (tool, input, exit_code) = match kind {
                        Kind::Read => ("read_file", json!({"path": format!("r{number}")}), None),
                        Kind::Write => (
                            "write_file",
                            json!({"path": format!("w{number}"), "content": "x"}),
                            None,
                        ),
                        Kind::Command(code) => (
                            "run_command",
                            json!({"command": format!("c{number}")}),
                            Some(*code),
                        ),
                    };
                    calls.push(ToolCall::new(call_id.clone(), tool, input));
                    results.push(result(&call_id, exit_code, &"ä line\n".repeat(size / 8)));
                }
                answer(&mut history, *length, calls);
                for result in results {
                    let message = Message::Tool(result);
                    history.apply(Entry::Message { message });
                }
            }
        }
    }
    history
}

fn answer(history: &mut History, length: usize, calls: Vec<ToolCall>) {
    let mut blocks = vec![Block::text("t".repeat(length))];
    blocks.extend(calls.into_iter().map(Block::ToolCall));
    let message = Message::answer(blocks);
    history.apply(Entry::Message { message });
}

fn user(history: &mut History, text: &str) {
    let message = Message::user(text);
    history.apply(Entry::Message { message });
}

/// Asserts what providers require: the conversation starts with the prompt, each call has its
/// result right after it, and no result is without its call.
fn assert_legal(messages: &[Message]) {
    let Some(Message::User { text }) = messages.first() else {
        panic!("it does not begin with what was asked for: {messages:?}");
    };
    assert!(text.contains(TASK));
    let mut open: HashSet<&str> = HashSet::new();
    for pair in messages.windows(2) {
        let users = matches!(pair, [Message::User { .. }, Message::User { .. }]);
        assert!(!users, "two messages of one side after another");
    }
    for message in messages {
        match message {
            Message::Tool(result) => {
                assert!(open.remove(result.call_id.as_str()), "a result without its call");
            }
            Message::User { .. } | Message::Assistant(_) => {
                assert!(open.is_empty(), "a call without its result: {open:?}");
            }
        }
        if let Message::Assistant(turn) = message {
            open.extend(turn.tool_calls().map(|call| call.call_id.as_str()));
        }
    }
    assert!(open.is_empty(), "a call without its result: {open:?}");
}

fn shown(history: &History) -> String {
    format!("{:?}", history.messages())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn compaction_keeps_legal_messages_and_pinned_text(
        parts in parts(), target in 100..20_000usize, recent in 1..4usize, summary in 400..4000usize,
    ) {
        let mut history = history(&parts);
        assert_legal(history.messages());
        let answers = history.answers();
        let prompts = history.prompts().to_vec();
        let before = history.bytes();
        let first = fit(&history, target, recent, summary);
        prop_assert!(before > target || first.is_none(), "nothing is left out where all has room");
        let Some(compaction) = first else { return Ok(()) };
        // A compaction that is read again from a log gives the same messages.
        let line = serde_json::to_string(&compaction).unwrap();
        let compaction: Compaction = serde_json::from_str(&line).unwrap();
        let cut = compaction.summary.is_some();
        history.apply(Entry::Compaction(Box::new(compaction)));

        assert_legal(history.messages());
        prop_assert!(history.messages().len() > 1, "never nothing but the opening");
        prop_assert_eq!(history.answers(), answers);
        let all = shown(&history);
        for prompt in &prompts {
            prop_assert!(all.contains(prompt.as_str()), "{} is gone", prompt);
        }
        if cut {
            let Message::User { text } = &history.messages()[0] else { unreachable!() };
            for step in history.plan() {
                prop_assert!(text.contains(&step.text));
            }
            prop_assert!(history.summary().render().len() <= summary.max(400));
        }
        // Everything fits if there is space for the pinned part and the minimum size of the
        // results.
        let last = history.messages().iter().rposition(|message| matches!(message, Message::Assistant(_)));
        let tail = &history.messages()[last.unwrap_or(0)..];
        let results = tail.iter().filter(|message| matches!(message, Message::Tool(_))).count();
        let least = size(&history.messages()[0])
            + tail.iter().map(|message| match message {
                Message::Tool(result) => size(message) - result.output.len(),
                _ => size(message),
            }).sum::<usize>()
            + results * 270;
        prop_assert!(history.bytes() <= target.max(least), "{} bytes, target {}, least {}", history.bytes(), target, least);

        // A second compaction changes nothing.
        let settled = shown(&history);
        if let Some(again) = fit(&history, target, recent, summary) {
            history.apply(Entry::Compaction(Box::new(again)));
        }
        prop_assert_eq!(shown(&history), settled);
    }

    #[test]
    fn conversation_continues_after_any_number_of_compactions(
        rounds in prop::collection::vec((parts(), 500..8000usize), 1..5),
    ) {
        let mut all = history(&[]);
        for (number, (parts, target)) in rounds.into_iter().enumerate() {
            for message in history(&parts).messages().iter().skip(1) {
                // Calls of another round must not have the ids of this one.
                let text = serde_json::to_string(message).unwrap().replace("call ", &format!("call {number}."));
                all.apply(Entry::Message { message: serde_json::from_str(&text).unwrap() });
            }
            if let Some(compaction) = fit(&all, target, 2, 800) {
                all.apply(Entry::Compaction(Box::new(compaction)));
            }
            assert_legal(all.messages());
        }
    }
}

#[test]
fn environment_is_kept_when_its_message_is_dropped() {
    let mut history = History::default();
    let environment = "Working directory: /w\n";
    history.apply(Entry::Prompt {
        text: "Do it.".to_owned(),
    });
    history.apply(Entry::Environment {
        text: environment.to_owned(),
    });
    for turn in 0..10 {
        answer(&mut history, 2000, Vec::new());
        user(&mut history, &format!("turn {turn}"));
    }
    for target in [history.bytes() / 2, 3000] {
        let compaction = fit(&history, target, 1, 500).unwrap();
        assert!(compaction.summary.is_some());
        history.apply(Entry::Compaction(Box::new(compaction)));
        let Message::User { text } = &history.messages()[0] else {
            panic!("no opening");
        };
        assert!(text.starts_with("Do it.\n\nWorking directory: /w\n"), "{text}");
        assert_eq!(text.matches(environment).count(), 1);
    }
}

#[test]
fn compaction_drops_old_output_before_turns() {
    let parts: Vec<Part> = (0..10)
        .map(|_| Part::Calls(10, vec![(Kind::Read, 2000)]))
        .collect();
    let mut history = history(&parts);
    let compaction = fit(&history, history.bytes() / 2, 2, 1000).unwrap();
    assert!(compaction.summary.is_none());
    let last = history.messages().last().cloned();
    history.apply(Entry::Compaction(Box::new(compaction)));
    assert_eq!(history.messages().len(), 21, "all turns are there");
    assert_eq!(history.messages().last().cloned(), last, "the last ones whole");
    let Message::Tool(result) = &history.messages()[2] else {
        panic!("no result");
    };
    assert!(
        result.output.starts_with("ä line\n") && result.output.contains("more lines"),
        "{}",
        result.output
    );
}

#[test]
fn summary_lists_completed_and_open_work() {
    let mut history = history(&[]);
    let mut round =
        |text: &str, id: &str, tool: &str, input: serde_json::Value, code: Option<i32>, output: &str| {
            let call = ToolCall::new(id, tool, input);
            let message = Message::answer(vec![Block::text(text), Block::ToolCall(call)]);
            history.apply(Entry::Message { message });
            let message = Message::Tool(result(id, code, output));
            history.apply(Entry::Message { message });
        };
    round(
        "I look first.",
        "1",
        "read_file",
        json!({"path": "src/alpha.rs"}),
        None,
        "mod x;",
    );
    round(
        "The tests fail before I begin.",
        "2",
        "run_command",
        json!({"command": "cargo test"}),
        Some(101),
        "a\nFAILED",
    );
    round(
        "",
        "3",
        "write_file",
        json!({"file_path": "src/beta.rs", "content": "mod x;"}),
        None,
        "written",
    );
    let patch = "*** Begin Patch\n*** Update File: src/lib.rs\n@@\n-mod alpha;\n+mod beta;\n*** End Patch";
    round("", "4", "apply_patch", json!({"patch": patch}), None, "ok");
    round(
        "",
        "5",
        "run_command",
        json!({"command": "cargo build"}),
        Some(1),
        "error: no alpha",
    );
    round(
        "",
        "6",
        "run_command",
        json!({"command": "cargo build"}),
        Some(0),
        "fine",
    );
    round(
        "Now the tests.",
        "7",
        "read_file",
        json!({"path": "tests/a.rs"}),
        None,
        &"x\n".repeat(2000),
    );
    history.apply(Entry::Plan {
        steps: vec![
            Step {
                text: "rename".to_owned(),
                status: StepStatus::Done,
            },
            Step {
                text: "mend the tests".to_owned(),
                status: StepStatus::InProgress,
            },
        ],
    });
    let compaction = fit(&history, 1800, 1, 1500).unwrap();
    history.apply(Entry::Compaction(Box::new(compaction)));
    let Message::User { text } = &history.messages()[0] else {
        panic!("no opening");
    };
    insta::assert_snapshot!(text);
}
