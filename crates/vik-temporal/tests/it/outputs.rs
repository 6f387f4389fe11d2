//! The outputs of workers on a hub: what is carried out, how often, and for whom.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::{FutureExt as _, poll};
use serde_json::{Value, json};
use uuid::Uuid;
use vik_core::outputs::{Progress, Rule};
use vik_session::outputs::{AppliedOutputs, NotApplied, OutputRequest, OutputResponse};
use vik_testkit::eventually;

use self::scene::{
    CHECK, COMMENT, LABEL, MAKE, Scene, TOKEN, WAIT, applied, made, refusals, request, results, start,
};

mod scene;

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_carried_out_with_the_secret_of_the_hub_and_recorded() {
    let scene = Scene::new(MAKE, None);
    let applied = scene.applied(&[COMMENT, "", LABEL]).await;
    assert_eq!(applied.failure, None);
    assert_eq!(results(&applied), [(Progress::Applied, true); 2]);
    assert_eq!(scene.done(), made(&["comment", "label"]));
    let once = [Progress::Applying, Progress::Applied];
    assert_eq!(scene.book(), [once, once].concat());
    let notes = scene.service.notes(scene.start.run).await.unwrap();
    assert!(
        notes.iter().all(|note| note.attempt_id == scene.start.attempt_id),
        "{notes:?}"
    );
    // A later hand-over, and a later attempt of the run.
    assert_eq!(
        results(&scene.applied(&[COMMENT]).await),
        [(Progress::Applied, true)]
    );
    let later = start(&scene.loaded, scene.start.run.0);
    let _admission = scene.admit(&later);
    let response = scene.service.respond(request(&later, &[COMMENT])).await;
    assert_eq!(results(&self::applied(response)), [(Progress::Applied, false)]);
    assert_eq!(scene.done().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_does_not_push_what_it_does_not_have() {
    let mut scene = Scene::new(MAKE, None);
    let mut start = (*scene.start).clone();
    let rules = &mut start.stage.outputs.as_mut().unwrap().rules;
    for rule in rules.values_mut() {
        rule.push = Some("touch pushed\n".to_owned());
    }
    scene.start = Arc::new(start);
    scene.admission = Some(scene.admit(&scene.start));
    assert_eq!(scene.applied(&[COMMENT]).await.failure, None);
    assert_eq!((scene.done().len(), scene.exists("pushed")), (1, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_is_joined_and_another_one_waits() {
    let scene = Scene::new(&format!("{WAIT}; {MAKE}"), None);
    let request = scene.request(&[COMMENT]);
    let later = start(&scene.loaded, scene.start.run.0);
    let _admission = scene.admit(&later);
    let mut first = scene.service.respond(request.clone()).boxed();
    assert!(poll!(&mut first).is_pending());
    eventually("the command runs", || scene.exists("up"));
    // The caller was lost, which stops nothing.
    drop(first);
    let requests = [request.clone(), self::request(&later, &[COMMENT])];
    let mut others = requests.map(|request| scene.service.respond(request).boxed());
    for other in &mut others {
        assert!(poll!(other).is_pending());
    }
    scene.touch("go");
    let mut responses = Vec::new();
    for other in others {
        responses.push(results(&applied(other.await)));
    }
    assert_eq!(
        responses,
        [[(Progress::Applied, true)], [(Progress::Applied, false)]]
    );
    assert_eq!(scene.done(), made(&["comment"]));
    // Also after its end, the same request is not carried out again.
    let repeated = results(&applied(scene.service.respond(request).await));
    assert_eq!(
        (repeated, scene.done().len()),
        (vec![(Progress::Applied, true)], 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_output_is_not_tried_again_by_the_same_request() {
    let scene = Scene::new("echo no >> done; exit 3", None);
    let request = scene.request(&[COMMENT, LABEL]);
    for _ in 0..2 {
        let applied = applied(scene.service.respond(request.clone()).await);
        let Some(NotApplied::HandOver(failure)) = &applied.failure else {
            panic!("{applied:?}")
        };
        assert!(
            failure.needs_person && failure.reason.contains("exited with 3"),
            "{failure:?}"
        );
        assert_eq!(results(&applied), [(Progress::Failed, true)]);
        assert_eq!(scene.done(), ["no"], "no label follows");
    }
    scene.applied(&[COMMENT]).await;
    assert_eq!(scene.done(), ["no", "no"], "a person has asked for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_that_the_hub_does_not_have_is_unknown() {
    let mut scene = Scene::new(MAKE, None);
    let foreign = start(&scene.loaded, scene.start.run.0);
    let other_issue = OutputRequest {
        issue: "2".into(),
        ..scene.request(&[COMMENT])
    };
    for request in [request(&foreign, &[COMMENT]), other_issue] {
        assert_eq!(
            scene.service.respond(request).await,
            OutputResponse::UnknownAttempt
        );
    }
    // The same attempt hands over again, before the end of the one before is known.
    let again = scene.admit(&scene.start);
    scene.admission = None;
    assert_eq!(scene.applied(&[COMMENT]).await.failure, None);
    drop(again);
    assert_eq!(scene.respond(&[LABEL]).await, OutputResponse::UnknownAttempt);
    assert_eq!(scene.done(), made(&["comment"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_that_ends_gets_no_further_output() {
    let mut scene = Scene::new(&format!("{MAKE}; {WAIT}"), None);
    let service = scene.service.clone();
    let request = scene.request(&[COMMENT, LABEL]);
    let response = tokio::spawn(async move { service.respond(request).await });
    eventually("the command runs", || scene.exists("up"));
    scene.admission = None;
    scene.touch("go");
    let applied = applied(response.await.unwrap());
    assert!(
        matches!(applied.failure, Some(NotApplied::Attempt(_))),
        "{applied:?}"
    );
    assert_eq!(scene.done(), made(&["comment"]));
    assert_eq!(scene.book(), [Progress::Applying, Progress::Applied]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_checked_again_and_one_refusal_refuses_all() {
    let scene = Scene::new(MAKE, None);
    let other_label = r#"{"kind":"label","label":"admin"}"#;
    let secret = format!(r#"{{"kind":"comment","body":"the token is {TOKEN}"}}"#);
    let long = "x".repeat(2 * 1024 * 1024);
    let cases: [(&[&str], Rule); 7] = [
        (&[COMMENT, other_label], Rule::NotAllowed),
        (&[COMMENT, r#"{"kind":"state","state":"done"}"#], Rule::NotAllowed),
        (&[COMMENT, COMMENT], Rule::Twice),
        (&[COMMENT, r#"{"kind":"comment","body":"b"}"#], Rule::TooMany),
        (&[COMMENT, "{"], Rule::NotJson),
        (&[LABEL, &secret], Rule::Secret),
        (&[&long], Rule::TooLarge),
    ];
    for (lines, rule) in cases {
        assert_eq!(refusals(scene.applied(lines).await), [rule], "{lines:?}");
    }
    // What earlier attempts have done counts.
    scene.note(r#"{"kind":"comment","body":"earlier"}"#, Progress::Unknown);
    assert_eq!(refusals(scene.applied(&[COMMENT]).await), [Rule::TooMany]);
    assert_eq!(scene.done().len(), 0);
    assert_eq!(scene.book(), [Progress::Unknown]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_of_the_request_are_ignored() {
    let scene = Scene::new(MAKE, None);
    let mut request = serde_json::to_value(scene.request(&[COMMENT])).unwrap();
    let policy = json!({"rules": {"comment": {"max": 9, "run": "touch pwned"}}, "secrets": []});
    for (key, value) in [
        ("run", json!("touch pwned")),
        ("policy", policy.clone()),
        ("outputs", policy),
    ] {
        request[key] = value;
    }
    let request: OutputRequest = serde_json::from_value(request).unwrap();
    assert_eq!(applied(scene.service.respond(request).await).failure, None);
    // A line has no script either, and text in it is data.
    let line = r#"{"kind":"label","label":"area/x","run":"touch pwned"}"#;
    assert_eq!(refusals(scene.applied(&[line]).await), [Rule::Schema]);
    let label = r#"{"kind":"label","label":"area/$(touch pwned)"}"#;
    scene.applied(&[label]).await;
    let mut commit = scene.request(&[LABEL]);
    commit.base_commit = Some("$(touch pwned)".to_owned());
    scene.service.respond(commit).await;
    assert_eq!(scene.done(), made(&["comment", "label", "label"]));
    assert!(!scene.exists("pwned"));
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_an_earlier_hub_is_settled_by_its_check() {
    // It died before the effect, or after it.
    for has_effect in [false, true] {
        let scene = Scene::new(MAKE, Some(CHECK));
        scene.note(COMMENT, Progress::Applying);
        if has_effect {
            std::fs::write(scene.folder.path().join("done"), "comment by the earlier hub\n").unwrap();
        }
        let applied = scene.applied(&[COMMENT]).await;
        assert_eq!(applied.failure, None);
        assert_eq!(results(&applied), [(Progress::Applied, true)]);
        assert_eq!(scene.done().len(), 1, "{:?}", scene.done());
    }
    let scene = Scene::new(MAKE, None);
    scene.note(COMMENT, Progress::Applying);
    let applied = scene.applied(&[COMMENT, LABEL]).await;
    let Some(NotApplied::HandOver(failure)) = applied.failure else {
        panic!("{applied:?}")
    };
    assert!(failure.needs_person, "{failure:?}");
    assert_eq!(scene.done().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_that_cannot_record_starts_nothing() {
    let scene = Scene::new(MAKE, None);
    scene.books.max.store(0, Ordering::Relaxed);
    let applied = scene.applied(&[COMMENT]).await;
    assert!(
        matches!(applied.failure, Some(NotApplied::Attempt(_))),
        "{applied:?}"
    );
    assert!(scene.done().is_empty() && scene.book().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_that_loses_the_lead_kills_the_command_and_records_nothing() {
    for steps in [format!("{WAIT}; {MAKE}"), format!("{MAKE}; {WAIT}")] {
        let mut scene = Scene::new(&steps, Some(CHECK));
        let (service, request) = (scene.service.clone(), scene.request(&[COMMENT]));
        let response = tokio::spawn({
            let (service, request) = (service.clone(), request.clone());
            async move { service.respond(request).await }
        });
        eventually("the command runs", || scene.exists("up"));
        scene.lease.end();
        assert_eq!(response.await.unwrap(), OutputResponse::NotLeading);
        assert_eq!(scene.book(), [Progress::Applying]);
        // The next hub gets the same request.
        scene.touch("go");
        scene.next_hub();
        let applied = applied(scene.service.respond(request.clone()).await);
        assert_eq!(results(&applied), [(Progress::Applied, true)]);
        assert_eq!(scene.done(), made(&["comment"]));
        assert_eq!(service.respond(request).await, OutputResponse::NotLeading);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_that_stops_completes_the_output_and_takes_no_other() {
    let scene = Scene::new(&format!("{WAIT}; {MAKE}"), None);
    let (service, request) = (scene.service.clone(), scene.request(&[COMMENT]));
    let response = tokio::spawn(async move { service.respond(request).await });
    eventually("the command runs", || scene.exists("up"));
    let mut closing = scene.service.close().boxed();
    assert!(poll!(&mut closing).is_pending());
    assert_eq!(scene.respond(&[LABEL]).await, OutputResponse::NotLeading);
    scene.touch("go");
    closing.await;
    assert_eq!(applied(response.await.unwrap()).failure, None);
    assert_eq!(scene.done(), made(&["comment"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_without_a_value_fails_the_hand_over() {
    let scene = Scene::new(MAKE, None);
    let mut workflow = (*scene.loaded.workflow).clone();
    workflow.secrets.clear();
    let _admission = scene.service.admit(Arc::clone(&scene.start), Arc::new(workflow));
    let applied = scene.applied(&[COMMENT]).await;
    let Some(NotApplied::HandOver(failure)) = applied.failure else {
        panic!("{applied:?}")
    };
    assert!(failure.reason.contains("TOKEN"), "{failure:?}");
    assert!(scene.done().is_empty() && scene.book().is_empty());
}

/// What a process of this version sends, another one reads.
#[test]
fn messages_have_the_spelling_that_other_versions_read() {
    let request = json!({
        "id": Uuid::nil(), "issue": "1", "attempt_id": Uuid::nil(), "lines": COMMENT,
    });
    let read: OutputRequest = serde_json::from_value(request.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), request);
    let responses: [(OutputResponse, Value); 2] = [
        (OutputResponse::NotLeading, json!("not_leading")),
        (OutputResponse::UnknownAttempt, json!("unknown_attempt")),
    ];
    for (response, json) in responses {
        assert_eq!(serde_json::to_value(response).unwrap(), json);
    }
    let applied = OutputResponse::Applied(AppliedOutputs::default());
    assert_eq!(
        serde_json::to_value(applied).unwrap(),
        json!({"applied": {"results": [], "failure": null}})
    );
}
