//! The daemon, as the API accesses it: its loop, its ledger and its files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use vik_api::{Action, ApiView, Status, Steered};
use vik_base::report::{ErrorCode, Failure};
use vik_core::ids::IssueId;
use vik_core::message::MessageRefusal;
use vik_core::scheduler::{Actor, Command, CommandResult};
use vik_orchestrator::{ControlRequest, api_view};
use vik_proc::Supervisor;
use vik_store::ledger::Reader;
use vik_workspace::Layout;

use super::answer::{Answer, Json, Refusal};
use super::feed::Feed;
use super::keys::Keys;
use super::logs::Logs;
use super::metrics::Metrics;
use super::remote_sessions::{RemoteAttempt, SessionPart};
use super::standing::Standing;
use super::{Setup, Tcp};
use crate::diff;

/// How long the daemon's loop may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How long an answer may take that waits for the tracker.
const TRACKER_WITHIN: Duration = Duration::from_secs(120);

/// The maximum age of a shared status: many clients cause only a few queries of the loop per
/// second.
const FRESH: Duration = Duration::from_millis(100);

/// The daemon, as the API accesses it.
#[derive(Debug)]
pub struct Daemon {
    pub(super) layout: Layout,
    pub(super) supervisor: Supervisor,
    pub(super) logs: Logs,
    /// Which hub answers requests.
    pub(super) standing: watch::Receiver<Standing>,
    /// The host of this process.
    pub(super) host: Arc<str>,
    pub(super) feed: Feed,
    pub(super) keys: Arc<Keys>,
    pub(super) metrics: Metrics,
    /// The address of the API on TCP, if it is served there.
    pub(super) api: Option<ApiView>,
    asks: mpsc::Sender<ControlRequest>,
    latest: Mutex<Option<(Instant, Arc<Status>)>>,
}

impl Daemon {
    pub fn new(setup: &Setup) -> Self {
        Self {
            layout: setup.layout.clone(),
            supervisor: setup.supervisor.clone(),
            logs: Logs::default(),
            standing: setup.standing.clone(),
            host: Arc::clone(&setup.host),
            feed: setup.feed.clone(),
            keys: Arc::clone(&setup.keys),
            metrics: setup.metrics.clone(),
            api: setup.tcp.as_ref().map(Tcp::view),
            asks: setup.asks.clone(),
            latest: Mutex::new(None),
        }
    }

