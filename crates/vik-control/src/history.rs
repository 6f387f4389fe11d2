//! The history of runs: joins the ledger, the records of attempts and the daemon's status.

use std::collections::{HashMap, HashSet};

use vik_api::{AttemptView, Explanation, IssueDetails, OutputView, RunState, RunView, SpendView, Status};
use vik_base::report;
use vik_core::attempt::AttemptResult;
use vik_core::changes::EndedAttempt;
use vik_core::ids::{AttemptId, IssueId, RunId, StageName};
use vik_core::issue::Issue;
use vik_core::limits::estimated;
use vik_core::outcome::{CostSource, Outcome};
use vik_core::outputs::{OutputNote, Progress};
use vik_store::ledger::{LedgerError, Reader, RunFilter, StoredAttempt, StoredRun};
use vik_store::{AttemptFiles, History, PastAttempt, StoreError};
use vik_workspace::Layout;
use vik_workspace::fs as private;

/// The name of the last step of a hand-over.
const AFTER_RUN: &str = "after_run";

/// The ledger's records of attempts and runs.
#[derive(Debug, Default)]
pub struct StoredHistory {
    attempts: HashMap<AttemptId, StoredAttempt>,
    runs: HashMap<RunId, StoredRun>,
    /// The ledger is that of a hub.
    is_of_hub: bool,
    /// The outputs of each run that a hub carried out for workers.
    outputs: HashMap<RunId, Vec<OutputNote>>,
}

impl StoredHistory {
    /// Reads the records of one issue.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn of_issue(ledger: &Reader, issue: &IssueId) -> Result<Self, LedgerError> {
        Self::of(
            ledger.attempts(Some(issue), u32::MAX)?,
            ledger.runs(&RunFilter::of_issue(issue), usize::MAX)?,
            ledger,
        )
    }

    fn of(attempts: Vec<StoredAttempt>, runs: Vec<StoredRun>, ledger: &Reader) -> Result<Self, LedgerError> {
        let is_of_hub = ledger.is_copy()?;
        let mut outputs = HashMap::new();
        for run in runs.iter().filter(|_| is_of_hub) {
            outputs.insert(run.id, ledger.output_notes(run.id)?);
        }
        let attempts = attempts.into_iter();
        Ok(Self {
            is_of_hub,
            outputs,
            attempts: attempts
                .map(|attempt| (attempt.started.attempt_id, attempt))
                .collect(),
            runs: runs.into_iter().map(|run| (run.id, run)).collect(),
        })
    }

    /// Returns the outputs that a hub carried out for an attempt of a worker.
    fn outputs_of(&self, stored: &StoredAttempt) -> Vec<OutputView> {
        let notes = self.outputs.get(&stored.started.run).cloned();
        outputs_of(notes.unwrap_or_default(), stored.started.attempt_id)
    }
}

/// Returns the runs that a filter selects, latest first, and whether there are more than `max`. A run
/// whose attempts were removed from the ledger, because of their age, has no attempts.
///
/// # Errors
/// If the ledger cannot be read.
pub fn selected(
    layout: &Layout,
    ledger: &Reader,
    status: Option<&Status>,
    filter: &RunFilter,
    max: usize,
) -> Result<(Vec<RunView>, bool), LedgerError> {
    let mut runs = ledger.runs(filter, max.saturating_add(1))?;
    let more = runs.len() > max;
    runs.truncate(max);
    let mut stored = Vec::new();
    for run in &runs {
        stored.extend(ledger.attempts_of_run(run.id)?);
    }
    let past: Vec<_> = stored
        .iter()
        .filter_map(|attempt| PastAttempt::read(files(layout, attempt)))
        .collect();
    let order: HashMap<_, _> = runs
        .iter()
        .enumerate()
        .map(|(place, run)| (run.id.to_string(), place))
        .collect();
    let with_attempts: HashSet<_> = stored.iter().map(|attempt| attempt.started.run).collect();
    let bare: Vec<_> = runs
        .iter()
        .filter(|run| !with_attempts.contains(&run.id))
        .map(|run| bare_run(run, status))
        .collect();
    let books = StoredHistory::of(stored, runs, ledger)?;
    let mut views = join(layout, &past, &books, status);
    views.extend(bare);
    views.sort_by_key(|view| order.get(&view.run_id).copied());
    Ok((views, more))
}

