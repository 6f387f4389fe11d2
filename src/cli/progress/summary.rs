//! The closing summary of `vik run --once`: what ended, and where the results are.

use std::time::Duration;

use vik_base::report::{Exit, attempt_cost, clean, cost_sum, count, one_line, table, tokens};
use vik_core::attempt::AttemptResult;
use vik_core::duration::Span;
use vik_core::ids::IssueId;
use vik_core::outcome::{CostSource, Outcome};
use vik_core::workflow::shell_quoted;
use vik_orchestrator::RunSummary;
use vik_workspace::Layout;
use vik_workspace::changes::GitDirs;

/// The maximum number of listed items in each section of the summary.
const SHOWN_LINES: usize = 20;

/// Where the work of an issue is.
#[derive(Debug)]
pub struct WorkResult {
    pub issue: IssueId,
    /// The branch, if it is known.
    pub branch: Option<String>,
    /// Whether the repository of the workflow has the branch.
    pub can_be_merged: bool,
}

impl WorkResult {
    /// Finds the work of the issues whose last attempt succeeded.
    pub fn find(closing: &RunSummary, layout: &Layout) -> Vec<Self> {
        let mut last: Vec<(&str, bool)> = Vec::new();
        for row in &closing.rows {
            last.retain(|(issue, _)| *issue != row.issue);
            last.push((&row.issue, row.end.ended.result.outcome == Outcome::Succeeded));
        }
        let succeeded = last.iter().filter(|(_, succeeded)| *succeeded);
        succeeded
            .map(|(issue, _)| Self::of(&IssueId::new(*issue), layout))
            .collect()
    }

    fn of(issue: &IssueId, layout: &Layout) -> Self {
        let source = layout.workflow_dir().ancestors().find_map(GitDirs::of);
        let is_in_source = |branch: &String| {
            let commit = source
                .as_ref()
                .map(|git| git.commit(&format!("refs/heads/{branch}")));
            commit.flatten().is_some()
        };
        let own = GitDirs::of(&layout.issue_dir(issue)).and_then(|git| git.branch());
        // The branch of workspaces that `vik init` describes, if the workspace was removed.
        let branch = own.or_else(|| Some(format!("vik/{issue}")).filter(is_in_source));
        Self {
            issue: issue.clone(),
            can_be_merged: branch.as_ref().is_some_and(is_in_source),
            branch,
        }
    }

    fn text(&self) -> String {
        let id = one_line(self.issue.as_str(), 60);
        let mut text = format!("result: issue {id}");
        let branch = self.branch.as_deref().map(|branch| one_line(branch, 80));
        if let Some(branch) = &branch {
            text.push_str(&format!(" on branch {branch}"));
        }
        text.push_str(&format!(": `vik diff {}`", shell_quoted(&id)));
        if let Some(branch) = branch.filter(|_| self.can_be_merged) {
            text.push_str(&format!(", `git merge {}`", shell_quoted(&branch)));
        }
        text + "\n"
    }
}

/// Formats the closing summary.
pub fn summary(closing: &RunSummary, results: &[WorkResult], once: bool) -> String {
    let mut out = String::new();
    if !closing.rows.is_empty() {
        let rows: Vec<_> = closing
            .rows
            .iter()
            .map(|row| {
                let ended = &row.end.ended;
                [
                    one_line(&row.issue, 30),
                    row.stage.clone(),
                    outcome(&ended.result),
                    Span(Duration::from_millis(ended.duration_ms)).to_string(),
                    tokens(ended.result.usage.total()),
                    attempt_cost(ended.cost_usd, ended.cost_source),
                    row.attempt_id.to_string(),
                ]
            })
            .collect();
        out.push('\n');
        out.push_str(&table(
            [
                "ISSUE", "STAGE", "OUTCOME", "DURATION", "TOKENS", "COST", "SESSION",
            ],
            &rows,
        ));
        let totals = &closing.totals;
        let unlisted = totals.attempts - closing.rows.len() as u64;
        if unlisted > 0 {
            out.push_str(&format!("{} before these\n", count(unlisted, "attempt")));
        }
        let cost = cost_sum([
            (totals.reported_usd, CostSource::Reported),
            (totals.estimated_usd, CostSource::Estimate),
        ]);
        let asked = match totals.asked {
            0 => String::new(),
            asked => format!(", {asked} asked"),
        };
        out.push_str(&format!(
            "\n{}: {} succeeded, {} failed{asked}; {} tokens, {cost}\n",
            count(totals.attempts, "attempt"),
            totals.succeeded,
            totals.attempts - totals.succeeded - totals.asked,
            tokens(totals.usage.total())
        ));
    } else if once && closing.any_pull && closing.exit() == Exit::Done {
        out.push_str("nothing to do: no pulled issue is in the state of a stage\n");
    }
    for result in results.iter().take(SHOWN_LINES) {
        out.push_str(&result.text());
    }
    if results.len() > SHOWN_LINES {
        out.push_str(&format!("result: … and {} more\n", results.len() - SHOWN_LINES));
    }
    if closing
        .rows
        .iter()
        .any(|row| row.end.ended.result.outcome != Outcome::Succeeded)
    {
        out.push_str("logs: `vik logs --session SESSION`\n");
    }
    for (section, lines, unlisted) in [
        ("budget", &closing.budget, 0),
        ("failed", &closing.failed, closing.failed_more),
        ("waiting", &closing.waiting, 0),
        ("parked", &closing.parked, 0),
        ("no progress", &closing.no_progress, 0),
    ] {
        if section == "parked" && !lines.is_empty() {
            out.push_str(&format!(
                "{} parked: see the reason with `vik explain ISSUE`, retry with `vik retry ISSUE`\n",
                lines.len()
            ));
        }
        for line in lines.iter().take(SHOWN_LINES) {
            out.push_str(&format!("{section}: {}\n", clean(line)));
        }
        if lines.len() > SHOWN_LINES {
            let more = lines.len() - SHOWN_LINES + unlisted;
            out.push_str(&format!("{section}: … and {more} more\n"));
        }
    }
    for line in &closing.misspelled {
        out.push_str(&format!("no stage: {}\n", clean(line)));
    }
    for id in &closing.not_found {
        let id = one_line(id.as_str(), 60);
        out.push_str(&format!(
            "not found: no pull returned issue {id} in the state of a stage\n"
        ));
    }
    if let Some(error) = &closing.pull_error {
        out.push_str(&format!("the last pull failed: {}\n", one_line(error, 400)));
    }
    out
}

fn outcome(result: &AttemptResult) -> String {
    match result.failure_class {
        Some(class) => format!("{} ({class})", result.outcome),
        None => result.outcome.to_string(),
    }
}
