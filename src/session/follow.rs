//! Follows the raw output of an agent: the file grows, lines are mapped, events are written.
//!
//! The agent appends to the file itself, so nothing it prints can be lost or hold it up. The file is looked at again
//! after a wait that grows while it is quiet: this works on every file system and costs one `read` per look. What it
//! prints is read in bounded memory, whatever the length of a line ([`lines`]).

mod kept;
mod lines;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use vik_agents::{Adapter, Ask, Verdict, Word};
use vik_core::event::Event;
use vik_core::outcome::Usage;
use vik_proc::Overrun;
use vik_store::{SessionLog, StoreError};

pub use self::kept::KeptOutput;
use self::lines::{Line, Lines};
use super::live::Live;
use crate::workspace::fs as private;

/// The shortest and the longest wait between two looks.
const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// How much is read before other tasks get a turn.
const SLICE_BYTES: usize = 256 * 1024;

/// How much is kept of a line that is too long to be read.
const KEPT_OF_CUT: usize = 64 * 1024;

/// The most open tool calls that are remembered, and the most bytes of the id of each.
const OPEN_TOOLS: usize = 1024;
const TOOL_ID: usize = 256;

thread_local! {
    /// One buffer a thread, not one a session: hundreds of sessions are followed at once.
    static SLICE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Why following had to stop.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The agent's output cannot be read.
    #[error("cannot read the agent's output")]
    Read(#[source] io::Error),
    /// The session log cannot be written.
    #[error("cannot write the session log")]
    Log(#[source] Arc<StoreError>),
    /// What the agent waits for cannot be kept.
    #[error("cannot answer the agent")]
    Tell(#[source] StoreError),
    /// The agent does not keep to what it was told.
    #[error("{0}")]
    Broken(String),
}

impl FollowError {
    /// The error of the file that could not be written.
    pub(super) fn store(&self) -> Option<&StoreError> {
        match self {
            Self::Log(error) => Some(error),
            Self::Tell(error) => Some(error),
            Self::Read(_) | Self::Broken(_) => None,
        }
    }
}

/// The reader of one raw file.
pub struct Follower {
    raw: File,
    adapter: Box<dyn Adapter>,
    log: SessionLog,
    /// How many events the log has already: they are mapped, and not written again.
    told: u64,
    lines: Lines,
    live: Live,
    wait: Duration,
    heard: Instant,
    tools: OpenTools,
    /// What the agent wants of Vik, and nobody has taken yet.
    words: Vec<Word>,
    kept: KeptOutput,
    overrun: Option<Overrun>,
    /// The first error of the log: nothing more is written to it, and the output is still mapped.
    log_error: Option<Arc<StoreError>>,
    /// Whether the agent's model has answered.
    answered: bool,
}

/// The tool calls that are open, oldest first. One may end in the same look in which the next begins.
#[derive(Debug, Default)]
struct OpenTools(Vec<(String, Instant)>);

impl OpenTools {
    fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::ToolCall { call_id, .. } => {
                let new = head(call_id, TOOL_ID);
                if self.0.len() < OPEN_TOOLS && self.0.iter().all(|(id, _)| id != new) {
                    self.0.push((new.to_owned(), Instant::now()));
                }
            }
            Event::ToolResult { call_id, .. } => {
                let ended = head(call_id, TOOL_ID);
                self.0.retain(|(id, _)| id != ended);
            }
            _ => {}
        }
    }

    /// The adapter knows how many are open: a turn that ends closes them all.
    fn agree(&mut self, count: usize) {
        if self.0.is_empty() && count > 0 {
            self.0.push((String::new(), Instant::now()));
        }
        self.0.drain(..self.0.len().saturating_sub(count));
    }

    fn oldest(&self) -> Option<Instant> {
        self.0.first().map(|(_, since)| *since)
    }
}

/// What is left of a follower when all output was read.
pub struct Finished {
    /// It has seen every line.
    pub adapter: Box<dyn Adapter>,
    /// It has every event; or why it has not.
    pub log: Result<SessionLog, Arc<StoreError>>,
    /// Whether the agent's model has answered, in what this daemon and earlier ones read.
    pub answered: bool,
    /// Whether what is kept of the agent takes too much of the disk.
    pub overrun: Option<Overrun>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

impl Follower {
    /// Follows the file from its start; the file is there already. The first `told` events are in the log.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(
        raw: &Path,
        mut adapter: Box<dyn Adapter>,
        log: SessionLog,
        told: u64,
        live: Live,
        kept: KeptOutput,
    ) -> Result<Self, FollowError> {
        Ok(Self {
            words: adapter.words(),
            raw: private::open(raw).map_err(FollowError::Read)?,
            adapter,
            log,
            told,
            lines: Lines::default(),
            live,
            wait: LOOK.0,
            heard: Instant::now(),
            tools: OpenTools::default(),
            kept,
            overrun: None,
            log_error: None,
            answered: false,
        })
    }

    /// How long to wait before the next look.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// For how long nothing was heard; zero while a tool call is open.
    pub fn silence(&self) -> Duration {
        if self.tools.oldest().is_some() {
            Duration::ZERO
        } else {
            self.heard.elapsed()
        }
    }

    /// For how long the oldest open tool call has been open.
    pub fn tool_open(&self) -> Duration {
        self.tools
            .oldest()
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Something else showed that the agent lives (it wrote to stderr).
    pub fn hear(&mut self) {
        self.heard = Instant::now();
    }

    /// The agent waits for a person: nothing is heard of it meanwhile, and its calls do not go on.
    pub fn rest(&mut self) {
        let now = Instant::now();
        self.heard = now;
        self.tools.0.iter_mut().for_each(|(_, since)| *since = now);
    }

    /// Whether what is kept of the agent takes too much of the disk. Then nothing more of it is written to the log; it is
    /// still mapped, to know what it used.
    pub fn overrun(&self) -> Option<Overrun> {
        self.overrun
    }

    /// What the agent wants of Vik since the last time.
    pub fn words(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.words)
    }

    /// The lines that tell the agent a verdict.
    pub fn answer(&self, ask: &Ask, verdict: Verdict<'_>) -> Vec<String> {
        self.adapter.answer(ask, verdict)
    }

    /// What the agent has told of its usage and cost so far.
    pub fn usage(&self) -> (Usage, Option<f64>) {
        self.adapter.usage()
    }

    /// Whether the agent has printed anything.
    pub fn has_printed(&self) -> bool {
        self.raw.metadata().is_ok_and(|meta| meta.len() > 0)
    }

    /// Writes an event of Vik's own.
    ///
    /// # Errors
    /// When the log cannot be written, now or before.
    pub fn say(&mut self, at: Timestamp, event: &Event<'_>) -> Result<(), FollowError> {
        self.write(|log| {
            log.push(at, event)?;
            log.flush()
        });
        self.check_log()
    }

    /// Leaves the file to the next daemon: what was mapped is in the log.
    ///
    /// # Errors
    /// When the log cannot be written, now or before.
    pub fn leave(mut self) -> Result<(), FollowError> {
        self.write(SessionLog::flush);
        self.check_log()
    }

    /// Reads and maps what is there, at most one slice. Returns whether there may be more.
    ///
    /// # Errors
    /// When reading fails. Also when the log cannot be written, now or before: the slice is mapped all the same.
    pub fn look(&mut self) -> Result<bool, FollowError> {
        let more = self.read_slice()?;
        self.check_log()?;
        Ok(more)
    }

    fn read_slice(&mut self) -> Result<bool, FollowError> {
        SLICE.with_borrow_mut(|slice| {
            slice.resize(SLICE_BYTES, 0);
            self.skip_hole()?;
            let count = loop {
                match self.raw.read(slice) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result.map_err(FollowError::Read)?,
                }
            };
            if count == 0 {
                self.wait = (self.wait * 2).min(LOOK.1);
                self.write(SessionLog::flush);
                return Ok(false);
            }
            self.wait = LOOK.0;
            self.heard = Instant::now();
            self.map_lines(|lines, raw, sink| lines.feed(raw, &slice[..count], sink));
            if self.overrun.is_none() {
                self.overrun = self.kept.overrun();
                if self.overrun.is_some() {
                    self.told = u64::MAX;
                }
            }
            self.track();
            Ok(count == SLICE_BYTES)
        })
    }

    /// Writes to the log, unless it has failed. A later write would leave a gap: the log ends where it failed.
    fn write(&mut self, write: impl FnOnce(&mut SessionLog) -> Result<(), StoreError>) {
        if self.log_error.is_none() {
            self.log_error = write(&mut self.log).err().map(Arc::new);
        }
    }

    fn check_log(&self) -> Result<(), FollowError> {
        self.log_error
            .clone()
            .map_or(Ok(()), |error| Err(FollowError::Log(error)))
    }

    /// Passes over a part of the file that was never written, in a line that is too long anyway: a file can seem to hold
    /// more than could be read in years.
    fn skip_hole(&mut self) -> Result<(), FollowError> {
        if !self.lines.is_cutting() {
            return Ok(());
        }
        let at = self.raw.stream_position().map_err(FollowError::Read)?;
        let size = self.raw.metadata().map_err(FollowError::Read)?.len();
        let next = next_data(&self.raw, at).unwrap_or(size);
        self.lines.skip(next.saturating_sub(at));
        let next = SeekFrom::Start(next.max(at));
        self.raw.seek(next).map_err(FollowError::Read)?;
        Ok(())
    }

    fn map_lines(&mut self, split: impl FnOnce(&mut Lines, &File, &mut dyn FnMut(Line<'_>))) {
        let mut mapper = Mapper {
            at: Timestamp::now(),
            adapter: &mut *self.adapter,
            log: &mut self.log,
            log_error: &mut self.log_error,
            tools: &mut self.tools,
            told: &mut self.told,
            words: &mut self.words,
            answered: &mut self.answered,
        };
        split(&mut self.lines, &self.raw, &mut |line| mapper.line(line));
    }

    fn track(&mut self) {
        self.tools.agree(self.adapter.open_tools());
        let (usage, cost_usd) = self.adapter.usage();
        let (events, activity) = (self.log.len(), self.adapter.activity().map(str::to_owned));
        self.live.set(|facts| {
            facts.last_event_at = Some(Timestamp::now());
            facts.events = events;
            facts.activity = activity;
            facts.usage = usage;
            facts.cost_usd = cost_usd;
        });
    }

    /// The process is gone: maps the rest, a last line without a newline too, and returns what is left of it.
    ///
    /// # Errors
    /// When reading fails.
    pub async fn finish(mut self) -> Result<Finished, FollowError> {
        while self.read_slice()? {
            tokio::task::yield_now().await;
        }
        // A read may end early at a line: go on until there is nothing.
        while !self.at_end()? {
            self.read_slice()?;
            tokio::task::yield_now().await;
        }
        self.map_lines(Lines::finish);
        self.track();
        self.write(SessionLog::flush);
        Ok(Finished {
            adapter: self.adapter,
            log: self.log_error.map_or(Ok(self.log), Err),
            answered: self.answered,
            overrun: self.overrun,
        })
    }

    fn at_end(&mut self) -> Result<bool, FollowError> {
        let at = self.raw.stream_position().map_err(FollowError::Read)?;
        let size = self.raw.metadata().map_err(FollowError::Read)?.len();
        Ok(at >= size)
    }
}

/// What makes events of lines.
struct Mapper<'f> {
    at: Timestamp,
    adapter: &'f mut dyn Adapter,
    log: &'f mut SessionLog,
    log_error: &'f mut Option<Arc<StoreError>>,
    tools: &'f mut OpenTools,
    told: &'f mut u64,
    words: &'f mut Vec<Word>,
    answered: &'f mut bool,
}

impl Mapper<'_> {
    fn line(&mut self, line: Line<'_>) {
        match line {
            Line::Whole(line) => self.whole(line),
            Line::Cut { head, bytes, offset } => self.cut(head, bytes, offset),
        }
    }

    fn whole(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return;
        }
        // All that is known of the agent comes from here: nothing behind it has seen a secret.
        let text = String::from_utf8_lossy(line);
        let masked = vik_mask::mask_json(&text);
        let Self {
            adapter,
            log,
            log_error,
            tools,
            told,
            at,
            answered,
            ..
        } = self;
        adapter.line(masked.as_bytes(), &mut |event: Event<'_>| {
            tools.note(&event);
            **answered |= event.is_answer();
            if **told > 0 {
                **told -= 1;
            } else if log_error.is_none() {
                **log_error = log.push(*at, &event).err().map(Arc::new);
            }
        });
        self.words.append(&mut self.adapter.words());
    }

    /// A line that is too long is no event of the agent's: the adapter does not see it, and what follows it decides.
    fn cut(&mut self, start: &[u8], bytes: u64, offset: u64) {
        if *self.told > 0 {
            *self.told -= 1;
            return;
        }
        if self.log_error.is_some() {
            return;
        }
        let masker = vik_mask::process();
        let text = String::from_utf8_lossy(&start[..start.len().min(KEPT_OF_CUT + masker.around())]);
        let kept = head(&text, KEPT_OF_CUT).len();
        let event = Event::Malformed {
            line: masker.mask_part(&text, 0..kept).into(),
            bytes: Some(bytes),
            offset: Some(offset),
        };
        *self.log_error = self.log.push(self.at, &event).err().map(Arc::new);
    }
}

/// The first bytes of a text, whole characters only.
fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Where the file has data at or after `at`; `None` where it has none, or where the system cannot tell.
fn next_data(file: &File, at: u64) -> Option<u64> {
    use nix::errno::Errno;
    use nix::unistd::{Whence, lseek};
    let from = i64::try_from(at).ok()?;
    match lseek(file, from, Whence::SeekData) {
        Ok(next) => u64::try_from(next).ok(),
        Err(Errno::ENXIO) => None,
        Err(_) => Some(at),
    }
}

#[cfg(test)]
mod tests;
