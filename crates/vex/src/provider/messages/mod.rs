//! The protocol `messages`: Anthropic Messages.

mod request;
mod stream;

pub(crate) use request::body;
pub use stream::MessagesDecoder;