/// Returns a run without attempts.
fn bare_run(run: &StoredRun, status: Option<&Status>) -> RunView {
    let mut view = empty_run(run.id, &run.issue, &run.stage);
    view.issue_title.clone_from(&run.title);
    view.state = state(&view, Some(&run.phase), status);
    view
}

fn empty_run(id: RunId, issue: &IssueId, stage: &StageName) -> RunView {
    RunView {
        run_id: id.to_string(),
        issue_id: issue.clone(),
        issue_title: String::new(),
        stage: stage.clone(),
        state: RunState::Ended,
        outcome: None,
        attempts: Vec::new(),
    }
}

/// Returns the runs of one issue, oldest first.
///
/// # Errors
/// If the files or the ledger cannot be read.
pub fn of_issue(
    layout: &Layout,
    ledger: Option<&Reader>,
    status: Option<&Status>,
    issue: &IssueId,
) -> Result<Vec<RunView>, HistoryError> {
    let past = History::of_issue(&layout.issue_sessions_dir(issue))?;
    let books = match ledger {
        Some(ledger) => StoredHistory::of_issue(ledger, issue)?,
        None => StoredHistory::default(),
    };
    Ok(join(layout, &past.attempts, &books, status))
}

/// Returns the title that an issue last had: the current one, or the one in the ledger. It is empty
/// if neither is known.
///
/// # Errors
/// If the ledger cannot be read.
pub fn issue_title(
    now: Option<&Explanation>,
    ledger: Option<&Reader>,
    issue: &IssueId,
) -> Result<String, LedgerError> {
    if let Some(now) = now {
        return Ok(now.issue_title.clone());
    }
    let runs = ledger.map_or(Ok(Vec::new()), |ledger| {
        ledger.runs(&RunFilter::of_issue(issue), 1)
    })?;
    Ok(runs.into_iter().next().map(|run| run.title).unwrap_or_default())
}

/// The maximum size of the description of an issue, in bytes.
const MAX_DESCRIPTION: usize = 64 * 1024;

/// Returns the text of an issue: of the one in use, or as the ledger last had it. `None` if neither
/// is known.
///
/// # Errors
/// If the ledger cannot be read.
pub fn issue_details(
    in_use: Option<&Issue>,
    ledger: Option<&Reader>,
    issue: &IssueId,
) -> Result<Option<IssueDetails>, LedgerError> {
    if let Some(issue) = in_use {
        return Ok(Some(details(issue)));
    }
    let machines = ledger.map_or(Ok(Vec::new()), |ledger| {
        ledger.recall(std::slice::from_ref(issue))
    })?;
    Ok(machines.first().map(|machine| details(machine.issue())))
}

fn details(issue: &Issue) -> IssueDetails {
    let mut description = issue.description();
    let size = description.len();
    description.truncate(description.floor_char_boundary(MAX_DESCRIPTION));
    IssueDetails {
        is_cut: description.len() < size,
        description,
        author: issue.origin().author.as_deref().map(str::to_owned),
        created_at: issue.created_at,
    }
}

/// Returns one attempt and its view, or `None` if its files are missing.
pub fn attempt(
    files: AttemptFiles,
    stored: StoredAttempt,
    status: Option<&Status>,
) -> Option<(PastAttempt, AttemptView)> {
    let past = PastAttempt::read(files)?;
    let books = StoredHistory {
        attempts: HashMap::from([(stored.started.attempt_id, stored)]),
        ..StoredHistory::default()
    };
    let view = view(&past, &books, status);
    Some((past, view))
}

/// Returns the view of an attempt of which only the files are known.
pub fn view_of_files(past: &PastAttempt) -> AttemptView {
    view(past, &StoredHistory::default(), None)
}

/// Returns the view of an attempt on a worker: from the ledger, with the outputs that a hub carried
/// out for it, completed by what only its files contain.
pub fn view_of_remote(
    layout: &Layout,
    stored: &StoredAttempt,
    notes: Vec<OutputNote>,
    status: &Status,
    files: AttemptView,
) -> AttemptView {
    AttemptView {
        hooks_run_twice: files.hooks_run_twice,
        outputs: outputs_of(notes, stored.started.attempt_id),
        skills: files.skills,
        log: files.log,
        ..ledger_view(layout, stored, Some(status))
    }
}

/// Returns the paths of an attempt's files.
pub fn files(layout: &Layout, attempt: &StoredAttempt) -> AttemptFiles {
    let started = &attempt.started;
    AttemptFiles::new(
        &layout.issue_sessions_dir(&started.issue),
        &started.stage,
        started.attempt_id,
    )
}

