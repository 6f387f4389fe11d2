//! The lease of a worker on an attempt, as the worker sees it: how long the attempt may run.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::boot_time::BootTime;

/// The longest time between two reads of the clock: that of the runtime does not count while the
/// machine sleeps.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A lease. Everything that runs under it ends when it is lost: at its end, unless it is renewed
/// before. A lost lease stays lost. Cheap to clone.
///
/// [`crate::Supervisor::with_lease`] starts processes under a lease.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use vik_proc::{BootTime, Lease};
///
/// let in_a_minute = || BootTime::now().saturating_add(Duration::from_secs(60));
/// let (sender, lease) = Lease::new(in_a_minute());
/// sender.renew(in_a_minute());
/// assert!(!lease.is_lost());
/// sender.end();
/// sender.renew(in_a_minute());
/// assert!(lease.is_lost());
/// ```
#[derive(Clone, Debug)]
pub struct Lease {
    end: watch::Receiver<BootTime>,
}

/// Renews a lease, or ends it. If it is dropped, the lease lasts until its end.
#[derive(Debug)]
pub struct LeaseSender {
    end: watch::Sender<BootTime>,
}

impl Lease {
    /// Creates a lease that lasts until `end`.
    pub fn new(end: BootTime) -> (LeaseSender, Self) {
        let (sender, end) = watch::channel(end);
        (LeaseSender { end: sender }, Self { end })
    }

    /// Returns whether the lease is lost. It reads the clock.
    pub fn is_lost(&self) -> bool {
        self.end().has_passed()
    }

    /// Waits until the lease is lost: for at most half a second longer if the machine has slept.
    /// Cancelling the call loses nothing.
    pub async fn lost(&self) {
        let mut ends = self.end.clone();
        loop {
            let end = *ends.borrow_and_update();
            if end.has_passed() {
                return;
            }
            tokio::select! {
                Ok(()) = ends.changed() => {}
                () = sleep(end.remaining().min(POLL_INTERVAL)) => {}
            }
        }
    }

    pub(crate) fn end(&self) -> BootTime {
        *self.end.borrow()
    }

    /// Waits for an end that this function has not returned before. Returns `None` when the lease is
    /// lost. Cancelling the call loses nothing.
    pub(crate) async fn renewed(&mut self) -> Option<BootTime> {
        let lease = self.clone();
        tokio::select! {
            () = lease.lost() => None,
            Ok(()) = self.end.changed() => Some(*self.end.borrow_and_update()),
        }
    }

    /// Makes [`renewed`](Self::renewed) return the present end, too.
    pub(crate) fn mark_renewed(&mut self) {
        self.end.mark_changed();
    }
}

impl LeaseSender {
    /// Replaces the end of the lease, unless it is lost. An end in the past loses it.
    pub fn renew(&self, end: BootTime) {
        self.end.send_if_modified(|current| {
            let renews = !current.has_passed() && *current != end;
            if renews {
                *current = end;
            }
            renews
        });
    }

    /// Ends the lease now.
    pub fn end(&self) {
        self.renew(BootTime::from_nanos(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_minute() -> BootTime {
        BootTime::now().saturating_add(Duration::from_secs(60))
    }

    #[test]
    fn lost_lease_stays_lost() {
        for lose in [LeaseSender::end, |sender: &LeaseSender| {
            sender.renew(BootTime::now());
        }] {
            let (sender, lease) = Lease::new(in_a_minute());
            assert!(!lease.is_lost());
            lose(&sender);
            assert!(lease.is_lost());
            sender.renew(in_a_minute());
            assert!(lease.is_lost());
        }
        let (sender, lease) = Lease::new(BootTime::now());
        sender.renew(in_a_minute());
        assert!(lease.is_lost());
    }

    #[tokio::test]
    async fn lease_is_lost_at_its_end_unless_it_is_renewed() {
        let (sender, lease) = Lease::new(in_a_minute());
        let waiting = tokio::spawn({
            let lease = lease.clone();
            async move { lease.lost().await }
        });
        let mut renewals = lease.clone();
        let end = in_a_minute();
        sender.renew(end);
        assert_eq!(renewals.renewed().await, Some(end));
        assert!(!waiting.is_finished() && !lease.is_lost());
        sender.end();
        waiting.await.unwrap();
        while renewals.renewed().await.is_some() {}
    }

    #[tokio::test]
    async fn lease_without_a_sender_lasts_until_its_end() {
        let (sender, lease) = Lease::new(BootTime::now().saturating_add(Duration::from_millis(20)));
        drop(sender);
        lease.lost().await;
        assert!(lease.is_lost());
    }
}