    /// Sends a request to the daemon's loop and returns its response.
    pub async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> ControlRequest,
    ) -> Result<T, Refusal> {
        self.ask_within(ANSWER_WITHIN, request).await
    }

    async fn ask_within<T>(
        &self,
        limit: Duration,
        request: impl FnOnce(oneshot::Sender<T>) -> ControlRequest,
    ) -> Result<T, Refusal> {
        let stopping = || Refusal::unavailable(ErrorCode::Stopping, "the daemon is shutting down");
        let (answer, receiver) = oneshot::channel();
        self.asks.send(request(answer)).await.map_err(|_| stopping())?;
        match tokio::time::timeout(limit, receiver).await {
            Ok(response) => response.map_err(|_| stopping()),
            Err(_) => Err(Refusal::unavailable(
                ErrorCode::Busy,
                "the daemon did not answer in time",
            )),
        }
    }

    /// Requests an action of the daemon's loop.
    pub async fn act(&self, action: Action, by: Actor) -> Answer<Steered> {
        let issue = action.issue().cloned();
        let done = |count, nothing| Ok(Json(Steered { count, nothing }));
        match self.decide(action, by).await? {
            CommandResult::Done(count) => done(count, None),
            CommandResult::Sent(_) => done(1, None),
            CommandResult::NoEffect(why) => done(0, Some(why.to_owned())),
            other => Err(Refusal::of_result(other, issue.as_ref())),
        }
    }

    /// Requests an action of the daemon's loop, and returns what it decided.
    pub async fn decide(&self, action: Action, by: Actor) -> Result<CommandResult, Refusal> {
        let limit = match action {
            // The changes in the workspace are recorded first.
            Action::RunAgain { .. } | Action::HandBack { .. } => TRACKER_WITHIN,
            _ => ANSWER_WITHIN,
        };
        let issue = action.issue().cloned();
        let is_message = matches!(action, Action::Command(Command::SendMessage(_)));
        let result = self
            .ask_within(limit, |answer| ControlRequest::Act { action, by, answer })
            .await?;
        // The shared status is out of date.
        self.forget_status().await;
        let result = result.map_err(Refusal::of)?;
        match issue.filter(|_| result == CommandResult::UnknownIssue) {
            Some(issue) => self.refuse_unknown(issue, is_message).await,
            None => Ok(result),
        }
    }

    /// Returns why nothing is done for an issue that the loop does not have: none has ever been
    /// pulled, or no stage takes it any more, and only the ledger has it.
    async fn refuse_unknown(&self, id: IssueId, is_message: bool) -> Result<CommandResult, Refusal> {
        let folder = self.layout.service_dir();
        let recalled = tokio::task::spawn_blocking(move || {
            let reader = Reader::open(&folder).ok()??;
            reader.recall(&[id]).ok()?.pop()
        });
        let Some(machine) = recalled.await.ok().flatten() else {
            return Ok(CommandResult::UnknownIssue);
        };
        let issue = machine.issue();
        let workflow = self.ask(ControlRequest::Workflow).await?;
        if is_message && workflow.is_terminal(&issue.state) {
            let refusal = MessageRefusal::Finished((*issue.state).into());
            return Ok(CommandResult::Refused(refusal));
        }
        Err(api_view::idle_issue(issue).into())
    }

    /// Returns the current status. Concurrent callers share one response.
    pub async fn status(&self) -> Result<Arc<Status>, Refusal> {
        let mut latest = self.latest.lock().await;
        if let Some((at, status)) = &*latest
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(status));
        }
        let status = Arc::new(*self.ask(ControlRequest::Status).await?);
        *latest = Some((Instant::now(), Arc::clone(&status)));
        Ok(status)
    }

    /// Returns what diffs are made from.
    pub fn diffs(&self) -> diff::Sources<'_> {
        diff::Sources {
            layout: &self.layout,
            supervisor: &self.supervisor,
        }
    }

    /// Reads a part of the files of an attempt on a worker.
    pub async fn read_remote<T: DeserializeOwned>(
        &self,
        attempt: &RemoteAttempt,
        part: SessionPart,
    ) -> Result<T, Refusal> {
        let sessions = match &*self.standing.borrow() {
            Standing::Leading { remote_sessions } => remote_sessions.clone(),
            Standing::Connecting | Standing::Following(_) => None,
        };
        let sessions = sessions.ok_or_else(|| {
            let message = format!(
                "the session is on the worker `{}`, which only a hub can reach",
                attempt.worker
            );
            Refusal::unavailable(ErrorCode::Logs, &message)
        })?;
        Ok(attempt.read(&*sessions, part).await?)
    }

    /// Discards the shared status.
    pub async fn forget_status(&self) {
        *self.latest.lock().await = None;
    }

    /// Runs `read` on a blocking thread, so that file access does not delay other requests.
    pub async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let daemon = Arc::clone(self);
        match tokio::task::spawn_blocking(move || read(&daemon)).await {
            Ok(done) => done,
            Err(error) => Err(Failure::failed(ErrorCode::Bug, "a query did not finish", &error).into()),
        }
    }

    /// Opens the ledger for reading. It exists while a daemon runs.
    pub fn ledger(&self) -> Result<Reader, Refusal> {
        match Reader::open(&self.layout.service_dir()) {
            Ok(Some(ledger)) => Ok(ledger),
            Ok(None) => Err(Refusal::unavailable(ErrorCode::Ledger, "no ledger found")),
            Err(error) => Err(error.into()),
        }
    }
}
