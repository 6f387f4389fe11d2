//! Merge requests, which the protocol calls pull requests: found by their branch.

use reqwest::Method;
use serde_json::{Value, json};

use super::GitlabTracker;
use super::issue;
use super::quick_actions::escaped;
use crate::http::{encoded, items, missing_project, string};
use crate::protocol::{
    CallError, Checks, Comment, OpenedPullRequest, PullRequestDraft, PullRequestState, PullRequestView,
    Review,
};

impl GitlabTracker {
    /// Opens a merge request unless one of the branch is open.
    pub(super) fn open_merge_request(
        &self,
        head: &str,
        draft: &PullRequestDraft,
    ) -> Result<OpenedPullRequest, CallError> {
        let (found, created) = match self.newest(head, "opened")? {
            Some(found) => (found, false),
            None => {
                let base = match &draft.base {
                    Some(base) => base.clone(),
                    None => string(
                        &self.server.get(&self.project).map_err(missing_project)?,
                        "default_branch",
                    ),
                };
                let body = json!({
                    "title": draft.title,
                    "description": escaped(&draft.body),
                    "source_branch": head,
                    "target_branch": base,
                });
                let path = format!("{}/merge_requests", self.project);
                let created = self.server.send(Method::POST, &path, &body);
                (created.map_err(missing_project)?, true)
            }
        };
        Ok(OpenedPullRequest {
            id: found["iid"].to_string(),
            created,
            url: string(&found, "web_url"),
        })
    }

    /// Returns the state of the newest merge request of a branch.
    pub(super) fn merge_request_status(&self, head: &str) -> Result<PullRequestView, CallError> {
        let found = self.find_merge_request(head)?;
        let path = self.merge_request_path(&found);
        // Only a single merge request has its pipeline.
        let found = self.server.get(&path)?;
        let approvals = if_supported(self.server.get(&format!("{path}/approvals")))?;
        let reviewers = if_supported(self.server.get_all(&format!("{path}/reviewers")))?;
        Ok(PullRequestView {
            id: found["iid"].to_string(),
            url: string(&found, "web_url"),
            state: match string(&found, "state").as_str() {
                "merged" => PullRequestState::Merged,
                "closed" => PullRequestState::Closed,
                // `locked` while it is merged.
                _ => PullRequestState::Open,
            },
            draft: found["draft"] == true,
            checks: checks(&found["head_pipeline"]),
            review: review(&found, &approvals.unwrap_or_default(), reviewers.as_deref()),
        })
    }

    /// Returns the comments on the newest merge request of a branch, also those on lines.
    pub(super) fn merge_request_comments(&self, head: &str) -> Result<Vec<Comment>, CallError> {
        let found = self.find_merge_request(head)?;
        let notes = self.notes(&self.merge_request_path(&found))?;
        Ok(issue::comments(&found, &notes))
    }

    fn merge_request_path(&self, found: &Value) -> String {
        format!("{}/merge_requests/{}", self.project, found["iid"])
    }

    fn find_merge_request(&self, head: &str) -> Result<Value, CallError> {
        self.newest(head, "all")?
            .ok_or_else(|| CallError::NotFound(format!("there is no merge request of the branch {head:?}")))
    }

    /// Returns the newest merge request of a branch of the project. A fork can have a branch with
    /// the same name.
    fn newest(&self, head: &str, state: &str) -> Result<Option<Value>, CallError> {
        let path = format!(
            "{}/merge_requests?scope=all&source_branch={}&state={state}&order_by=created_at&sort=desc",
            self.project,
            encoded(head)
        );
        let found = self.server.get_all(&path).map_err(missing_project)?;
        let own = |found: &Value| found["source_project_id"] == found["target_project_id"];
        Ok(found.into_iter().find(own))
    }
}

/// Returns a part of a merge request that exists; `None` if this version of GitLab does not have
/// such parts.
fn if_supported<T>(part: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match part {
        Ok(part) => Ok(Some(part)),
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the result of the newest pipeline.
fn checks(pipeline: &Value) -> Checks {
    match string(pipeline, "status").as_str() {
        "" => Checks::None,
        "success" | "skipped" => Checks::Passed,
        "failed" | "canceled" => Checks::Failed,
        _ => Checks::Pending,
    }
}

/// Combines the reviews. If GitLab does not have the states of reviewers, an open thread that blocks
/// the merge request asks for changes.
fn review(found: &Value, approvals: &Value, reviewers: Option<&[Value]>) -> Review {
    let asks_for_changes = match reviewers {
        Some(reviewers) => reviewers
            .iter()
            .any(|reviewer| reviewer["state"] == "requested_changes"),
        None => found["blocking_discussions_resolved"] == false,
    };
    if asks_for_changes {
        Review::ChangesRequested
    } else if items(&approvals["approved_by"]).is_empty() {
        Review::None
    } else {
        Review::Approved
    }
}
