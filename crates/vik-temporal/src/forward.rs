//! Passes requests to the API on to the hub that leads.

use std::time::Duration;

use temporalio_client::Client;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use vik_control::http::{ForwardError, ForwardedRequest, ForwardedResponse, LeadingHub};
use vik_orchestrator::Task;

use crate::lead::leader_and_host;
use crate::names::{HubId, Queue};
use crate::outputs::{ApiResponse, HubRequest};
use crate::request::{Recipient, RequestError, Requests};

/// The pause before the hub that leads is asked again, or the next one.
const PAUSE: Duration = Duration::from_millis(200);

/// The hub that leads, as one that follows reaches it.
#[derive(Clone, Debug)]
pub(crate) struct RemoteLeader {
    client: Client,
    queue: Queue,
    requests: Requests,
    /// Requests are sent from there: the API has a runtime of its own, which may end before them.
    runtime: Handle,
}

impl RemoteLeader {
    /// Sends requests from the present runtime.
    pub(crate) fn new(client: Client, queue: Queue) -> Self {
        Self {
            requests: Requests::new(client.clone(), queue.clone()),
            client,
            queue,
            runtime: Handle::current(),
        }
    }

    async fn ask_until(
        &self,
        request: ForwardedRequest,
        deadline: Instant,
    ) -> Result<ForwardedResponse, ForwardError> {
        let is_read = request.is_read();
        let body = serde_json::to_string(&HubRequest::Api(Box::new(request)));
        let body = body.map_err(|error| ForwardError::NoLeader(error.to_string()))?;
        repeat(is_read, deadline, || self.ask_once(&body, deadline)).await
    }

    async fn ask_once(&self, body: &str, deadline: Instant) -> Result<ForwardedResponse, Unanswered> {
        let not_carried_out = |reason| Unanswered::NotCarriedOut { reason, again: true };
        let leader = timeout_at(deadline, leader_and_host(&self.client, &self.queue)).await;
        let (hub, host) = match leader {
            Ok(Ok(Some(leader))) => leader,
            Ok(Ok(None)) => return Err(not_carried_out("none has led yet".to_owned())),
            Ok(Err(error)) => return Err(not_carried_out(format!("the server: {error}"))),
            Err(_) => return Err(not_carried_out("the server does not answer".to_owned())),
        };
        let sent = timeout_at(deadline, self.send(hub, body, deadline)).await;
        let unknown = |reason: String, again| Unanswered::Unknown {
            leader: format!("the hub that leads, on {host},"),
            reason,
            again,
        };
        match sent.unwrap_or(Err(RequestError::TimedOut)) {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(ApiResponse::NotLeading) => Err(not_carried_out(format!(
                    "the hub on {host} does not lead yet, or no longer"
                ))),
                Ok(ApiResponse::Answer(response)) if response.is_stopping() => {
                    Err(unknown("it is shutting down".to_owned(), true))
                }
                Ok(ApiResponse::Answer(response)) => Ok(response),
                Err(error) => Err(unknown(format!("its answer cannot be read: {error}"), false)),
            },
            Err(error @ RequestError::NotTaken) => {
                Err(not_carried_out(format!("the hub on {host}: {error}")))
            }
            // It would be the same each time.
            Err(error @ (RequestError::InvalidBody(_) | RequestError::Refused(_))) => {
                Err(Unanswered::NotCarriedOut {
                    reason: format!("the hub on {host}: {error}"),
                    again: false,
                })
            }
            Err(error @ RequestError::InvalidAnswer(_)) => Err(unknown(error.to_string(), false)),
            Err(error) => Err(unknown(error.to_string(), true)),
        }
    }

    async fn send(&self, hub: HubId, body: &str, deadline: Instant) -> Result<String, RequestError> {
        let limit = deadline.saturating_duration_since(Instant::now());
        self.requests
            .send(&Recipient::Hub(hub), body.to_owned(), limit)
            .await
    }
}

