//! A hub that leads, whose log is in memory, and an attempt on a worker.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
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
use vik_workflow::{LoadedWorkflow, WorkflowFile};

/// The secret of the hub.
pub const TOKEN: &str = "only-hubs-have-this-token";

/// Records which output was carried out.
pub const MAKE: &str = "echo \"$VIK_OUTPUT_KIND $TOKEN\" >> done";

pub const CHECK: &str = "touch done; grep -q \"^$VIK_OUTPUT_KIND\" done";

/// Shows that the command runs, and waits for the test.
pub const WAIT: &str = "touch up; while ! test -e go; do sleep 0.02; done";

pub const COMMENT: &str = r#"{"kind":"comment","body":"Done."}"#;
pub const LABEL: &str = r#"{"kind":"label","label":"area/ui"}"#;

/// A log in memory, which refuses notes when its number of notes is reached.
#[derive(Clone)]
pub struct Books {
    pub notes: Arc<Mutex<Vec<(RunId, OutputNote)>>>,
    pub max: Arc<AtomicUsize>,
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
pub struct Scene {
    pub folder: TempDir,
    pub loaded: LoadedWorkflow,
    pub books: Books,
    pub lease: LeaseSender,
    pub service: OutputService,
    pub start: Arc<Start>,
    pub admission: Option<Admission>,
}

impl Scene {
    /// Creates a stage whose comments are made by these commands.
    pub fn new(run: &str, check: Option<&str>) -> Self {
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
    pub fn next_hub(&mut self) {
        (self.lease, self.service) = service(
            &self.loaded,
            &self.folder.path().join("workflow.yml"),
            &self.books,
        );
        self.admission = Some(self.admit(&self.start));
    }

    pub fn admit(&self, start: &Arc<Start>) -> Admission {
        self.service
            .admit(Arc::clone(start), Arc::clone(&self.loaded.workflow))
    }

    /// Returns a request of the attempt for these lines.
    pub fn request(&self, lines: &[&str]) -> OutputRequest {
        request(&self.start, lines)
    }

    pub async fn respond(&self, lines: &[&str]) -> OutputResponse {
        self.service.respond(self.request(lines)).await
    }

    pub async fn applied(&self, lines: &[&str]) -> AppliedOutputs {
        applied(self.respond(lines).await)
    }

    /// Returns what was carried out.
    pub fn done(&self) -> Vec<String> {
        let done = std::fs::read_to_string(self.folder.path().join("done")).unwrap_or_default();
        done.lines().map(str::to_owned).collect()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }

    pub fn touch(&self, name: &str) {
        std::fs::write(self.folder.path().join(name), "").unwrap();
    }

    pub fn book(&self) -> Vec<Progress> {
        let notes = self.books.notes.lock().unwrap();
        notes.iter().map(|(_, note)| note.progress).collect()
    }

    /// Adds a note of an earlier attempt.
    pub fn note(&self, line: &str, progress: Progress) {
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

pub fn service(loaded: &LoadedWorkflow, path: &Path, books: &Books) -> (LeaseSender, OutputService) {
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
pub fn start(loaded: &LoadedWorkflow, run: Uuid) -> Arc<Start> {
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

pub fn request(start: &Start, lines: &[&str]) -> OutputRequest {
    OutputRequest {
        id: Uuid::now_v7(),
        issue: start.issue.id.clone(),
        attempt_id: start.attempt_id,
        lines: lines.join("\n"),
        base_commit: None,
    }
}

#[track_caller]
pub fn applied(response: OutputResponse) -> AppliedOutputs {
    match response {
        OutputResponse::Applied(applied) => applied,
        response => panic!("{response:?}"),
    }
}

/// Returns the progress of each result, and whether it is of this attempt.
pub fn results(applied: &AppliedOutputs) -> Vec<(Progress, bool)> {
    let results = applied.results.iter();
    results
        .map(|result| (result.note.progress, result.is_own))
        .collect()
}

#[track_caller]
pub fn refusals(applied: AppliedOutputs) -> Vec<Rule> {
    match applied.failure {
        Some(NotApplied::Refused(refusals)) => refusals.iter().map(|refusal| refusal.rule).collect(),
        failure => panic!("{failure:?}"),
    }
}

pub fn made(kinds: &[&str]) -> Vec<String> {
    kinds.iter().map(|kind| format!("{kind} {TOKEN}")).collect()
}
