//! Which hub leads: one activity of one workflow, which the server gives to one hub at a time.
//!
//! A hub that leads may be frozen and not know that another one leads. What it decides then is
//! refused by the [log](crate::log), since the other hub has taken a term.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use temporalio_client::Client;
use temporalio_client::errors::WorkflowInteractionError;
use temporalio_common::RetryPolicy;
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_sdk::{
    ActivityExecutionError, ActivityOptions, ApplicationFailure, ContinueAsNewOptions, WorkflowContext,
    WorkflowResult,
};
use tokio::sync::watch;

use crate::lease::{HeartbeatResult, Heartbeats};
use crate::names::{HubId, Queue, host_in};
use crate::rpc::{LastHeartbeat, last_heartbeat};
use vik_proc::{BootTime, Lease};
use vik_session::host::millis;

/// The shortest time without a heartbeat after which a hub leads no longer.
pub const MIN_LEAD_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns after how much time without a heartbeat a hub leads no longer. A hosted service charges for
/// each heartbeat, so those of the hub become rarer with those of the attempts.
pub fn lead_timeout(attempts: Duration) -> Duration {
    (attempts / 10).max(MIN_LEAD_TIMEOUT)
}

const LEAD_ACTIVITY: &str = "vik_lead";

/// The pause before the server gives the activity to another hub.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A hub may lead for ever, but the server wants a limit.
const MAX_LEAD: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A long history is replaced by a short one of the same workflow.
const MAX_EVENTS: u32 = 1_000;

/// Whether this hub leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Following,
    /// It leads until this time, which each heartbeat extends.
    Leading {
        until: BootTime,
    },
}

impl Standing {
    pub fn is_leading(self) -> bool {
        matches!(self, Self::Leading { .. })
    }
}

/// Observes whether this hub leads.
#[derive(Clone, Debug)]
pub struct Leadership {
    standing: watch::Receiver<Standing>,
}

impl Leadership {
    /// Returns the receiver of what the activity sends.
    pub(crate) fn new(standing: watch::Receiver<Standing>) -> Self {
        Self { standing }
    }

    /// Returns the present standing. After a time in which this process did not run, it is not
    /// `Leading` any more.
    pub fn standing(&self) -> Standing {
        match *self.standing.borrow() {
            Standing::Leading { until } if until.has_passed() => Standing::Following,
            standing => standing,
        }
    }

    /// Resolves when this hub leads.
    pub async fn acquired(&mut self) {
        self.wait(true).await;
    }

    /// Resolves when this hub no longer leads.
    pub async fn lost(&mut self) {
        self.wait(false).await;
    }

    /// Returns a lease that lasts as long as this hub leads. If it does not lead, it is lost.
    pub fn lease(&self) -> Lease {
        let mut standing = self.standing.clone();
        let until = |standing: Standing| match standing {
            Standing::Leading { until } => until,
            Standing::Following => BootTime::now(),
        };
        let (sender, lease) = Lease::new(until(*standing.borrow_and_update()));
        tokio::spawn(async move {
            while standing.changed().await.is_ok() {
                sender.renew(until(*standing.borrow_and_update()));
            }
            // The hub has stopped.
            sender.end();
        });
        lease
    }

