//! The outputs of attempts on workers: the hub that leads carries them out, and keeps the books of
//! all runs in the shared log.
//!
//! The hub accepts a request only for an attempt that it has running on a worker. A worker sends what
//! an agent has written; scripts, policy and secrets are those of the hub.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, join_all};
use uuid::Uuid;
use vik_core::attempt::{HandOverFailure, Start};
use vik_core::changes::Changes;
use vik_core::ids::{AttemptId, RunId};
use vik_core::outcome::Outcome;
use vik_core::outputs::{Output, OutputNote};
use vik_core::workflow::Workflow;
use vik_orchestrator::{CommitLog as _, Committing};
use vik_proc::Lease;
use vik_session::host::Host;
use vik_session::outputs::{
    NotApplied, OutputAttempt, OutputControl, OutputRequest, OutputResponse, apply_for_worker,
};
use vik_store::AttemptFailure;
use vik_store::ledger::{LedgerError, Reader};

use crate::shared_ledger::LeadingLedger;

mod responder;
mod worker;

pub(crate) use responder::{ApiResponse, HubRequest, HubResponder};
pub(crate) use worker::RemoteHub;

/// Where a hub keeps the books of outputs.
pub trait BookStore: Send + Sync + 'static {
    /// Returns the notes about the outputs of a run. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read.
    fn notes(&self, run: RunId) -> Result<Vec<OutputNote>, LedgerError>;

    /// Adds a note to the book of a run. It is final when the result resolves without an error.
    fn record(&self, run: RunId, note: OutputNote) -> Committing;
}

/// The books in the shared log.
#[derive(Debug)]
pub(crate) struct SharedBooks {
    pub(crate) ledger: LeadingLedger,
    /// The folder of the copy on this machine.
    pub(crate) service_dir: PathBuf,
}

impl BookStore for SharedBooks {
    fn notes(&self, run: RunId) -> Result<Vec<OutputNote>, LedgerError> {
        let reader = Reader::open(&self.service_dir)?;
        reader.map_or_else(|| Ok(Vec::new()), |reader| reader.output_notes(run))
    }

    fn record(&self, run: RunId, note: OutputNote) -> Committing {
        self.ledger.commit(Changes {
            outputs: vec![(run, note)],
            ..Changes::default()
        })
    }
}

/// Carries out the outputs of attempts on workers, one after another for each run. Cheap to clone.
#[derive(Clone)]
pub struct OutputService(Arc<Inner>);

struct Inner {
    /// Its processes are under the lease.
    host: Host,
    /// It lasts as long as this hub leads.
    lease: Lease,
    books: Box<dyn BookStore>,
    /// Whether this hub takes no more requests.
    is_closed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    admitted: BTreeMap<AttemptId, Admitted>,
    /// The last request of each run.
    requests: BTreeMap<RunId, Request>,
    admissions: u64,
}

#[derive(Clone)]
struct Admitted {
    number: u64,
    start: Arc<Start>,
    workflow: Arc<Workflow>,
}

struct Request {
    id: Uuid,
    response: Shared<BoxFuture<'static, OutputResponse>>,
}

impl fmt::Debug for OutputService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputService").finish_non_exhaustive()
    }
}

impl OutputService {
    /// Creates the service of a hub that leads as long as `lease` lasts.
    pub fn new(host: &Host, lease: Lease, books: Box<dyn BookStore>) -> Self {
        Self(Arc::new(Inner {
            host: host.under_lease(lease.clone()),
            lease,
            books,
            is_closed: AtomicBool::new(false),
            state: Mutex::default(),
        }))
    }

    /// Accepts requests of an attempt until the result is dropped. Its secrets are those of
    /// `workflow`.
    pub fn admit(&self, start: Arc<Start>, workflow: Arc<Workflow>) -> Admission {
        let mut state = self.state();
        state.admissions += 1;
        let number = state.admissions;
        let attempt_id = start.attempt_id;
        let admitted = Admitted {
            number,
            start,
            workflow,
        };
        state.admitted.insert(attempt_id, admitted);
        Admission {
            service: self.clone(),
            attempt_id,
            number,
        }
    }

    /// Returns the book of a run.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read.
    pub async fn notes(&self, run: RunId) -> Result<Vec<OutputNote>, LedgerError> {
        let service = self.clone();
        let read = tokio::task::spawn_blocking(move || service.0.books.notes(run));
        read.await.unwrap_or(Err(LedgerError::Stopped))
    }

    /// Carries out what an attempt asks for. The same request again gets the same response, and is
    /// carried out once. If the future is dropped, the work continues.
    pub async fn respond(&self, request: OutputRequest) -> OutputResponse {
        loop {
            if self.0.is_closed() {
                return OutputResponse::NotLeading;
            }
            let (is_same, response) = {
                let mut state = self.state();
                let admitted = state.admitted.get(&request.attempt_id).cloned();
                let Some(admitted) = admitted.filter(|known| known.start.issue.id == request.issue) else {
                    return OutputResponse::UnknownAttempt;
                };
                let run = admitted.start.run;
                match state.requests.get(&run) {
                    Some(last) if last.id == request.id => (true, last.response.clone()),
                    Some(last) if last.response.peek().is_none() => (false, last.response.clone()),
                    _ => {
                        let response = self.start(admitted, request.clone());
                        let last = Request {
                            id: request.id,
                            response: response.clone(),
                        };
                        state.requests.insert(run, last);
                        (true, response)
                    }
                }
            };
            let response = response.await;
            if is_same {
                return response;
            }
        }
    }

