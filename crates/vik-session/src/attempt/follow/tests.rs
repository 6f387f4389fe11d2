use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use vik_core::outcome::Usage;
use vik_core::workflow::{AgentProfile, OutputFormat, Runtime};

use super::mapper::MAX_CUT_BYTES;
use super::*;
use crate::attempt::AttemptHandle;

fn profile() -> AgentProfile {
    AgentProfile {
        output: OutputFormat::Jsonl,
        ..AgentProfile::new(Runtime::Codex)
    }
}

/// Lines that give several events, one or none; the last has no newline.
const RAW: &str = concat!(
    r#"{"type":"thread.started","thread_id":"01a1ffcd-34e9-78d1-bc6d-b647a491f028"}"#,
    "\n",
    r#"{"type":"turn.started"}"#,
    "\n\nno json \u{e4}\r\n",
    r#"{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"true","exit_code":0,"status":"completed"}}"#,
    "\n",
    r#"{"type":"item.completed","item":{"id":"i2","type":"agent_message","text":"two\nlines"}}"#,
    "\n",
    r#"{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}"#,
);

/// Several daemons, one after the other, with the same files.
struct Files {
    _dir: tempfile::TempDir,
    raw: PathBuf,
    log: PathBuf,
    limit: Option<u64>,
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (raw, log) = (dir.path().join("x.raw.jsonl"), dir.path().join("x.jsonl"));
        std::fs::write(&raw, "").unwrap();
        drop(SessionLog::create(&log).unwrap());
        Self {
            _dir: dir,
            raw,
            log,
            limit: None,
        }
    }

    /// Returns the reader of a daemon that resumes the attempt.
    fn follower(&self) -> OutputReader {
        self.follower_of(SessionLog::reopen(&self.log).unwrap())
    }

    fn follower_of(&self, reopened: vik_session_log::Reopened) -> OutputReader {
        let adapter = vik_agents::driver(Runtime::Codex).adapter(&profile(), None);
        let kept = KeptOutput {
            files: vec![self.raw.clone(), self.log.clone()],
            limit: self.limit,
            discount: self.log.with_extension("partial"),
        };
        OutputReader::open(
            &self.raw,
            adapter,
            reopened.log,
            reopened.agent_events,
            AttemptHandle::new().1.updates,
            kept,
        )
        .unwrap()
    }

    async fn finish(&self) -> Usage {
        let finished = self.follower().finish().await.unwrap();
        finished.adapter.usage().0
    }

    /// Returns the events without their times, which may differ.
    fn events(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let line = |line: &str| {
            let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
            event.as_object_mut().unwrap().remove("at");
            event
        };
        text.lines().map(line).collect()
    }
}

async fn whole() -> (Files, Vec<serde_json::Value>) {
    let files = Files::new();
    std::fs::write(&files.raw, RAW).unwrap();
    files.finish().await;
    let events = files.events();
    assert_eq!(events.len(), 7, "{events:?}");
    (files, events)
}

#[tokio::test]
async fn log_cut_at_any_byte_gets_all_events_once() {
    let (files, events) = whole().await;
    let log = std::fs::read(&files.log).unwrap();
    for cut in 0..=log.len() {
        std::fs::write(&files.log, &log[..cut]).unwrap();
        let usage = files.finish().await;
        assert_eq!(files.events(), events, "cut at {cut}");
        assert_eq!(usage.total(), 12, "usage reported before the cut counts too");
    }
}

#[tokio::test]
async fn daemon_crash_at_any_byte_loses_and_repeats_no_event() {
    let (_, events) = whole().await;
    for cut in 0..=RAW.len() {
        let files = Files::new();
        std::fs::write(&files.raw, &RAW.as_bytes()[..cut]).unwrap();
        let mut first = files.follower();
        while first.poll().unwrap() {}
        first.detach().unwrap();
        std::fs::write(&files.raw, RAW).unwrap();
        files.finish().await;
        assert_eq!(files.events(), events, "cut at {cut}");
    }
}

