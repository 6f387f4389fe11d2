//! No output is carried out twice, whatever dies, fails or is cut off.

use serde_json::json;

use super::{Asking, COMMENT, LABEL, expected_events};
use crate::support::*;

#[test]
fn applied_output_is_not_repeated_with_a_failed_one() {
    let asking = Asking::new(&[COMMENT, LABEL]);
    let gate = asking.path("gate").display().to_string();
    let note = format!(
        "test -e {gate} || exit 7; echo label >> {}",
        asking.path("done").display()
    );
    let asking = asking.work("outputs/label/run", json!(note));
    asking.world.once().expect(1);
    asking.world.session("1").expect("succeeded", None);
    let why = asking.explained();
    assert_contains(
        &why,
        "the output on line 2 (`label`): `outputs.label.run` exited with 7",
    );
    // Without a check, a failed command needs a person; after that the outputs resume where they
    // stopped, without an agent.
    std::fs::write(&gate, "").unwrap();
    let daemon = asking.world.daemon();
    asking.world.vik(&["retry", "1"]).expect(0);
    asking.world.wait_for_state("1", "done");
    daemon.stop();
    assert_eq!(
        asking.text("done"),
        "comment||Done.\nSee `a`; it's \"fine\" $(touch pwned)\nlabel\n"
    );
    assert_eq!(
        asking.output_events(),
        expected_events(&[("comment", "applied"), ("label", "failed")])
    );
    assert_eq!(asking.world.sessions("1").len(), 1);
}

#[test]
fn applied_output_is_not_repeated_by_another_attempt() {
    let asking = Asking::new(&[COMMENT, LABEL]);
    let gate = asking.path("gate").display().to_string();
    let note = format!(
        "test -e {gate} || exit 7; echo label >> {}",
        asking.path("done").display()
    );
    let asking = asking.work("outputs/label/run", json!(note));
    asking.world.once().expect(1);
    std::fs::write(&gate, "").unwrap();
    let daemon = asking.world.daemon();
    asking.world.vik(&["retry", "1", "--agent"]).expect(0);
    asking.world.wait_for_state("1", "done");
    daemon.stop();
    assert_eq!(
        asking.output_events(),
        expected_events(&[
            ("comment", "applied"),
            ("label", "failed"),
            ("comment", "skipped"),
            ("label", "applied")
        ])
    );
    let prompt = asking.world.sessions("1")[1].text(".prompt.md");
    assert_contains(&prompt, "do not ask for it again:\n- comment: Done.\n");
}

