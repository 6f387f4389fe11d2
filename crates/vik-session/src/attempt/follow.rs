//! Reads the raw output of an agent while the file grows, maps its lines to events and writes these
//! to the log.
//!
//! The agent appends to the file directly, so no output can be lost, and a slow reader cannot block
//! it. The file is polled with a wait that grows while nothing is printed: this works on every file
//! system and costs one `read` per poll. Lines of any length are read in bounded memory
//! ([`lines`]).

mod error;
mod kept;
mod life;
mod lines;
mod mapper;
mod open_tools;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use vik_agents::{Adapter, AgentRequest, ApprovalRequest, Arriving, UnansweredRequest, Verdict};
use vik_api::{ContextView, RateLimitView};
use vik_core::event::Event;
use vik_core::ids::MessageId;
use vik_core::message::Message;
use vik_core::outcome::Usage;
use vik_proc::Overrun;
use vik_session_log::SessionLog;
use vik_store::StoreError;

pub use self::error::FollowError;
pub use self::kept::KeptOutput;
pub(super) use self::lines::LONGEST_LINE;
use vik_workspace::fs as private;

use self::life::{SignsOfLife, Speed};
use self::lines::{Line, Lines};
use self::mapper::{Mapped, Mapper};
use self::open_tools::OpenTools;
use super::live::{Facts, Waiting, WaitsFor};
use super::updates::UpdateSender;

/// The shortest and the longest wait between two polls.
const POLL_INTERVAL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// The wait after output that gave no event, such as a part of an answer: more of it follows soon,
/// and nothing waits for it.
const STREAM_INTERVAL: Duration = Duration::from_millis(100);

/// How many bytes of partial lines are left out of the disk limit at a time.
const DISCOUNT_STEP: u64 = 64 * 1024;

/// The number of bytes that are read before other tasks may run.
const SLICE_BYTES: usize = 256 * 1024;

/// The number of slices that are mapped before the caller may check timeouts.
const SLICES_PER_TURN: usize = 16;