    async fn wait(&mut self, is_leading: bool) {
        let is_wanted = |standing: &Standing| standing.is_leading() == is_leading;
        if self.standing.wait_for(is_wanted).await.is_err() && is_leading {
            // The hub has stopped, and will not lead.
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the hub that leads, as far as the server knows: it may have ended a moment ago. It is
/// `None` if no hub has led yet.
///
/// # Errors
///
/// Returns an error if the server does not answer, or if the details cannot be read.
pub async fn leader(client: &Client, queue: &Queue) -> Result<Option<HubId>, WorkflowInteractionError> {
    Ok(leader_and_host(client, queue).await?.map(|(hub, _)| hub))
}

/// As [`leader`], with its host.
///
/// # Errors
///
/// As [`leader`].
pub(crate) async fn leader_and_host(
    client: &Client,
    queue: &Queue,
) -> Result<Option<(HubId, String)>, WorkflowInteractionError> {
    let heartbeat = match last_heartbeat(client, &queue.hub(), LEAD_ACTIVITY).await {
        // The workflow is started by the first hub.
        Err(WorkflowInteractionError::NotFound(_)) => return Ok(None),
        heartbeat => heartbeat?,
    };
    Ok(heartbeat.and_then(|LastHeartbeat { details, identity }| {
        Some((details.parse().ok()?, host_in(&identity).to_owned()))
    }))
}

/// Keeps one hub leading.
#[workflow]
#[derive(Default)]
pub struct LeadWorkflow;

#[workflow_methods]
impl LeadWorkflow {
    #[run(name = "vik_hub")]
    pub async fn run(ctx: &mut WorkflowContext<Self>, _input: ()) -> WorkflowResult<()> {
        let mut timeout = MIN_LEAD_TIMEOUT;
        loop {
            let retry = RetryPolicy::builder()
                .initial_interval(RETRY_PAUSE)
                .backoff_coefficient(1.0)
                .maximum_interval(RETRY_PAUSE)
                .build();
            let options = ActivityOptions::with_start_to_close_timeout(MAX_LEAD)
                .heartbeat_timeout(timeout)
                .retry_policy(retry)
                .build();
            match ctx.execute_activity(LeadActivities::lead, (), options).await {
                Ok(wanted_ms) => timeout = Duration::from_millis(wanted_ms),
                Err(ActivityExecutionError::Cancelled(_)) => return Ok(()),
                Err(_) => {}
            }
            if ctx.history_length() > MAX_EVENTS {
                ctx.continue_as_new((), ContinueAsNewOptions::default())?;
            }
        }
    }
}

/// What the hub that leads runs.
pub struct LeadActivities {
    /// The details of the heartbeats: others find the hub that leads by them.
    hub: HubId,
    timeout: Duration,
    /// Whether this hub has asked for its timeout since it led last. It asks once, so that hubs with
    /// different ones do not take turns for ever.
    has_asked: AtomicBool,
    standing: watch::Sender<Standing>,
}

impl LeadActivities {
    pub(crate) fn new(hub: HubId, timeout: Duration, standing: watch::Sender<Standing>) -> Self {
        Self {
            hub,
            timeout,
            has_asked: AtomicBool::new(false),
            standing,
        }
    }
}

#[activities]
impl LeadActivities {
    /// Leads until the lease ends or the hub stops, and then fails, so that the server gives it to the
    /// next hub. If it is to start with another heartbeat timeout than that of this hub, it returns the
    /// one of this hub, in milliseconds.
    #[activity(name = "vik_lead")]
    pub async fn lead(self: Arc<Self>, ctx: ActivityContext, _input: ()) -> Result<u64, ActivityError> {
        if ctx.info().heartbeat_timeout != Some(self.timeout) && !self.has_asked.swap(true, Ordering::Relaxed)
        {
            return Ok(millis(self.timeout));
        }
        let heartbeats = Heartbeats::new(ctx.clone());
        let hub = self.hub.to_string();
        let mut until = match heartbeats.send(&hub).await {
            HeartbeatResult::Confirmed { until, .. } => until,
            HeartbeatResult::NotHeld | HeartbeatResult::Unanswered => return Err(leads_no_longer()),
        };
        self.has_asked.store(false, Ordering::Relaxed);
        let standing = StandingGuard(&self.standing);
        loop {
            standing.0.send_replace(Standing::Leading { until });
            let pause = heartbeats.interval().min(until.remaining());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The hub stops, or the server has given the activity away.
                () = ctx.cancelled() => break,
            }
            if until.has_passed() {
                break;
            }
            match tokio::time::timeout(until.remaining(), heartbeats.send(&hub)).await {
                Ok(HeartbeatResult::Confirmed { until: renewed, .. }) => until = renewed,
                Ok(HeartbeatResult::Unanswered) => {}
                Ok(HeartbeatResult::NotHeld) | Err(_) => break,
            }
        }
        Err(leads_no_longer())
    }
}

/// Makes this hub a follower, however the activity ends.
struct StandingGuard<'a>(&'a watch::Sender<Standing>);

impl Drop for StandingGuard<'_> {
    fn drop(&mut self) {
        self.0.send_replace(Standing::Following);
    }
}

fn leads_no_longer() -> ActivityError {
    ActivityError::application(ApplicationFailure::new("this hub leads no longer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_leads_for_a_tenth_of_the_timeout_of_attempts() {
        let secs = Duration::from_secs;
        for (attempts, lead) in [(3, 3), (30, 3), (60, 6), (300, 30)] {
            assert_eq!(lead_timeout(secs(attempts)), secs(lead));
        }
    }

    #[tokio::test]
    async fn leadership_is_lost_when_its_lease_has_passed() {
        let (sender, receiver) = watch::channel(Standing::Following);
        let mut leadership = Leadership::new(receiver);
        assert_eq!(leadership.standing(), Standing::Following);
        let until = BootTime::now().saturating_add(Duration::from_secs(60));
        sender.send_replace(Standing::Leading { until });
        leadership.acquired().await;
        assert!(leadership.standing().is_leading());
        // As after the process was frozen: nothing has reported the end yet.
        let until = BootTime::now();
        sender.send_replace(Standing::Leading { until });
        assert_eq!(leadership.standing(), Standing::Following);
        drop(StandingGuard(&sender));
        leadership.lost().await;
        drop(sender);
        leadership.lost().await;
    }
}
