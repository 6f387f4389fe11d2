//! A place for events, for tests.

use std::io::Write;
use std::sync::{Arc, Mutex};

use super::Journal;

#[derive(Clone, Default)]
pub(crate) struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink {
    /// Returns a journal of events as JSON, and what it writes.
    pub(crate) fn journal() -> (Self, Journal) {
        let sink = Self::default();
        let journal = Journal::new(true, Box::new(sink.clone()), Box::new(std::io::sink()));
        (sink, journal)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}
