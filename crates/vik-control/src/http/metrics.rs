//! Metrics for Prometheus. Names and labels are stable: docs/usage/observe.md lists them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder,
};
use vik_api::{DaemonState, Status};
use vik_core::outcome::CostSource;
use vik_orchestrator::Progress;

/// The media type of the text format.
pub const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the buckets for the duration of attempts, in seconds.
const DURATIONS: [f64; 11] = [
    1.0, 10.0, 30.0, 60.0, 180.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0,
];

/// Counters since the start of the daemon; cheap to clone. Values of the daemon's status are read
/// from it at each scrape.
#[derive(Clone, Debug)]
pub struct Metrics {
    pulls: IntCounterVec,
    attempts: IntCounterVec,
    durations: HistogramVec,
    tokens: IntCounterVec,
    cost: prometheus::CounterVec,
    estimated: prometheus::CounterVec,
    parked: IntCounterVec,
    hooks: IntCounterVec,
    /// In milliseconds since 1970.
    last_good_pull: Arc<AtomicI64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            pulls: counter("vik_pulls_total", "Number of pulls of the tracker.", &["result"]),
            attempts: counter(
                "vik_attempts_total",
                "Number of ended attempts.",
                &["stage", "agent", "outcome"],
            ),
            durations: valid(HistogramVec::new(
                HistogramOpts::new(
                    "vik_attempt_duration_seconds",
                    "Duration of attempts, until their processes have ended.",
                )
                .buckets(DURATIONS.to_vec()),
                &["stage"],
            )),
            tokens: counter(
                "vik_tokens_total",
                "Tokens that agents reported for ended attempts; input includes cached input.",
                &["agent", "kind"],
            ),
            cost: valid(prometheus::CounterVec::new(
                Opts::new(
                    "vik_cost_usd_total",
                    "Cost of attempts in US dollars, as far as known.",
                ),
                &["agent"],
            )),
            estimated: valid(prometheus::CounterVec::new(
                Opts::new(
                    "vik_estimated_cost_usd_total",
                    "Estimated part of vik_cost_usd_total.",
                ),
                &["agent"],
            )),
            parked: counter(
                "vik_parked_total",
                "Number of times that a stage of an issue was parked.",
                &["stage", "reason"],
            ),
            hooks: counter(
                "vik_hook_deliveries_total",
                "Number of calls of the webhooks in the workflow.",
                &["hook", "result"],
            ),
            last_good_pull: Arc::new(AtomicI64::new(i64::MIN)),
        }
    }
}

impl Metrics {
    /// Counts a call of a webhook.
    pub fn hook(&self, name: &str, result: &str) {
        self.hooks.with_label_values(&[name, result]).inc();
    }

    /// Counts a progress event.
    pub fn count(&self, progress: &Progress<'_>) {
        match progress {
            Progress::Pulled { .. } => {
                self.pulls.with_label_values(&["ok"]).inc();
                self.last_good_pull
                    .store(Timestamp::now().as_millisecond(), Ordering::Relaxed);
            }
            Progress::PullFailed { .. } => self.pulls.with_label_values(&["failed"]).inc(),
            Progress::Ended(start, end) => {
                let (stage, agent) = (start.stage.name.as_str(), start.stage.agent.as_str());
                let ended = &end.ended;
                self.attempts
                    .with_label_values(&[stage, agent, ended.result.outcome.as_str()])
                    .inc();
                #[expect(clippy::cast_precision_loss, reason = "milliseconds of an attempt")]
                let seconds = ended.duration_ms as f64 / 1000.0;
                self.durations.with_label_values(&[stage]).observe(seconds);
                let usage = &ended.result.usage;
                for (kind, tokens) in [
                    ("input", usage.input_tokens),
                    ("cached_input", usage.cached_input_tokens),
                    ("output", usage.output_tokens),
                ] {
                    self.tokens.with_label_values(&[agent, kind]).inc_by(tokens);
                }
                if let Some(cost) = ended.cost_usd.filter(|cost| cost.is_finite() && *cost > 0.0) {
                    self.cost.with_label_values(&[agent]).inc_by(cost);
                    let is_estimate = ended.cost_source == CostSource::Estimate;
                    let estimated = if is_estimate { cost } else { 0.0 };
                    self.estimated.with_label_values(&[agent]).inc_by(estimated);
                }
            }
            Progress::Note(_, vik_core::machine::RunEvent::Parked { stage, reason, .. }) => {
                self.parked
                    .with_label_values(&[stage.as_str(), reason.as_str()])
                    .inc();
            }
            _ => {}
        }
    }

    /// Returns when the last successful pull ended.
    pub fn last_good_pull(&self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.last_good_pull.load(Ordering::Relaxed)).ok()
    }

    /// Returns all metrics in the text format.
    ///
    /// # Errors
    /// When a metric cannot be encoded.
    pub fn text(&self, status: &Status, readers: usize) -> prometheus::Result<Vec<u8>> {
        let registry = Registry::new();
        self.register(&registry)?;
        state(&registry, status)?;
        gauge(
            &registry,
            "vik_last_good_pull_timestamp_seconds",
            "Time at which the last successful pull ended; 0 before the first.",
            self.last_good_pull().map_or(0.0, seconds),
        )?;
        gauge(
            &registry,
            "vik_feed_readers",
            "Number of clients of the event feed.",
            count(readers),
        )?;
        let mut text = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut text)?;
        Ok(text)
    }

    fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        let all: [Box<dyn Collector>; 8] = [
            Box::new(self.pulls.clone()),
            Box::new(self.attempts.clone()),
            Box::new(self.durations.clone()),
            Box::new(self.tokens.clone()),
            Box::new(self.cost.clone()),
            Box::new(self.estimated.clone()),
            Box::new(self.parked.clone()),
            Box::new(self.hooks.clone()),
        ];
        all.into_iter().try_for_each(|metric| registry.register(metric))
    }
}