#[test]
fn crash_never_applies_an_output_twice() {
    // Without a check, Vik cannot know the result of a command that has a record of its start but
    // not of its end.
    for (point, outcome, comments) in [
        ("outputs_taken", "applied", 1),
        ("output_applying", "unknown", 0),
        ("output_ran", "unknown", 1),
        ("output_applied", "applied", 1),
    ] {
        // The worker takes the outputs, and the hub carries them out.
        if point == "outputs_taken" && temporal().is_some() {
            continue;
        }
        let asking = Asking::new(&[r#"{"kind":"comment","body":"x"}"#, LABEL]);
        asking.world.kill_once_at(point);
        let code = i32::from(outcome == "unknown");
        asking.world.once().expect(code);
        asking.world.session("1").expect("succeeded", None);
        let done = asking.text("done");
        assert_eq!(done.matches("comment").count(), comments, "{point}: {done}");
        if outcome == "unknown" {
            let why = asking.explained();
            assert_contains(
                &why,
                "the output on line 1 (`comment`): it may have been carried out",
            );
            assert!(!done.contains("label"), "what follows is not done");
            assert_eq!(
                asking.output_events(),
                expected_events(&[("comment", "unknown")]),
                "{point}"
            );
        } else {
            assert_eq!(
                asking.output_events(),
                expected_events(&[("comment", "applied"), ("label", "applied")]),
                "{point}"
            );
        }
    }
}

#[test]
fn check_settles_an_output_left_open_by_a_crash() {
    for point in ["output_applying", "output_ran", "output_applied"] {
        let asking = Asking::new(&[r#"{"kind":"comment","body":"x"}"#, LABEL]);
        let check = format!("grep -q '^comment' {}", asking.path("done").display());
        // The file must exist before the first comment.
        std::fs::write(asking.path("done"), "").unwrap();
        let asking = asking.work("outputs/comment/check", json!(check));
        asking.world.kill_once_at(point);
        asking.world.once().expect(0);
        asking.world.session("1").expect("succeeded", None);
        assert_eq!(asking.text("done"), "comment||x\nlabel|area/ui|\n", "{point}");
        assert_eq!(
            asking.output_events(),
            expected_events(&[("comment", "applied"), ("label", "applied")]),
            "{point}"
        );
    }
}

#[test]
fn check_overrides_the_success_of_a_command() {
    for (check, status, why) in [
        ("exit 1", "failed", "its `check` did not find it"),
        (
            "exit 3",
            "unknown",
            "it may have been carried out, and is not repeated without a conclusive `check`: `outputs.comment.check` exited with 3",
        ),
    ] {
        let asking = Asking::new(&[COMMENT])
            .work("outputs/comment/check", json!(check))
            .work("hand_over/max_tries", json!(1));
        asking.world.once().expect(1);
        asking.world.session("1").expect("succeeded", None);
        let explained = asking.explained();
        assert_contains(&explained, why);
        assert_eq!(asking.output_events(), expected_events(&[("comment", status)]));
    }
}

#[test]
fn timed_out_output_is_not_retried() {
    let asking = Asking::new(&[COMMENT]).work("hooks/timeout", json!("300ms"));
    let done = asking.path("done").display().to_string();
    let asking = asking.work(
        "outputs/comment/run",
        json!(format!("echo x >> {done}; sleep 600")),
    );
    asking.world.once().expect(1);
    let explained = asking.explained();
    assert_contains(&explained, "may have been carried out");
    assert_contains(&explained, "`outputs.comment.run` did not end within 300ms");
    let daemon = asking.world.daemon();
    asking.world.vik(&["retry", "1"]).expect(0);
    eventually("it is parked again", || {
        asking.explained().contains("no `check` is configured")
    });
    daemon.stop();
    assert_eq!(asking.world.sessions("1").len(), 1);
    assert_eq!(asking.text("done"), "x\n");
}

/// Exit code 75 promises that nothing was done.
#[test]
fn output_without_a_check_is_repeated_after_a_temporary_failure() {
    for (code, tries) in [(75, 3), (1, 1)] {
        let asking = Asking::new(&[COMMENT]);
        let done = asking.path("done").display().to_string();
        let run = format!("echo x >> {done}; test $(wc -l < {done}) = 3 || exit {code}");
        let asking = asking
            .work("outputs/comment/run", json!(run))
            .work("hand_over", json!({"initial_backoff": "10ms"}));
        asking.world.once().expect(i32::from(code == 1));
        assert_eq!(asking.text("done").lines().count(), tries, "exit code {code}");
        assert_eq!(asking.world.sessions("1").len(), 1);
    }
}

#[test]
fn outputs_that_the_workflow_no_longer_allows_are_not_dropped() {
    let asking = Asking::new(&[COMMENT])
        .work("outputs/comment/run", json!("exit 75"))
        .work("hooks", json!({"after_run": "touch handed_over"}))
        .work("hand_over", json!({"max_tries": 1}));
    asking.world.once().expect(1);
    let asking = asking.work("outputs", json!(null));
    let daemon = asking.world.daemon();
    asking.world.vik(&["retry", "1"]).expect(0);
    eventually("it is parked again", || {
        asking.explained().contains("the stage has no `outputs` any more")
    });
    daemon.stop();
    assert!(!asking.world.workspace("1").join("handed_over").exists());
}

#[test]
fn started_outputs_are_finished_after_a_state_change() {
    let asking = Asking::new(&[LABEL, COMMENT]);
    let seen = asking.path("moved").display().to_string();
    let done = asking.path("done").display().to_string();
    let (moves, pulls) = (
        asking.world.tracker.move_command("review"),
        asking.world.tracker.pull_command(),
    );
    let pulls =
        format!("{pulls} > {seen}.now; ! grep -q review {seen}.now || echo x >> {seen}; cat {seen}.now");
    std::fs::write(&seen, "").unwrap();
    let asking = asking
        .work("outputs/label/run", json!(moves))
        .work("on_state_change", json!("cancel"))
        .work("hooks", json!({}))
        // A pull reports the new state before the next output ends.
        .work(
            "outputs/comment/run",
            json!(format!(
                "until test \"$(cat {seen} | wc -l)\" -ge 3; do sleep 0.05; done; echo comment >> {done}"
            )),
        );
    let world = asking.world.set("/issues/pull/command", json!(pulls));
    let asking = Asking { world };
    let daemon = asking.world.daemon();
    eventually("both are done", || asking.text("done") == "comment\n");
    eventually("it has ended", || {
        asking.world.session("1").text(".jsonl").contains("\"ended\"")
    });
    daemon.stop();
    asking.world.session("1").expect("succeeded", None);
    assert_eq!(asking.world.tracker.state("1").as_deref(), Some("review"));
}
