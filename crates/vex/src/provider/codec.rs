//! The encoder of requests and the decoder of answers of each protocol.

use super::protocol::{ModelSettings, Protocol, ToolCalls};
use super::stream::Decoder;
use super::text_tools::TextRequest;
use super::{Request, chat, messages, responses};

impl Protocol {
    /// Returns the decoder for an answer.
    pub fn decoder(self) -> Box<dyn Decoder> {
        match self {
            Self::Messages => Box::<messages::MessagesDecoder>::default(),
            Self::Chat => Box::<chat::ChatDecoder>::default(),
            Self::Responses => Box::<responses::ResponsesDecoder>::default(),
        }
    }

    /// Returns the bytes of a request. The conversation is at their end: the next request of a
    /// conversation starts with the same bytes, except for the closing brackets.
    pub fn body(self, request: &Request<'_>, settings: &ModelSettings) -> Vec<u8> {
        match settings.tool_calls {
            ToolCalls::Native => self.native_body(request, settings),
            form @ (ToolCalls::Text | ToolCalls::Blocks | ToolCalls::Files) => {
                let spoken = TextRequest::of(request, form);
                self.native_body(&spoken.request(request), settings)
            }
        }
    }

    fn native_body(self, request: &Request<'_>, settings: &ModelSettings) -> Vec<u8> {
        let body = match self {
            Self::Messages => messages::body(request, settings),
            Self::Chat => chat::body(request, settings),
            Self::Responses => responses::body(request, settings),
        };
        body.into_bytes()
    }
}
