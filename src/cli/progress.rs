//! Terminal output of `vik run`: a line for each event, and the closing summary.

mod summary;

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vik_base::report::{clean, clock_time, count, day_heading, one_line, optional, paint};
use vik_core::attempt::Start;
use vik_core::duration::Span;
use vik_core::ids::AttemptId;
use vik_core::machine::RunEvent;
use vik_core::outcome::Outcome;
use vik_orchestrator::{Observer, Progress};
use vik_session::attempt::{AttemptEnd, Live};

pub use summary::{WorkResult, summary};

/// The interval between reports of running attempts, on a terminal (one line, rewritten) and
/// elsewhere.
const REPORT_INTERVAL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// A longer wait after a failed pull is shown.
const LONGEST_USUAL_WAIT: Duration = Duration::from_secs(30);

/// Writes progress lines to stderr.
#[derive(Debug)]
pub struct Lines {
    screen: Arc<Mutex<Screen>>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
    pulls: u64,
    pull_failed: bool,
}

/// Writes to stderr from its own thread: the daemon must not wait for a slow or missing reader.
#[derive(Debug)]
struct StderrWriter {
    lines: SyncSender<String>,
    done: Receiver<()>,
}

/// The maximum number of queued lines. Further lines are dropped; the logs have them.
const WAITING_LINES: usize = 1024;

/// How long a reader may delay the exit.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

impl StderrWriter {
    fn new() -> Self {
        let (lines, incoming) = sync_channel::<String>(WAITING_LINES);
        let (end, done) = channel();
        std::thread::spawn(move || {
            for text in incoming {
                let _ = std::io::stderr()
                    .lock()
                    .write_all(vik_mask::mask(&text).as_bytes());
            }
            drop(end);
        });
        Self { lines, done }
    }

    fn write(&self, text: String) {
        // The queue is full or closed: the line is lost.
        let _ = self.lines.try_send(text);
    }

    /// Waits until all lines are written, within `FLUSH_TIMEOUT`.
    fn finish(self) {
        drop(self.lines);
        let _ = self.done.recv_timeout(FLUSH_TIMEOUT);
    }
}

#[derive(Debug)]
struct Screen {
    writer: Option<StderrWriter>,
    terminal: bool,
    color: bool,
    running: HashMap<AttemptId, (String, Live, Instant)>,
    /// The day of the last line, as its heading.
    day: String,
    /// Whether the last line on the terminal is the status line that is rewritten.
    dirty: bool,
}

impl Screen {
    fn line(&mut self, text: &str) {
        let clear = if std::mem::take(&mut self.dirty) {
            "\r\x1b[K"
        } else {
            ""
        };
        let now = jiff::Timestamp::now();
        let day = day_heading(now);
        let heading = if self.day == day {
            String::new()
        } else {
            format!("{day}\n")
        };
        self.day = day;
        self.write(format!("{clear}{heading}{} {text}\n", clock_time(now)));
    }

    fn write(&self, text: String) {
        if let Some(writer) = &self.writer {
            writer.write(text);
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        paint(self.color, code, text)
    }

    /// Reports the running attempts.
    fn report_running(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let mut running: Vec<_> = self.running.values().collect();
        running.sort_by_key(|(_, _, since)| *since);
        let reports: Vec<_> = running
            .iter()
            .map(|(name, live, since)| {
                let facts = live.get();
                let activity = facts.activity.unwrap_or_else(|| facts.phase.as_str().to_owned());
                format!(
                    "{name} {} {}",
                    Span(Duration::from_secs(since.elapsed().as_secs())),
                    one_line(&activity, 50)
                )
            })
            .collect();
        if self.terminal {
            let width = usize::from(terminal_width()).saturating_sub(1);
            let text = one_line(&reports.join(" │ "), width);
            self.write(format!("\r\x1b[K{text}"));
            self.dirty = true;
        } else {
            for text in reports {
                self.line(&format!("… {text}"));
            }
        }
    }
}

fn terminal_width() -> u16 {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|width| *width > 20)
        .unwrap_or(100)
}

