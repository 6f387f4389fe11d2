//! Heartbeats of an activity, and the time for which each of them lets it continue.
//!
//! The SDK sends heartbeats of its own, but does not report whether the server has confirmed them.
//! If the connection is lost, the activity would continue after the server has given it to another
//! process. Here each heartbeat is a request of its own, and the lease ends at three quarters of the
//! timeout, counted from before the request was sent.

use std::time::Duration;

use temporalio_client::errors::AsyncActivityError;
use temporalio_client::{ActivityHeartbeatResponse, ActivityIdentifier, AsyncActivityHandle, Client};
use temporalio_common::protos::TaskToken;
use temporalio_sdk::activities::ActivityContext;

use crate::rpc::once;
use vik_proc::BootTime;

/// Sends the heartbeats of one activity.
pub(crate) struct Heartbeats {
    context: ActivityContext,
    handle: AsyncActivityHandle<Client>,
    timeout: Duration,
}

/// The result of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeartbeatResult {
    /// The activity may continue until this time.
    Confirmed { until: BootTime, cancel_requested: bool },
    /// The activity has ended for the server, or another process has it.
    NotHeld,
    /// It is not known whether the server has the heartbeat.
    Unanswered,
}

impl Heartbeats {
    /// Returns the heartbeats of an activity that has a heartbeat timeout.
    pub fn new(context: ActivityContext) -> Self {
        let timeout = context.info().heartbeat_timeout.unwrap_or(MIN_TIMEOUT);
        let token = TaskToken::from(context.info().task_token.clone());
        let handle = context
            .client()
            .get_async_activity_handle(ActivityIdentifier::from_task_token(token));
        Self {
            context,
            handle,
            timeout,
        }
    }

    /// Returns the time between two heartbeats.
    pub fn interval(&self) -> Duration {
        interval(self.timeout)
    }

    /// Returns how long a heartbeat with new details waits for more of them.
    pub fn update_interval(&self) -> Duration {
        update_interval(self.timeout)
    }

    /// Sends a heartbeat with details that others can read.
    pub async fn send(&self, details: &str) -> HeartbeatResult {
        let sent = BootTime::now();
        let mut answer = self.request(details).await;
        if let Err(AsyncActivityError::PayloadConversion(error)) = &answer {
            // The lease does not depend on what the details are.
            tracing::warn!(%error, "the details of a heartbeat are left out");
            answer = self.request("").await;
        }
        match answer {
            Ok(response) => HeartbeatResult::Confirmed {
                until: lease_end(sent, self.timeout),
                cancel_requested: response.cancel_requested,
            },
            Err(AsyncActivityError::NotFound(_)) => HeartbeatResult::NotHeld,
            Err(error) => {
                tracing::debug!(%error, "a heartbeat has no answer");
                HeartbeatResult::Unanswered
            }
        }
    }

    async fn request(&self, details: &str) -> Result<ActivityHeartbeatResponse, AsyncActivityError> {
        let details = details.to_owned();
        let options = once(self.timeout / 2);
        let response = self.handle.heartbeat(Some(details.clone()), options).await?;
        // Without it, the SDK cancels the activity.
        self.context.record_heartbeat(details).await?;
        Ok(response)
    }
}

/// The timeout of an activity that has none. None of ours is without.
const MIN_TIMEOUT: Duration = Duration::from_secs(3);

fn interval(timeout: Duration) -> Duration {
    timeout / 4
}

/// Returns how often the details of heartbeats change and are read: once a second, and less often with
/// a long timeout, as a hosted service charges for each heartbeat.
pub(crate) fn update_interval(timeout: Duration) -> Duration {
    (timeout / 30).max(Duration::from_secs(1))
}

/// Returns when the lease ends that a heartbeat renews.
fn lease_end(sent: BootTime, timeout: Duration) -> BootTime {
    sent.saturating_add(timeout * 3 / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ends_before_the_server_gives_the_activity_away() {
        let sent = BootTime::now();
        let timeout = Duration::from_secs(30);
        assert_eq!(
            lease_end(sent, timeout),
            sent.saturating_add(Duration::from_millis(22_500))
        );
        // Two heartbeats may fail before the lease ends.
        assert!(interval(timeout) * 3 <= Duration::from_millis(22_500));
    }

    #[test]
    fn updates_become_rarer_with_a_long_timeout() {
        let secs = Duration::from_secs;
        for (timeout, expected) in [(3, 1), (30, 1), (60, 2), (300, 10)] {
            assert_eq!(update_interval(secs(timeout)), secs(expected));
        }
        assert!(update_interval(secs(300)) < interval(secs(300)));
    }
}
