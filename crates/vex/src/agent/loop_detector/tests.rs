use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

struct Run {
    detector: LoopDetector,
    verdicts: Vec<String>,
}

impl Run {
    fn new() -> Self {
        Self {
            detector: LoopDetector::default(),
            verdicts: Vec::new(),
        }
    }

    /// A turn with one call. The text differs each time.
    fn step(&mut self, tool: &str, input: Value, output: &str) -> TurnAction {
        self.saw(tool, input, output, None);
        self.over()
    }

    fn saw(&mut self, tool: &str, input: Value, output: &str, exit_code: Option<i32>) {
        let call = ToolCall::new(String::new(), tool, input);
        let result = ToolResult {
            call_id: String::new(),
            is_error: output.starts_with("error") || exit_code.is_some_and(|code| code != 0),
            exit_code,
            output: output.to_owned(),
            denied: false,
        };
        let effect = match tool {
            "edit" => Effect::Change,
            "plan" => Effect::Note,
            _ => Effect::Read,
        };
        self.detector.record_call(&call, &result, effect);
    }

    fn assert_never_stopped(&self) {
        let verdicts = &self.verdicts;
        assert!(verdicts.iter().all(|verdict| verdict == "go"), "{verdicts:?}");
    }

    fn over(&mut self) -> TurnAction {
        let text = format!("turn {}", self.verdicts.len());
        let verdict = self.detector.end_turn(&text);
        self.verdicts.push(short(&verdict));
        verdict
    }
}

fn short(verdict: &TurnAction) -> String {
    match verdict {
        TurnAction::Continue => "go".to_owned(),
        TurnAction::Correct { circle, .. } => format!("correct {}", circle.as_str()),
        TurnAction::Stop { circle, .. } => format!("stop {}", circle.as_str()),
    }
}

#[test]
fn same_call_with_the_same_result_is_corrected_then_stopped() {
    let mut run = Run::new();
    for _ in 0..4 {
        run.step("read", json!({"path": "a"}), "text");
    }
    assert_eq!(run.verdicts, ["go", "go", "correct same_call", "stop same_call"]);
}

#[test]
fn same_call_three_times_in_one_turn_counts() {
    let mut run = Run::new();
    for _ in 0..3 {
        run.saw("read", json!({"path": "a"}), "text", None);
    }
    // The first call was new, so this turn made progress.
    assert_eq!(short(&run.over()), "go");
    assert_eq!(
        short(&run.step("read", json!({"path": "a"}), "text")),
        "correct same_call"
    );
}

#[test]
fn same_error_of_different_calls_is_corrected_then_stopped() {
    let mut run = Run::new();
    for number in 0..4 {
        run.step(
            "edit",
            json!({"old": number}),
            "error: it does not stand in the file",
        );
    }
    assert_eq!(
        run.verdicts,
        ["go", "go", "correct same_error", "stop same_error"]
    );
}

#[test]
fn alternating_turns_are_corrected_then_stopped() {
    let verdicts = |turns: usize, tool: &str, calls: u32, output: &str| {
        let mut run = Run::new();
        for number in (0..calls).cycle().take(turns) {
            run.step(tool, json!({"path": number}), &format!("{output} {number}"));
        }
        run.verdicts.join(", ")
    };
    assert_eq!(
        verdicts(6, "read", 2, "text"),
        "go, go, go, correct ping_pong, stop ping_pong, stop same_call"
    );
    assert_eq!(
        verdicts(5, "edit", 2, "error:"),
        "go, go, go, correct ping_pong, stop same_call"
    );
    assert_eq!(
        verdicts(7, "edit", 3, "error:"),
        "go, go, go, go, go, correct ping_pong, stop same_call"
    );
}

#[test]
fn repeated_edits_that_undo_each_other_are_not_progress() {
    let mut run = Run::new();
    for _ in 0..4 {
        run.step("edit", json!({"old": "a", "new": "b"}), "done");
        run.step("edit", json!({"old": "b", "new": "a"}), "done");
    }
    assert_eq!(
        run.verdicts[..5],
        ["go", "go", "go", "correct ping_pong", "stop ping_pong"]
    );
}

#[test]
fn idle_turns_are_corrected_then_stopped() {
    let mut run = Run::new();
    let limit = IDLE_TURNS as usize;
    for number in 0..2 * limit {
        run.step("plan", json!({"steps": number}), &format!("plan {number}"));
    }
    assert_eq!(run.verdicts[limit - 1], "correct idle");
    assert_eq!(run.verdicts[2 * limit - 1], "stop idle");
    assert_eq!(run.verdicts.iter().filter(|verdict| *verdict != "go").count(), 2);
}

