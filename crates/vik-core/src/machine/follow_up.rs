//! Rounds: an issue comes back to a stage that has worked on it, with what others have said since.

use std::collections::{BTreeMap, BTreeSet};

use super::{IssueMachine, Run};
use crate::attempt::{NewActivity, Start};
use crate::ids::StageName;
use crate::issue::{Activity, ActivityKey, CheckState, Comment};
use crate::limits::LimitHit;
use crate::plural::count;
use crate::workflow::{IssuePolicy, ResumePolicy, Stage, TrustPolicy, Workflow};

/// Whether the agents of a stage have something to do in a state of `when.follow_up`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowUp {
    /// There is a reason for another round.
    Due {
        /// The number of comments that are a reason.
        comments: usize,
        /// The names of the checks that failed.
        failed: Vec<String>,
    },
    /// There is none yet.
    Waits {
        /// The names of the checks that have no result.
        pending: Vec<String>,
    },
}

/// The number of checks that a decision names, and the length of their names in it.
const MAX_NAMES: usize = 3;
const MAX_NAME_CHARS: usize = 60;

impl FollowUp {
    /// Returns the reasons for a round, as text that follows its number.
    pub(crate) fn describe(&self) -> String {
        let Self::Due { comments, failed } = self else {
            return String::new();
        };
        let comments = (*comments > 0).then(|| count(*comments, "new comment"));
        let names: Vec<String> = failed
            .iter()
            .take(MAX_NAMES)
            .map(|name| name.chars().take(MAX_NAME_CHARS).collect())
            .collect();
        let failed = (!failed.is_empty())
            .then(|| format!("{} ({})", count(failed.len(), "failed check"), names.join(", ")));
        let reasons: Vec<_> = comments.into_iter().chain(failed).collect();
        format!(" for {}", reasons.join(" and "))
    }
}

/// What starts a round beside failed checks: a comment of a trusted author that the agents of the
/// stage do not know. What Vik wrote itself does not.
fn is_reason(comment: &Comment, trust: Option<&TrustPolicy>) -> bool {
    !comment.is_own() && trust.is_none_or(|trust| trust.knows(comment.author.as_deref()))
}

impl IssueMachine {
    /// Returns the comments and checks that the agents of each stage had in their prompts. A stage of
    /// which no agent has read a prompt is not in it.
    pub fn seen(&self) -> &BTreeMap<StageName, BTreeSet<ActivityKey>> {
        &self.seen
    }

    /// Returns whether the next attempt of a stage starts another round: an agent of an earlier run
    /// has worked on the issue.
    pub fn starts_round(&self, stage: &Stage) -> bool {
        let is_first = |run: &Run| run.last.is_none();
        stage.has_rounds()
            && self.seen.contains_key(&stage.name)
            && self.run(&stage.name).is_none_or(is_first)
    }

    /// Returns the limit on rounds, if the next attempt of a stage would start one too many.
    pub(crate) fn rounds_used_up(&self, stage: &Stage, policy: &IssuePolicy) -> Option<LimitHit> {
        let hit = self.life.rounds_used_up(policy)?;
        self.starts_round(stage).then_some(hit)
    }

    /// Returns whether comments and checks are a reason for another round of a stage.
    pub fn follow_up(&self, stage: &Stage, trust: Option<&TrustPolicy>) -> FollowUp {
        let Some(seen) = self.seen.get(&stage.name) else {
            return FollowUp::Waits { pending: Vec::new() };
        };
        let activity = self.issue.activity();
        let comments = new_comments(activity, seen, trust).count();
        let named = |state: CheckState, is_known: &dyn Fn(&ActivityKey) -> bool| {
            let checks = activity.checks.iter();
            let checks = checks.filter(|check| check.state == state && !is_known(&check.key));
            checks.map(|check| check.name.clone()).collect::<Vec<_>>()
        };
        // The others may fail too, and one round is cheaper than several.
        let pending = named(CheckState::Pending, &|_| false);
        let failed = match pending.is_empty() {
            true => named(CheckState::Failed, &|key| seen.contains(key)),
            false => Vec::new(),
        };
        if comments == 0 && failed.is_empty() {
            return FollowUp::Waits { pending };
        }
        FollowUp::Due { comments, failed }
    }

    /// Returns whether the state of the issue is one in which the stage waits for comments and checks,
    /// and none of them is a reason for another round.
    pub(super) fn waits_for_follow_up(&self, stage: &Stage, workflow: &Workflow) -> bool {
        stage.when.is_follow_up(&self.issue.state)
            && matches!(
                self.follow_up(stage, workflow.trust.as_ref()),
                FollowUp::Waits { .. }
            )
    }

    /// Returns what the prompt of an attempt is to say of the comments and checks: in a conversation
    /// that is resumed, what it does not have yet.
    pub fn new_activity(&self, stage: &Stage, resumes: bool, trust: Option<&TrustPolicy>) -> NewActivity {
        let seen = self.seen.get(&stage.name);
        let known = seen.filter(|_| resumes);
        NewActivity {
            is_follow_up: stage.has_rounds() && seen.is_some(),
            ..NewActivity::unknown(self.issue.activity(), known, trust)
        }
    }

    /// Notes what the agent of an attempt has read.
    pub(super) fn on_activity_read(&mut self, start: &Start) {
        let seen = self.seen.entry(start.stage.name.clone()).or_default();
        seen.extend(start.issue.activity().keys());
    }
}

/// Returns the comments that are a reason to work on the issue again, and unknown to its agents.
pub(super) fn new_comments<'a>(
    activity: &'a Activity,
    seen: &'a BTreeSet<ActivityKey>,
    trust: Option<&'a TrustPolicy>,
) -> impl Iterator<Item = &'a Comment> {
    let comments = activity.comments.iter();
    comments.filter(move |comment| !seen.contains(&comment.key) && is_reason(comment, trust))
}

impl NewActivity {
    /// Returns the comments of others and the checks that are not among the known ones.
    pub fn unknown(
        activity: &Activity,
        known: Option<&BTreeSet<ActivityKey>>,
        trust: Option<&TrustPolicy>,
    ) -> Self {
        let is_new = |key: &ActivityKey| known.is_none_or(|known| !known.contains(key));
        let comments = activity.comments.iter().enumerate();
        let comments = comments.filter(|(_, comment)| is_new(&comment.key) && !comment.is_own());
        let checks = activity.checks.iter().enumerate();
        let checks = checks.filter(|(_, check)| is_new(&check.key));
        Self {
            is_follow_up: false,
            comments: comments.map(|(at, _)| at).collect(),
            checks: checks.map(|(at, _)| at).collect(),
            trust: trust.cloned(),
        }
    }
}

impl Stage {
    /// Returns whether issues come back to the stage in rounds, which `issue.limits.rounds` limits.
    pub fn has_rounds(&self) -> bool {
        self.resume == ResumePolicy::Issue || !self.when.follow_up.is_empty()
    }
}
