use std::sync::Mutex;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use vik_core::worker::Worker;

use super::*;
use crate::peer::WorkerRequests;
use crate::request::RequestError;
use crate::workers::tests::worker;

/// Workers whose answers a test gives. One without an answer does not respond.
#[derive(Clone, Debug, Default)]
struct FakeWorkers {
    answers: Arc<Mutex<BTreeMap<String, Result<Value, RequestError>>>>,
    sent: Arc<Mutex<Vec<String>>>,
}

impl FakeWorkers {
    fn answer(&self, worker: &str, answer: Result<Value, RequestError>) {
        self.answers.lock().unwrap().insert(worker.to_owned(), answer);
    }

    fn take_sent(&self) -> Vec<String> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }
}

impl WorkerRequests for FakeWorkers {
    fn send(
        &self,
        worker: WorkerName,
        _: String,
        _: Duration,
    ) -> BoxFuture<'static, Result<String, RequestError>> {
        self.sent.lock().unwrap().push(worker.to_string());
        let answers = self.answers.lock().unwrap();
        let answer = answers.get(worker.as_str()).cloned();
        let answer = answer.unwrap_or(Err(RequestError::NotTaken));
        async move { answer.map(|answer| answer.to_string()) }.boxed()
    }
}

struct Scene {
    fakes: FakeWorkers,
    folders: RemoteFolders,
    _ledger: tempfile::TempDir,
}

/// A hub with the workers `a` and `b`, and a ledger without issues.
fn scene() -> Scene {
    let fakes = FakeWorkers::default();
    let ledger = tempfile::tempdir().unwrap();
    let workers: [Worker; 2] = ["a", "b"].map(worker);
    let list = Workers::new(workers[0].revision.clone(), workers);
    let (_, list) = watch::channel(list);
    let folders = RemoteFolders::new(Peers::new(fakes.clone()), list, ledger.path().to_owned());
    Scene {
        fakes,
        folders,
        _ledger: ledger,
    }
}

impl Scene {
    async fn inventory(&self) -> Inventory {
        self.folders.clone().take_inventory(ExpiryTimes::default()).await
    }

    async fn remove(&self) -> Removal {
        let issue = Box::new(Issue::bare("1".into()));
        let folders = self.folders.clone();
        let removal = folders.remove_workspace(issue, RemovalCause::Finished, String::new(), Duration::ZERO);
        removal.await
    }
}

fn inventory(workspaces: &[&str], expired: &[&str]) -> Value {
    let expired: Vec<_> = expired.iter().map(|issue| json!({"sessions": issue})).collect();
    json!({"workspaces": workspaces, "expired": expired, "problems": []})
}

#[tokio::test]
async fn inventory_of_a_missing_worker_is_the_last_one() {
    let scene = scene();
    scene.fakes.answer("a", Ok(inventory(&["1"], &[])));
    scene.fakes.answer("b", Ok(inventory(&["1", "2"], &["3"])));
    let first = scene.inventory().await;
    assert_eq!(first.workspaces, ["1", "2"].map(IssueId::from).into());
    assert_eq!(first.expired, [Expired::Sessions("3".into())].into());
    assert_eq!(first.problems, [""; 0]);
    scene.fakes.answer("b", Err(RequestError::NotTaken));
    let second = scene.inventory().await;
    assert_eq!(second.workspaces, first.workspaces);
    assert_eq!(second.problems, ["the worker `b` does not respond"]);
}

#[tokio::test]
async fn workspace_is_removed_from_each_worker_that_has_one() {
    let scene = scene();
    assert_eq!(scene.remove().await, Removal::Absent);
    for worker in ["a", "b"] {
        scene.fakes.answer(worker, Ok(inventory(&["1"], &[])));
    }
    scene.inventory().await;
    scene.fakes.take_sent();
    for worker in ["a", "b"] {
        scene.fakes.answer(worker, Ok(json!({"removed": {"bytes": 5}})));
    }
    assert_eq!(scene.remove().await, Removal::Removed { bytes: 10 });
    assert_eq!(scene.fakes.take_sent(), ["a", "b"]);
    // It is removed, and nobody is asked again.
    assert_eq!(scene.remove().await, Removal::Absent);
    assert_eq!(scene.fakes.take_sent(), [""; 0]);
}

#[tokio::test]
async fn workspace_is_kept_with_the_worker_in_the_reason() {
    let scene = scene();
    scene.fakes.answer("b", Ok(inventory(&["1"], &[])));
    scene.inventory().await;
    let kept = |answer| {
        scene.fakes.answer("b", answer);
        scene.remove().map(|removal| match removal {
            Removal::Kept(reason) => reason,
            other => panic!("{other:?}"),
        })
    };
    let reason = kept(Ok(json!({"kept": "it is in use"}))).await;
    assert_eq!(reason, "on the worker `b`: it is in use");
    let reason = kept(Err(RequestError::NotTaken)).await;
    assert_eq!(reason, "the worker `b` does not respond");
    let reason = kept(Err(RequestError::Lost)).await;
    assert!(reason.contains("not known whether"), "{reason}");
    // It is tried again.
    scene.fakes.answer("b", Ok(json!("absent")));
    assert_eq!(scene.remove().await, Removal::Absent);
}

#[tokio::test]
async fn expired_files_are_removed_where_they_were_found() {
    let scene = scene();
    scene.fakes.answer("a", Ok(inventory(&[], &[])));
    scene.fakes.answer("b", Ok(inventory(&[], &["3"])));
    scene.inventory().await;
    scene.fakes.take_sent();
    let removal = json!({"count": 1, "bytes": 9, "has_more": false});
    scene.fakes.answer("b", Ok(removal));
    let expired = Expired::Sessions("3".into());
    let removed = scene
        .folders
        .clone()
        .remove_expired(expired, Timestamp::UNIX_EPOCH)
        .await;
    assert_eq!(removed.unwrap().bytes, 9);
    assert_eq!(scene.fakes.take_sent(), ["b"]);
}