/// Registers the values of the daemon's status.
fn state(registry: &Registry, status: &Status) -> prometheus::Result<()> {
    let daemon = &status.daemon;
    labelled(
        registry,
        "vik_info",
        "Always 1; the labels contain the version of Vik.",
        &["version"],
        [(vec![daemon.version.clone().unwrap_or_default()], 1.0)],
    )?;
    gauge(
        registry,
        "vik_start_time_seconds",
        "Time at which the daemon started.",
        daemon.started_at.map_or(0.0, seconds),
    )?;
    gauge(
        registry,
        "vik_accepting",
        "1 while the daemon starts attempts, 0 while it is paused, draining or stopping.",
        flag(daemon.state == DaemonState::Running && !status.paused),
    )?;
    gauge(
        registry,
        "vik_workflow_valid",
        "0 while the latest edit of the workflow is not valid, so that the previous version stays active.",
        flag(
            status
                .workflow
                .as_ref()
                .is_none_or(|workflow| workflow.rejected.is_none()),
        ),
    )?;
    gauge(
        registry,
        "vik_ledger_writable",
        "0 if the ledger is no longer writable.",
        flag(status.ledger.as_ref().is_none_or(|ledger| ledger.error.is_none())),
    )?;
    let count_by = |keys: Vec<Vec<String>>| {
        let mut counts: std::collections::BTreeMap<Vec<String>, f64> = std::collections::BTreeMap::new();
        for key in keys {
            *counts.entry(key).or_default() += 1.0;
        }
        counts
    };
    let sessions = status.sessions.iter();
    labelled(
        registry,
        "vik_sessions",
        "Number of running attempts.",
        &["stage", "agent"],
        count_by(
            sessions
                .map(|session| vec![session.stage.to_string(), session.agent.to_string()])
                .collect(),
        ),
    )?;
    let workers = status.workers.iter();
    labelled(
        registry,
        "vik_worker_sessions",
        "Number of running attempts on a worker; absent if attempts run on the machine of the daemon.",
        &["worker"],
        workers.map(|worker| (vec![worker.name.to_string()], f64::from(worker.running))),
    )?;
    let parked = status.parked.iter();
    labelled(
        registry,
        "vik_parked",
        "Number of parked stages.",
        &["stage", "reason"],
        count_by(
            parked
                .map(|parked| vec![parked.stage.to_string(), parked.reason.clone()])
                .collect(),
        ),
    )?;
    gauge(
        registry,
        "vik_waiting",
        "Number of stages that will start later.",
        count(status.waiting.len() + status.waiting_more),
    )?;
    gauge(
        registry,
        "vik_taken_over",
        "Number of issues that people have taken over.",
        count(status.taken_over.len()),
    )?;
    if let Some(day) = &status.day {
        gauge(
            registry,
            "vik_day_spent_usd",
            "Cost of today (UTC) in US dollars.",
            day.spent.cost_usd,
        )?;
        gauge(
            registry,
            "vik_day_estimated_usd",
            "Estimated part of vik_day_spent_usd.",
            day.spent.estimated_usd,
        )?;
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        let tokens = day.spent.tokens as f64;
        gauge(
            registry,
            "vik_day_spent_tokens",
            "Tokens used today (UTC).",
            tokens,
        )?;
        if let Some(limit) = day.limit.usd {
            gauge(
                registry,
                "vik_day_limit_usd",
                "Cost limit of today in US dollars; absent without a limit.",
                limit,
            )?;
        }
    }
    Ok(())
}

/// Converts a time to seconds since 1970.
fn seconds(at: Timestamp) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit")]
    let millis = at.as_millisecond() as f64;
    millis / 1000.0
}

fn flag(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn count(n: usize) -> f64 {
    n as f64
}

fn gauge(registry: &Registry, name: &str, help: &str, value: f64) -> prometheus::Result<()> {
    let gauge = Gauge::new(name, help)?;
    gauge.set(value);
    registry.register(Box::new(gauge))
}

fn labelled(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
    values: impl IntoIterator<Item = (Vec<String>, f64)>,
) -> prometheus::Result<()> {
    let gauge = GaugeVec::new(Opts::new(name, help), labels)?;
    for (key, value) in values {
        let key: Vec<_> = key.iter().map(String::as_str).collect();
        gauge.with_label_values(&key).set(value);
    }
    registry.register(Box::new(gauge))
}

fn counter(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    valid(IntCounterVec::new(Opts::new(name, help), labels))
}

/// Unwraps a metric. Names and labels are constants, and a test creates all metrics, so all are
/// valid.
#[expect(
    clippy::panic,
    reason = "a name in the code is wrong: a test would have shown it"
)]
fn valid<T>(metric: prometheus::Result<T>) -> T {
    match metric {
        Ok(metric) => metric,
        Err(error) => panic!("a metric of the code is not valid: {error}"),
    }
}
