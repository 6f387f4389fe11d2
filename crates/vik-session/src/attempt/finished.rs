//! An attempt whose agent has ended: its changes, its result and its outputs are judged.

use vik_base::failpoint;

use super::acceptance::{Acceptance, Unaccepted};
use super::exited::{Detached, Exited};
use super::judged::Judged;
use super::questions;
use super::workplace::{Acquired, Workplace};
use crate::secrets::Values;

/// An attempt whose agent has ended, in its workspace.
pub(super) struct Finished<'a> {
    pub(super) exited: Exited<'a>,
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
            mut exited,
            mut secrets,
            workplace,
        } = self;
        let cx = exited.cx;
        failpoint::reach("agent_ended");
        if let Err(lost) = cx.check_lease() {
            exited.verdict = exited.verdict.and(Err(lost));
            return Ok(Judged::new(exited, Acquired::new(secrets, workplace)));
        }
        let changes = cx.check_changes(&workplace.folder, exited.agent.ran).await;
        exited.verdict = exited.verdict.and(changes);
        failpoint::reach("changes_traced");
        let mut outputs = Vec::new();
        let mut hand_over_failure = None;
        let mut question = None;
        if exited.verdict.is_success() {
            // An agent that asks is not done: nothing of its work is checked or handed over.
            match cx.read_question().await {
                Ok(asked) => question = asked,
                Err(failure) => exited.verdict = failure.into(),
            }
        }
        if let Some(question) = &question {
            exited.verdict = questions::asked(question).into();
        }
        if exited.verdict.is_success() {
            let resolved = match secrets.take() {
                Some(secrets) => Ok(secrets),
                None => cx.resolve_secrets().await,
            };
            match resolved {
                Ok(resolved) => {
                    let mut acceptance = Acceptance {
                        scripts: workplace.scripts(cx, &resolved),
                        workdir: workplace.workdir(),
                        log: &mut exited.log,
                        results: &mut outputs,
                    };
                    match acceptance.run().await {
                        Ok(failure) => hand_over_failure = failure,
                        Err(Unaccepted::Failed(failure)) => exited.verdict = failure.into(),
                        Err(Unaccepted::Detached) => return Err(Detached),
                    }
                    secrets = Some(resolved);
                }
                Err(failure) => exited.verdict = failure.into(),
            }
        }
        let after = cx.fingerprint(workplace.workdir()).await;
        let changed = workplace.before.zip(after).map(|(before, after)| before != after);
        Ok(Judged {
            changed,
            outputs,
            question,
            hand_over_failure,
            ..Judged::new(exited, Acquired::new(secrets, workplace))
        })
    }
}