/// The errors of reading the history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The files cannot be read.
    #[error(transparent)]
    Files(#[from] StoreError),
}

/// Groups attempts by run, in the order in which the runs first occur. Attempts without files on this
/// machine are shown as the ledger has them.
pub fn join(
    layout: &Layout,
    past: &[PastAttempt],
    books: &StoredHistory,
    status: Option<&Status>,
) -> Vec<RunView> {
    let with_files: HashSet<_> = past.iter().map(|attempt| attempt.record.session_id).collect();
    let mut runs: Vec<RunView> = Vec::new();
    let mut run_indexes: HashMap<RunId, usize> = HashMap::new();
    let mut add =
        |id: RunId, issue: &IssueId, stage: &StageName, title: Option<&str>, attempt: AttemptView| {
            let index = *run_indexes.entry(id).or_insert_with(|| {
                runs.push(empty_run(id, issue, stage));
                runs.len() - 1
            });
            if let Some(title) = title {
                title.clone_into(&mut runs[index].issue_title);
            }
            runs[index].attempts.push(attempt);
        };
    let is_without_files = |stored: &&StoredAttempt| {
        // On one machine, an attempt without files and without an end was never started.
        let has_started = books.is_of_hub || stored.ended.is_some();
        has_started && !with_files.contains(&stored.started.attempt_id)
    };
    let mut without_files: Vec<_> = books.attempts.values().filter(is_without_files).collect();
    without_files.sort_by_key(|stored| (stored.started.at, stored.started.attempt_id));
    for stored in without_files {
        let (started, run) = (&stored.started, books.runs.get(&stored.started.run));
        let mut view = ledger_view(layout, stored, status);
        view.hand_over_failure = run.and_then(|run| stored_failure(stored, run));
        view.outputs = books.outputs_of(stored);
        let title = run.map(|run| run.title.as_str());
        add(started.run, &started.issue, &started.stage, title, view);
    }
    for attempt in past {
        let record = &attempt.record;
        let view = view(attempt, books, status);
        add(
            record.run_id,
            &record.issue_id,
            &record.stage,
            Some(&record.issue_title),
            view,
        );
    }
    for (id, index) in run_indexes {
        let run = &mut runs[index];
        run.outcome = run.attempts.last().and_then(|attempt| attempt.outcome);
        run.state = state(run, books.runs.get(&id).map(|run| run.phase.as_str()), status);
    }
    runs
}

/// Returns the view of an attempt whose files are not on this machine: they were removed, or a worker
/// has them. It has no outputs.
fn ledger_view(layout: &Layout, stored: &StoredAttempt, status: Option<&Status>) -> AttemptView {
    let started = &stored.started;
    let id = started.attempt_id.to_string();
    let ended = stored.ended.as_ref();
    let live = status.and_then(|status| status.sessions.iter().find(|session| session.session_id == id));
    let live = live.filter(|_| ended.is_none());
    let report = ended.map(|ended| &ended.report);
    let log = report.and_then(|report| report.log.as_deref());
    let path = log.and_then(|log| log.file.as_ref()).map(|file| &file.path);
    let took = ended.map(|ended| ended.at.duration_since(started.at).as_millis());
    // Of an attempt from before there were workers.
    let own_path = files(layout, stored).log();
    AttemptView {
        hand_over_failure: None,
        attempt: started.attempt,
        session_id: id,
        turn: report
            .and_then(|report| turn_number(report.turn))
            .or(live.and_then(|live| live.turn).map(|turn| turn.number)),
        outcome: report.map(|report| report.outcome),
        failure_class: report.and_then(|report| report.failure_class),
        reason: report.and_then(|report| report.reason.clone()),
        exit_code: report.and_then(|report| report.exit_code),
        started_at: started.at,
        ended_at: ended.map(|ended| ended.at),
        duration_ms: took.and_then(|millis| u64::try_from(millis).ok()),
        usage: report
            .map(|report| report.usage)
            .or(live.map(|live| live.usage))
            .unwrap_or_default(),
        cost_usd: ended
            .filter(|ended| ended.source != CostSource::None)
            .map(|ended| ended.charged.usd.usd()),
        cost_source: ended.map(|ended| ended.source).unwrap_or_default(),
        charged: ended.map(charged),
        resumed_from: resumed_from(stored),
        proof: report.and_then(|report| report.proof.clone()),
        hooks_run_twice: Vec::new(),
        outputs: Vec::new(),
        skills: Vec::new(),
        files_removed: ended.is_some() && log.is_none() && !own_path.exists(),
        log: path.cloned().unwrap_or(own_path),
    }
}

