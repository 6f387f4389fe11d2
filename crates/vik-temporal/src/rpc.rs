//! How requests to the server are repeated, and what their failures mean.

use std::time::Duration;

use serde::Deserialize;
use temporalio_client::tonic::Code;
use temporalio_client::{Client, NamespacedClient, RetryOptions, RpcOptions};
use temporalio_common::data_converters::{
    PayloadConversionError, SerializationContextData, TemporalDeserializable, WorkflowSerializationContext,
};
use temporalio_common::protos::temporal::api::common::v1::Payload;
use temporalio_common::protos::temporal::api::failure::v1::Failure;

/// How long a hub may take for a step of a workflow before another one gets it. The default of the
/// server is ten seconds, which would be added to a takeover from a frozen hub.
pub(crate) const TASK_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns the options of a request that fails at once, or after `timeout`.
pub(crate) fn once(timeout: Duration) -> RpcOptions {
    RpcOptions::builder()
        .timeout(timeout)
        .retry_options(RetryOptions::no_retries())
        .build()
}

/// Returns whether the same request may succeed later.
pub(crate) fn is_temporary(code: Code) -> bool {
    !matches!(
        code,
        Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
            | Code::FailedPrecondition
    )
}

/// Returns the message of a failure. The server has it only as a payload.
pub(crate) async fn failure_message(client: &Client, failure: &Failure) -> String {
    #[derive(Deserialize)]
    struct Attributes {
        message: String,
    }
    let attributes = decode::<Attributes>(client, failure.encoded_attributes.clone()).await;
    attributes.map_or_else(|_| failure.message.clone(), |attributes| attributes.message)
}

/// Decodes the only value of payloads that a client or a workflow has sent.
pub(crate) async fn decode<T>(
    client: &Client,
    payloads: impl IntoIterator<Item = Payload>,
) -> Result<T, PayloadConversionError>
where
    T: TemporalDeserializable + 'static,
{
    let context = SerializationContextData::Workflow(WorkflowSerializationContext::new());
    let payloads = payloads.into_iter().collect();
    client.data_converter().from_payloads(&context, payloads).await
}

/// The pauses between repeated requests: short at first, then up to a second.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    repetitions: u32,
}

impl Backoff {
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    fn next(&mut self) -> Duration {
        let pause = Duration::from_millis(20) * 2_u32.pow(self.repetitions.min(6));
        self.repetitions += 1;
        pause.min(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_a_second() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(), Duration::from_millis(20));
        assert_eq!(backoff.next(), Duration::from_millis(40));
        for _ in 0..100 {
            assert!(backoff.next() <= Duration::from_secs(1));
        }
        assert_eq!(backoff.next(), Duration::from_secs(1));
    }
}
