//! From bytes to a turn.

use crate::conversation::Turn;
use crate::provider::protocol::Protocol;
use crate::provider::sse::SseParser;
use crate::provider::{Progress, Request};

use super::surrogates::well_formed;
use super::{Assembler, Decoder, StreamError, StreamEvent};

/// The largest answer that is read, in bytes of events.
const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;

/// Reads one answer: bytes in, progress meanwhile, a turn at the end.
pub struct AnswerReader<'a> {
    sse: SseParser,
    decoder: Box<dyn Decoder>,
    assembler: Assembler<'a>,
    events: Vec<StreamEvent>,
    bytes: usize,
}

impl<'a> AnswerReader<'a> {
    /// Reads the answer to this request. `request_bytes` is how long it was on the wire: what tokens are estimated from
    /// when the provider does not count them.
    pub fn new(protocol: Protocol, request: &Request<'a>, request_bytes: usize) -> Self {
        Self {
            sse: SseParser::default(),
            decoder: protocol.decoder(),
            assembler: Assembler::new(protocol, request, request_bytes),
            events: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes the next bytes. What comes after the end of the answer is ignored.
    ///
    /// # Errors
    /// When the stream is broken or reports an error; there is no turn then.
    pub fn push(&mut self, bytes: &[u8], progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), StreamError> {
        if self.is_done() {
            return Ok(());
        }
        self.sse.push(bytes);
        while !self.is_done() {
            let Some(event) = self.sse.next_event()? else {
                break;
            };
            self.bytes += event.data.len();
            if self.bytes > MAX_ANSWER_BYTES {
                return Err(StreamError::TooLarge);
            }
            let data = well_formed(&event.data);
            let decoded = self.decoder.event(&event.name, &data, &mut self.events);
            self.process_events(progress);
            decoded?;
        }
        Ok(())
    }

    fn process_events(&mut self, progress: &mut dyn FnMut(Progress<'_>)) {
        for event in self.events.drain(..) {
            self.assembler.push(event, progress);
        }
    }

    /// Whether the answer is whole: nothing more needs to be read.
    pub fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// Whether something of the answer itself came: words, thoughts, a call.
    pub fn is_meaningful(&self) -> bool {
        self.assembler.is_meaningful()
    }

    /// How much of the answer itself came, in bytes; signs of life are not among it.
    pub fn received_bytes(&self) -> usize {
        self.assembler.received_bytes()
    }

    /// The turn, now that nothing more comes.
    ///
    /// # Errors
    /// When the answer was cut or is empty.
    pub fn finish(mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Turn, StreamError> {
        self.decoder.finish(&mut self.events)?;
        self.process_events(progress);
        self.assembler.finish(progress)
    }
}
