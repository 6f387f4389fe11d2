//! The outputs of workers on a hub whose log is in memory: what is carried out, how often, and for
//! whom.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt as _, poll};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;
use vik_core::attempt::Start;
use vik_core::ids::{AttemptId, RunId};
use vik_core::outputs::{Output, OutputNote, Progress, Pursuit, Rule};
use vik_daemon::Instance;
use vik_orchestrator::{CommitFailure, Committing};
use vik_proc::{BootTime, Lease, LeaseSender, SHIM_VERB, Supervisor};
use vik_session::host::{Environment, Host};
use vik_session::outputs::{AppliedOutputs, NotApplied, OutputRequest, OutputResponse};
use vik_store::ledger::LedgerError;
use vik_temporal::outputs::{Admission, BookStore, OutputService};
use vik_testkit::eventually;
use vik_workflow::{LoadedWorkflow, WorkflowFile};

/// The secret of the hub.
const TOKEN: &str = "only-hubs-have-this-token";

/// Records which output was carried out.
const MAKE: &str = "echo \"$VIK_OUTPUT_KIND $TOKEN\" >> done";

const CHECK: &str = "touch done; grep -q \"^$VIK_OUTPUT_KIND\" done";

/// Shows that the command runs, and waits for the test.
const WAIT: &str = "touch up; while ! test -e go; do sleep 0.02; done";

const COMMENT: &str = r#"{"kind":"comment","body":"Done."}"#;
const LABEL: &str = r#"{"kind":"label","label":"area/ui"}"#;

/// A log in memory, which refuses notes when its number of notes is reached.
#[derive(Clone)]
struct Books {
    notes: Arc<Mutex<Vec<(RunId, OutputNote)>>>,
    max: Arc<AtomicUsize>,
}

impl BookStore for Books {
    fn notes(&self, run: RunId) -> Result<Vec<OutputNote>, LedgerError> {
        let notes = self.notes.lock().unwrap();
        let of_run = notes.iter().filter(|(of, _)| *of == run);
        Ok(of_run.map(|(_, note)| note.clone()).collect())
    }

    fn record(&self, run: RunId, note: OutputNote) -> Committing {
        let mut notes = self.notes.lock().unwrap();
        let is_full = notes.len() >= self.max.load(Ordering::Relaxed);
        if !is_full {
            notes.push((run, note));
        }
        Box::pin(async move {
            match is_full {
                true => Err(CommitFailure::Superseded),
                false => Ok(()),
            }
        })
    }
}

/// A hub that leads, and an attempt on a worker.
struct Scene {
    folder: TempDir,
    loaded: LoadedWorkflow,
    books: Books,
    lease: LeaseSender,
    service: OutputService,
    start: Arc<Start>,
    admission: Option<Admission>,
}

impl Scene {
    /// Creates a stage whose comments are made by these commands.
    fn new(run: &str, check: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workflow = json!({
            "workspace": {"root": "home"},
            "agents": {"a": {"runtime": "command", "command": ["agent"], "sandbox": {}}},
            "secrets": {"TOKEN": {"env": "HUB_TOKEN"}},
            "issues": {"pull": {"command": "true"}},
            "issue": {"stages": {"work": {
                "when": {"state": "todo"},
                "agent": "a",
                "prompt": "p",
                "outputs": {
                    "secrets": ["TOKEN"],
                    "comment": {"run": run, "check": check},
                    "label": {"max": 2, "allow": ["area/*"], "run": MAKE},
                },
            }}},
        });
        let path = folder.path().join("workflow.yml");
        std::fs::write(&path, workflow.to_string()).unwrap();
        let loaded = WorkflowFile::valid(&path, |_| {}).unwrap();
        let books = Books {
            notes: Arc::default(),
            max: Arc::new(AtomicUsize::new(usize::MAX)),
        };
        let start = start(&loaded, Uuid::now_v7());
        let (lease, service) = service(&loaded, &path, &books);
        let admission = Some(service.admit(Arc::clone(&start), Arc::clone(&loaded.workflow)));
        Self {
            folder,
            loaded,
            books,
            lease,
            service,
            start,
            admission,
        }
    }

    /// Replaces the hub by another one, which has the same log.
    fn next_hub(&mut self) {
        (self.lease, self.service) = service(
            &self.loaded,
            &self.folder.path().join("workflow.yml"),
            &self.books,
        );
        self.admission = Some(self.admit(&self.start));
    }

