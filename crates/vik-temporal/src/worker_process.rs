//! The life of a worker: it announces itself, and runs the attempts that hubs place on it.
//!
//! SIGUSR1 drains it: it takes no more attempts, and ends when it has none. SIGTERM and SIGINT end its
//! attempts, which are then lost for their hub.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::worker::{Presence, Revision, Worker, WorkerLabel, WorkerName};
use vik_daemon::logging::Console;
use vik_daemon::{Home, end_cut_off_logs};
use vik_orchestrator::signals::Signals;
use vik_session::attempt::StopLevel;
use vik_workflow::{LoadedWorkflow, Watch};

use crate::attempt::WorkerHost;
use crate::engine::TemporalEngine;
use crate::peer::WorkerResponder;
use crate::request::Requests;
use crate::session_runner::SessionRunner;
use crate::worker_workflow::{WorkerWorkflow, follow_edits};
use crate::workers::{ANNOUNCE_INTERVAL, ANNOUNCE_TIMEOUT, Announcement, WorkerInstance, Workers};

/// How long pending file accesses may delay the end.
const LAST_READS: Duration = Duration::from_secs(1);

/// How long the server may take to note that the worker has ended.
const LAST_ANNOUNCEMENT: Duration = Duration::from_secs(2);

/// How a worker presents itself to hubs.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub name: WorkerName,
    /// The name of this machine, for people.
    pub host: String,
    pub labels: BTreeSet<WorkerLabel>,
    /// The maximum number of attempts at once.
    pub capacity: NonZeroU32,
    /// Called once, when hubs can see the worker.
    pub on_announced: fn(&TemporalEngine),
}

/// Runs a worker until a signal ends it.
///
/// # Errors
///
/// When it cannot start, or takes no more attempts because of an error.
pub fn serve_worker(
    engine: &TemporalEngine,
    loaded: &LoadedWorkflow,
    options: &WorkerOptions,
    console: Console,
) -> Result<(), Failure> {
    let home = Home::open_worker(&options.name, loaded, console)?;
    home.sweep()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(ErrorCode::Runtime, "cannot start", &error))?;
    let result = runtime.block_on(work(engine, loaded, options, &home));
    runtime.shutdown_timeout(LAST_READS);
    // No process of the worker may outlive its lock.
    home.host.supervisor.close();
    tracing::info!("ended");
    result
}

