//! Pull requests: found by their branch.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::api::Gh;
use super::comment;
use crate::http::{encoded, string};
use crate::protocol::{
    CallError, Checks, Comment, OpenedPullRequest, PullRequestDraft, PullRequestState, PullRequestView,
    Review,
};

/// Opens a pull request unless one of the branch is open.
pub(super) fn open(gh: &Gh, head: &str, draft: &PullRequestDraft) -> Result<OpenedPullRequest, CallError> {
    let (found, created) = match newest(gh, head, "open")? {
        Some(found) => (found, false),
        None => {
            let base = match &draft.base {
                Some(base) => base.clone(),
                None => string(&gh.get("")?, "default_branch"),
            };
            let body = json!({"title": draft.title, "body": draft.body, "head": head, "base": base});
            (gh.send("POST", "pulls", &body)?, true)
        }
    };
    Ok(OpenedPullRequest {
        id: found["number"].to_string(),
        created,
        url: string(&found, "html_url"),
    })
}

/// Returns the state of the newest pull request of a branch.
pub(super) fn status(gh: &Gh, head: &str) -> Result<PullRequestView, CallError> {
    let found = find(gh, head)?;
    let number = &found["number"];
    let commit = encoded(&string(&found["head"], "sha"));
    let reviews = gh.get_all(&format!("pulls/{number}/reviews"))?;
    let runs = gh.pages(&format!("commits/{commit}/check-runs"))?;
    let statuses = gh.get(&format!("commits/{commit}/status"))?;
    Ok(PullRequestView {
        id: number.to_string(),
        url: string(&found, "html_url"),
        state: match (string(&found, "state").as_str(), &found["merged_at"]) {
            ("open", _) => PullRequestState::Open,
            (_, Value::Null) => PullRequestState::Closed,
            _ => PullRequestState::Merged,
        },
        draft: found["draft"] == true,
        checks: checks(&runs, &statuses),
        review: review(&reviews),
    })
}

/// Returns the comments on the newest pull request of a branch: those of the conversation, of
/// reviews and on lines.
pub(super) fn comments(gh: &Gh, head: &str) -> Result<Vec<Comment>, CallError> {
    let found = find(gh, head)?;
    let number = &found["number"];
    let mut comments: Vec<Comment> = gh
        .get_all(&format!("issues/{number}/comments"))?
        .iter()
        .map(comment)
        .collect();
    for review in gh.get_all(&format!("pulls/{number}/reviews"))? {
        if !string(&review, "body").is_empty() {
            comments.push(Comment {
                created_at: string(&review, "submitted_at"),
                ..comment(&review)
            });
        }
    }
    for on_line in gh.get_all(&format!("pulls/{number}/comments"))? {
        comments.push(Comment {
            path: Some(string(&on_line, "path")),
            line: on_line["line"].as_u64().or(on_line["original_line"].as_u64()),
            ..comment(&on_line)
        });
    }
    // All times have the same form.
    comments.sort_by(|a, b| a.created_at.cmp(&b.created_at));
    Ok(comments)
}

fn find(gh: &Gh, head: &str) -> Result<Value, CallError> {
    newest(gh, head, "all")?
        .ok_or_else(|| CallError::NotFound(format!("there is no pull request of the branch {head:?}")))
}

/// Returns the newest pull request of a branch of the repository.
fn newest(gh: &Gh, head: &str, state: &str) -> Result<Option<Value>, CallError> {
    let (owner, head) = (gh.owner(), encoded(head));
    let query = format!("pulls?head={owner}%3A{head}&state={state}&sort=created&direction=desc&per_page=1");
    match gh.get(&query)? {
        Value::Array(found) => Ok(found.into_iter().next()),
        _ => Err(CallError::Failed(
            "GitHub sent no list of pull requests".to_owned(),
        )),
    }
}

/// Combines check runs with the statuses of the older API.
fn checks(runs: &[Value], statuses: &Value) -> Checks {
    let runs = runs
        .iter()
        .filter_map(|page| page["check_runs"].as_array())
        .flatten();
    let mut found: Vec<Checks> = runs
        .map(
            |run| match (string(run, "status").as_str(), string(run, "conclusion").as_str()) {
                ("completed", "success" | "neutral" | "skipped") => Checks::Passed,
                ("completed", _) => Checks::Failed,
                _ => Checks::Pending,
            },
        )
        .collect();
    // Without any status, the state is `pending` too.
    if statuses["total_count"].as_u64().unwrap_or(0) > 0 {
        found.push(match string(statuses, "state").as_str() {
            "success" => Checks::Passed,
            "pending" => Checks::Pending,
            _ => Checks::Failed,
        });
    }
    [Checks::Failed, Checks::Pending, Checks::Passed]
        .into_iter()
        .find(|kind| found.contains(kind))
        .unwrap_or(Checks::None)
}

/// Combines the last review of each person.
fn review(reviews: &[Value]) -> Review {
    let mut last: BTreeMap<String, Review> = BTreeMap::new();
    for review in reviews {
        let kind = match string(review, "state").as_str() {
            "APPROVED" => Review::Approved,
            "CHANGES_REQUESTED" => Review::ChangesRequested,
            "DISMISSED" => Review::None,
            _ => continue,
        };
        last.insert(super::login(&review["user"]), kind);
    }
    let has = |kind: Review| last.values().any(|found| *found == kind);
    if has(Review::ChangesRequested) {
        Review::ChangesRequested
    } else if has(Review::Approved) {
        Review::Approved
    } else {
        Review::None
    }
}
