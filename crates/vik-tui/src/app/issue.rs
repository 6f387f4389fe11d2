//! The screen with all details of one issue.

use jiff::Timestamp;
use vik_api::{
    AttemptView, DayView, Explained, Explanation, HoldView, LifeView, LimitView, RunState, SpendView,
};
use vik_core::ids::IssueId;
use vik_core::outcome::{CostSource, Outcome};
use vik_core::plural::count;
use vik_text::{cost, cost_text, optional, short};

use super::scroll::Scroll;
use crate::rows::{issue_status, stage_state};
use crate::table::{CellText, Tone};
use crate::text::{duration, humanize, money_limit, reason_text, seconds_between, short_duration, wrap};

/// The maximum number of decisions that are shown.
const MAX_DECISIONS: usize = 200;

/// The screen of an issue.
pub(crate) struct IssueScreen {
    pub(crate) issue_id: IssueId,
    pub(crate) error: Option<String>,
    pub(crate) lines: Vec<Vec<CellText>>,
    pub(crate) scroll: Scroll,
}

impl IssueScreen {
    pub(super) fn new(issue_id: &IssueId) -> Self {
        Self {
            issue_id: issue_id.clone(),
            error: None,
            lines: Vec::new(),
            scroll: Scroll::default(),
        }
    }

    pub(super) fn lay_out(&mut self, known: Option<&Explained>, now: Timestamp, columns: usize, rows: usize) {
        if let Some(known) = known {
            self.error = None;
            self.lines = lines(known, now, columns);
        }
        self.scroll.fit(self.lines.len(), rows);
    }
}

/// Returns the details of an issue as lines.
fn lines(known: &Explained, now: Timestamp, columns: usize) -> Vec<Vec<CellText>> {
    let mut out = IssueLines {
        lines: Vec::new(),
        columns,
    };
    if let Some(explanation) = &known.now {
        current_status(explanation, now, &mut out);
    }
    if !known.runs.is_empty() {
        out.heading("RUNS");
    }
    for run in known.runs.iter().rev() {
        let (state, tone) = match run.state {
            RunState::Running => ("running", Tone::Good),
            RunState::Waiting => ("waiting", Tone::Plain),
            RunState::HandingOver => ("handing over", Tone::Warn),
            RunState::Parked => ("parked", Tone::Warn),
            RunState::Ended => ("over", Tone::Faint),
        };
        out.lines.push(vec![
            CellText::plain("  "),
            CellText::new(run.stage.as_str(), Tone::Name),
            CellText::plain("  "),
            CellText::new(state, tone),
        ]);
        run.attempts
            .iter()
            .rev()
            .for_each(|attempt| attempt_lines(attempt, now, &mut out));
    }
    if !known.decisions.is_empty() {
        out.heading("DECISIONS, LATEST FIRST");
    }
    for decision in known.decisions.iter().rev().take(MAX_DECISIONS) {
        let stage = optional("", decision.stage.as_ref(), "  ");
        out.lines.push(vec![
            CellText::new(
                format!("{:>6} ago  ", short_duration(seconds_between(decision.at, now))),
                Tone::Faint,
            ),
            CellText::new(stage, Tone::Name),
            CellText::plain(humanize(&decision.kind)),
        ]);
        out.text(&decision.detail, Tone::Faint, 12, 4);
    }
    out.lines
}

struct IssueLines {
    lines: Vec<Vec<CellText>>,
    columns: usize,
}

impl IssueLines {
    fn heading(&mut self, name: &str) {
        if !self.lines.is_empty() {
            self.lines.push(Vec::new());
        }
        self.lines.push(vec![CellText::new(name, Tone::Strong)]);
    }

    fn text(&mut self, text: &str, tone: Tone, indent: usize, max_lines: usize) {
        let (lines, _) = wrap(
            text.trim(),
            self.columns.saturating_sub(indent).max(10),
            max_lines,
        );
        for line in lines.into_iter().filter(|line| !line.is_empty()) {
            self.lines.push(vec![
                CellText::plain(" ".repeat(indent)),
                CellText::new(line, tone),
            ]);
        }
    }

    fn labelled(&mut self, label: &str, text: &str, tone: Tone) {
        let (lines, _) = wrap(text.trim(), self.columns.saturating_sub(12).max(10), 6);
        let mut label = format!("  {label:<10}");
        for line in lines {
            let lead = std::mem::replace(&mut label, " ".repeat(12));
            self.lines
                .push(vec![CellText::new(lead, Tone::Faint), CellText::new(line, tone)]);
        }
    }

    fn hold(&mut self, hold: &HoldView, now: Timestamp) {
        self.labelled("held by", &reason_text(&hold.reason, &hold.detail), Tone::Warn);
        if let Some(since) = hold.since {
            self.labelled(
                "since",
                &format!("{} ago", duration(seconds_between(since, now))),
                Tone::Plain,
            );
        }
        if let Some(until) = hold.until {
            let text = match until <= now {
                true => "now".to_owned(),
                false => format!("{} from now", duration(seconds_between(now, until))),
            };
            self.labelled("until", &text, Tone::Plain);
        }
        if let Some(freed_by) = &hold.freed_by {
            self.labelled("freed by", freed_by, Tone::Plain);
        }
    }
}