async fn work(
    engine: &TemporalEngine,
    loaded: &LoadedWorkflow,
    options: &WorkerOptions,
    home: &Home,
) -> Result<(), Failure> {
    let no_signals =
        |error: std::io::Error| Failure::failed(ErrorCode::Daemon, "cannot listen to signals", &error);
    let mut signals = Signals::listen().map_err(no_signals)?;
    let mut drain = signal(SignalKind::user_defined1()).map_err(no_signals)?;
    // Agents of the same user must not read the worker's environment, nor open its files through
    // /proc.
    vik_proc::set_non_dumpable();
    vik_proc::raise_file_limit();
    vik_proc::adopt_orphans();
    let orphans = tokio::spawn(vik_proc::reap_orphans_forever());
    let (sessions, boot) = (home.host.layout.sessions_dir(), Timestamp::now());
    // The hub has started the attempts of an earlier worker again, as others.
    tokio::task::spawn_blocking(move || end_cut_off_logs(&sessions, boot, |_| false));
    let (client, _refreshing) = tokio::select! {
        client = engine.connect(&loaded.workflow, &home.host) => client?,
        _ = signals.stopped() => return Ok(()),
        _ = drain.recv() => return Ok(()),
    };
    let files = Watch::start(loaded.clone())
        .map_err(|error| Failure::failed(ErrorCode::Daemon, "cannot watch the workflow", &error))?;
    let (workflow, workflows) = watch::channel(Arc::new(WorkerWorkflow::new(loaded.clone())));
    let (stop, stopped) = watch::channel(StopLevel::Run);
    let capacity = usize::try_from(options.capacity.get()).unwrap_or(usize::MAX);
    let runner = Arc::new(SessionRunner::new(
        Arc::clone(&home.host),
        workflows.clone(),
        capacity,
        Requests::new(client.clone(), engine.queue.clone()),
        stopped,
    ));
    let lease_lost = runner.lease_lost();
    let failed = |error: &dyn std::error::Error| {
        Failure::failed(
            ErrorCode::Engine,
            "cannot take attempts of the Temporal server",
            error,
        )
    };
    let instance = WorkerInstance::of_this_process(options.host.clone(), &home.host.layout.service_dir())
        .map_err(|error| Failure::failed(ErrorCode::Home, "cannot read the folder of the worker", &error))?;
    let announcement = |presence| Announcement {
        worker: Worker {
            name: options.name.clone(),
            labels: options.labels.clone(),
            capacity: options.capacity,
            revision: Revision {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                workflow_digest: workflows.borrow().digest.clone(),
            },
            presence,
        },
        instance: instance.clone(),
        is_last: false,
    };
    let table = Workers::new(client.clone(), engine.queue.clone());
    let first = announcement(Presence::Available);
    let other = tokio::select! {
        other = table.take_name(&first) => other.map_err(|error| failed(&error))?,
        _ = signals.stopped() => return Ok(()),
        _ = drain.recv() => return Ok(()),
    };
    if let Some(other) = other {
        return Err(name_taken(&options.name, &other));
    }
    let requested_drain = Arc::new(Notify::new());
    let mut worker = WorkerHost::start(
        client,
        &engine.queue,
        &options.name,
        runner,
        Arc::new(WorkerResponder::new(
            Arc::clone(&home.host),
            workflows.clone(),
            Arc::clone(&requested_drain),
        )),
    )
    .map_err(|error| failed(&error))?;
    tracing::info!(worker = %options.name, capacity = options.capacity, "ready");
    (options.on_announced)(engine);
    let announcing = async {
        let mut edits = workflows.clone();
        loop {
            // The hub gives attempts only to workers with its workflow.
            let worker = announcement(Presence::Available);
            tokio::select! {
                failed = table.keep_announcing(&worker) => return failed,
                _ = edits.changed() => {}
                // Hubs may have taken it for lost, and the server has answered again.
                () = lease_lost.notified() => {}
            }
        }
    };
    let mut following = pin!(follow_edits(files, &home.host, &workflow));
    tokio::select! {
        never = &mut following => match never {},
        announced = announcing => announced.map_err(|error| failed(&error))?,
        other = table.name_taken(&options.name, &instance) => {
            return Err(name_taken(&options.name, &other.map_err(|error| failed(&error))?));
        }
        ended = worker.ended() => ended.map_err(|error| failed(&error))?,
        _ = drain.recv() => tracing::info!("draining"),
        () = requested_drain.notified() => tracing::info!("draining, as requested"),
        _ = signals.stopped() => drop(stop.send_replace(StopLevel::Stop)),
    }
    let mut announcement = announcement(Presence::Draining);
    let ended = tokio::select! {
        ended = worker.stop() => ended,
        never = raise_with_signals(&mut signals, &stop) => match never {},
        never = keep_announcing(&table, &announcement) => match never {},
        never = following => match never {},
    };
    announcement.is_last = true;
    // Without it, the name is free after a while.
    let _ = tokio::time::timeout(LAST_ANNOUNCEMENT, table.announce(&announcement)).await;
    orphans.abort();
    ended.map_err(|error| failed(&error))
}

fn name_taken(name: &WorkerName, other: &WorkerInstance) -> Failure {
    let WorkerInstance {
        host,
        pid,
        started_at,
        ..
    } = other;
    Failure::new(
        Exit::AlreadyRunning,
        ErrorCode::AlreadyRunning,
        format!("the worker `{name}` is already running on `{host}` (pid {pid}), since {started_at:.0}"),
    )
    .hint(format!(
        "give this one another `--name`, or stop the other one; if it was killed, its name is free after {} s",
        ANNOUNCE_TIMEOUT.as_secs()
    ))
}

/// Ends the attempts more urgently with each signal.
async fn raise_with_signals(signals: &mut Signals, level: &watch::Sender<StopLevel>) -> Infallible {
    loop {
        signals.stopped().await;
        level.send_modify(|level| {
            *level = match level {
                StopLevel::Run => StopLevel::Stop,
                StopLevel::Stop | StopLevel::Kill => StopLevel::Kill,
            }
        });
    }
}

/// Announces a worker that ends, whatever the server answers: hubs notice its end by themselves.
async fn keep_announcing(table: &Workers, announcement: &Announcement) -> Infallible {
    loop {
        if let Err(error) = table.keep_announcing(announcement).await {
            tracing::warn!(%error, "the worker cannot announce that it ends");
        }
        tokio::time::sleep(ANNOUNCE_INTERVAL).await;
    }
}
