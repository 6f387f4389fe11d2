//! Formats the history of an issue as one timeline of decisions and attempts.

use std::collections::HashMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;
use vik_api::{AttemptView, Explained, RunState, RunView, SpendView};
use vik_base::report::{
    clean, clock_time, count, count_short, day_heading, label, one_line, spent_cost, with_local_times, wrap,
};
use vik_core::changes::Decision;
use vik_core::decision_kind::DecisionKind;
use vik_core::duration::Span;
use vik_core::ids::AgentName;
use vik_core::outcome::CostSource;
use vik_core::outcome::Outcome;

use crate::cli::explained::attempts;
use crate::cli::explained::text::{answer, heading, intent, limits, paragraph};

/// The decisions about all issues that the timeline of an issue has: those of a person. Edits of
/// the workflow and resource pressure are left out.
const ABOUT_ALL: [DecisionKind; 3] = [DecisionKind::Pause, DecisionKind::Resume, DecisionKind::Drain];

/// Narrower details get their own line.
const NARROWEST: usize = 34;

/// The input of the timeline.
#[derive(Debug)]
pub struct TimelineInput<'a> {
    /// The current holds of the issue, and its runs.
    pub explained: &'a Explained,
    /// The decisions about the issue and about all issues, oldest first.
    pub decisions: &'a [Decision],
    /// The agent profile of each attempt, by its session.
    pub agents: &'a HashMap<String, AgentName>,
    /// The limit on the number of decisions. If it is reached, older decisions are missing.
    pub max_decisions: usize,
}

/// An entry of the timeline.
struct Item {
    at: Timestamp,
    stage: String,
    kind: DecisionKind,
    detail: Vec<String>,
}

/// Formats the whole timeline, in at most `width` columns if possible.
pub fn timeline(life: &TimelineInput<'_>, now: Timestamp, width: usize) -> String {
    let explained = life.explained;
    let mut out = heading(explained);
    paragraph(&mut out, "", &answer(explained, now), width);
    let items = items(life);
    if life.decisions.len() >= life.max_decisions {
        out.push_str("\nolder decisions are not shown\n");
    }
    let stage_width = items.iter().map(|item| item.stage.width()).max().unwrap_or(0);
    let kind_width = items
        .iter()
        .map(|item| label(item.kind.as_str()).width())
        .max()
        .unwrap_or(0);
    let mut day = String::new();
    for item in &items {
        let time = clock_time(item.at);
        let item_day = day_heading(item.at);
        if item_day != day {
            let _ = write!(out, "\n{item_day}\n");
            day = item_day;
        }
        let pad = |text: &str, to: usize| " ".repeat(to.saturating_sub(text.width()));
        let kind = label(item.kind.as_str());
        let head = format!(
            "{time}  {}{}  {}{}",
            item.stage,
            pad(&item.stage, stage_width),
            kind,
            pad(&kind, kind_width)
        );
        beside(&mut out, &head, &item.detail, width);
    }
    out.push('\n');
    paragraph(&mut out, "", &totals(&explained.runs), width);
    if let Some(explanation) = &explained.now {
        out.push_str(intent(explanation, width).trim_start());
        out.push_str(limits(explanation, width).trim_start());
    }
    out
}

/// Writes details beside a heading, or below it if they do not fit.
fn beside(out: &mut String, head: &str, detail: &[String], width: usize) {
    let column = head.width() + 2;
    let has_room = width.saturating_sub(column) >= NARROWEST;
    let column = if has_room { column } else { 10 };
    let text_width = width.saturating_sub(column).max(20);
    let mut lines = detail
        .iter()
        .flat_map(|text| wrap(&clean(&with_local_times(text)), text_width))
        .filter(|line| !line.is_empty());
    let first = if has_room {
        lines.next().unwrap_or_default()
    } else {
        String::new()
    };
    let _ = writeln!(out, "{}", format!("{head}  {first}").trim_end());
    for line in lines {
        let _ = writeln!(out, "{}{line}", " ".repeat(column));
    }
}