impl Lines {
    /// Creates the lines for this process's stderr.
    pub fn new() -> Self {
        let stderr = std::io::stderr();
        let terminal = stderr.is_terminal();
        let screen = Screen {
            writer: Some(StderrWriter::new()),
            terminal,
            color: vik_base::report::colored(&stderr),
            running: HashMap::new(),
            day: String::new(),
            dirty: false,
        };
        let screen = Arc::new(Mutex::new(screen));
        let interval = if terminal {
            REPORT_INTERVAL.0
        } else {
            REPORT_INTERVAL.1
        };
        let (end, ended) = channel();
        let ticker_screen = Arc::clone(&screen);
        let ticker = std::thread::spawn(move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                ticker_screen
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .report_running();
            }
        });
        Self {
            screen,
            ticker: Some((end, ticker)),
            pulls: 0,
            pull_failed: false,
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some((end, ticker)) = self.ticker.take() {
            drop(end);
            let _ = ticker.join();
        }
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut screen.dirty) {
            screen.write("\r\x1b[K".to_owned());
        }
        if let Some(writer) = screen.writer.take() {
            writer.finish();
        }
    }
}

fn name(start: &Start) -> String {
    format!("{} {}", one_line(start.issue.id.as_str(), 24), start.stage.name)
}

impl Observer for Lines {
    fn on_progress(&mut self, progress: &Progress<'_>) {
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Pulled {
                issues,
                skipped,
                warnings,
            } => {
                self.pulls += 1;
                if self.pulls == 1 || self.pull_failed {
                    screen.line(&format!("pulled {}", count(*issues, "issue")));
                }
                if self.pulls == 1 {
                    for item in *skipped {
                        let id = item.id.as_deref().map(|id| one_line(id, 40));
                        let id = optional(" (", id, ")");
                        screen.line(&format!("  skipped item {}{id}: {}", item.index, item.reason));
                    }
                    for warning in *warnings {
                        screen.line(&format!("  {}", one_line(&warning.to_string(), 200)));
                    }
                }
                self.pull_failed = false;
            }
            Progress::PullFailed { error, wait } => {
                self.pull_failed = true;
                let mark = screen.paint("31", "pull failed:");
                screen.line(&format!("{mark} {}", one_line(error, 400)));
                if *wait > LONGEST_USUAL_WAIT {
                    screen.line(&format!("  not pulling again for {}", Span(*wait)));
                }
            }
            Progress::Started(start, live) => {
                let attempt = if start.attempt > 1 {
                    format!(", attempt {}", start.attempt)
                } else {
                    String::new()
                };
                let title = one_line(&start.issue.title, 60);
                screen.line(&format!(
                    "▶ {} ({}{attempt})  {title}",
                    name(start),
                    start.stage.agent
                ));
                screen
                    .running
                    .insert(start.attempt_id, (name(start), (*live).clone(), Instant::now()));
            }
            Progress::Ended(start, end) => {
                screen.running.remove(&start.attempt_id);
                let line = ended_line(&screen, start, end);
                screen.line(&line);
                if let Some(failure) = &end.ended.result.hand_over_failure {
                    let mark = screen.paint("31", &format!("{} failed:", failure.step));
                    screen.line(&format!("  {mark} {}", indented(&failure.reason)));
                }
            }
            Progress::Note(issue, note) => {
                let id = one_line(issue.as_str(), 24);
                match note {
                    RunEvent::BackingOff {
                        stage,
                        wait,
                        attempts,
                        is_requested,
                        ..
                    } => {
                        let why = if *is_requested {
                            ", as `before_run` asked".to_owned()
                        } else {
                            format!(" after {}", count(*attempts, "attempt"))
                        };
                        screen.line(&format!("  {id} {stage} waits {}{why}", Span(*wait)));
                    }
                    RunEvent::Continues { stage, turn, max, .. } => {
                        screen.line(&format!("  {id} {stage} continues with turn {turn} of {max}"));
                    }
                    RunEvent::HandOverFailed {
                        stage,
                        wait,
                        tries,
                        failure,
                        ..
                    } => {
                        let mark = screen.paint("33", "hand-over failed");
                        let times = count(*tries, "time");
                        screen.line(&format!(
                            "  {id} {stage} {mark} {times}, next try in {}",
                            Span(*wait)
                        ));
                        // That of the attempt was printed when it ended.
                        if *tries > 1 {
                            screen.line(&format!("    {}", indented(&failure.to_string())));
                        }
                    }
                    RunEvent::HandedOver { stage, tries, .. } => {
                        let mark = screen.paint("32", "handed over");
                        screen.line(&format!("  {id} {stage} {mark} by try {tries}"));
                    }
                    RunEvent::Parked { stage, reason, .. } => {
                        let mark = screen.paint("33", "parked:");
                        screen.line(&format!("  {id} {stage} {mark} {}", reason.as_str()));
                    }
                    RunEvent::Freed { stage, by, .. } => {
                        screen.line(&format!("  {id} {stage}: unparked, because {}", by.as_str()));
                    }
                    RunEvent::Awaiting { stage, request, .. } => {
                        let mark = screen.paint("33", "waiting for approval:");
                        screen.line(&format!("  {id} {stage} {mark} {}", request.message()));
                        screen.line(&format!("    `vik approve {id}` or `vik deny {id}`"));
                    }
                    RunEvent::Answered {
                        stage,
                        request,
                        answer,
                        by,
                        ..
                    } => {
                        let answered = one_line(&request.answered(answer, by), 200);
                        screen.line(&format!("  {id} {stage}: {answered}"));
                    }
                    RunEvent::Asked { .. } | RunEvent::QuestionAnswered { .. } => {
                        let text = one_line(&vik_orchestrator::api_view::note(note), 600);
                        let text = screen.paint("33", &text);
                        screen.line(&format!("  {id} {text}"));
                    }
                    RunEvent::Closed { stage, .. } => {
                        screen.line(&format!("  {id} {stage}: unparked, because the issue was closed"));
                    }
                    RunEvent::Ended { .. } | RunEvent::Unparked { .. } => {}
                }
            }
            Progress::Warning { text } => {
                let mark = screen.paint("33", "warning:");
                screen.line(&format!("{mark} {}", one_line(text, 400)));
            }
            // The note and the final summary report it.
            Progress::Parked(_)
            | Progress::Awaiting(_)
            | Progress::Asked(_)
            | Progress::Messages(_)
            | Progress::DayLimit { .. } => {}
            Progress::Reloaded { edits, .. } => {
                let changes = count(edits.len(), "change");
                screen.line(&format!("the workflow was edited ({changes})"));
                for edit in *edits {
                    screen.line(&format!("  {}", one_line(&edit.to_string(), 200)));
                }
            }
            Progress::EditRejected { first } => {
                let mark = screen.paint("31", "the edited workflow is invalid:");
                screen.line(&format!("{mark} {}", one_line(first, 300)));
                screen.line("  the previous version stays in force");
            }
            Progress::LedgerFailed { error } => {
                let mark = screen.paint("31", "the ledger failed:");
                screen.line(&format!("{mark} {}", one_line(error, 400)));
            }
            Progress::Stopping {
                running,
                force: false,
            } => {
                let agents = count(*running, "agent");
                screen.line(&format!(
                    "stopping {agents}; send a second signal to kill immediately"
                ));
            }
            Progress::Stopping { running, force: true } => {
                screen.line(&format!("killing {}", count(*running, "agent")));
            }
        }
    }
}

fn ended_line(screen: &Screen, start: &Start, end: &AttemptEnd) -> String {
    let ended = &end.ended;
    let result = &ended.result;
    let (mark, color) = match result.outcome {
        Outcome::Succeeded => ("✓", "32"),
        Outcome::Cancelled | Outcome::Lost => ("■", "33"),
        _ => ("✗", "31"),
    };
    let class = optional(" (", result.failure_class, ")");
    let mut line = format!(
        "{} {} {}{class} in {}",
        screen.paint(color, mark),
        name(start),
        result.outcome,
        Span(Duration::from_millis(ended.duration_ms))
    );
    if let Some(reason) = &result.reason {
        line.push_str(&format!(
            "\n    {}\n    log: {}",
            indented(reason),
            end.log.display()
        ));
    }
    line
}

fn indented(text: &str) -> String {
    clean(text.trim_end()).replace('\n', "\n    ")
}
