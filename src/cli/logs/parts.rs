//! Parts of answers in the raw output of an agent. They leave the file when the attempt has ended,
//! by a new file in its place.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use vik_agents::{Adapter, driver};
use vik_core::workflow::{AgentProfile, Runtime};
use vik_store::{LONGEST_EVENT, PastAttempt, read_line};

/// Recognises the parts of answers of one agent.
pub(super) struct Parts(Option<Box<dyn Adapter>>);

impl Parts {
    pub(super) fn of(attempt: &PastAttempt) -> Self {
        let name: StrDeserializer<'_, Error> = attempt.record.runtime.as_str().into_deserializer();
        let runtime = Runtime::deserialize(name).ok();
        Self(runtime.map(|runtime| driver(runtime).adapter(&AgentProfile::new(runtime), None)))
    }

    /// Returns whether a line is a part of an answer. A secret may be split over several of them,
    /// so that none of them has it as a whole.
    pub(super) fn is_part(&self, line: &[u8]) -> bool {
        let text = std::str::from_utf8(line).ok();
        text.zip(self.0.as_ref())
            .is_some_and(|(line, adapter)| adapter.is_partial(line.trim_end()))
    }

    /// Returns the number of bytes before `end` that are no parts: the offset of the same place
    /// after their removal.
    pub(super) fn count_kept(&self, file: &mut File, end: u64) -> io::Result<u64> {
        file.rewind()?;
        let mut reader = BufReader::with_capacity(64 * 1024, file.take(end));
        let (mut kept, mut line) = (0, Vec::new());
        loop {
            let read = read_line(&mut reader, LONGEST_EVENT, &mut line)?;
            match read.bytes {
                0 => return Ok(kept),
                bytes if !self.is_part(&line) => kept += bytes,
                _ => {}
            }
        }
    }
}
