//! Formats an explanation for people: the answer first, then its reasons.

use std::fmt::Write as _;

use jiff::Timestamp;
use vik_api::{AttemptView, DecisionView, Explained, Explanation, RunState, RunView, StageState};
use vik_base::report::{
    NARROW, clean, date_time, label, one_line, shared_offset, table_within, with_local_times,
};

use crate::cli::explained::attempts;
use crate::cli::explained::text::{answer, heading, held_by, intent, limits, paragraph};
use crate::cli::runs;

/// The maximum number of decisions shown.
const MAX_DECISIONS: usize = 30;

/// Formats the whole explanation, in at most `width` columns if possible.
pub fn text(explained: &Explained, now: Timestamp, width: usize) -> String {
    let mut out = heading(explained);
    let answer = answer(explained, now);
    paragraph(&mut out, "", &answer, width);
    if let Some(explanation) = &explained.now {
        out.push_str(&stages(explanation, &answer, now, width));
        out.push_str(&intent(explanation, width));
        out.push_str(&limits(explanation, width));
        if let Some(why) = &explanation.workspace {
            paragraph(&mut out, "workspace: ", &one_line(why, 600), width);
        }
        if explanation.messages_waiting > 0 {
            let issue = one_line(explained.issue_id.as_str(), 60);
            let waiting = match explanation.messages_waiting {
                1 => "1 waits".to_owned(),
                count => format!("{count} wait"),
            };
            paragraph(
                &mut out,
                "messages: ",
                &format!("{waiting} for an agent; see them with `vik message {issue} --list`"),
                width,
            );
        }
    }
    out.push_str(&decisions_text(&explained.decisions, width));
    if !explained.runs.is_empty() {
        out.push_str("\nAttempts\n");
        for line in attempts_text(&explained.runs, width.saturating_sub(2)).lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// Returns a table of the stages of an issue, which does not repeat what the answer contains.
fn stages(explanation: &Explanation, answer: &str, now: Timestamp, width: usize) -> String {
    if explanation.stages.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = explanation
        .stages
        .iter()
        .map(|stage| {
            let last = match (stage.last_outcome, stage.last_class) {
                (Some(outcome), Some(class)) => {
                    format!("{} ({})", label(outcome.as_str()), label(class.as_str()))
                }
                (Some(outcome), None) => label(outcome.as_str()),
                _ => "-".to_owned(),
            };
            let why = stage
                .hold
                .as_ref()
                .map_or_else(|| "-".to_owned(), |hold| held_by(hold, now));
            let why = if answer.contains(&why) && stage.hold.is_some() {
                "see above".to_owned()
            } else {
                why
            };
            // The attempt that runs is counted once it has ended.
            let attempts = stage.attempts + u32::from(stage.state == StageState::Running);
            [
                stage.stage.to_string(),
                stage.state_label().to_owned(),
                format!("{attempts} of {}", stage.max_attempts),
                last,
                why,
            ]
        })
        .collect();
    format!(
        "\n{}",
        table_within(width, ["STAGE", "STATE", "ATTEMPTS", "LAST", "WHY"], &rows)
    )
}

fn decisions_text(decisions: &[DecisionView], width: usize) -> String {
    if decisions.is_empty() {
        return String::new();
    }
    let hidden = decisions.len().saturating_sub(MAX_DECISIONS);
    let shown = &decisions[hidden..];
    let offset = shared_offset(shown.iter().map(|decision| decision.at));
    let (when, part) = match &offset {
        // Without the year and the seconds.
        Some(offset) if width < NARROW => (format!("WHEN ({offset})"), 5..16),
        Some(offset) => (format!("WHEN ({offset})"), 0..19),
        None => ("WHEN".to_owned(), 0..26),
    };
    let rows: Vec<_> = shown
        .iter()
        .map(|decision| {
            [
                date_time(decision.at)[part.clone()].to_owned(),
                decision
                    .stage
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), ToString::to_string),
                label(&decision.kind),
                with_local_times(&decision.detail),
            ]
        })
        .collect();
    let mut out = String::from("\nDecisions\n");
    if hidden > 0 {
        let _ = writeln!(out, "… {hidden} earlier decisions (use --json to list them)");
    }
    out.push_str(&table_within(width, [&when, "STAGE", "WHAT", "WHY"], &rows));
    out
}

/// Formats runs with their attempts.
fn attempts_text(found: &[RunView], width: usize) -> String {
    let mut out = String::new();
    for run in found {
        let _ = writeln!(
            out,
            "{} {} ({})  {}",
            one_line(run.issue_id.as_str(), 60),
            run.stage,
            runs::state(run.state),
            one_line(&run.issue_title, 80)
        );
        for attempt in &run.attempts {
            out.push_str(&attempt_text(attempt, run.state, width));
        }
    }
    out
}

fn attempt_text(attempt: &AttemptView, run: RunState, width: usize) -> String {
    let outcome = match attempt.outcome {
        Some(outcome) => outcome.to_string(),
        None if run == RunState::Running => "running".to_owned(),
        None => "not ended yet".to_owned(),
    };
    let result = attempts::result(attempt, &outcome);
    let mut out = String::new();
    let result = format!("{} {result}", date_time(attempt.started_at));
    paragraph(&mut out, "  ", &result, width);
    if let Some(reason) = &attempt.reason {
        for line in clean(reason.trim_end()).lines() {
            paragraph(&mut out, "    ", line, width);
        }
    }
    if let Some(before) = &attempt.resumed_from {
        let _ = writeln!(out, "    resumed the conversation of {before}");
    }
    // Paths stay whole, so that they can be copied.
    for line in attempts::evidence(attempt) {
        let _ = writeln!(out, "    {line}");
    }
    out
}
