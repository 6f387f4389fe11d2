//! The loop in a scripted world, run by the test that moves the clock.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use vik_api::{Action, Explanation, MessagesPage, Status};
use vik_core::changes::{Changes, Stored};
use vik_core::ids::IssueId;
use vik_core::scheduler::Actor;
use vik_core::worker::Workers;

use super::world::{Event, Script, ScriptedEffects, ScriptedLog, World, lock};
use crate::signals::Signals;
use crate::*;

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A loop in a scripted world.
pub struct Scene {
    world: Arc<Mutex<World>>,
    run: Pin<Box<dyn Future<Output = RunSummary>>>,
    requests: mpsc::Sender<ControlRequest>,
    woken: Arc<Flag>,
    /// Set when the loop has ended.
    pub summary: Option<RunSummary>,
    _signals: tokio::runtime::Runtime,
}

pub struct SceneBuilder {
    pub stage: &'static str,
    /// Further keys for all stages.
    pub issue: &'static str,
    pub once: bool,
    /// Returns why changes are not committed, if they are not.
    pub fails: fn(&Changes) -> Option<CommitFailure>,
    /// Returns whether an issue cannot be read from the ledger.
    pub forgets: fn(&IssueId) -> bool,
    /// The limit on open files.
    pub open_files: Option<u64>,
    pub max_issue_concurrency: u32,
    /// The lists of workers; `None` if attempts run on this machine.
    pub workers: Option<watch::Receiver<Workers>>,
    /// How long agents live without a daemon.
    pub orphan_grace: Duration,
}

impl SceneBuilder {
    /// Starts a loop whose tracker has these issues in the state `todo`, with their priorities.
    pub fn start(self, issues: &[(&str, Option<u32>)], script: &[Script]) -> Scene {
        let engine = match self.workers {
            Some(_) => "engine: { temporal: { address: 'host:7233', task_queue: q } }",
            None => "",
        };
        let text = format!(
            "{engine}
loop: {{ max_issue_concurrency: {} }}
issues: {{ pull: {{ command: list, idle_sec: 2 }} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  terminal_states: [done]
  {}
  stages: {{ work: {{ when: {{ state: todo }}, agent: a, prompt: p, {} }} }}
",
            self.max_issue_concurrency, self.issue, self.stage
        );
        let workflow = vik_workflow_reader::load(&text);
        let workflow = workflow
            .workflow
            .unwrap_or_else(|| panic!("{:?}", workflow.diagnostics));
        let mut world = World::new(issues, script);
        world.orphan_grace = self.orphan_grace;
        let world = Arc::new(Mutex::new(world));
        let orchestrator = Orchestrator::new(Setup {
            workflow: watch::Sender::new(Arc::new(workflow)),
            loaded_at: Timestamp::UNIX_EPOCH,
            watch: None,
            options: Options {
                once: self.once,
                ..Options::default()
            },
            effects: Box::new(ScriptedEffects(Arc::clone(&world))),
            commit_log: Box::new(ScriptedLog {
                fails: self.fails,
                forgets: self.forgets,
                machines: Mutex::default(),
            }),
            stored: Stored::default(),
            workspaces: Vec::new(),
            open_files: OpenFiles::new(self.open_files),
            workers: self.workers,
            status: StatusSources {
                workflow_path: PathBuf::new(),
                home: PathBuf::new(),
                ledger: PathBuf::new(),
                api: None,
                notify: NotifierHealth::default(),
                webhooks: None,
                hub: None,
            },
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let signals = {
            let _entered = runtime.enter();
            Signals::listen().unwrap()
        };
        let (sender, requests) = mpsc::channel(1);
        Scene {
            world,
            run: Box::pin(orchestrator.run(signals, requests)),
            requests: sender,
            woken: Arc::default(),
            summary: None,
            _signals: runtime,
        }
    }
}

impl Default for SceneBuilder {
    fn default() -> Self {
        Self {
            stage: "",
            issue: "",
            once: false,
            fails: |_| None,
            forgets: |_| false,
            open_files: None,
            max_issue_concurrency: 1,
            workers: None,
            orphan_grace: Duration::from_secs(60),
        }
    }
}

impl Scene {
    pub fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// Runs the loop until it waits for the clock.
    fn settle(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.woken.0.store(true, Ordering::Relaxed);
        while self.summary.is_none() && self.woken.0.swap(false, Ordering::Relaxed) {
            if let Poll::Ready(summary) = self.run.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.summary = Some(summary);
            }
            self.world().obey();
        }
    }

    /// Moves the clock, and runs what happens in the meantime.
    pub fn pass(&mut self, time: Duration) {
        let until = self.world().now + time;
        self.settle();
        while self.summary.is_none() {
            let next = self.world().events.pop_first();
            let Some(((at, number), event)) = next else { break };
            if at > until {
                self.world().events.insert((at, number), event);
                break;
            }
            self.world().now = at;
            if !matches!(&event, Event::Wake(sender) if sender.is_closed()) {
                self.world().fire(event);
                self.settle();
            }
        }
        self.world().now = until;
    }

    pub fn act(&mut self, action: Action) -> ActionResult {
        let by = Actor::default();
        self.request(|answer| ControlRequest::Act { action, by, answer })
    }

    /// Returns the state of an issue; `None` if it is not in memory.
    pub fn explain(&mut self, issue: &str) -> Option<Explanation> {
        let issue = IssueId::new(issue);
        let found = self.request(|answer| ControlRequest::Explain { issue, answer });
        found.map(|(explanation, _)| explanation)
    }

    /// Returns the messages that wait for an agent of an issue.
    pub fn messages(&mut self, issue: &str) -> Option<MessagesPage> {
        let issue = IssueId::new(issue);
        self.request(|answer| ControlRequest::Messages { issue, answer })
    }

    pub fn status(&mut self) -> Status {
        *self.request(ControlRequest::Status)
    }

    fn request<T>(&mut self, request: impl FnOnce(oneshot::Sender<T>) -> ControlRequest) -> T {
        let (answer, mut response) = oneshot::channel();
        assert!(self.requests.try_send(request(answer)).is_ok());
        self.settle();
        response.try_recv().expect("a response")
    }
}