    /// Takes no more requests, and waits until nothing is carried out any more.
    pub async fn close(&self) {
        self.0.is_closed.store(true, Ordering::Release);
        let responses: Vec<_> = {
            let state = self.state();
            let requests = state.requests.values();
            requests.map(|request| request.response.clone()).collect()
        };
        join_all(responses).await;
    }

    fn start(
        &self,
        admitted: Admitted,
        request: OutputRequest,
    ) -> Shared<BoxFuture<'static, OutputResponse>> {
        let task = tokio::spawn(self.clone().carry_out(admitted, request));
        let response = async move {
            task.await.unwrap_or_else(|bug| {
                tracing::error!(%bug, "outputs were not carried out to their end");
                failed("bug in Vik: the hub did not carry out the outputs to their end".to_owned())
            })
        };
        response.boxed().shared()
    }

    async fn carry_out(self, admitted: Admitted, request: OutputRequest) -> OutputResponse {
        let Admitted {
            number,
            start,
            workflow,
        } = admitted;
        let notes = match self.notes(start.run).await {
            Ok(notes) => notes,
            Err(error) => return failed(format!("the hub cannot read the book of outputs: {error}")),
        };
        let attempt = WorkerAttempt {
            service: self.clone(),
            start: Arc::clone(&start),
            number,
            notes,
        };
        let applied = apply_for_worker(&self.0.host, &workflow, &start, &request, attempt).await;
        // What it has not recorded, the next hub finds out.
        match self.0.leads() {
            true => OutputResponse::Applied(applied),
            false => OutputResponse::NotLeading,
        }
    }

    fn is_admitted(&self, attempt_id: AttemptId, number: u64) -> bool {
        let state = self.state();
        let admitted = state.admitted.get(&attempt_id);
        admitted.is_some_and(|admitted| admitted.number == number)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn leads(&self) -> bool {
        !self.lease.is_lost()
    }

    fn is_closed(&self) -> bool {
        !self.leads() || self.is_closed.load(Ordering::Acquire)
    }
}

fn failed(reason: String) -> OutputResponse {
    let failure = HandOverFailure {
        step: "outputs".to_owned(),
        reason,
        wait: Duration::ZERO,
        needs_person: false,
    };
    OutputResponse::Applied(NotApplied::HandOver(failure).into())
}

/// Accepts the requests of one attempt as long as it exists.
#[derive(Debug)]
#[must_use]
pub struct Admission {
    service: OutputService,
    attempt_id: AttemptId,
    number: u64,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut state = self.service.state();
        let admitted = state.admitted.get(&self.attempt_id);
        // The same attempt may hand over again by now.
        if admitted.is_some_and(|admitted| admitted.number == self.number) {
            state.admitted.remove(&self.attempt_id);
        }
        let State {
            admitted, requests, ..
        } = &mut *state;
        requests.retain(|run, request| {
            request.response.peek().is_none() || admitted.values().any(|admitted| admitted.start.run == *run)
        });
    }
}

/// An attempt on a worker, whose outputs this hub carries out.
struct WorkerAttempt {
    service: OutputService,
    start: Arc<Start>,
    number: u64,
    notes: Vec<OutputNote>,
}

impl OutputAttempt for WorkerAttempt {
    fn notes(&self) -> &[OutputNote] {
        &self.notes
    }

    async fn record(&mut self, note: OutputNote, _: &Output) -> Result<(), AttemptFailure> {
        let service = &self.service.0;
        if !service.leads() {
            return Err(leads_no_longer());
        }
        let recorded = service.books.record(self.start.run, note.clone()).await;
        recorded.map_err(|error| {
            tracing::warn!(%error, "an output is not recorded");
            leads_no_longer()
        })?;
        self.notes.push(note);
        Ok(())
    }
}

impl OutputControl for WorkerAttempt {
    fn check(&self) -> Result<(), AttemptFailure> {
        if !self.service.0.leads() {
            return Err(leads_no_longer());
        }
        match self.service.is_admitted(self.start.attempt_id, self.number) {
            true => Ok(()),
            false => Err(AttemptFailure::of(
                Outcome::Lost,
                "the attempt has ended for the hub",
            )),
        }
    }

    async fn killed(&self) {
        self.service.0.lease.lost().await;
    }

    fn kill_failure(&self) -> Option<AttemptFailure> {
        (!self.service.0.leads()).then(leads_no_longer)
    }
}

fn leads_no_longer() -> AttemptFailure {
    AttemptFailure::of(Outcome::Lost, "the hub leads no longer")
}
