//! Converts bytes to a turn.

use crate::conversation::Turn;
use crate::provider::protocol::Protocol;
use crate::provider::sse::SseParser;
use crate::provider::{Progress, Request};

use super::surrogates::well_formed;
use super::{Assembler, Decoder, StreamError, StreamEvent};

/// The maximum size of an answer, in bytes of events.
const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;

/// Reads one answer: takes bytes, reports progress, and returns a turn at the end.
pub struct AnswerReader<'a> {
    sse: SseParser,
    decoder: Box<dyn Decoder>,
    assembler: Assembler<'a>,
    events: Vec<StreamEvent>,
    bytes: usize,
}

impl<'a> AnswerReader<'a> {
    /// Creates a reader for the answer to this request. `request_bytes` is its length on the wire,
    /// from which tokens are estimated if the provider does not count them.
    pub fn new(protocol: Protocol, request: &Request<'a>, request_bytes: usize) -> Self {
        Self {
            sse: SseParser::default(),
            decoder: protocol.decoder(),
            assembler: Assembler::new(protocol, request, request_bytes),
            events: Vec::new(),
            bytes: 0,
        }
    }

    /// Ends the answer when it only repeats itself. It then counts as one that has reached its longest
    /// length.
    pub fn end_repetition(&mut self) {
        self.assembler.end_repetition();
    }

    /// Adds bytes. Bytes after the end of the answer are ignored.
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

    /// Returns whether the answer is complete: no more needs to be read.
    pub fn is_done(&self) -> bool {
        self.decoder.is_done() || self.assembler.is_repeating()
    }

    /// Returns whether content of the answer arrived: text, thinking or a call.
    pub fn is_meaningful(&self) -> bool {
        self.assembler.is_meaningful()
    }

    /// Returns how much content of the answer arrived, in bytes, without keep-alives.
    pub fn received_bytes(&self) -> usize {
        self.assembler.received_bytes()
    }

    /// Returns the turn after the last byte.
    ///
    /// # Errors
    /// When the answer was cut or is empty.
    pub fn finish(mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Turn, StreamError> {
        if !self.assembler.is_repeating() {
            self.decoder.finish(&mut self.events)?;
            self.process_events(progress);
        }
        self.assembler.finish(progress)
    }
}
