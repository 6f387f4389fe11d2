//! Nothing is done before it is on disk: the loop with a commit log that stalls or fails.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use vik_core::changes::{Changes, Stored};
use vik_core::ids::IssueId;
use vik_orchestrator::signals::Signals;
use vik_orchestrator::{
    CommitFailure, CommitLog, Committing, LocalEffects, LocalWorkspaces, OpenFiles, Options, Orchestrator,
    Recalling, RunSummary, Setup, Silent, StatusSources,
};
use vik_proc::{SHIM_VERB, Supervisor};
use vik_session::host::Host;
use vik_store::Ledger;
use vik_store::ledger::{CommitError, LedgerError};
use vik_workflow::WorkflowFile;
use vik_workspace::Layout;

use crate::support::*;

/// Commits all changes at once except those that match: their commits fail as soon as the test
/// allows it.
#[derive(Clone)]
struct Stumbling {
    over: fn(&Changes) -> bool,
    seen: Arc<Mutex<Vec<Changes>>>,
    fail: Arc<Notify>,
}

impl Stumbling {
    fn over(over: fn(&Changes) -> bool) -> Self {
        Self {
            over,
            seen: Arc::default(),
            fail: Arc::default(),
        }
    }

    fn count(&self, such: impl Fn(&Changes) -> bool) -> usize {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .filter(|changes| such(changes))
            .count()
    }
}

impl CommitLog for Stumbling {
    fn commit(&self, changes: Changes) -> Committing {
        let must_fail = (self.over)(&changes);
        self.seen.lock().unwrap().push(changes);
        let fail = Arc::clone(&self.fail);
        Box::pin(async move {
            if !must_fail {
                return Ok(());
            }
            fail.notified().await;
            let cause = Arc::new(LedgerError::Stopped);
            Err(CommitFailure::from(CommitError { cause }))
        })
    }

    fn recall(&self, _: Vec<IssueId>) -> Recalling {
        Box::pin(async { Ok(Vec::new()) })
    }
}

fn orchestrator(world: &World, commit_log: Stumbling) -> Orchestrator {
    let path = world.env.work().join("workflow.yml");
    let loaded = WorkflowFile::valid(&path, |_| {}).unwrap();
    let mut layout = Layout::resolve(&loaded.path, &loaded.workflow.workspace_root).unwrap();
    layout.create().unwrap();
    let host = Host {
        workflow_dir: loaded.path.parent().unwrap().to_owned(),
        workflow_path: loaded.path.clone(),
        layout,
        environment: world
            .env
            .environment()
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>()
            .into(),
        supervisor: Supervisor::new(env!("CARGO_BIN_EXE_vik"), [SHIM_VERB.into()]).unwrap(),
        instance: "test".to_owned(),
        vik: env!("CARGO_BIN_EXE_vik").into(),
        agent_shims: Default::default(),
    };
    let (workflow, _) = tokio::sync::watch::channel(Arc::clone(&loaded.workflow));
    let status = StatusSources {
        workflow_path: host.workflow_path.clone(),
        home: host.layout.home().to_owned(),
        ledger: host.layout.ledger_file(),
        api: None,
        notify: Default::default(),
        webhooks: None,
        hub: None,
    };
    let (ledger, _) = Ledger::open(&host.layout.service_dir()).unwrap();
    let (host, ledger) = (Arc::new(host), Arc::new(ledger));
    let workspaces = LocalWorkspaces::new(Arc::clone(&host), &loaded, Duration::ZERO, OpenFiles::new(None));
    let effects = LocalEffects::new(host, ledger, &loaded, Box::new(workspaces), Box::new(Silent));
    Orchestrator::new(Setup {
        workflow,
        loaded_at: loaded.loaded_at,
        watch: None,
        options: Options::default(),
        effects: Box::new(effects),
        commit_log: Box::new(commit_log),
        stored: Stored::default(),
        workspaces: Vec::new(),
        open_files: OpenFiles::new(None),
        workers: None,
        status,
    })
}

/// Runs the loop until the commit log has failed; `stalled` runs before that.
fn run(world: &World, commit_log: &Stumbling, stalled: impl FnOnce()) -> RunSummary {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (_sender, receiver) = mpsc::channel(1);
    let orchestrator = orchestrator(world, commit_log.clone());
    let task = runtime.spawn(async move {
        let signals = Signals::listen().unwrap();
        orchestrator.run(signals, receiver).await
    });
    eventually("the book stumbles", || commit_log.count(commit_log.over) > 0);
    stalled();
    commit_log.fail.notify_one();
    runtime
        .block_on(async { tokio::time::timeout(LONG, task).await })
        .expect("the loop ends when nothing can be kept any more")
        .unwrap()
}

#[test]
fn claim_that_is_not_on_disk_starts_nothing() {
    let world = World::new(&[("1", "todo"), ("2", "todo")]).script("append turns x; ok");
    let commit_log = Stumbling::over(|changes| !changes.started.is_empty());
    let nothing = || {
        assert!(world.sessions("1").is_empty() && world.sessions("2").is_empty());
        assert!(!world.workspace("1").exists() && !world.workspace("2").exists());
    };
    let closing = run(&world, &commit_log, nothing);
    assert!(closing.broken.is_some());
    assert!(closing.rows.is_empty());
    nothing();
}

#[test]
fn end_that_is_not_on_disk_has_no_effect() {
    let world = World::new(&[("1", "todo")])
        .script("append turns x; exit 1")
        .attempts(3);
    let commit_log = Stumbling::over(|changes| !changes.ended.is_empty());
    let once = || {
        world.session("1").expect("failed", Some("agent"));
        assert_eq!(world.workspace_file("1", "turns"), "x");
    };
    let closing = run(&world, &commit_log, once);
    assert!(closing.broken.is_some());
    once();
    assert_eq!(commit_log.count(|changes| !changes.started.is_empty()), 1);
}