impl LeadingHub for RemoteLeader {
    fn ask(
        &self,
        request: ForwardedRequest,
        timeout: Duration,
    ) -> Task<Result<ForwardedResponse, ForwardError>> {
        let (deadline, leader) = (Instant::now() + timeout, self.clone());
        let asked = self
            .runtime
            .spawn(async move { leader.ask_until(request, deadline).await });
        // A client that disconnects cancels its request.
        let asked = AbortOnDropHandle::new(asked);
        Box::pin(async {
            asked.await.unwrap_or_else(|error| {
                Err(ForwardError::Unknown {
                    leader: "the hub that leads".to_owned(),
                    reason: error.to_string(),
                })
            })
        })
    }
}

/// Asks until a hub answers or the deadline has passed. What may have been carried out is repeated
/// only if the request changes nothing.
async fn repeat<T, F: Future<Output = Result<T, Unanswered>>>(
    is_read: bool,
    deadline: Instant,
    mut ask_once: impl FnMut() -> F,
) -> Result<T, ForwardError> {
    loop {
        let error = match ask_once().await {
            Ok(response) => return Ok(response),
            Err(Unanswered::NotCarriedOut { reason, again }) => (ForwardError::NoLeader(reason), again),
            Err(Unanswered::Unknown {
                leader,
                reason,
                again,
            }) => (ForwardError::Unknown { leader, reason }, is_read && again),
        };
        match error {
            (_, true) if Instant::now() + PAUSE < deadline => sleep(PAUSE).await,
            (error, _) => return Err(error),
        }
    }
}

/// One hub has not answered.
#[derive(Clone, Debug)]
enum Unanswered {
    NotCarriedOut {
        reason: String,
        /// Whether the next hub may answer.
        again: bool,
    },
    Unknown {
        leader: String,
        reason: String,
        /// Whether the next hub may answer, if the request changes nothing.
        again: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(9);

    fn not_carried_out(again: bool) -> Unanswered {
        Unanswered::NotCarriedOut {
            reason: "none leads".to_owned(),
            again,
        }
    }

    fn unknown(again: bool) -> Unanswered {
        Unanswered::Unknown {
            leader: "the hub".to_owned(),
            reason: "it was lost".to_owned(),
            again,
        }
    }

    /// Asks hubs that answer like this, one after another, and the last one again and again. Returns
    /// the result, and how often a hub was asked.
    async fn asked(is_read: bool, answers: &[Result<u8, Unanswered>]) -> (Result<u8, ForwardError>, usize) {
        let mut count = 0;
        let result = repeat(is_read, Instant::now() + LIMIT, || {
            count += 1;
            std::future::ready(answers[count.min(answers.len()) - 1].clone())
        })
        .await;
        (result, count)
    }

    #[tokio::test(start_paused = true)]
    async fn change_that_may_have_been_carried_out_is_not_repeated() {
        let answers = [Err(not_carried_out(true)), Err(unknown(true)), Ok(1)];
        let (result, count) = asked(false, &answers).await;
        assert!(matches!(result, Err(ForwardError::Unknown { .. })), "{result:?}");
        assert_eq!(count, 2);
        assert_eq!(asked(true, &answers).await, (Ok(1), 3), "a read is repeated");
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_no_hub_can_answer_is_asked_once() {
        for unanswered in [not_carried_out(false), unknown(false)] {
            let (result, count) = asked(true, &[Err(unanswered), Ok(1)]).await;
            assert!(result.is_err());
            assert_eq!(count, 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hubs_are_asked_until_the_deadline() {
        let start = Instant::now();
        let (result, count) = asked(false, &[Err(not_carried_out(true))]).await;
        assert_eq!(result, Err(ForwardError::NoLeader("none leads".to_owned())));
        assert!(start.elapsed() < LIMIT);
        assert_eq!(count, 45);
    }
}
