use std::path::Path;
use std::sync::Mutex;

use serde_json::json;
use uuid::Uuid;
use vik_core::ids::RunId;
use vik_store::AttemptRecord;

use super::*;

const ATTEMPT: AttemptId = AttemptId(Uuid::from_u128(7));

/// A worker with the files of one attempt.
struct Scene {
    _folder: tempfile::TempDir,
    reader: Arc<SessionReader>,
    files: AttemptFiles,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::at(Path::new("/w/workflow.yml"), folder.path());
    let sessions = layout.issue_sessions_dir(&"1".into());
    std::fs::create_dir_all(&sessions).unwrap();
    let files = AttemptFiles::new(&sessions, &"work".into(), ATTEMPT);
    let record = AttemptRecord {
        schema: 2,
        run_id: RunId(Uuid::nil()),
        session_id: ATTEMPT,
        issue_id: "1".into(),
        issue_title: "Fix the login".to_owned(),
        issue_state: "todo".to_owned(),
        stage: "work".into(),
        agent: "a".into(),
        runtime: "command".to_owned(),
        model: None,
        attempt: 1,
        started_at: jiff::Timestamp::UNIX_EPOCH,
        workdir: PathBuf::new(),
        kept: None,
    };
    std::fs::write(files.record(), serde_json::to_vec(&record).unwrap()).unwrap();
    let supervisor = Supervisor::this_program().unwrap();
    Scene {
        reader: Arc::new(SessionReader::new(layout, supervisor)),
        _folder: folder,
        files,
    }
}

impl Scene {
    async fn answer(&self, issue: &str, attempt: AttemptId, part: SessionPart) -> Result<String, String> {
        let request = SessionRequest {
            issue: issue.into(),
            attempt,
            part,
        };
        Arc::clone(&self.reader).answer(request).await
    }

    async fn page(&self, after: u64) -> (usize, EventsPage) {
        let text = self.answer("1", ATTEMPT, SessionPart::Events(all(after))).await;
        let text = text.unwrap();
        (text.len(), serde_json::from_str(&text).unwrap())
    }
}

fn all(after: u64) -> EventsRequest {
    EventsRequest {
        after,
        text: None,
        kinds: Vec::new(),
        only_failures: false,
        limit: 1000,
    }
}

#[tokio::test]
async fn pages_have_all_events_and_fit_into_an_answer() {
    let scene = scene();
    let event = |seq: u64, length: usize| json!({"seq": seq, "kind": "message", "text": "x".repeat(length)});
    let lengths = [10, 400_000, 400_000, 3_000_000, 10];
    let lines = (1..)
        .zip(lengths)
        .map(|(seq, length)| format!("{}\n", event(seq, length)));
    std::fs::write(scene.files.log(), lines.collect::<String>()).unwrap();
    let (mut after, mut events) = (0, Vec::new());
    while after < 5 {
        let (bytes, page) = scene.page(after).await;
        assert!(bytes < 600 * 1024, "{bytes}");
        assert!(
            page.scanned_to > after && page.last_seq == 5 && !page.ended,
            "{after}"
        );
        after = page.scanned_to;
        events.extend(page.events);
    }
    assert_eq!(events.len(), 5);
    // Only the start of an event that exceeds a page is in it.
    assert!(
        events[3].get().contains("malformed"),
        "{}",
        &events[3].get()[..100]
    );
    assert_eq!(events[4].get(), event(5, 10).to_string());
}

#[tokio::test]
async fn detail_has_what_only_the_files_contain() {
    let scene = scene();
    std::fs::write(scene.files.prompt(), "Fix it.").unwrap();
    let detail = scene.answer("1", ATTEMPT, SessionPart::Detail).await.unwrap();
    let detail: SessionDetail = serde_json::from_str(&detail).unwrap();
    assert_eq!(detail.issue_title, "Fix the login");
    assert_eq!(detail.prompt.unwrap().text, "Fix it.");
}

#[tokio::test]
async fn request_for_another_issue_or_attempt_finds_nothing() {
    let scene = scene();
    std::fs::write(scene.files.log(), "{}\n").unwrap();
    assert!(
        scene
            .answer("1", ATTEMPT, SessionPart::Events(all(0)))
            .await
            .is_ok()
    );
    let other = AttemptId(Uuid::from_u128(8));
    for (issue, attempt) in [
        ("2", ATTEMPT),
        ("1", other),
        ("../sessions/1", ATTEMPT),
        ("", ATTEMPT),
    ] {
        for part in [
            SessionPart::Detail,
            SessionPart::Events(all(0)),
            SessionPart::Diff,
        ] {
            let refused = scene.answer(issue, attempt, part).await.unwrap_err();
            assert!(refused.contains("no files of this attempt"), "{issue}: {refused}");
        }
    }
}

/// A worker that a hub asks.
#[derive(Debug)]
struct FakeWorker {
    answer: Result<String, String>,
    asked: Mutex<Vec<(WorkerName, SessionRequest)>>,
}

impl RemoteSessions for FakeWorker {
    fn read(&self, worker: WorkerName, request: SessionRequest) -> Task<Result<String, String>> {
        self.asked.lock().unwrap().push((worker, request));
        let answer = self.answer.clone();
        Box::pin(async { answer })
    }
}

#[tokio::test]
async fn error_names_the_worker_and_the_log() {
    let attempt = RemoteAttempt {
        worker: "build-1".parse().unwrap(),
        issue: "1".into(),
        attempt: ATTEMPT,
        log: Some("/home/vik/log.jsonl".into()),
    };
    let read = async |answer| {
        let worker = FakeWorker {
            answer,
            asked: Mutex::default(),
        };
        let tail = attempt
            .read::<StderrTail>(&worker, SessionPart::Stderr { bytes: 5 })
            .await;
        let asked = worker.asked.into_inner().unwrap();
        assert_eq!(asked[0].0.as_str(), "build-1");
        assert_eq!(asked[0].1.attempt, ATTEMPT);
        tail
    };
    let tail = json!({"schema": 1, "text": "oops", "left_out": 0}).to_string();
    assert_eq!(read(Ok(tail)).await.unwrap().text, "oops");
    let error = read(Err("it does not respond".to_owned())).await.unwrap_err();
    assert_eq!(
        error.body().message,
        "cannot read the session, which is on the worker `build-1`, in /home/vik/log.jsonl: it does not \
         respond"
    );
    assert!(read(Ok("nonsense".to_owned())).await.is_err());
}