#[test]
fn same_text_without_calls_is_corrected_then_stopped() {
    let mut detector = LoopDetector::default();
    let verdicts: Vec<String> = (0..4)
        .map(|_| short(&detector.end_turn("I will do it now.")))
        .collect();
    assert_eq!(verdicts, ["go", "go", "correct same_words", "stop same_words"]);
}

#[test]
fn correction_is_reset_after_progress() {
    let mut run = Run::new();
    for _ in 0..2 {
        for _ in 0..3 {
            run.step("edit", json!({"old": "a"}), "error: no");
        }
        let sign = run.verdicts.len();
        run.step("read", json!({"path": sign}), &format!("new {sign}"));
    }
    assert_eq!(run.verdicts[2], "correct same_call");
    assert_eq!(run.verdicts[6], "correct same_call");
}

#[test]
fn compaction_allows_reading_everything_again() {
    let mut run = Run::new();
    for _ in 0..10 {
        run.step("read", json!({"path": "a"}), "text");
        run.step("read", json!({"path": "a"}), "text");
        run.detector.forget();
    }
    run.assert_never_stopped();
}

#[test]
fn productive_work_is_never_stopped() {
    let mut run = Run::new();
    for number in 0..100 {
        // The tests fail the same way after each edit.
        run.step("edit", json!({"old": number}), "done");
        run.saw("run", json!({"command": "test"}), "1 failed in 0.02s", Some(1));
        run.over();
        // Logs of a background command grow.
        run.step("run", json!({"logs": 1}), &format!("{number} of 100 done"));
        // A file is read page by page.
        run.step(
            "read",
            json!({"path": "a", "offset": number}),
            "the same line on each page",
        );
    }
    run.assert_never_stopped();
}

#[test]
fn durations_are_ignored_in_comparisons() {
    let same = [
        ("1 failed in 0.02s", "1 failed in 1.17s"),
        ("took 3 ms.", "took 12 ms."),
        ("at 12:04:05 ok", "at 23:59:01 ok"),
        ("real 0m0.003s", "real 0m0.003s"),
    ];
    for (one, two) in same {
        assert_eq!(without_durations(one), without_durations(two));
    }
    for text in [
        "3 of 10",
        "v1.2.3",
        "a2s",
        "line 12: x",
        "12 seconds9",
        "10 %",
        "ü 7",
        "5",
        "1:2",
    ] {
        assert_eq!(without_durations(text), text);
    }
    let mut run = Run::new();
    for number in 0..4 {
        run.saw(
            "run",
            json!({"command": "test"}),
            &format!("1 failed in 0.0{number}s"),
            Some(1),
        );
        run.over();
    }
    assert_eq!(run.verdicts[2..], ["correct same_call", "stop same_call"]);
}

proptest! {
    /// A model with a finite set of steps is stopped after a bounded number of turns.
    #[test]
    fn finite_set_of_steps_always_ends(steps in prop::collection::vec((0..4_u8, prop::bool::ANY), 120)) {
        let mut run = Run::new();
        let stopped = steps.iter().position(|(step, edits)| {
            let tool = if *edits { "edit" } else { "read" };
            matches!(run.step(tool, json!({"x": step}), "same"), TurnAction::Stop { .. })
        });
        prop_assert!(stopped.is_some());
    }

    /// A turn with something new is never corrected, whatever came before it.
    #[test]
    fn turn_with_something_new_is_never_corrected(steps in prop::collection::vec(0..3_u8, 0..60)) {
        let mut run = Run::new();
        for (number, step) in steps.iter().enumerate() {
            if *step == 0 {
                let verdict = run.step("read", json!({"path": "a"}), &format!("news number {number}"));
                prop_assert_eq!(verdict, TurnAction::Continue);
            } else {
                run.step("read", json!({"path": step}), "old");
            }
        }
    }

    /// A stop requires an earlier correction without any progress since.
    #[test]
    fn stop_always_follows_a_correction(steps in prop::collection::vec((0..5_u8, 0..3_u8), 0..80)) {
        let mut run = Run::new();
        for (step, output) in steps {
            let tool = ["read", "edit", "plan"][usize::from(step) % 3];
            let output = ["fine", "error: x", "other"][usize::from(output)];
            run.step(tool, json!({"x": step}), output);
        }
        let mut corrected = false;
        for verdict in &run.verdicts {
            if verdict.starts_with("stop") {
                prop_assert!(corrected);
            }
            corrected |= verdict.starts_with("correct");
        }
    }

    #[test]
    fn without_durations_accepts_any_text(text in ".*", more in "[0-9.: smµn]{0,20}") {
        without_durations(&text);
        without_durations(&more);
    }
}
