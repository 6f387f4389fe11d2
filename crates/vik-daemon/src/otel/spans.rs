//! Builds spans from files on disk.

use std::borrow::Cow;
use std::io::BufReader;
use std::path::Path;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use sha2::{Digest, Sha256};
use vik_base::report::one_line;
use vik_core::ended::Ended;
use vik_core::event::{Event, LogLine, LoggedEvent};
use vik_core::ids::RunId;
use vik_core::outcome::{CostSource, Outcome, Usage};
use vik_store::{AttemptFiles, AttemptRecord, History, PastAttempt};
use vik_workspace::Layout;

use super::{Finished, Run};

/// The maximum number of tool calls per attempt: a trace is not a log.
const TOOL_CALLS: usize = 1_000;

/// The maximum length of a reason or name, in characters.
const MAX_TEXT_CHARS: usize = 300;

/// Returns the spans of an ended attempt or run. Unreadable records are logged and left out.
pub(super) fn spans_of(layout: &Layout, over: Finished) -> Vec<SpanData> {
    match over {
        Finished::Attempt(log) => attempt_by_log(&log),
        Finished::Run(run) => run_span(layout, &run).into_iter().collect(),
    }
}

fn attempt_by_log(log: &Path) -> Vec<SpanData> {
    let Some(past) = AttemptFiles::of(log).and_then(PastAttempt::read) else {
        tracing::warn!(log = %log.display(), "cannot trace an attempt: cannot read its record");
        return Vec::new();
    };
    let Some((ended, at)) = past.ended.as_ref().zip(past.ended_at) else {
        tracing::warn!(log = %log.display(), "cannot trace an attempt: its log has no end");
        return Vec::new();
    };
    let mut spans = vec![attempt(&past.record, ended, at)];
    match tools(&past.record, log, at) {
        Ok(tools) => spans.extend(tools),
        Err(error) => tracing::warn!(log = %log.display(), %error, "cannot trace tool calls"),
    }
    spans
}

/// The parts of a span other than its attributes.
struct SpanParts<'a> {
    run: RunId,
    /// The parts of its id. They make the id stable across daemons and repeated exports.
    id: &'a [&'a str],
    parent: SpanId,
    name: String,
    start: Timestamp,
    end: Timestamp,
    error: Option<String>,
}

