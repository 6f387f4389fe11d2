//! The protocol `responses`: OpenAI Responses, without storage at the provider.

mod request;
mod stream;

pub(crate) use request::body;
pub use stream::ResponsesDecoder;