/// Returns the number of a turn; `None` in a stage without `turns`.
fn turn_number(turn: u32) -> Option<u32> {
    (turn > 0).then_some(turn)
}

/// Returns the charge of an attempt.
fn charged(ended: &EndedAttempt) -> SpendView {
    let estimated = estimated(ended.report.spend, ended.charged, ended.source);
    SpendView::of(ended.charged, estimated)
}

/// Returns the attempt whose conversation was resumed. One that could not resume it started a new
/// conversation.
fn resumed_from(stored: &StoredAttempt) -> Option<String> {
    let ended = stored.ended.as_ref();
    let resumed = stored.started.resumed_from?;
    (!ended.is_some_and(|ended| ended.report.resume_failed)).then(|| resumed.to_string())
}

fn view(attempt: &PastAttempt, books: &StoredHistory, status: Option<&Status>) -> AttemptView {
    let (record, ended) = (&attempt.record, attempt.ended.as_ref());
    let id = record.session_id.to_string();
    let live = status.and_then(|status| status.sessions.iter().find(|session| session.session_id == id));
    let stored = books.attempts.get(&record.session_id);
    let stored_end = stored.and_then(|stored| stored.ended.as_ref());
    // An attempt without an end that no daemon knows was interrupted: its daemon died. It can be
    // recovered while its shim lives or its result waits for a person.
    let lost = ended.is_none()
        && stored_end.is_none()
        && live.is_none()
        && !has_shim(attempt)
        && !vik_store::is_awaiting_result_approval(&attempt.files.journal());
    // A full disk can prevent the end from being logged.
    let stored_result = stored_end.map(|stored_end| &stored_end.report);
    let result = ended.map(|ended| &ended.result).or(stored_result);
    let outputs = outputs(attempt);
    AttemptView {
        hand_over_failure: stored_result.and_then(|result| hand_over_failure(attempt, result, &outputs)),
        attempt: record.attempt,
        session_id: id,
        turn: turn_number(stored_result.map_or(0, |result| result.turn))
            .or(live.and_then(|live| live.turn).map(|turn| turn.number)),
        outcome: result
            .map(|result| result.outcome)
            .or(lost.then_some(Outcome::Lost)),
        failure_class: result.and_then(|result| result.failure_class),
        reason: result.and_then(|result| result.reason.clone()),
        exit_code: result.and_then(|result| result.exit_code),
        started_at: record.started_at,
        ended_at: attempt.ended_at.or(stored_end.map(|stored_end| stored_end.at)),
        duration_ms: ended.map(|ended| ended.duration_ms),
        usage: result
            .map(|result| result.usage)
            .or(live.map(|live| live.usage))
            .unwrap_or_default(),
        cost_usd: ended.map_or_else(
            || {
                let stored_end = stored_end.filter(|stored_end| stored_end.source != CostSource::None);
                stored_end.map(|stored_end| stored_end.charged.usd.usd())
            },
            |ended| ended.cost_usd,
        ),
        cost_source: ended
            .map(|ended| ended.cost_source)
            .or(stored_end.map(|stored_end| stored_end.source))
            .unwrap_or_default(),
        charged: stored_end.map(charged),
        resumed_from: stored.and_then(resumed_from),
        proof: ended
            .and_then(|ended| ended.result.proof.clone())
            .or_else(|| stored_result.and_then(|result| result.proof.clone())),
        hooks_run_twice: vik_store::commands_run_twice(&attempt.files.journal()),
        outputs,
        skills: private::read_json(&attempt.files.skills()).unwrap_or_default(),
        log: attempt.files.log(),
        files_removed: false,
    }
}

