//! The hub that leads, as the attempts of a worker see it.

use std::pin::Pin;
use std::time::Duration;

use vik_core::attempt::HandOverFailure;
use vik_core::outputs::OutputNote;
use vik_session::outputs::{NotApplied, OutputHub, OutputRequest, OutputResponse};

use super::HubRequest;
use crate::request::{Recipient, RequestError, Requests};

/// How long one request may take. The same request again joins the one before.
const LIMIT: Duration = Duration::from_secs(3600);

/// Asks the hub that leads for one attempt.
#[derive(Debug)]
pub(crate) struct RemoteHub {
    pub(crate) requests: Requests,
    /// The book of the run when the attempt started.
    pub(crate) notes: Vec<OutputNote>,
}

impl OutputHub for RemoteHub {
    fn notes(&self) -> &[OutputNote] {
        &self.notes
    }

    fn send(
        &self,
        request: &OutputRequest,
    ) -> Pin<Box<dyn Future<Output = Result<OutputResponse, String>> + Send + '_>> {
        let body = serde_json::to_string(&HubRequest::Outputs(request.clone()));
        Box::pin(async move {
            let body = body.map_err(|error| error.to_string())?;
            let leader = self.requests.leader().await.map_err(|error| error.to_string())?;
            let Some(hub) = leader else {
                return Ok(OutputResponse::NotLeading);
            };
            match self.requests.send(&Recipient::Hub(hub), body, LIMIT).await {
                Ok(answer) => serde_json::from_str(&answer)
                    .map_err(|error| format!("the answer of the hub cannot be read: {error}")),
                // It would be the same each time.
                Err(error @ RequestError::InvalidBody(_)) => {
                    let failure = HandOverFailure {
                        step: "outputs".to_owned(),
                        reason: format!("the outputs are too large for the hub: {error}"),
                        wait: Duration::ZERO,
                        needs_person: true,
                    };
                    Ok(OutputResponse::Applied(NotApplied::HandOver(failure).into()))
                }
                Err(error) => Err(error.to_string()),
            }
        })
    }
}
