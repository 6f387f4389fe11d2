//! OTLP traces: one trace for each run, with its attempts and their tool calls. The names follow
//! the GenAI conventions.
//!
//! The standard variables of OpenTelemetry configure the endpoint (`OTEL_EXPORTER_OTLP_ENDPOINT`,
//! …); without one of them nothing is sent. A separate thread reads the logs when an attempt or a
//! run has ended: the scheduler only puts a note into a bounded queue. No text of a prompt, a model
//! or a tool is sent.
//!
//! Conventions: <https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-agent-spans/>

mod spans;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, SpanExporter, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use reqwest::Url;
use vik_core::ids::{IssueId, RunId, StageName};
use vik_core::machine::RunEvent;
use vik_orchestrator::{Observer, Progress};
use vik_workspace::Layout;

/// The maximum number of queued notes. Further notes are dropped with a warning in the log.
const WAITING: usize = 1024;

/// How long notes are collected into one batch.
const GATHER: Duration = Duration::from_secs(1);

/// How long the last traces may delay the daemon's exit.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of spans in one request.
const BATCH: usize = 512;

/// An attempt or a run that has ended and can be read.
#[derive(Debug)]
enum Finished {
    /// An attempt, identified by its log.
    Attempt(PathBuf),
    Run(Run),
}

/// A run that has ended or is parked.
#[derive(Debug)]
struct Run {
    id: RunId,
    issue: IssueId,
    stage: StageName,
    /// `succeeded`, `ended`, or the reason why it is parked.
    state: String,
    succeeded: bool,
    at: Timestamp,
}

/// Sends traces until it is dropped.
#[derive(Debug)]
pub struct Traces {
    notes: SyncSender<Finished>,
    done: Receiver<()>,
}

impl Traces {
    /// Starts the sender. Returns `None` if the environment configures no endpoint.
    ///
    /// # Errors
    /// If the variables are invalid.
    pub fn start(layout: Layout, instance: String) -> Result<Option<Self>, String> {
        let Some(endpoint) = endpoint(|name| std::env::var(name).ok()) else {
            return Ok(None);
        };
        let url = Url::parse(&endpoint)
            .map_err(|error| format!("the endpoint for traces is not a valid address: {error}"))?;
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(vik_http::client(&url)?)
            .build()
            .map_err(|error| error.to_string())?;
        exporter.set_resource(&resource(instance));
        Self::with_exporter(exporter, layout)
            .map(Some)
            .map_err(|error| error.to_string())
    }

    fn with_exporter(exporter: SpanExporter, layout: Layout) -> io::Result<Self> {
        let (notes, receiver) = sync_channel(WAITING);
        let (end, done) = sync_channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("traces".to_owned())
            .spawn(move || {
                send(&layout, &receiver, |batch| {
                    if let Err(error) = runtime.block_on(exporter.export(batch)) {
                        tracing::warn!(%error, "cannot send traces: these are lost");
                    }
                });
                let _ = end.send(());
            })?;
        Ok(Self { notes, done })
    }

    pub fn observe(&self, next: Box<dyn Observer>) -> Box<dyn Observer> {
        Box::new(Watcher {
            notes: self.notes.clone(),
            next,
        })
    }

    /// Sends the queued traces, within `FLUSH_TIMEOUT`. All observers must have been dropped.
    pub fn shutdown(self) {
        drop(self.notes);
        if let Err(RecvTimeoutError::Timeout) = self.done.recv_timeout(FLUSH_TIMEOUT) {
            tracing::warn!("cannot send the last traces in time: they are lost");
        }
    }
}

/// Returns the configured endpoint for traces, if any.
fn endpoint(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name| variable(name).filter(|value| !value.trim().is_empty());
    let is = |name, expected: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(expected));
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return None;
    }
    set(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT).or_else(|| set(OTEL_EXPORTER_OTLP_ENDPOINT))
}

/// Returns the resource of the traces. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` take
/// precedence.
fn resource(instance: String) -> Resource {
    let ours = [
        KeyValue::new("service.name", "vik"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", instance),
    ];
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let own = ours.into_iter().skip(usize::from(named));
    Resource::builder().with_attributes(own).build()
}

/// Reads ended attempts and runs and exports their spans, until all senders are dropped.
fn send(layout: &Layout, notes: &Receiver<Finished>, mut export: impl FnMut(Vec<SpanData>)) {
    while let Ok(first) = notes.recv() {
        let mut spans = spans::spans_of(layout, first);
        let until = std::time::Instant::now() + GATHER;
        while spans.len() < BATCH
            && let Ok(more) = notes.recv_timeout(until.saturating_duration_since(std::time::Instant::now()))
        {
            spans.extend(spans::spans_of(layout, more));
        }
        while !spans.is_empty() {
            let remaining = spans.split_off(spans.len().min(BATCH));
            export(std::mem::replace(&mut spans, remaining));
        }
    }
}

/// Queues ended attempts and runs, then calls the next observer.
struct Watcher {
    notes: SyncSender<Finished>,
    next: Box<dyn Observer>,
}

impl Observer for Watcher {
    fn on_progress(&mut self, progress: &Progress<'_>) {
        if let Some(over) = finished(progress)
            && self.notes.try_send(over).is_err()
        {
            tracing::warn!("too many traces are waiting to be sent: one is lost");
        }
        self.next.on_progress(progress);
    }
}

fn finished(progress: &Progress<'_>) -> Option<Finished> {
    let (issue, note) = match progress {
        Progress::Ended(_, end) => return Some(Finished::Attempt(end.log.clone())),
        Progress::Note(issue, note) => (issue, note),
        _ => return None,
    };
    let (id, stage, state, succeeded) = match note {
        RunEvent::Ended {
            run,
            stage,
            succeeded,
            ..
        } => (
            run,
            stage,
            if *succeeded { "succeeded" } else { "ended" },
            *succeeded,
        ),
        RunEvent::Parked { run, stage, reason } => (run, stage, reason.as_str(), false),
        _ => return None,
    };
    Some(Finished::Run(Run {
        id: *id,
        issue: (*issue).clone(),
        stage: stage.clone(),
        state: state.to_owned(),
        succeeded,
        at: Timestamp::now(),
    }))
}
