//! An issue's life as one timeline: what was decided, and the attempts, in the order of time.

use std::collections::HashMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;
use vik_api::{AttemptView, Explained, RunState, RunView, SpendView};
use vik_core::changes::Decision;
use vik_core::duration::Span;
use vik_core::ids::AgentName;
use vik_core::outcome::CostSource;

use super::{cost_text, took};
use crate::cli::explain;
use crate::report::{clean, count, count_short, one_line, spent_cost, tokens, wrap};

/// Decisions about all issues that an issue's life is told with: those of a person. Edits and pressure are not.
const ABOUT_ALL: [&str; 3] = ["pause", "continue", "drain"];

/// Details get a line of their own where they would have less room than this.
const NARROWEST: usize = 34;

/// What the timeline is made of.
#[derive(Debug)]
pub struct Life<'a> {
    /// What holds the issue, and its runs.
    pub explained: &'a Explained,
    /// What was decided on it, and on all, oldest first.
    pub decisions: &'a [Decision],
    /// The agent profile of each attempt, by its session.
    pub agents: &'a HashMap<String, AgentName>,
    /// How many decisions there may be at most: where there are as many, older ones are not told.
    pub most: usize,
}

/// One thing that happened.
struct Item {
    at: Timestamp,
    stage: String,
    what: String,
    /// Paragraphs.
    detail: Vec<String>,
}

/// The whole timeline, no wider than `width` where that can be.
pub fn timeline(life: &Life<'_>, now: Timestamp, width: usize) -> String {
    let explained = life.explained;
    let mut out = explain::heading(explained);
    explain::paragraph(&mut out, "", &explain::answer(explained, now), width);
    let items = items(life);
    if life.decisions.len() >= life.most {
        out.push_str("\nolder decisions are left out\n");
    }
    let stage_width = items.iter().map(|item| item.stage.width()).max().unwrap_or(0);
    let what_width = items.iter().map(|item| item.what.width()).max().unwrap_or(0);
    let mut day = String::new();
    for item in &items {
        let text = format!("{:.0}", item.at);
        let (date, time) = (text.get(..10).unwrap_or(""), text.get(11..19).unwrap_or(""));
        if date != day {
            let _ = write!(out, "\n{date}\n");
            day = date.to_owned();
        }
        let pad = |text: &str, to: usize| " ".repeat(to.saturating_sub(text.width()));
        let head = format!(
            "{time}  {}{}  {}{}",
            item.stage,
            pad(&item.stage, stage_width),
            item.what,
            pad(&item.what, what_width)
        );
        beside(&mut out, &head, &item.detail, width);
    }
    out.push('\n');
    explain::paragraph(&mut out, "", &totals(&explained.runs), width);
    if let Some(standing) = &explained.now {
        out.push_str(explain::intent(standing, width).trim_start());
        out.push_str(explain::limits(standing).trim_start());
    }
    out
}

/// Details beside a heading, or below it where there is no room.
fn beside(out: &mut String, head: &str, detail: &[String], width: usize) {
    let column = head.width() + 2;
    let has_room = width.saturating_sub(column) >= NARROWEST;
    let column = if has_room { column } else { 10 };
    let room = width.saturating_sub(column).max(20);
    let mut lines = detail
        .iter()
        .flat_map(|text| wrap(&clean(text), room))
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

fn items(life: &Life<'_>) -> Vec<Item> {
    let runs = &life.explained.runs;
    let attempts: HashMap<&str, (&RunView, &AttemptView)> = runs
        .iter()
        .flat_map(|run| {
            run.attempts
                .iter()
                .map(move |one| (one.session_id.as_str(), (run, one)))
        })
        .collect();
    let mut items = Vec::new();
    let mut starts: HashMap<String, &Decision> = HashMap::new();
    let own = life.decisions.iter().filter(|decision| decision.issue.is_some());
    let first = own
        .map(|decision| decision.at)
        .chain(attempts.values().map(|(_, attempt)| attempt.started_at))
        .min();
    for decision in life.decisions {
        let session = decision.attempt_id.map(|session| session.to_string());
        let attempt = session.as_deref().and_then(|session| attempts.get(session));
        match (decision.kind.as_str(), session, attempt) {
            // The attempt itself tells more.
            ("started", Some(session), Some(_)) => drop(starts.insert(session, decision)),
            ("ended", _, Some((_, attempt))) if attempt.ended_at.is_some() => {}
            _ if decision.issue.is_none()
                && (!ABOUT_ALL.contains(&&*decision.kind)
                    || first.is_none_or(|first| decision.at < first)) => {}
            (kind, ..) => items.push(Item {
                at: decision.at,
                stage: decision
                    .stage
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |stage| one_line(stage.as_str(), 30)),
                what: one_line(kind, 30).replace('_', " "),
                detail: vec![decision.detail.clone()],
            }),
        }
    }
    for (run, attempt) in attempts.values() {
        let stage = one_line(run.stage.as_str(), 30);
        let agent = life.agents.get(&attempt.session_id);
        let why = starts.get(&attempt.session_id);
        items.push(Item {
            at: why.map_or(attempt.started_at, |why| why.at),
            stage: stage.clone(),
            what: "started".to_owned(),
            detail: started(attempt, agent, why.map(|why| why.detail.as_str()), &attempts),
        });
        if let Some(detail) = ended(attempt, run.state) {
            items.push(Item {
                at: attempt.ended_at.unwrap_or(attempt.started_at),
                stage,
                what: "ended".to_owned(),
                detail,
            });
        }
    }
    // Of what happened at one time, an end comes before what followed from it, and a start after what led to it.
    let rank = |what: &str| match what {
        "ended" => 0,
        "started" => 2,
        _ => 1,
    };
    items.sort_by_key(|item| (item.at, rank(&item.what)));
    items
}