thread_local! {
    /// One buffer per thread, not per attempt: hundreds of outputs are read at once.
    static SLICE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A reader of one raw file.
pub struct OutputReader {
    raw: File,
    adapter: Box<dyn Adapter>,
    log: SessionLog,
    /// The number of next events that the log already contains: they are mapped and not written
    /// again.
    logged: u64,
    lines: Lines,
    updates: UpdateSender,
    poll_wait: Duration,
    life: SignsOfLife,
    speed: Speed,
    tools: OpenTools,
    /// When the agent's model last gave an event, or the agent was started. `None` for a program
    /// that is not known to have a model.
    model_since: Option<Timestamp>,
    /// When the agent had last printed before this reader was opened.
    printed_at: Timestamp,
    /// Since when the agent waits for a person.
    person_since: Option<Timestamp>,
    /// Requests of the agent that the caller has not taken yet.
    requests: Vec<AgentRequest>,
    kept: KeptOutput,
    overrun: Option<Overrun>,
    /// The number of bytes that the shim leaves out of the disk limit.
    discount: u64,
    discount_file: Option<File>,
    /// The first error of the log: nothing more is written to it, and the output is still mapped.
    log_error: Option<Arc<StoreError>>,
    /// Whether the agent's model has answered.
    answered: bool,
}

/// The state of a reader after all output was read.
pub struct Finished {
    /// The adapter, after it has mapped every line.
    pub adapter: Box<dyn Adapter>,
    /// The requests of the agent that nobody has taken.
    pub requests: Vec<AgentRequest>,
    /// The log with every event, or the error because of which some are missing.
    pub log: Result<SessionLog, Arc<StoreError>>,
    /// Whether the agent's model has answered since the attempt started.
    pub answered: bool,
    /// Set if the kept files use too much of the disk.
    pub overrun: Option<Overrun>,
}

impl std::fmt::Debug for OutputReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

impl OutputReader {
    /// Opens an existing file at its start. The log already contains the first `logged` events of
    /// the agent.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(
        raw: &Path,
        mut adapter: Box<dyn Adapter>,
        log: SessionLog,
        logged: u64,
        updates: UpdateSender,
        kept: KeptOutput,
    ) -> Result<Self, FollowError> {
        let raw = private::open(raw).map_err(FollowError::Read)?;
        let printed = raw.metadata().and_then(|metadata| metadata.modified());
        let printed = printed.ok().and_then(|at| Timestamp::try_from(at).ok());
        Ok(Self {
            requests: adapter.take_requests(),
            raw,
            adapter,
            log,
            logged,
            lines: Lines::default(),
            updates,
            poll_wait: POLL_INTERVAL.0,
            life: SignsOfLife::default(),
            speed: Speed::default(),
            model_since: Some(Timestamp::now()),
            printed_at: printed.unwrap_or_else(Timestamp::now),
            person_since: None,
            tools: OpenTools::default(),
            kept,
            overrun: None,
            discount: 0,
            discount_file: None,
            log_error: None,
            answered: false,
        })
    }

    /// Marks a program that is not known to have a model: it is not shown as waiting for one.
    #[must_use]
    pub fn without_model(mut self) -> Self {
        self.model_since = None;
        self
    }

    /// Bounds for how long lines that only show a connection count as activity: as long as the
    /// timeout that they delay, after the last other line.
    #[must_use]
    pub fn with_stall_timeout(mut self, timeout: Duration) -> Self {
        self.life.set_heartbeat_limit(timeout);
        self
    }

    /// Returns the wait before the next poll.
    pub fn poll_wait(&self) -> Duration {
        self.poll_wait
    }

    /// Returns how long the agent was inactive; zero while a tool call is open.
    pub fn silence(&self) -> Duration {
        if self.tools.oldest().is_some() {
            Duration::ZERO
        } else {
            self.life.silence()
        }
    }

    /// Returns how long the oldest open tool call has been open.
    pub fn tool_open(&self) -> Duration {
        self.tools
            .oldest()
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Records activity outside of the raw output, such as on stderr.
    pub fn mark_active(&mut self) {
        self.life.on_content();
    }

    /// Restarts the times of inactivity and open calls because the agent waits for a person.
    pub fn pause_timers(&mut self) {
        let now = Instant::now();
        self.life.on_content();
        self.tools.restart_times(now);
    }

    /// Restarts all times because the agent gets the prompt of another turn.
    pub(super) fn on_turn_sent(&mut self) {
        self.pause_timers();
        self.model_since = self.model_since.map(|_| Timestamp::now());
        let waits_for = self.waits_for();
        self.updates.set_facts(|facts| facts.waits_for = waits_for);
    }

    /// Lets the next poll follow soon.
    pub(super) fn poll_soon(&mut self) {
        self.poll_wait = POLL_INTERVAL.0;
    }

    /// Records whether the agent waits for a person.
    pub fn set_waits_for_person(&mut self, waits: bool) {
        if waits != self.person_since.is_some() {
            self.person_since = waits.then(Timestamp::now);
            let waits_for = self.waits_for();
            self.updates.set_facts(|facts| facts.waits_for = waits_for);
        }
    }

    /// Returns what the agent waits for, if that is known.
    pub(super) fn waits_for(&self) -> Option<WaitsFor> {
        if let Some(since) = self.person_since {
            return Some(WaitsFor::since(since, Waiting::Person, None));
        }
        if let Some((name, opened_at)) = self.tools.oldest_call() {
            let name = (!name.is_empty()).then(|| name.to_owned());
            return Some(WaitsFor::since(opened_at, Waiting::Tool, name));
        }
        let since = self.model_since?;
        let arriving = self.adapter.live().arriving.map(|arriving| match arriving {
            Arriving::Text => "text",
            Arriving::Thinking => "thinking",
            Arriving::ToolInput => "tool input",
        });
        let arriving = arriving.map(str::to_owned);
        Some(WaitsFor::since(since, Waiting::Model, arriving))
    }

    /// Returns the overrun if the kept files use too much of the disk. From then on no events are
    /// written to the log; the output is still mapped to count its usage.
    pub fn overrun(&self) -> Option<Overrun> {
        self.overrun
    }

    /// Takes the requests of the agent that arrived since the last call.
    pub fn take_requests(&mut self) -> Vec<AgentRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Returns the lines of input that answer a question of the agent.
    pub fn answer(&self, ask: &ApprovalRequest, verdict: Verdict<'_>) -> Vec<String> {
        self.adapter.answer(ask, verdict)
    }

    /// Returns the lines of input that send a message of a person; `None` while the agent cannot take
    /// one.
    pub fn message_lines(&self, message: &Message) -> Option<Vec<String>> {
        self.adapter.message_lines(message)
    }

    /// Handles that these lines were sent, which carry a message with this id.
    pub fn on_message_sent(&mut self, id: MessageId, lines: &[String]) {
        self.adapter.on_message_sent(id, lines);
    }

    /// Returns the request of Vik to which the agent has not responded yet.
    pub fn unanswered_request(&self) -> Option<UnansweredRequest> {
        self.adapter.unanswered_request()
    }

    /// Returns whether the agent can take messages of people now.
    pub fn takes_messages(&self) -> bool {
        let probe = Message {
            id: MessageId(uuid::Uuid::nil()),
            text: String::new(),
            by: String::new(),
            at: Timestamp::UNIX_EPOCH,
            interrupt: false,
        };
        self.message_lines(&probe).is_some()
    }

    /// Returns the usage and cost that the agent has reported so far.
    pub fn usage(&self) -> (Usage, Option<f64>) {
        self.adapter.usage()
    }

    /// Returns whether the agent's model has answered since the attempt started.
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    /// Returns whether the agent has printed anything.
    pub fn has_printed(&self) -> bool {
        self.raw.metadata().is_ok_and(|meta| meta.len() > 0)
    }

    /// Writes an event of Vik itself to the log.
    ///
    /// # Errors
    /// When this or an earlier write to the log fails.
    pub fn append_event(&mut self, at: Timestamp, event: &Event<'_>) -> Result<(), FollowError> {
        self.write(|log| {
            log.push(at, event)?;
            log.flush()
        });
        self.check_log()
    }

    /// Flushes the log and leaves the raw file to the next daemon.
    ///
    /// # Errors
    /// When this or an earlier write to the log fails.
    pub fn detach(mut self) -> Result<(), FollowError> {
        self.write(SessionLog::flush);
        self.check_log()
    }

    /// Reads and maps new output, at most one slice. Returns whether there may be more.
    ///
    /// # Errors
    /// When reading fails, or when this or an earlier write to the log fails. In the latter case
    /// the slice is mapped nevertheless.
    pub fn poll(&mut self) -> Result<bool, FollowError> {
        let more = self.read_slice()?;
        self.check_log()?;
        Ok(more)
    }

    /// Calls [`poll`](Self::poll) for several slices, as long as there may be more.
    pub(super) async fn poll_slices(&mut self) -> Result<(), FollowError> {
        for _ in 0..SLICES_PER_TURN {
            if !self.poll()? {
                break;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
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
                self.poll_wait = (self.poll_wait * 2).min(POLL_INTERVAL.1);
                self.write(SessionLog::flush);
                return Ok(false);
            }
            let heartbeats = self.adapter.live().heartbeats;
            let mapped = self.map_lines(|lines, raw, sink| lines.feed(raw, &slice[..count], sink));
            let heartbeats = self.adapter.live().heartbeats - heartbeats;
            if mapped.lines > 0 && heartbeats == mapped.lines {
                self.life.on_heartbeat();
            } else {
                self.life.on_content();
            }
            self.poll_wait = if mapped.lines > 0 && mapped.events == 0 {
                STREAM_INTERVAL
            } else {
                POLL_INTERVAL.0
            };
            if self.overrun.is_none() {
                self.overrun = self.kept.overrun(self.adapter.live().partial_bytes);
                if self.overrun.is_some() {
                    self.logged = u64::MAX;
                }
            }
            self.write_discount();
            self.track();
            Ok(count == SLICE_BYTES)
        })
    }

    /// Informs the shim of more partial lines, once there are many.
    fn write_discount(&mut self) {
        let bytes = self.adapter.live().partial_bytes;
        if bytes < self.discount.saturating_add(DISCOUNT_STEP) {
            return;
        }
        self.discount = bytes;
        if let Err(error) = self.kept.write_discount(bytes, &mut self.discount_file) {
            tracing::warn!(%error, "cannot exclude parts of answers from the disk limit");
        }
    }

    /// Writes to the log, unless an earlier write failed. A later write would leave a gap.
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

    /// Skips a hole in the file within a line that is too long anyway: a sparse file may be longer
    /// than can be read.
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

    fn map_lines(&mut self, split: impl FnOnce(&mut Lines, &File, &mut dyn FnMut(Line<'_>))) -> Mapped {
        let now = Timestamp::now();
        // An earlier daemon logged the first events when they were printed.
        let printed_at = if self.logged > 0 { self.printed_at } else { now };
        let mut mapper = Mapper {
            at: now,
            printed_at,
            masker: vik_mask::process(),
            adapter: &mut *self.adapter,
            log: &mut self.log,
            log_error: &mut self.log_error,
            tools: &mut self.tools,
            logged: &mut self.logged,
            requests: &mut self.requests,
            answered: &mut self.answered,
            mapped: Mapped::default(),
        };
        split(&mut self.lines, &self.raw, &mut |line| mapper.line(line));
        let mapped = mapper.mapped;
        if mapped.events > 0 {
            self.model_since = self.model_since.map(|_| printed_at);
        }
        mapped
    }

    fn track(&mut self) {
        self.tools.set_count(self.adapter.open_tools());
        let (usage, cost_usd) = self.adapter.usage();
        let (events, activity) = (self.log.len(), self.adapter.activity().map(str::to_owned));
        let live = self.adapter.live();
        self.speed.on_arrived(Instant::now(), live.arrived_chars);
        let waits_for = self.waits_for();
        let for_model = waits_for
            .as_ref()
            .is_some_and(|waits| waits.kind == Waiting::Model);
        let is_answering = for_model && live.arriving.is_some();
        let tokens_per_second = self.speed.tokens_per_second().filter(|_| is_answering);
        self.updates.set_facts(|facts| {
            facts.waits_for = waits_for;
            facts.tokens_per_second = tokens_per_second;
            facts.context = live.context_used.map(|used| ContextView {
                used,
                window: live.context_window,
            });
            facts.rate_limit = live.rate_limit.map(|limit| RateLimitView {
                used_percent: limit.used_percent,
                resets_at: limit.resets_at.and_then(|at| Timestamp::from_second(at).ok()),
            });
            facts.last_event_at = Some(Timestamp::now());
            facts.events = events;
            facts.activity = activity;
            facts.usage = usage;
            facts.cost_usd = cost_usd;
        });
    }

    /// Maps the remaining output after the process has ended, including a last line without a
    /// newline.
    ///
    /// # Errors
    /// When reading fails.
    pub async fn finish(mut self) -> Result<Finished, FollowError> {
        while self.read_slice()? {
            tokio::task::yield_now().await;
        }
        // A short read is not the end of the file.
        while !self.at_end()? {
            self.read_slice()?;
            tokio::task::yield_now().await;
        }
        self.map_lines(Lines::finish);
        self.track();
        self.updates.set_facts(Facts::on_agent_ended);
        self.write(SessionLog::flush);
        Ok(Finished {
            adapter: self.adapter,
            requests: self.requests,
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

/// Returns the offset of the next data in the file at or after `at`; `None` if there is none.
/// Returns `at` itself if the system does not support the query.
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
