//! An attempt whose agent has ended: its changes, its result and its outputs are judged.

use vik_base::failpoint;

use super::acceptance::{Acceptance, Unaccepted};
use super::agent_end::AgentEnd;
use super::exited::Detached;
use super::judged::Judged;
use super::opened::AttemptContext;
use super::questions;
use super::session_log::ClosableLog;
use super::verdict::Verdict;
use super::workplace::{Acquired, Workplace};
use crate::secrets::Values;

/// An attempt whose agent has ended, in its workspace.
pub(super) struct Finished<'a> {
    pub(super) cx: &'a AttemptContext<'a>,
    pub(super) log: ClosableLog,
    pub(super) agent: AgentEnd,
    pub(super) verdict: Verdict,
    /// `None` if they could not be resolved again: the attempt has failed then.
    pub(super) secrets: Option<Values>,
    pub(super) workplace: Workplace,
}

impl<'a> Finished<'a> {
    /// Traces what the agent changed. A success must also keep to its scope, pass `verify`, be
    /// approved where that is required, and apply its outputs.
    ///
    /// # Errors
    /// When the daemon exits while the attempt waits for a person.
    pub(super) async fn judge(self) -> Result<Judged<'a>, Detached> {
        let Self {
            cx,
            mut log,
            agent,
            verdict,
            mut secrets,
            workplace,
        } = self;
        failpoint::reach("agent_ended");
        let changes = cx.check_changes(&workplace.folder, agent.ran).await;
        let mut verdict = verdict.and(changes);
        failpoint::reach("changes_traced");
        let mut outputs = Vec::new();
        let mut hand_over_failure = None;
        let mut question = None;
        if verdict.is_success() {
            // An agent that asks is not done: nothing of its work is checked or handed over.
            match cx.read_question().await {
                Ok(asked) => question = asked,
                Err(failure) => verdict = failure.into(),
            }
        }
        if let Some(question) = &question {
            verdict = questions::asked(question).into();
        }
        if verdict.is_success() {
            let resolved = match secrets.take() {
                Some(secrets) => Ok(secrets),
                None => cx.resolve_secrets().await,
            };
            match resolved {
                Ok(resolved) => {
                    let mut acceptance = Acceptance {
                        scripts: workplace.scripts(cx, &resolved),
                        workdir: workplace.workdir(),
                        log: &mut log,
                        summaries: &mut outputs,
                    };
                    match acceptance.run().await {
                        Ok(failure) => hand_over_failure = failure,
                        Err(Unaccepted::Failed(failure)) => verdict = failure.into(),
                        Err(Unaccepted::Detached) => return Err(Detached),
                    }
                    secrets = Some(resolved);
                }
                Err(failure) => verdict = failure.into(),
            }
        }
        let after = cx.fingerprint(workplace.workdir()).await;
        let changed = workplace.before.zip(after).map(|(before, after)| before != after);
        Ok(Judged {
            cx,
            log,
            agent,
            verdict,
            by_after_create: false,
            changed,
            outputs,
            question,
            hand_over_failure,
            acquired: Acquired::new(secrets, workplace),
        })
    }
}