fn started(
    attempt: &AttemptView,
    agent: Option<&AgentName>,
    why: Option<&str>,
    attempts: &HashMap<&str, (&RunView, &AttemptView)>,
) -> Vec<String> {
    let mut text = format!("attempt {}", attempt.attempt);
    if let Some(agent) = agent {
        let _ = write!(text, " with {}", one_line(agent.as_str(), 40));
    }
    let own = format!("attempt {}", attempt.attempt);
    // The reason names the attempt too.
    let why = why.map(|why| {
        why.strip_prefix(&own)
            .unwrap_or(why)
            .trim_start_matches([';', ',', ':', ' '])
    });
    if let Some(why) = why.filter(|why| !why.is_empty()) {
        let _ = write!(text, ": {}", one_line(why, 300));
    }
    let mut detail = vec![text];
    if let Some(before) = &attempt.resumed_from {
        detail.push(match attempts.get(before.as_str()) {
            Some((_, before)) => format!("it goes on with the conversation of attempt {}", before.attempt),
            None => format!(
                "it goes on with the conversation of session {}",
                one_line(before, 40)
            ),
        });
    }
    detail
}

/// How an attempt ended; `None` while it runs.
fn ended(attempt: &AttemptView, run: RunState) -> Option<Vec<String>> {
    let Some(outcome) = attempt.outcome else {
        // It runs, or its end is not written yet: the top of the page says which.
        return (run != RunState::Running)
            .then(|| vec![format!("attempt {}: not known yet", attempt.attempt)]);
    };
    let mut text = format!("attempt {}: {outcome}", attempt.attempt);
    if let Some(class) = attempt.failure_class {
        let _ = write!(text, " ({class})");
    }
    let _ = write!(
        text,
        "{}, {} tokens, {}",
        took(attempt),
        tokens(attempt.usage),
        cost_text(attempt)
    );
    let mut detail = vec![text];
    detail.extend(attempt.reason.as_ref().map(|reason| reason.trim_end().to_owned()));
    for output in &attempt.outputs {
        let why = output
            .detail
            .as_ref()
            .map(|why| format!(": {}", one_line(why, 200)));
        detail.push(format!(
            "{} {}: {}{}",
            one_line(&output.kind, 20).replace('_', " "),
            one_line(&output.progress, 20),
            one_line(&output.summary, 100),
            why.unwrap_or_default()
        ));
    }
    for script in &attempt.hooks_run_twice {
        detail.push(format!(
            "{} ran again: Vik died before it had noted its end",
            one_line(script, 40)
        ));
    }
    if let Some(proof) = &attempt.proof {
        detail.push(format!("end of its processes: {}", one_line(proof, 80)));
    }
    detail.push(format!("log: {}", attempt.log.display()));
    Some(detail)
}

/// All attempts together.
fn totals(runs: &[RunView]) -> String {
    let attempts: Vec<_> = runs.iter().flat_map(|run| &run.attempts).collect();
    let of = |well: bool| {
        let ended = attempts.iter().filter_map(|attempt| attempt.outcome);
        ended
            .filter(|outcome| (*outcome == vik_core::outcome::Outcome::Succeeded) == well)
            .count()
    };
    if attempts.is_empty() {
        return "no attempt yet".to_owned();
    }
    let (succeeded, failed) = (of(true), of(false));
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
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
        "{}, {}: {succeeded} succeeded, {failed} not",
        count(number(runs.len()), "run"),
        count(number(attempts.len()), "attempt"),
    );
    let running = attempts.len() - succeeded - failed;
    if running > 0 {
        let _ = write!(text, ", {running} under way");
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