/// Returns why the work of an attempt is not handed over. The ledger has the failure of the attempt
/// itself; the journal and the book of outputs show whether it was repeated since.
fn hand_over_failure(
    attempt: &PastAttempt,
    result: &AttemptResult,
    outputs: &[OutputView],
) -> Option<String> {
    let failure = result
        .hand_over_failure
        .as_ref()
        .filter(|_| result.outcome == Outcome::Succeeded)?;
    let left = |output: &&OutputView| output.progress != Progress::Applied.as_str();
    if let Some(output) = outputs.iter().find(left) {
        let detail = output.detail.as_deref().unwrap_or(&failure.reason);
        return Some(format!("the output `{}`: {detail}", output.kind));
    }
    let failed = vik_store::script_failure(&attempt.files.journal(), AFTER_RUN);
    let is_output = failure.step != AFTER_RUN && !outputs.is_empty();
    match failed {
        Some(failed) => Some(failed.reason),
        None => (failure.step != AFTER_RUN && !is_output).then(|| failure.to_string()),
    }
}

/// Returns why the work of an attempt is not handed over, as far as the ledger has it.
fn stored_failure(stored: &StoredAttempt, run: &StoredRun) -> Option<String> {
    let result = &stored.ended.as_ref()?.report;
    let is_left = matches!(run.phase.as_str(), "handing_over" | "parked");
    let is_left = is_left && result.outcome == Outcome::Succeeded;
    let failure = result.hand_over_failure.as_ref().filter(|_| is_left)?;
    Some(failure.to_string())
}

/// Returns the outputs that the attempt requested, in the order in which they were started.
fn outputs(attempt: &PastAttempt) -> Vec<OutputView> {
    let record = &attempt.record;
    let notes = vik_store::output_notes(&attempt.files.output_book(record.run_id));
    outputs_of(notes, record.session_id)
}

fn outputs_of(notes: Vec<OutputNote>, attempt_id: AttemptId) -> Vec<OutputView> {
    let mut views: Vec<OutputView> = Vec::new();
    for note in notes.into_iter().filter(|note| note.attempt_id == attempt_id) {
        let view = OutputView {
            kind: note.kind.to_string(),
            progress: note.progress.as_str().to_owned(),
            key: note.key.to_string(),
            summary: report::one_line(&note.summary, 200),
            detail: note.detail,
        };
        match views.iter_mut().find(|known| known.key == view.key) {
            Some(known) => *known = view,
            None => views.push(view),
        }
    }
    views
}

fn has_shim(attempt: &PastAttempt) -> bool {
    let census = vik_proc::Census::read(&attempt.files.census());
    census.is_some_and(|census| {
        census.boot_id == vik_proc::identity::boot_id() && census.shim.is_some_and(|shim| shim.is_alive())
    })
}

/// Returns the state of a run. The phase is the one in the ledger, which was read after the status
/// and knows runs that began since then.
fn state(run: &RunView, phase: Option<&str>, status: Option<&Status>) -> RunState {
    let is_last = |session: &vik_api::SessionView| {
        run.attempts
            .last()
            .is_some_and(|attempt| attempt.session_id == session.session_id)
    };
    if status.is_some_and(|status| status.sessions.iter().any(is_last)) {
        return RunState::Running;
    }
    match phase {
        None | Some("over") => RunState::Ended,
        Some("parked") => RunState::Parked,
        Some("handing_over") => RunState::HandingOver,
        Some("active") if status.is_some() => RunState::Running,
        Some(_) => RunState::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use uuid::Uuid;
    use vik_core::changes::{Changes, StartedAttempt};
    use vik_store::Ledger;

    use super::*;

    #[test]
    fn issue_title_is_the_one_in_the_ledger_when_only_the_history_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let issue = json!({"id": "7", "title": "Fix the login", "state": "done", "payload": "{}"});
        let machine = json!({"issue": issue, "present": true, "runs": [], "life": {"attempts": 0}});
        let mut changes = Changes::default();
        changes.machines.push(serde_json::from_value(machine).unwrap());
        changes.started.push(StartedAttempt {
            attempt_id: AttemptId(Uuid::from_u64_pair(2, 1)),
            run: RunId(Uuid::from_u64_pair(1, 1)),
            issue: "7".into(),
            stage: "work".into(),
            agent: "vex".into(),
            attempt: 1,
            resumed_from: None,
            at: Timestamp::UNIX_EPOCH,
        });
        let (ledger, _) = Ledger::open(folder.path()).unwrap();
        ledger.commit(changes).wait().unwrap();
        ledger.close().unwrap();
        let reader = Reader::open(folder.path()).unwrap().unwrap();
        let title = |issue: &str| issue_title(None, Some(&reader), &issue.into()).unwrap();
        assert_eq!((title("7").as_str(), title("8").as_str()), ("Fix the login", ""));
        assert_eq!(issue_title(None, None, &"7".into()).unwrap(), "");
    }
}
