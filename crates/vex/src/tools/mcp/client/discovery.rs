//! Recognizes servers of earlier versions of the protocol that answer `server/discover` with a
//! result that makes no sense.

use std::future::Future;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport on which each answer to `server/discover` is one of that method, or an error.
///
/// `rmcp` continues with `initialize` only after an error, but some servers answer every method
/// that they do not know with an empty result.
pub(super) struct CheckedDiscovery<T> {
    transport: T,
    /// The id of the request that has no answer yet.
    pending: Option<RequestId>,
}

impl<T> CheckedDiscovery<T> {
    pub(super) fn new(transport: T) -> Self {
        Self {
            transport,
            pending: None,
        }
    }

    fn checked(&mut self, message: RxJsonRpcMessage<RoleClient>) -> RxJsonRpcMessage<RoleClient> {
        let JsonRpcMessage::Response(response) = &message else {
            return message;
        };
        let Some(id) = self.pending.take_if(|id| *id == response.id) else {
            return message;
        };
        if matches!(response.result, ServerResult::DiscoverResult(_)) {
            return message;
        }
        let error = ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "not a result of server/discover",
            None,
        );
        JsonRpcMessage::error(error, Some(id))
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for CheckedDiscovery<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.pending = Some(request.id.clone());
        }
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.transport.receive().await?;
        Some(self.checked(message))
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}
