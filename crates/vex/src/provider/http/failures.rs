//! Turns unwanted responses and broken answers into failures with a helpful message.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::StatusCode;
use tokio::time::timeout;

use super::client::Client;
use super::fault::{ErrorBody, Failure, Fault, context_window_in, fault_of};
use super::retry::Tries;
use super::{RequestRunner, client, models, retry};
use crate::provider::stream::{AnswerReader, StreamError};

impl RequestRunner {
    /// Checks that the response is the requested stream.
    pub(super) async fn check(&self, response: &mut reqwest::Response) -> Result<(), Failure> {
        let status = response.status();
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let kind = header("content-type").unwrap_or_default().to_ascii_lowercase();
        let encoding = header("content-encoding").unwrap_or_default();
        if status == StatusCode::OK
            && encoding.is_empty()
            && (kind.is_empty() || kind.starts_with("text/event-stream"))
        {
            return Ok(());
        }
        let id = header("request-id").or_else(|| header("x-request-id"));
        let moved = header("location");
        let headers = response.headers().clone();
        let body = Client::body(response).await;
        let text = String::from_utf8_lossy(&body);
        let at = &self.client.endpoint().base_url;
        let name = &self.client.endpoint().name;
        let mut failure = if status.is_redirection() {
            let to = moved.map_or_else(String::new, |to| format!(" to {to}"));
            Failure::new(
                Fault::Address,
                format!("{at} redirects{to} ({status}), and no key is sent there: correct --base-url"),
            )
        } else if !status.is_success() {
            let error_body = ErrorBody::read(&body);
            let fault = fault_of(Some(status.as_u16()), &error_body);
            Failure::new(fault, self.status_message(fault, status.as_u16(), &error_body))
        } else if !encoding.is_empty() && encoding != "identity" {
            Failure::new(
                Fault::Malformed,
                format!("{name} answered in the encoding {encoding}, which was not requested"),
            )
        } else if serde_json::from_slice::<serde_json::Value>(&body)
            .is_ok_and(|body| body.get("error").is_some())
        {
            self.broken(StreamError::Reported {
                body: ErrorBody::read(&body),
                status: None,
            })
        } else {
            let content = if kind.starts_with("text/html") {
                "a web page"
            } else {
                kind.as_str()
            };
            Failure::new(
                Fault::Malformed,
                format!(
                    "{at} answered with {content} instead of a stream: check the address, and whether a proxy is in between"
                ),
            )
        };
        let header = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
        failure.retry_after = retry::requested_wait(&header, &text, Timestamp::now());
        failure.context_window = context_window_in(&text);
        failure.status = Some(status.as_u16());
        failure.message = self.client.masked(&failure.message);
        if let Some(id) = id {
            failure.message.push_str(&format!(" [request {id}]"));
        }
        Err(failure)
    }

    /// Returns a helpful message for an error status.
    fn status_message(&self, fault: Fault, status: u16, body: &ErrorBody) -> String {
        let endpoint = self.client.endpoint();
        let name = &endpoint.name;
        let text = match body.message.as_str() {
            "" => String::new(),
            text => format!(": {text}"),
        };
        match (fault, &endpoint.key, &endpoint.key_env) {
            (Fault::Auth, Some(_), Some(variable)) => {
                format!("{name} does not accept the key in {variable} ({status}){text}")
            }
            (Fault::Auth, None, Some(variable)) => {
                format!("{name} requires an API key: set {variable} ({status}){text}")
            }
            (Fault::Auth, _, None) => format!(
                "{name} requires an API key: name its variable in providers.{name}.api_key_env ({status}){text}"
            ),
            (Fault::Model, ..) => format!("{name} has no model {:?} ({status}){text}", self.model.model),
            (Fault::Address, ..) => format!(
                "{} does not exist ({status}){text}: check whether --base-url is correct for the protocol {}",
                endpoint.address(endpoint.protocol.path()),
                endpoint.protocol.as_str()
            ),
            _ => format!("{name} answered {status}{text}"),
        }
    }

    /// Completes the message of a failure: the number of tries, and similar model names.
    pub(super) async fn explained(&self, mut failure: Failure, tries: Tries) -> Failure {
        if failure.fault == Fault::Model {
            let listing = timeout(Duration::from_secs(5), models::fetch(&self.client));
            if let Ok(Ok(listed)) = listing.await {
                let near = models::nearest(&listed, &self.model.model);
                if !near.is_empty() {
                    failure
                        .message
                        .push_str(&format!("; available: {}", near.join(", ")));
                }
            }
        }
        if tries.made > 1 {
            failure
                .message
                .push_str(&format!(" (after {} tries)", tries.made));
        }
        failure
    }

    pub(super) fn too_long(&self, millis: u64, missing: &str) -> String {
        let name = &self.client.endpoint().name;
        format!("{name} sent {missing} within {:?}", Duration::from_millis(millis))
    }

    pub(super) fn stalled(&self, millis: u64) -> Failure {
        let name = &self.client.endpoint().name;
        let message = format!("{name} sent nothing for {:?}", Duration::from_millis(millis));
        Failure::new(Fault::Stalled, message)
    }

    pub(super) fn cut(&self, reader: &AnswerReader<'_>, error: &reqwest::Error) -> Failure {
        let name = &self.client.endpoint().name;
        let cause = client::causes(error);
        let fault = if reader.is_meaningful() {
            Fault::Cut
        } else {
            Fault::Network
        };
        Failure::new(fault, format!("the answer of {name} was cut off: {cause}"))
    }

    pub(super) fn broken(&self, error: StreamError) -> Failure {
        let name = &self.client.endpoint().name;
        let message = self.client.masked(&format!("{name}: {error}"));
        match error {
            StreamError::Cut => Failure::new(Fault::Cut, message),
            StreamError::Empty(_) => Failure::new(Fault::Empty, message),
            StreamError::Malformed { .. } | StreamError::TooLarge => Failure::new(Fault::Malformed, message),
            StreamError::Reported {
                body: error_body,
                status,
            } => Failure {
                retry_after: retry::requested_wait(&|_| None, &error_body.message, Timestamp::now()),
                status,
                context_window: context_window_in(&error_body.message),
                ..Failure::new(fault_of(status, &error_body), message)
            },
        }
    }
}
