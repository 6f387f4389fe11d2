//! `vik schedule`

use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use vik_api::{SCHEMA, ScheduleResult, ScheduleView, ScheduledView};
use vik_base::clock;
use vik_base::report::{ErrorCode, Failure, date_time, one_line, table, when};
use vik_daemon::schedule::{ScheduleState, Timing};
use vik_workflow::{LoadedWorkflow, WorkflowFile, absolute};

use super::{CliResult, history, print_result};

/// `vik schedule`
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Lists the entries of the schedule with their last results and next times.
pub fn run(workflow: &Path, args: &ScheduleArgs) -> CliResult {
    let loaded = WorkflowFile::valid(&absolute(workflow), super::warn)?;
    let service = history::root(workflow)?.join("service");
    let mut book = ScheduleState::read(&service).map_err(|error| {
        Failure::failed(
            ErrorCode::Schedule,
            "cannot read the state of the schedule",
            &error,
        )
    })?;
    if super::client::find(workflow).is_err() {
        book.end_running();
    }
    let view = view(&loaded, book, clock::now());
    print_result(args.json, &view, || text(&view, clock::now()))
}

fn view(loaded: &LoadedWorkflow, mut book: ScheduleState, now: Timestamp) -> ScheduleView {
    let entries = loaded.workflow.schedule.iter().map(|(name, entry)| {
        let record = book.entries.remove(name);
        let settled = record.as_ref().map_or(now, |record| record.settled.max(now));
        let timing = Timing::of(entry).ok();
        let (last, skipped) = record.map_or((None, None), |record| (record.last, record.skipped));
        ScheduledView {
            name: name.clone(),
            cron: entry.cron.clone(),
            time_zone: entry.time_zone.clone(),
            command: entry.job.is_some(),
            next_due: timing.and_then(|timing| timing.next(settled)),
            last,
            skipped,
        }
    });
    ScheduleView {
        schema: SCHEMA,
        entries: entries.collect(),
    }
}

fn text(view: &ScheduleView, now: Timestamp) -> String {
    if view.entries.is_empty() {
        return "the workflow has no schedule\n".to_owned();
    }
    let dash = || "-".to_owned();
    let rows: Vec<_> = view
        .entries
        .iter()
        .map(|entry| {
            let last = entry.last.as_ref();
            [
                entry.name.clone(),
                one_line(&entry.cron, 30),
                entry.time_zone.clone(),
                entry.next_due.map_or_else(dash, date_time),
                last.map_or_else(dash, |last| when(last.started_at, now)),
                last.map_or_else(dash, |last| result_name(last.result).to_owned()),
                detail(entry),
            ]
        })
        .collect();
    table(
        ["ENTRY", "CRON", "ZONE", "NEXT", "LAST", "RESULT", "DETAIL"],
        &rows,
    )
}

/// Returns why the entry failed, or why it was skipped since then.
fn detail(entry: &ScheduledView) -> String {
    let last = entry.last.as_ref();
    let newer = |due: &Timestamp| last.is_none_or(|last| *due > last.due_at);
    match &entry.skipped {
        Some(skipped) if newer(&skipped.due_at) => one_line(
            &format!("skipped {}: {}", date_time(skipped.due_at), skipped.why),
            80,
        ),
        _ => last
            .and_then(|last| last.detail.as_deref())
            .map_or_else(String::new, |detail| one_line(detail, 80)),
    }
}

fn result_name(result: ScheduleResult) -> &'static str {
    match result {
        ScheduleResult::Running => "running",
        ScheduleResult::Ok => "ok",
        ScheduleResult::Failed => "failed",
        ScheduleResult::TimedOut => "timed out",
        ScheduleResult::Stopped => "stopped",
    }
}