    fn admit(&self, start: &Arc<Start>) -> Admission {
        self.service
            .admit(Arc::clone(start), Arc::clone(&self.loaded.workflow))
    }

    /// Returns a request of the attempt for these lines.
    fn request(&self, lines: &[&str]) -> OutputRequest {
        request(&self.start, lines)
    }

    async fn respond(&self, lines: &[&str]) -> OutputResponse {
        self.service.respond(self.request(lines)).await
    }

    async fn applied(&self, lines: &[&str]) -> AppliedOutputs {
        applied(self.respond(lines).await)
    }

    /// Returns what was carried out.
    fn done(&self) -> Vec<String> {
        let done = std::fs::read_to_string(self.folder.path().join("done")).unwrap_or_default();
        done.lines().map(str::to_owned).collect()
    }

    fn exists(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }

    fn touch(&self, name: &str) {
        std::fs::write(self.folder.path().join(name), "").unwrap();
    }

    fn book(&self) -> Vec<Progress> {
        let notes = self.books.notes.lock().unwrap();
        notes.iter().map(|(_, note)| note.progress).collect()
    }

    /// Adds a note of an earlier attempt.
    fn note(&self, line: &str, progress: Progress) {
        let output: Output = serde_json::from_str(line).unwrap();
        let pursuit = Pursuit {
            issue: &self.start.issue.id,
            stage: &self.start.stage.name,
            run: self.start.run,
        };
        let note = OutputNote {
            at: "2027-01-15T08:00:00Z".parse().unwrap(),
            attempt_id: AttemptId(Uuid::nil()),
            key: pursuit.key(&output),
            kind: output.kind(),
            summary: output.summary().to_owned(),
            progress,
            is_keyed: false,
            detail: None,
        };
        self.books.notes.lock().unwrap().push((self.start.run, note));
    }
}

fn service(loaded: &LoadedWorkflow, path: &Path, books: &Books) -> (LeaseSender, OutputService) {
    let instance = Instance::of(path).unwrap();
    let host = vik_daemon::host(path, &loaded.workflow, &instance).unwrap();
    let environment = [
        ("PATH", std::env::var("PATH").unwrap()),
        ("HUB_TOKEN", TOKEN.to_owned()),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value));
    let program = env!("CARGO_BIN_EXE_vik-test-machine");
    let host = Host {
        environment: Environment::from(BTreeMap::from(environment)),
        supervisor: Supervisor::new(program, [SHIM_VERB.into()]).unwrap(),
        ..host
    };
    let end = BootTime::now().saturating_add(Duration::from_secs(600));
    let (sender, lease) = Lease::new(end);
    (sender, OutputService::new(&host, lease, Box::new(books.clone())))
}

/// Returns an attempt of a run.
fn start(loaded: &LoadedWorkflow, run: Uuid) -> Arc<Start> {
    let issue = json!({"id": "1", "title": "T", "state": "todo", "payload": r#"{"id":"1","title":"T","state":"todo"}"#});
    let start = json!({
        "issue": issue,
        "stage": loaded.workflow.issue.stages[0],
        "run": run,
        "session": Uuid::now_v7(),
        "worker": "w",
        "attempt": 1,
    });
    Arc::new(serde_json::from_value(start).unwrap())
}

fn request(start: &Start, lines: &[&str]) -> OutputRequest {
    OutputRequest {
        id: Uuid::now_v7(),
        issue: start.issue.id.clone(),
        attempt_id: start.attempt_id,
        lines: lines.join("\n"),
        base_commit: None,
    }
}

#[track_caller]
fn applied(response: OutputResponse) -> AppliedOutputs {
    match response {
        OutputResponse::Applied(applied) => applied,
        response => panic!("{response:?}"),
    }
}

/// Returns the progress of each result, and whether it is of this attempt.
fn results(applied: &AppliedOutputs) -> Vec<(Progress, bool)> {
    let results = applied.results.iter();
    results
        .map(|result| (result.note.progress, result.is_own))
        .collect()
}

#[track_caller]
fn refusals(applied: AppliedOutputs) -> Vec<Rule> {
    match applied.failure {
        Some(NotApplied::Refused(refusals)) => refusals.iter().map(|refusal| refusal.rule).collect(),
        failure => panic!("{failure:?}"),
    }
}

fn made(kinds: &[&str]) -> Vec<String> {
    kinds.iter().map(|kind| format!("{kind} {TOKEN}")).collect()
}

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
