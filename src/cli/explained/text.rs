//! The answer about an issue, its intent and its limits as text.

use std::fmt::Write as _;

use jiff::Timestamp;
use vik_api::{DaemonState, Explained, Explanation, HoldView, RunState, StageState, StageView};
use vik_base::report::{self, count, elapsed_suffix, one_line, optional, spent, wrap};
use vik_core::trust::Trust;

/// Returns the heading with the id, title and state of the issue.
pub fn heading(explained: &Explained) -> String {
    let id = one_line(explained.issue_id.as_str(), 60);
    match &explained.now {
        Some(explanation) => format!(
            "issue {id} · {} · state {}\n",
            one_line(&explanation.issue_title, 100),
            one_line(&explanation.issue_state, 40)
        ),
        None if explained.issue_title.is_empty() => format!("issue {id}\n"),
        None => format!("issue {id} · {}\n", one_line(&explained.issue_title, 100)),
    }
}

/// Appends a text, wrapped at `width` and indented.
pub fn paragraph(out: &mut String, indent: &str, text: &str, width: usize) {
    for line in wrap(text, width.saturating_sub(indent.len())) {
        let _ = writeln!(out, "{indent}{line}");
    }
}

/// Returns the answer in one or two sentences.
pub fn answer(explained: &Explained, now: Timestamp) -> String {
    let daemon_lives = !matches!(
        explained.daemon.state,
        DaemonState::NotRunning | DaemonState::Dead
    );
    let Some(explanation) = &explained.now else {
        return unknown(explained, daemon_lives);
    };
    let stage_in = |state: StageState| explanation.stages.iter().find(|stage| stage.state == state);
    let running = stage_in(StageState::Running);
    if !daemon_lives {
        let awaiting = explanation.stages.iter().find(|stage| waits_for_person(stage));
        let last_state = match (awaiting, running, stage_in(StageState::Held)) {
            (Some(stage), ..) => sentence(stage, now)
                .map(|text| format!(" It waits for a person: {text}"))
                .unwrap_or_default(),
            (None, Some(stage), _) => format!(
                " Attempt {} of stage `{}` was running when the last daemon exited; the next daemon recovers it.",
                stage.attempts + 1,
                stage.stage
            ),
            (None, None, Some(stage)) => sentence(stage, now)
                .map(|text| format!(" It would not start with a daemon either: {text}"))
                .unwrap_or_default(),
            // A hold with an end expires without a daemon too.
            (None, None, None) => stage_in(StageState::Waiting)
                .filter(|stage| stage.hold.as_ref().is_some_and(|hold| hold.until.is_some()))
                .and_then(|stage| sentence(stage, now))
                .map(|text| format!(" It would wait with a daemon too: {text}"))
                .or_else(|| nothing_to_do(explanation, now))
                .unwrap_or_default(),
        };
        return format!("Not running: no daemon is running. Start one with `vik run -d`.{last_state}");
    }
    if let Some(stage) = running {
        if let Some(text) = sentence(stage, now) {
            return format!("Waiting for a person: {text}");
        }
        let turn = optional(", ", stage.turn, "");
        return format!(
            "Running: stage `{}`, attempt {} of {}{turn}.",
            stage.stage,
            stage.attempts + 1,
            stage.max_attempts
        );
    }
    if let Some(stage) = stage_in(StageState::Ready) {
        return format!("Ready: nothing holds stage `{}`.", stage.stage);
    }
    if let Some(stage) = stage_in(StageState::Waiting) {
        let text = sentence(stage, now).unwrap_or_default();
        return format!("Waiting: {text}");
    }
    let held = stage_in(StageState::Held).and_then(|stage| sentence(stage, now));
    let issue_hold = explanation.hold.as_ref().map(|hold| held_by(hold, now));
    format!(
        "Not running: {}",
        held.or(issue_hold)
            .unwrap_or_else(|| "no stage handles it.".to_owned())
    )
}

/// Returns the reason if no stage takes the issue, its state is terminal, or a person has it. All are
/// true with and without a daemon.
fn nothing_to_do(explanation: &Explanation, now: Timestamp) -> Option<String> {
    let hold = explanation.hold.as_ref()?;
    matches!(hold.reason.as_str(), "no_stage" | "terminal" | "taken_over")
        .then(|| format!(" It would not start with a daemon either: {}", held_by(hold, now)))
}

fn unknown(explained: &Explained, daemon_lives: bool) -> String {
    let running = explained.runs.iter().any(|run| run.state == RunState::Running);
    match (daemon_lives, running) {
        (true, true) => "Running.".to_owned(),
        (true, false) => {
            "Not running: no recent pull returned this issue in a state that any stage handles.".to_owned()
        }
        (false, _) => "Not running: no daemon is running. Start one with `vik run -d`.".to_owned(),
    }
}

fn waits_for_person(stage: &StageView) -> bool {
    stage.hold.as_ref().is_some_and(|hold| hold.reason == "approval")
}

fn sentence(stage: &StageView, now: Timestamp) -> Option<String> {
    let hold = stage.hold.as_ref()?;
    Some(format!("stage `{}`: {}", stage.stage, held_by(hold, now)))
}

pub fn held_by(hold: &HoldView, now: Timestamp) -> String {
    let mut text = one_line(hold.detail.trim_end_matches('.'), 400);
    if let Some(since) = hold.since {
        let lasted = elapsed_suffix("for ", since, now);
        if !lasted.is_empty() {
            let _ = write!(text, " ({lasted})");
        }
    }
    text.push('.');
    if let Some(until) = hold.until {
        let _ = write!(
            text,
            " Next at {}, {}.",
            report::date_time(until),
            report::until(until, now)
        );
    }
    if let Some(freed_by) = &hold.freed_by {
        let _ = write!(text, " Freed by {freed_by}.");
    }
    report::with_local_times(&text)
}

/// Returns scope, constraints and acceptance of each stage and the trust of the issue; empty if
/// none is set.
pub fn intent(explanation: &Explanation, width: usize) -> String {
    let mut out = String::new();
    let mut add = |text: String| paragraph(&mut out, "", &text, width);
    if explanation.trust == Trust::Fenced {
        add("The issue is not trusted: prompts contain its text as data, in a fence.".to_owned());
    }
    for stage in &explanation.stages {
        let Some(intent) = &stage.intent else { continue };
        if let Some(scope) = &intent.scope {
            let lists: Vec<_> = scope.iter().map(|globs| globs.join(", ")).collect();
            let scope = one_line(&lists.join(", limited to "), 400);
            add(format!("Stage `{}` may change: {scope}", stage.stage));
        }
        for (label, texts) in [
            ("Constraint", &intent.constraints),
            ("Acceptance", &intent.acceptance),
        ] {
            for text in texts {
                add(format!(
                    "{label} of stage `{}`: {}",
                    stage.stage,
                    one_line(text, 400)
                ));
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// Returns the cost of the issue so far and its limits.
pub fn limits(explanation: &Explanation, width: usize) -> String {
    let life = &explanation.life;
    let attempts = match life.max_attempts {
        None => count(life.attempts, "attempt"),
        Some(max) => format!("{} of {}", life.attempts, count(max, "attempt")),
    };
    let mut out = "\n".to_owned();
    let lifetime = format!("Lifetime: {attempts}, {}", spent(&life.spent, &life.limit));
    paragraph(&mut out, "", &lifetime, width);
    if let Some(day) = &explanation.day
        && day.limit.is_some()
    {
        let today = format!(
            "All issues today ({}, UTC): {}",
            day.date,
            spent(&day.spent, &day.limit)
        );
        paragraph(&mut out, "", &today, width);
    }
    out
}
