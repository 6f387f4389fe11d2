//! Answers the requests of workers and of other hubs to a hub.

use std::sync::OnceLock;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use vik_session::outputs::{OutputRequest, OutputResponse};

use vik_control::http::{ForwardedRequest, ForwardedRequests, ForwardedResponse};

use super::OutputService;
use crate::request::{ReceivedRequest, Responder};

/// What a worker or another hub asks a hub for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HubRequest {
    Outputs(OutputRequest),
    /// A request to the API, which a hub that follows has received: [`ApiResponse`].
    Api(Box<ForwardedRequest>),
}

/// The answer to a request to the API.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApiResponse {
    /// This hub does not lead, and has carried out nothing.
    NotLeading,
    Answer(ForwardedResponse),
}

/// Answers for a hub, whether it leads or not.
#[derive(Debug)]
pub(crate) struct HubResponder {
    service: OnceLock<OutputService>,
    api: ForwardedRequests,
}

impl HubResponder {
    /// Creates the responder of a hub that follows. Its API knows by itself when it leads.
    pub(crate) fn new(api: ForwardedRequests) -> Self {
        Self {
            service: OnceLock::new(),
            api,
        }
    }

    /// Carries out outputs from now on.
    pub(crate) fn lead(&self, service: OutputService) {
        // A hub leads once.
        let _ = self.service.set(service);
    }
}

impl Responder for HubResponder {
    fn respond(&self, request: ReceivedRequest) -> BoxFuture<'static, Result<String, String>> {
        let (service, api) = (self.service.get().cloned(), self.api.clone());
        async move {
            let body = serde_json::from_str(&request.body);
            let response = match body.map_err(|error| format!("the request cannot be read: {error}"))? {
                HubRequest::Outputs(request) => serde_json::to_string(&match service {
                    Some(service) => service.respond(request).await,
                    None => OutputResponse::NotLeading,
                }),
                HubRequest::Api(request) => serde_json::to_string(&match api.execute(*request).await {
                    Some(answer) => ApiResponse::Answer(answer),
                    None => ApiResponse::NotLeading,
                }),
            };
            response.map_err(|error| error.to_string())
        }
        .boxed()
    }
}