fn span(parts: SpanParts<'_>, attributes: Vec<KeyValue>) -> SpanData {
    let trace = TraceId::from_bytes(*parts.run.0.as_bytes());
    SpanData {
        span_context: SpanContext::new(
            trace,
            id(parts.id),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        ),
        parent_span_id: parts.parent,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: Cow::Owned(parts.name),
        start_time: SystemTime::from(parts.start.min(parts.end)),
        end_time: SystemTime::from(parts.end),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: parts.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("vik")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

/// Returns an id that does not depend on the daemon that creates it.
fn id(parts: &[&str]) -> SpanId {
    let hash = Sha256::digest(parts.join("\n").as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[..8]);
    SpanId::from_bytes(bytes)
}

fn run_id(run: RunId) -> SpanId {
    id(&[&run.to_string()])
}

fn attempt(record: &AttemptRecord, ended: &Ended, at: Timestamp) -> SpanData {
    let result = &ended.result;
    let succeeded = matches!(result.outcome, Outcome::Succeeded | Outcome::Asked);
    let mut attributes = vec![
        KeyValue::new("gen_ai.operation.name", "invoke_agent"),
        KeyValue::new("gen_ai.provider.name", provider(record)),
        KeyValue::new("gen_ai.agent.name", record.agent.to_string()),
        KeyValue::new("vik.issue.id", one_line(record.issue_id.as_str(), MAX_TEXT_CHARS)),
        KeyValue::new("vik.run.id", record.run_id.to_string()),
        KeyValue::new("vik.session.id", record.session_id.to_string()),
        KeyValue::new("vik.stage", record.stage.to_string()),
        KeyValue::new("vik.attempt", i64::from(record.attempt)),
        KeyValue::new("vik.outcome", result.outcome.as_str()),
    ];
    attributes.extend(usage(&result.usage, ended.cost_usd));
    attributes.push(KeyValue::new("vik.cost_source", ended.cost_source.as_str()));
    if let Some(model) = &record.model {
        attributes.push(KeyValue::new("gen_ai.request.model", model.clone()));
    }
    if let Some(conversation) = &result.provider_session_id {
        attributes.push(KeyValue::new("gen_ai.conversation.id", conversation.clone()));
    }
    if !succeeded {
        let class = result
            .failure_class
            .map_or(result.outcome.as_str(), |class| class.as_str());
        attributes.push(KeyValue::new("error.type", class));
    }
    let took = SignedDuration::from_millis(i64::try_from(ended.duration_ms).unwrap_or(i64::MAX));
    let session = record.session_id.to_string();
    span(
        SpanParts {
            run: record.run_id,
            id: &[&session],
            parent: run_id(record.run_id),
            name: format!("invoke_agent {}", record.agent),
            start: at.saturating_sub(took).unwrap_or(record.started_at),
            end: at,
            // The reason may quote agent output: the class is sufficient.
            error: (!succeeded).then(|| result.outcome.as_str().to_owned()),
        },
        attributes,
    )
}

fn usage(usage: &Usage, cost_usd: Option<f64>) -> Vec<KeyValue> {
    let tokens = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let mut attributes = vec![
        KeyValue::new("gen_ai.usage.input_tokens", tokens(usage.input_tokens)),
        KeyValue::new("gen_ai.usage.output_tokens", tokens(usage.output_tokens)),
        KeyValue::new(
            "gen_ai.usage.cache_read.input_tokens",
            tokens(usage.cached_input_tokens),
        ),
        KeyValue::new(
            "gen_ai.usage.cache_creation.input_tokens",
            tokens(usage.cache_write_input_tokens),
        ),
    ];
    attributes.extend(cost_usd.map(|cost| KeyValue::new("vik.cost_usd", cost)));
    attributes
}

/// Returns the provider's name in the conventions, or Vik's own name if they define none.
fn provider(record: &AttemptRecord) -> String {
    match record.runtime.as_str() {
        "codex" => "openai".to_owned(),
        "claude_code" => "anthropic".to_owned(),
        runtime => {
            let profile = record.kept.as_ref().map(|kept| &kept.profile);
            profile
                .and_then(|profile| profile.provider.clone())
                .unwrap_or_else(|| runtime.to_owned())
        }
    }
}

/// A call without a result so far.
struct OpenCall {
    call: String,
    tool: String,
    at: Timestamp,
}

fn tools(record: &AttemptRecord, log: &Path, end: Timestamp) -> std::io::Result<Vec<SpanData>> {
    let session = record.session_id.to_string();
    let mut spans = Vec::new();
    let mut open: Vec<OpenCall> = Vec::new();
    let mut close = |call: OpenCall, at: Timestamp, error: Option<&str>| {
        let number = spans.len().to_string();
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", call.tool.clone()),
            KeyValue::new("gen_ai.tool.call.id", call.call),
        ];
        attributes.extend(error.map(|error| KeyValue::new("error.type", error.to_owned())));
        spans.push(span(
            SpanParts {
                run: record.run_id,
                id: &[&session, &number],
                parent: id(&[&session]),
                name: format!("execute_tool {}", call.tool),
                start: call.at,
                end: at,
                error: error.map(str::to_owned),
            },
            attributes,
        ));
    };
    let mut reader = BufReader::new(vik_workspace::fs::open(log)?);
    let mut bytes = Vec::new();
    let mut calls = 0;
    while vik_store::read_line(&mut reader, vik_store::LONGEST_EVENT, &mut bytes)?.bytes > 0 {
        let Ok(LogLine {
            at: Some(at),
            event: LoggedEvent::Known(event),
            ..
        }) = serde_json::from_slice(&bytes)
        else {
            continue;
        };
        match event {
            Event::ToolCall { call_id, tool, .. } if calls < TOOL_CALLS => {
                calls += 1;
                open.push(OpenCall {
                    call: one_line(&call_id, MAX_TEXT_CHARS),
                    tool: one_line(&tool, MAX_TEXT_CHARS),
                    at,
                });
            }
            Event::ToolResult {
                call_id, is_error, ..
            } => {
                let call = one_line(&call_id, MAX_TEXT_CHARS);
                if let Some(started) = open.iter().position(|open| open.call == call) {
                    close(open.remove(started), at, is_error.then_some("tool_error"));
                }
            }
            // Events that are not part of a tool call have no span.
            _ => {}
        }
    }
    for call in open {
        close(call, end, Some("no_result"));
    }
    Ok(spans)
}

/// Returns the root span of a trace, for a run that has ended or waits for a person.
fn run_span(layout: &Layout, run: &Run) -> Option<SpanData> {
    let past = match History::of_issue(&layout.issue_sessions_dir(&run.issue)) {
        Ok(past) => past,
        Err(error) => {
            tracing::warn!(%error, "cannot trace a run: cannot read its attempts");
            return None;
        }
    };
    let attempts: Vec<_> = past
        .attempts
        .iter()
        .filter(|attempt| attempt.record.run_id == run.id)
        .collect();
    // A run without attempts has no span.
    let start = attempts.iter().map(|attempt| attempt.record.started_at).min()?;
    let ended = || attempts.iter().filter_map(|attempt| attempt.ended.as_ref());
    let tokens = ended().fold(Usage::default(), |sum, ended| sum.plus(ended.result.usage));
    let cost = ended().filter_map(|ended| ended.cost_usd).reduce(|a, b| a + b);
    let estimated = ended()
        .filter(|ended| ended.cost_source == CostSource::Estimate)
        .filter_map(|ended| ended.cost_usd)
        .reduce(|a, b| a + b);
    let mut attributes = vec![
        KeyValue::new("vik.issue.id", one_line(run.issue.as_str(), MAX_TEXT_CHARS)),
        KeyValue::new("vik.run.id", run.id.to_string()),
        KeyValue::new("vik.stage", run.stage.to_string()),
        KeyValue::new("vik.run.state", run.state.clone()),
        KeyValue::new("vik.attempts", i64::try_from(attempts.len()).unwrap_or(i64::MAX)),
    ];
    // These have separate names, so that a sum over the usage of all spans counts nothing twice.
    let tokens = i64::try_from(tokens.total()).unwrap_or(i64::MAX);
    attributes.push(KeyValue::new("vik.run.tokens", tokens));
    attributes.extend(cost.map(|cost| KeyValue::new("vik.run.cost_usd", cost)));
    attributes.extend(estimated.map(|cost| KeyValue::new("vik.run.estimated_cost_usd", cost)));
    if !run.succeeded {
        attributes.push(KeyValue::new("error.type", run.state.clone()));
    }
    Some(span(
        SpanParts {
            run: run.id,
            id: &[&run.id.to_string()],
            parent: SpanId::INVALID,
            name: format!("run {}", run.stage),
            start,
            end: run.at,
            error: (!run.succeeded).then(|| run.state.clone()),
        },
        attributes,
    ))
}
