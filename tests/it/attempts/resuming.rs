//! Conversations that a later attempt resumes.

use serde_json::json;
use vik_core::attempt::{AttemptResult, Resume};
use vik_core::ids::AttemptId;
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, Outcome, Usage};

use super::scene::Scene;
use crate::support::*;

const THREAD: &str = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";

fn resuming(agent: &str, script: &str, id: &str) -> Scene {
    let world = World::new(&[("1", "todo")]).agent(agent);
    let mut scene = Scene::new(world);
    scene.start.attempt = 2;
    scene.start.previous = Some(AttemptResult {
        feedback: Some("the test failed".to_owned()),
        ..AttemptResult::new(Outcome::TimedOut)
    });
    scene.start.resume = Some(Resume {
        attempt_id: AttemptId(uuid::Uuid::now_v7()),
        provider_session_id: id.to_owned(),
        total: Usage {
            input_tokens: 100,
            output_tokens: 10,
            ..Usage::default()
        },
        cost: MicroUsd::default(),
        worker: None,
    });
    scene.start.stage.resume_prompt = Some(format!(
        "{script}\nGo on. {{{{ attempt.feedback }}}} {{{{ attempt.resumed }}}}"
    ));
    scene
}

#[test]
fn conversation_is_resumed_with_the_resume_prompt() {
    for agent in ["codex", "claude_code"] {
        let script =
            "SCRIPT: expect-prompt \"Go on. the test failed true\"; dump-argv argv.txt; usage 250 30; ok";
        let scene = resuming(agent, script, THREAD);
        let report = scene.finish();
        assert_eq!(
            (report.outcome, report.resume_failed),
            (Outcome::Succeeded, false),
            "{agent}: {report:?}"
        );
        let argv = scene.world.workspace_file("1", "argv.txt");
        assert!(argv.contains(THREAD) && argv.contains("resume"), "{argv}");
        let session = scene.world.session("1");
        let first = &session.events()[0];
        assert_eq!(first["kind"], "resumed");
        assert_eq!(first["provider_session_id"], json!(THREAD));
        if agent == "codex" {
            // Codex reports the total of the conversation.
            assert_eq!((report.usage.input_tokens, report.usage.output_tokens), (150, 20));
        }
    }
}

#[test]
fn resume_prompt_has_a_default() {
    let mut scene = resuming("codex", "", THREAD);
    scene.start.stage.resume_prompt = None;
    scene.finish();
    let prompt = scene.world.session("1").text(".prompt.md");
    assert_contains(&prompt, "Go on where you were");
    assert_contains(&prompt, "the test failed");
}

#[test]
fn invalid_conversation_id_starts_a_new_one_and_is_reported() {
    let mut scene = resuming("codex", "", "--last");
    let prompt = "SCRIPT: dump-argv argv.txt; ok".to_owned();
    scene.start.stage.prompt = vik_core::workflow::PromptSource::Inline(prompt);
    let report = scene.finish();
    assert_eq!((report.outcome, report.resume_failed), (Outcome::Succeeded, true));
    assert!(!scene.world.workspace_file("1", "argv.txt").contains("resume"));
    assert_eq!(scene.world.session("1").events()[0]["kind"], "resume_failed");
}

#[test]
fn conversation_not_found_is_reported() {
    let unknown = "SCRIPT: stderr 'Error: thread/resume failed: no rollout found for thread id x'; exit 1";
    let scene = resuming("codex", unknown, THREAD);
    let report = scene.finish();
    assert_eq!((report.outcome, report.resume_failed), (Outcome::Failed, true));
    assert!(report.reason.unwrap().contains("no rollout found"));
    assert_eq!(scene.world.session("1").of_kind("resume_failed").len(), 1);
    // The agent resumed another conversation: the work counts, and the result reports it.
    let other = resuming(
        "codex",
        "SCRIPT: start 01a1ffcd-0000-78d1-bc6d-b647a491f028; message hi; done",
        THREAD,
    );
    let report = other.finish();
    assert_eq!(
        (report.outcome, report.resume_failed),
        (Outcome::Succeeded, true),
        "{report:?}"
    );
    assert_eq!(report.cost_source, CostSource::None);
}

/// An attempt with vex is cut off in the middle of a command; the next one resumes the same
/// conversation after it.
#[test]
fn vex_resumes_its_own_log_after_a_timeout() {
    let world = World::new(&[("1", "todo")])
        .attempts(5)
        .work("timeout", json!("5s"));
    let turn = |command: &str| {
        json!({"kind": "turn", "tool_calls": [{"tool": "run_command", "input": {"command": command}}]})
            .to_string()
    };
    let recording = [
        json!({"kind": "recording", "version": 1}).to_string(),
        json!({"kind": "conversation", "name": "only"}).to_string(),
        turn("echo one >>out.txt"),
        turn("echo two >>out.txt; exec sleep 1000"),
        turn("echo three >>out.txt"),
        json!({"kind": "turn", "text": "All three lines are written."}).to_string(),
    ];
    let recording = world
        .env
        .write("work/recordings/lines.jsonl", recording.join("\n"));
    let folder = recording.parent().unwrap().to_str().unwrap();
    let world = world.set(
        "/agents/a",
        json!({"runtime": "vex", "provider": "replay", "base_url": folder, "model": "lines"}),
    );
    world.once().expect(0);
    assert_eq!(world.workspace_file("1", "out.txt"), "one\ntwo\nthree\n");

    let sessions = world.sessions("1");
    assert!(sessions.len() > 1, "the first attempt was cut off");
    let id = |session: &Session| session.of_kind("session_started")[0]["provider_session_id"].clone();
    let (first, last) = (&sessions[0], &sessions[sessions.len() - 1]);
    first.expect("timed_out", None);
    last.expect("succeeded", None);
    let resumed = &last.events()[0];
    assert_eq!(
        (&resumed["kind"], &resumed["provider_session_id"]),
        (&json!("resumed"), &id(first))
    );
    assert_eq!(id(last), id(first));
}
