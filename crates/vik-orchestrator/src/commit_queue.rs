//! Decide, commit, act: no effect is carried out before its decision is on disk, and none out of
//! order.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use futures_util::TryFutureExt;
use vik_base::failpoint;
use vik_core::changes::Changes;
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;
use vik_core::scheduler::Effect;
use vik_store::ledger::CommitError;

/// Resolves when changes are on disk.
pub type Committing = Pin<Box<dyn Future<Output = Result<(), CommitFailure>> + Send>>;

/// Resolves to the reason why no decision can be committed any more.
pub type Closed = Pin<Box<dyn Future<Output = CommitFailure> + Send>>;

/// Resolves to machines from the disk.
pub type Recalling = Pin<Box<dyn Future<Output = Result<Vec<IssueMachine>, CommitFailure>> + Send>>;

/// Why a decision is not committed, or the log cannot be read. The decision and all later ones are
/// void, and the loop ends.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitFailure {
    /// Nothing can be stored or read any more.
    #[error(transparent)]
    Storage(#[from] CommitError),
    /// Another hub leads, and the log accepts no decision of this one any more. The attempts are
    /// those of the other hub.
    #[error("another hub leads now")]
    Superseded,
    /// The log that hubs share takes no entry any more.
    #[error("the shared log cannot be extended: {0}")]
    Log(Arc<str>),
}

/// Commits decisions to disk, and has what memory no longer has.
pub trait CommitLog: Send {
    /// Starts to commit. Changes are committed in the order of the calls, also if nobody polls the
    /// results. After a failure, all later commits fail.
    fn commit(&self, changes: Changes) -> Committing;

    /// Reads the machines of these issues, as far as there are any, with the changes of all earlier
    /// calls of [`commit`](Self::commit).
    fn recall(&self, issues: Vec<IssueId>) -> Recalling;

    /// Resolves when the log accepts no decision any more, also if none is made. It is called once.
    fn closed(&self) -> Closed {
        Box::pin(std::future::pending())
    }
}

/// Decisions that are not on disk yet, with their effects.
pub struct CommitQueue {
    log: Box<dyn CommitLog>,
    /// `None` after it has resolved.
    closed: Option<Closed>,
    waiting: VecDeque<PendingCommit>,
}

/// The result of one input.
struct PendingCommit {
    /// `None` if there is nothing to commit, but an earlier decision is still pending.
    commit: Option<Committing>,
    effects: Vec<Effect>,
    /// Whether the decision ends an attempt.
    ends: bool,
}

impl CommitQueue {
    pub fn new(log: Box<dyn CommitLog>) -> Self {
        Self {
            closed: Some(log.closed()),
            log,
            waiting: VecDeque::new(),
        }
    }

    /// Adds a decision. Returns the effects that may be carried out immediately.
    pub fn push(&mut self, changes: Changes, effects: Vec<Effect>) -> Vec<Effect> {
        if !changes.started.is_empty() {
            failpoint::reach("decided");
        }
        let ends = !changes.ended.is_empty();
        let commit = (changes != Changes::default()).then(|| self.log.commit(changes));
        if commit.is_none() && (self.waiting.is_empty() || effects.is_empty()) {
            return effects;
        }
        self.waiting.push_back(PendingCommit {
            commit,
            effects,
            ends,
        });
        Vec::new()
    }

    /// Reads the machines of these issues; see [`CommitLog::recall`].
    pub fn recall(&self, issues: Vec<IssueId>) -> Recalling {
        self.log.recall(issues)
    }

    /// Returns whether all decisions are on disk.
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Waits until the oldest decision is on disk and returns its effects. Never completes if
    /// nothing is pending and the log is open. Cancelling the call loses nothing.
    ///
    /// # Errors
    /// When the decision could not be committed, or the log was closed. It and all later decisions
    /// are void, and their effects must not be carried out.
    pub async fn next(&mut self) -> Result<Vec<Effect>, CommitFailure> {
        poll_fn(|cx| {
            if let Some(closed) = &mut self.closed
                && let Poll::Ready(failure) = closed.as_mut().poll(cx)
            {
                self.closed = None;
                self.waiting.clear();
                return Poll::Ready(Err(failure));
            }
            let Some(first) = self.waiting.front_mut() else {
                return Poll::Pending;
            };
            let committed = match &mut first.commit {
                Some(commit) => ready!(commit.as_mut().poll(cx)),
                None => Ok(()),
            };
            if let Err(error) = committed {
                self.waiting.clear();
                return Poll::Ready(Err(error));
            }
            if first.ends {
                failpoint::reach("end_committed");
            }
            let effects = std::mem::take(&mut first.effects);
            self.waiting.pop_front();
            Poll::Ready(Ok(effects))
        })
        .await
    }
}

impl CommitLog for Arc<vik_store::Ledger> {
    fn commit(&self, changes: Changes) -> Committing {
        Box::pin(vik_store::Ledger::commit(self, changes).map_err(CommitFailure::from))
    }