#[tokio::test]
async fn own_events_are_not_mistaken_for_agent_events() {
    let (_, events) = whole().await;
    let half = RAW.len() / 2;
    let files = Files::new();
    std::fs::write(&files.raw, &RAW.as_bytes()[..half]).unwrap();
    let mut first = files.follower();
    first.poll().unwrap();
    let hit = vik_core::limits::LimitHit {
        scope: vik_core::limits::LimitScope::Attempt,
        unit: vik_core::limits::LimitUnit::Tokens,
        spent: 8,
        limit: 10,
    };
    let limit = Event::Limit { hit, percent: 80 };
    first.append_event(Timestamp::now(), &limit).unwrap();
    first.detach().unwrap();
    std::fs::write(&files.raw, RAW).unwrap();
    files.finish().await;
    let (own, agents): (Vec<_>, Vec<_>) = files
        .events()
        .into_iter()
        .partition(|event| event["kind"] == "limit");
    assert_eq!(own.len(), 1);
    let without_seq = |events: Vec<serde_json::Value>| -> Vec<_> {
        let strip = |mut event: serde_json::Value| {
            event.as_object_mut().unwrap().remove("seq");
            event
        };
        events.into_iter().map(strip).collect()
    };
    assert_eq!(without_seq(agents), without_seq(events));
    let numbers: Vec<_> = files
        .events()
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert!(numbers.iter().copied().eq(1..=8), "{numbers:?}");
}

/// Returns a line that is too long, and its length in bytes.
fn overlong() -> (String, u64) {
    let bytes = 3 * LONGEST_LINE + 7;
    ("x".repeat(usize::try_from(bytes).unwrap()), bytes)
}

#[tokio::test]
async fn overlong_line_is_malformed_and_later_lines_count() {
    let (long, bytes) = overlong();
    let files = Files::new();
    let (first, tail) = RAW.split_once('\n').unwrap();
    std::fs::write(&files.raw, format!("{first}\n{long}\n{tail}")).unwrap();
    let usage = files.finish().await;
    assert_eq!(usage.total(), 12, "the last line counts");
    let events = files.events();
    let cut = &events[1];
    assert_eq!(
        (&cut["kind"], &cut["bytes"]),
        (&"malformed".into(), &bytes.into())
    );
    assert_eq!(cut["offset"], (first.len() + 1) as u64);
    assert_eq!(cut["line"].as_str().unwrap().len(), MAX_CUT_BYTES);
    assert_eq!(events.len(), 8);
    // The next daemon gets the same result.
    files.finish().await;
    assert_eq!(files.events(), events);
}

#[tokio::test]
async fn sparse_line_too_large_to_read_is_skipped() {
    let files = Files::new();
    let raw = File::options().append(true).open(&files.raw).unwrap();
    raw.set_len(1 << 40).unwrap();
    (&raw).write_all(format!("\n{RAW}").as_bytes()).unwrap();
    assert_eq!(files.finish().await.total(), 12);
    assert_eq!(files.events()[0]["bytes"], 1_u64 << 40);
}

#[tokio::test]
async fn log_over_the_output_limit_is_not_completed() {
    let mut files = Files::new();
    files.limit = Some(1 << 20);
    let (first, tail) = RAW.split_once('\n').unwrap();
    std::fs::write(&files.raw, format!("{first}\n{}{tail}", "x\n".repeat(200_000))).unwrap();
    let finished = files.follower().finish().await.unwrap();
    let overrun = finished.overrun;
    assert!(
        matches!(overrun, Some(Overrun::Disk { limit: 0x10_0000, .. })),
        "{overrun:?}"
    );
    assert_eq!(finished.adapter.usage().0.total(), 12, "what it used is known");
    let size = std::fs::metadata(&files.log).unwrap().len();
    assert!(size < 16 << 20, "{size}");
}

/// A log file in memory that grows until it is sealed, like a file on a disk that becomes full.
struct SealedLog(File);

impl SealedLog {
    fn new() -> Self {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        Self(memfd_create(c"log", flags).unwrap().into())
    }

    fn open(&self) -> vik_session_log::Reopened {
        SessionLog::reopen(&PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))).unwrap()
    }

    fn seal(&self) {
        fcntl(&self.0, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW)).unwrap();
    }
}

