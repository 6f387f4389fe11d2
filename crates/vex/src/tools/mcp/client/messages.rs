//! Checks the messages of a server in their order. `rmcp` handles each in a task of its own.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, JsonRpcNotification, RequestId, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::Notices;

/// The maximum number of answers that a server has not read.
const MAX_UNREAD: usize = 64;
/// The maximum length of the id of a request, in bytes: the answer repeats it.
const MAX_ID: usize = 256;

/// A transport that ends with too many or too large requests of the server: the task that answers
/// one ends only when the server has read the answer. It notes a change of the tools before the
/// messages that follow are received, so that no call is made with an old definition.
pub(super) struct CheckedMessages<T> {
    transport: T,
    unread: Arc<AtomicUsize>,
    notices: Arc<Notices>,
}

impl<T> CheckedMessages<T> {
    pub(super) fn new(transport: T, notices: Arc<Notices>) -> Self {
        Self {
            transport,
            unread: Arc::default(),
            notices,
        }
    }

    /// Checks a message of the server. The error is the reason to close the connection.
    fn check(&self, message: &RxJsonRpcMessage<RoleClient>) -> Result<(), &'static str> {
        let request = match message {
            JsonRpcMessage::Request(request) => request,
            JsonRpcMessage::Notification(JsonRpcNotification {
                notification: ServerNotification::ToolListChangedNotification(_),
                ..
            }) => {
                self.notices.tools_changed.store(true, Ordering::Relaxed);
                return Ok(());
            }
            _ => return Ok(()),
        };
        if matches!(&request.id, RequestId::String(id) if id.len() > MAX_ID) {
            return Err("it sent a request with an id longer than 256 bytes");
        }
        if self.unread.load(Ordering::Relaxed) >= MAX_UNREAD {
            return Err("it does not read the answers to its requests");
        }
        Ok(())
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for CheckedMessages<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let counted = is_answer.then(|| Counted::new(&self.unread));
        let sent = self.transport.send(item);
        let notices = Arc::clone(&self.notices);
        async move {
            let _counted = counted;
            tokio::select! {
                result = sent => result,
                // It would hold the connection open. Nobody waits for the result.
                _ = notices.fault.wait() => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.transport.receive().await?;
        match self.check(&message) {
            Ok(()) => Some(message),
            Err(reason) => {
                // The first reason is the one that counts.
                let _ = self.notices.fault.set(reason);
                None
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

/// An answer that is being sent.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