fn items(life: &TimelineInput<'_>) -> Vec<Item> {
    let runs = &life.explained.runs;
    let attempts: HashMap<&str, (&RunView, &AttemptView)> = runs
        .iter()
        .flat_map(|run| {
            run.attempts
                .iter()
                .map(move |attempt| (attempt.session_id.as_str(), (run, attempt)))
        })
        .collect();
    let mut items = Vec::new();
    let mut starts: HashMap<String, &Decision> = HashMap::new();
    let issue_decisions = life.decisions.iter().filter(|decision| decision.issue.is_some());
    let first = issue_decisions
        .map(|decision| decision.at)
        .chain(attempts.values().map(|(_, attempt)| attempt.started_at))
        .min();
    for decision in life.decisions {
        let session = decision.attempt_id.map(|session| session.to_string());
        let attempt = session.as_deref().and_then(|session| attempts.get(session));
        match (&decision.kind, session, attempt) {
            // The entry of the attempt has more details.
            (DecisionKind::Started, Some(session), Some(_)) => drop(starts.insert(session, decision)),
            (DecisionKind::Ended, _, Some((_, attempt))) if attempt.ended_at.is_some() => {}
            _ if decision.issue.is_none()
                && (!ABOUT_ALL.contains(&decision.kind) || first.is_none_or(|first| decision.at < first)) => {
            }
            (kind, ..) => items.push(Item {
                at: decision.at,
                stage: decision
                    .stage
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |stage| one_line(stage.as_str(), 30)),
                kind: kind.clone(),
                detail: vec![decision.detail.clone()],
            }),
        }
    }
    for (run, attempt) in attempts.values() {
        let stage = one_line(run.stage.as_str(), 30);
        let agent = life.agents.get(&attempt.session_id);
        let start = starts.get(&attempt.session_id);
        items.push(Item {
            at: start.map_or(attempt.started_at, |start| start.at),
            stage: stage.clone(),
            kind: DecisionKind::Started,
            detail: started(
                attempt,
                agent,
                start.map(|start| start.detail.as_str()),
                &attempts,
            ),
        });
        if let Some(detail) = ended(attempt, run.state) {
            items.push(Item {
                at: attempt.ended_at.unwrap_or(attempt.started_at),
                stage,
                kind: DecisionKind::Ended,
                detail,
            });
        }
    }
    // At the same time, an end comes before its consequences, and a start after its causes.
    let rank = |kind: &DecisionKind| match kind {
        DecisionKind::Ended => 0,
        DecisionKind::Started => 2,
        _ => 1,
    };
    items.sort_by_key(|item| (item.at, rank(&item.kind)));
    items
}

fn started(
    attempt: &AttemptView,
    agent: Option<&AgentName>,
    reason: Option<&str>,
    attempts: &HashMap<&str, (&RunView, &AttemptView)>,
) -> Vec<String> {
    let mut text = format!("attempt {}", attempt.attempt);
    if let Some(agent) = agent {
        let _ = write!(text, " with {}", one_line(agent.as_str(), 40));
    }
    let prefix = format!("attempt {}", attempt.attempt);
    // The reason starts with the number of the attempt, too.
    let reason = reason.map(|reason| {
        reason
            .strip_prefix(&prefix)
            .unwrap_or(reason)
            .trim_start_matches([';', ',', ':', ' '])
    });
    if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
        let _ = write!(text, ": {}", one_line(reason, 300));
    }
    let mut detail = vec![text];
    if let Some(before) = &attempt.resumed_from {
        detail.push(match attempts.get(before.as_str()) {
            Some((_, before)) => format!("resumes the conversation of attempt {}", before.attempt),
            None => format!("resumes the conversation of session {}", one_line(before, 40)),
        });
    }
    detail
}

/// Returns how an attempt ended, or `None` while it runs.
fn ended(attempt: &AttemptView, run: RunState) -> Option<Vec<String>> {
    let Some(outcome) = attempt.outcome else {
        // The attempt runs, or its end is not written yet: the answer above says which.
        return (run != RunState::Running)
            .then(|| vec![format!("attempt {}: outcome not known yet", attempt.attempt)]);
    };
    let mut detail = vec![attempts::result(attempt, &outcome.to_string())];
    detail.extend(attempt.reason.as_ref().map(|reason| reason.trim_end().to_owned()));
    for output in &attempt.outputs {
        let reason = output
            .detail
            .as_ref()
            .map(|reason| format!(": {}", one_line(reason, 200)));
        detail.push(format!(
            "{} {}: {}{}",
            one_line(&output.kind, 20).replace('_', " "),
            one_line(&output.progress, 20),
            one_line(&output.summary, 100),
            reason.unwrap_or_default()
        ));
    }
    detail.extend(attempts::evidence(attempt));
    Some(detail)
}

/// Returns the sums over all attempts.
fn totals(runs: &[RunView]) -> String {
    let attempts: Vec<_> = runs.iter().flat_map(|run| &run.attempts).collect();
    let ended = || attempts.iter().filter_map(|attempt| attempt.outcome);
    let count_of = |outcome: Outcome| ended().filter(|ended| *ended == outcome).count();
    if attempts.is_empty() {
        return "no attempts yet".to_owned();
    }
    let (succeeded, asked) = (count_of(Outcome::Succeeded), count_of(Outcome::Asked));
    let failed = ended().count() - succeeded - asked;
    let took: u64 = attempts.iter().filter_map(|attempt| attempt.duration_ms).sum();
    let spent = attempts.iter().fold(SpendView::default(), |sum, attempt| {
        let is_estimate = attempt.cost_source == CostSource::Estimate;
        let usd = attempt.cost_usd.unwrap_or(0.0);
        sum.plus(attempt.charged.unwrap_or(SpendView {
            tokens: attempt.usage.total(),
            cost_usd: usd,
            estimated_tokens: 0,
            estimated_usd: if is_estimate { usd } else { 0.0 },
        }))
    });
    let mut text = format!(
        "{}, {}: {succeeded} succeeded, {failed} failed",
        count(runs.len(), "run"),
        count(attempts.len(), "attempt"),
    );
    if asked > 0 {
        let _ = write!(text, ", {asked} asked");
    }
    let running = attempts.len() - succeeded - failed - asked;
    if running > 0 {
        let _ = write!(text, ", {running} in progress");
    }
    let _ = write!(
        text,
        " · {} of work · {}, {}",
        Span::secs(took / 1000),
        count_short(spent.tokens, "token"),
        spent_cost(&spent)
    );
    text
}
