//! Formats what Vik keeps and removes, for people.

use jiff::Timestamp;
use vik_api::{KeptView, RemovedView, RetentionView};
use vik_base::report::{count, one_line, when};

use super::text::push_wrapped;

/// The maximum number of kept data shown.
const MAX_KEPT: usize = 5;

/// Formats the policy, what was removed, and what could not be. Before the first search, there is
/// nothing to say.
pub fn text(view: &RetentionView, now: Timestamp, width: usize) -> String {
    let Some(last_scan) = view.last_scan_at else {
        return String::new();
    };
    let mut out = String::new();
    let policy = format!(
        "retention: unlisted {}, sessions {}, scratch {}, ledger {}, trace {}; checked {}",
        view.unlisted,
        view.sessions,
        view.scratch,
        view.ledger,
        view.trace,
        when(last_scan, now),
    );
    push_wrapped(&mut out, &policy, width);
    if view.unlisted_issues > 0 {
        let issues = count(view.unlisted_issues, "workspace");
        push_wrapped(
            &mut out,
            &format!("  {issues} of issues that no pull lists"),
            width,
        );
    }
    if let Some(removed) = removed(&view.removed) {
        push_wrapped(&mut out, &format!("  removed: {removed}"), width);
    }
    for kept in view.kept.iter().take(MAX_KEPT) {
        push_wrapped(&mut out, &kept_line(kept, now), width);
    }
    let more = view.kept.len().saturating_sub(MAX_KEPT) + view.kept_more;
    if more > 0 {
        push_wrapped(
            &mut out,
            &format!("  … and {more} more; `--json` lists them"),
            width,
        );
    }
    for problem in &view.problems {
        push_wrapped(
            &mut out,
            &format!("  cannot check {}", one_line(problem, 300)),
            width,
        );
    }
    out
}

fn kept_line(kept: &KeptView, now: Timestamp) -> String {
    let issue = kept.issue_id.as_ref();
    let issue = issue.map_or_else(String::new, |id| format!(" of {}", one_line(id.as_str(), 40)));
    let (data, reason) = (one_line(&kept.data, 20), one_line(&kept.reason, 300));
    format!("  kept: {data}{issue}, {}: {reason}", when(kept.at, now))
}

/// Returns what was removed; `None` if nothing was.
fn removed(removed: &RemovedView) -> Option<String> {
    let parts: Vec<_> = [
        (removed.workspaces, "workspace"),
        (removed.scratch, "scratch folder"),
        (removed.sessions, "session folder"),
        (removed.attempts, "attempt"),
        (removed.trace_records, "trace record"),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .map(|(number, name)| count(number, name))
    .collect();
    (!parts.is_empty()).then(|| format!("{} ({} MiB)", parts.join(", "), removed.bytes.div_ceil(1 << 20)))
}