fn current_status(explanation: &Explanation, now: Timestamp, out: &mut IssueLines) {
    let (name, tone) = issue_status(explanation);
    out.lines.push(vec![
        CellText::new("state ", Tone::Faint),
        CellText::plain(explanation.issue_state.as_str()),
        CellText::new("   in Vik: ", Tone::Faint),
        CellText::new(name, tone),
    ]);
    if explanation.paused {
        out.lines
            .push(vec![CellText::new("Paused by a person.", Tone::Warn)]);
    }
    if !explanation.present {
        out.lines.push(vec![CellText::new(
            "The last pull did not return this issue.",
            Tone::Warn,
        )]);
    }
    let (life, day) = (life(&explanation.life), explanation.day.as_ref().map(today));
    out.lines
        .push(vec![CellText::new("life  ", Tone::Faint), CellText::plain(life)]);
    if let Some(day) = day {
        out.lines.push(vec![
            CellText::new("today (UTC) ", Tone::Faint),
            CellText::plain(day),
        ]);
    }
    if let Some(hold) = &explanation.hold {
        out.hold(hold, now);
    }
    if !explanation.stages.is_empty() {
        out.heading("STAGES");
    }
    for stage in &explanation.stages {
        let (name, tone) = stage_state(stage);
        let last = match (stage.last_outcome, stage.last_class) {
            (None, _) => String::new(),
            (Some(outcome), None) => format!(", last attempt {}", humanize(outcome.as_str())),
            (Some(outcome), Some(class)) => {
                format!(
                    ", last attempt {} ({})",
                    humanize(outcome.as_str()),
                    humanize(class.as_str())
                )
            }
        };
        out.lines.push(vec![
            CellText::plain("  "),
            CellText::new(stage.stage.as_str(), Tone::Name),
            CellText::plain("  "),
            CellText::new(name, tone),
            CellText::new(
                format!("  attempts {} of {}{last}", stage.attempts, stage.max_attempts),
                Tone::Plain,
            ),
        ]);
        if let Some(hold) = &stage.hold {
            out.hold(hold, now);
        }
    }
}

fn attempt_lines(attempt: &AttemptView, now: Timestamp, out: &mut IssueLines) {
    let (outcome, tone) = match attempt.outcome {
        None => ("running".to_owned(), Tone::Good),
        Some(Outcome::Succeeded) => ("succeeded".to_owned(), Tone::Good),
        Some(Outcome::Cancelled) => ("cancelled".to_owned(), Tone::Warn),
        Some(other) => (humanize(other.as_str()), Tone::Bad),
    };
    let class = attempt.failure_class.map(|class| humanize(class.as_str()));
    let class = optional(" (", class, ")");
    let took = attempt
        .duration_ms
        .map_or_else(|| seconds_between(attempt.started_at, now), |ms| ms / 1_000);
    let estimated = match attempt.cost_source {
        CostSource::Estimate => attempt.cost_usd.unwrap_or_default(),
        _ => 0.0,
    };
    let mut line = vec![
        CellText::new(format!("    #{} ", attempt.attempt), Tone::Faint),
        CellText::new(format!("{outcome}{class}"), tone),
        CellText::plain(format!(
            "  {}  {} tokens  {}",
            duration(took),
            short(attempt.usage.total()),
            cost_text(attempt.cost_usd, estimated)
        )),
        CellText::new(
            format!(
                "  {} ago  ",
                short_duration(seconds_between(attempt.started_at, now))
            ),
            Tone::Faint,
        ),
    ];
    if out.columns >= 100 {
        line.push(CellText::new(attempt.session_id.as_str(), Tone::Faint));
    }
    out.lines.push(line);
    if let Some(reason) = &attempt.reason {
        out.text(reason, Tone::Plain, 7, 4);
    }
    if let Some(failure) = &attempt.hand_over_failure {
        out.text(&format!("not handed over: {failure}"), Tone::Warn, 7, 4);
    }
}

/// Returns the spent amount and, if there is one, the limit.
pub(crate) fn spent(spent: &SpendView, limit: &LimitView) -> String {
    let tokens = match limit.tokens {
        None => format!("{} tokens", short(spent.tokens)),
        Some(limit) => format!("{} of {} tokens", short(spent.tokens), short(limit)),
    };
    let all = cost(Some(spent.cost_usd));
    let parts = cost_text(Some(spent.cost_usd), spent.estimated_usd);
    match limit.usd {
        None => format!("{parts}, {tokens}"),
        Some(limit) if parts == all => format!("{all} of {}, {tokens}", money_limit(limit)),
        Some(limit) => format!("{all} of {} ({parts}), {tokens}", money_limit(limit)),
    }
}

/// Returns the totals of an issue's life in one line.
pub(crate) fn life(life: &LifeView) -> String {
    let attempts = match life.max_attempts {
        None => count(life.attempts, "attempt"),
        Some(limit) => format!("{} of {}", life.attempts, count(limit, "attempt")),
    };
    format!("{attempts}, {}", spent(&life.spent, &life.limit))
}

fn today(day: &DayView) -> String {
    spent(&day.spent, &day.limit)
}
