//! Answers the requests of workers to a hub.

use std::sync::OnceLock;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use vik_session::outputs::{OutputRequest, OutputResponse};

use super::OutputService;
use crate::request::{ReceivedRequest, Responder};

/// What a worker asks a hub for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HubRequest {
    Outputs(OutputRequest),
}

/// Answers for a hub, whether it leads or not.
#[derive(Debug, Default)]
pub(crate) struct HubResponder {
    service: OnceLock<OutputService>,
}

impl HubResponder {
    /// Carries out outputs from now on.
    pub(crate) fn lead(&self, service: OutputService) {
        // A hub leads once.
        let _ = self.service.set(service);
    }
}

impl Responder for HubResponder {
    fn respond(&self, request: ReceivedRequest) -> BoxFuture<'static, Result<String, String>> {
        let service = self.service.get().cloned();
        async move {
            let body = serde_json::from_str(&request.body);
            let HubRequest::Outputs(request) =
                body.map_err(|error| format!("the request cannot be read: {error}"))?;
            let response = match service {
                Some(service) => service.respond(request).await,
                None => OutputResponse::NotLeading,
            };
            serde_json::to_string(&response).map_err(|error| error.to_string())
        }
        .boxed()
    }
}