#[tokio::test]
async fn log_failure_at_any_event_loses_no_usage() {
    for cut in 0..=RAW.len() {
        let files = Files::new();
        let log = SealedLog::new();
        std::fs::write(&files.raw, &RAW.as_bytes()[..cut]).unwrap();
        let mut reader = files.follower_of(log.open());
        while reader.poll().unwrap() {}
        log.seal();
        std::fs::write(&files.raw, RAW).unwrap();
        let mut finished = reader.finish().await.unwrap();
        // The last event comes from the last line, which has no newline.
        assert!(finished.log.is_err(), "sealed at {cut}");
        let conclusion = finished.adapter.conclude(vik_agents::Exit::Code(0), "");
        assert_eq!(conclusion.usage.total(), 12, "sealed at {cut}");
        assert!(conclusion.ok && finished.answered, "sealed at {cut}");
        assert_eq!(
            conclusion.provider_session_id.as_deref(),
            Some("01a1ffcd-34e9-78d1-bc6d-b647a491f028")
        );
    }
}

#[tokio::test]
async fn log_failure_within_a_slice_still_maps_later_lines() {
    let files = Files::new();
    let log = SealedLog::new();
    log.seal();
    let (first, tail) = RAW.split_once('\n').unwrap();
    // The log is written in the middle of a slice; the long line must be read back from its
    // position.
    let (many, long) = ("x\n".repeat(50_000), " ".repeat(1 << 20));
    std::fs::write(&files.raw, format!("{first}\n{many}{long}{tail}\n{many}")).unwrap();
    let mut reader = files.follower_of(log.open());
    while let Err(error) = reader.poll() {
        assert!(matches!(error, FollowError::Log(_)), "{error}");
        if reader.at_end().unwrap() {
            break;
        }
    }
    let limit = Event::note("a limit is near".to_owned());
    assert!(reader.append_event(Timestamp::now(), &limit).is_err());
    assert_eq!(reader.usage().0.total(), 12);
    let finished = reader.finish().await.unwrap();
    assert!(finished.log.is_err());
    assert_eq!(
        log.0.metadata().unwrap().len(),
        0,
        "nothing is written after an error"
    );
}

/// A tool call that has not ended.
const OPEN_CALL: &str = concat!(
    r#"{"type":"item.started","item":{"id":"i1","type":"command_execution","command":"true","status":"in_progress"}}"#,
    "\n",
);

#[tokio::test]
async fn agent_of_an_earlier_daemon_waits_since_it_last_printed() {
    let files = Files::new();
    std::fs::write(&files.raw, OPEN_CALL).unwrap();
    let mut first = files.follower();
    while first.poll().unwrap() {}
    first.detach().unwrap();
    let printed: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let raw = File::options().write(true).open(&files.raw).unwrap();
    raw.set_modified(printed.into()).unwrap();
    let mut second = files.follower();
    while second.poll().unwrap() {}
    let waits = second.waits_for().unwrap();
    assert_eq!((waits.kind, waits.since), (Waiting::Tool, printed));
    std::fs::write(
        &files.raw,
        [OPEN_CALL, OPEN_CALL.replace("i1", "i2").as_str()].concat(),
    )
    .unwrap();
    let mut third = files.follower();
    while third.poll().unwrap() {}
    assert!(third.waits_for().unwrap().since > printed);
}

#[tokio::test]
async fn program_without_a_model_is_not_shown_as_waiting_for_one() {
    let files = Files::new();
    let mut reader = files.follower().without_model();
    assert_eq!(reader.waits_for().map(|waits| waits.kind), None);
    reader.set_waits_for_person(true);
    assert_eq!(reader.waits_for().map(|waits| waits.kind), Some(Waiting::Person));
}

#[test]
fn partial_lines_do_not_count_up_to_the_limit() {
    let mut files = Files::new();
    files.limit = Some(1 << 20);
    std::fs::write(&files.raw, vec![b'x'; 3 << 19]).unwrap();
    let overrun = |discount| files.follower().kept.overrun(discount).is_some();
    assert!(overrun(0) && !overrun(1 << 20));
    std::fs::write(&files.raw, vec![b'x'; 3 << 20]).unwrap();
    assert!(overrun(3 << 20), "an agent decides which lines are partial");
}