    fn recall(&self, issues: Vec<IssueId>) -> Recalling {
        Box::pin(vik_store::Ledger::recall(self, issues).map_err(CommitFailure::from))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;
    use tokio::sync::oneshot;
    use vik_core::scheduler::CommandResult;
    use vik_store::ledger::LedgerError;

    use super::*;

    type Waiting = Arc<Mutex<Vec<Option<oneshot::Sender<Result<(), CommitFailure>>>>>>;

    /// A log that completes its commits on request.
    #[derive(Clone, Default)]
    struct Slow(Waiting);

    impl CommitLog for Slow {
        fn commit(&self, _: Changes) -> Committing {
            let (done, commit) = oneshot::channel();
            self.0.lock().unwrap().push(Some(done));
            Box::pin(async { commit.await.unwrap() })
        }

        fn recall(&self, _: Vec<IssueId>) -> Recalling {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    impl Slow {
        fn end(&self, at: usize, result: Result<(), CommitFailure>) {
            let done = self.0.lock().unwrap()[at].take().unwrap();
            done.send(result).unwrap();
        }
    }

    fn changed() -> Changes {
        Changes {
            paused: Some(true),
            ..Changes::default()
        }
    }

    fn effect(number: u64) -> Vec<Effect> {
        vec![Effect::CommandResult(number, CommandResult::Done(0))]
    }

    fn numbers(effects: Vec<Effect>) -> Vec<u64> {
        let number = |effect| match effect {
            Effect::CommandResult(number, _) => number,
            other => panic!("{other:?}"),
        };
        effects.into_iter().map(number).collect()
    }

    /// Returns the effects that may be carried out by now.
    fn released(queue: &mut CommitQueue) -> Vec<u64> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut all = Vec::new();
        while let Poll::Ready(effects) = std::pin::pin!(queue.next()).poll(&mut cx) {
            all.extend(numbers(effects.unwrap()));
        }
        all
    }

    #[test]
    fn effects_wait_until_their_commit_is_on_disk() {
        let slow = Slow::default();
        let mut queue = CommitQueue::new(Box::new(slow.clone()));
        assert_eq!(numbers(queue.push(Changes::default(), effect(1))), [1]);
        assert!(queue.push(changed(), effect(2)).is_empty());
        assert!(
            queue.push(Changes::default(), effect(3)).is_empty(),
            "it must not overtake"
        );
        assert!(!queue.is_settled());
        assert!(released(&mut queue).is_empty());
        slow.end(0, Ok(()));
        assert_eq!(released(&mut queue), [2, 3]);
        assert!(queue.is_settled());
    }

    #[test]
    fn failed_commit_stops_all_later_effects() {
        let cause = Arc::new(LedgerError::Stopped);
        for failure in [CommitError { cause }.into(), CommitFailure::Superseded] {
            let slow = Slow::default();
            let mut queue = CommitQueue::new(Box::new(slow.clone()));
            for number in 0..3 {
                assert!(queue.push(changed(), effect(number)).is_empty());
            }
            slow.end(0, Ok(()));
            slow.end(2, Ok(()));
            assert_eq!(released(&mut queue), [0]);
            slow.end(1, Err(failure));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            let failed = std::pin::pin!(queue.next()).poll(&mut cx);
            assert!(matches!(failed, Poll::Ready(Err(_))));
            assert!(released(&mut queue).is_empty());
        }
    }

    #[test]
    fn closed_log_stops_the_effects_of_what_it_has_committed() {
        struct Closing(Slow, Mutex<Option<oneshot::Receiver<CommitFailure>>>);

        impl CommitLog for Closing {
            fn commit(&self, changes: Changes) -> Committing {
                self.0.commit(changes)
            }

            fn recall(&self, issues: Vec<IssueId>) -> Recalling {
                self.0.recall(issues)
            }

            fn closed(&self) -> Closed {
                let closed = self.1.lock().unwrap().take().unwrap();
                Box::pin(async { closed.await.unwrap() })
            }
        }

        let slow = Slow::default();
        let (close, closed) = oneshot::channel();
        let mut queue = CommitQueue::new(Box::new(Closing(slow.clone(), Mutex::new(Some(closed)))));
        for number in 0..2 {
            assert!(queue.push(changed(), effect(number)).is_empty());
        }
        slow.end(0, Ok(()));
        assert_eq!(released(&mut queue), [0]);
        slow.end(1, Ok(()));
        close.send(CommitFailure::Superseded).unwrap();
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let failed = std::pin::pin!(queue.next()).poll(&mut cx);
        assert!(matches!(failed, Poll::Ready(Err(CommitFailure::Superseded))));
        assert!(released(&mut queue).is_empty());
    }

    proptest! {
        /// Commits complete in any order; the effects follow the order of their decisions, each
        /// exactly once, after its decision and all earlier ones are on disk.
        #[test]
        fn effects_keep_their_order(changes in proptest::collection::vec(any::<bool>(), 0..20), order in any::<u64>()) {
            let slow = Slow::default();
            let mut queue = CommitQueue::new(Box::new(slow.clone()));
            let mut done = Vec::new();
            let mut commits = Vec::new();
            for (number, has_changes) in changes.iter().enumerate() {
                let input = if *has_changes { changed() } else { Changes::default() };
                if *has_changes {
                    commits.push((commits.len(), number as u64));
                }
                done.extend(numbers(queue.push(input, effect(number as u64))));
            }
            let mut open: Vec<_> = commits.clone();
            let mut seed = order;
            while !open.is_empty() {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (commit, _) = open.remove((seed >> 33) as usize % open.len());
                slow.end(commit, Ok(()));
                done.extend(released(&mut queue));
                let first_open = open.iter().map(|(_, number)| *number).min();
                let expected = first_open.unwrap_or(changes.len() as u64);
                prop_assert_eq!(&done, &(0..expected).collect::<Vec<_>>());
            }
            prop_assert_eq!(done.len(), changes.len());
            prop_assert!(queue.is_settled());
        }
    }
}
