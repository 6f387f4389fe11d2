use std::path::PathBuf;

use vik_core::outcome::Usage;
use vik_core::workflow::{AgentProfile, ArgsStyle, Home, OutputFormat, Permission, Runtime};

use super::*;

fn profile() -> AgentProfile {
    AgentProfile {
        runtime: Runtime::Codex,
        model: None,
        args: Vec::new(),
        args_style: ArgsStyle::Repeat,
        permission: Permission::ReadOnly,
        sandbox: None,
        command: Vec::new(),
        output: OutputFormat::Jsonl,
        env: Default::default(),
        env_pass: Vec::new(),
        secrets: Vec::new(),
        home: Home::User,
        price: None,
        provider: None,
        base_url: None,
        max_concurrency: None,
        estimate: Default::default(),
    }
}

/// Lines of which some give several events, some one, some none; the last has no newline.
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

/// One daemon after another at the same files.
struct Files {
    _dir: tempfile::TempDir,
    raw: PathBuf,
    log: PathBuf,
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (raw, log) = (dir.path().join("x.raw.jsonl"), dir.path().join("x.jsonl"));
        std::fs::write(&raw, "").unwrap();
        drop(SessionLog::create(&log).unwrap());
        Self { _dir: dir, raw, log }
    }

    /// A daemon that takes the session up.
    fn follower(&self) -> Follower {
        let again = SessionLog::reopen(&self.log).unwrap();
        let adapter = vik_agents::adapter(&profile(), None);
        Follower::open(&self.raw, adapter, again.log, again.agents, Live::default()).unwrap()
    }

    async fn finish(&self) -> Usage {
        let (adapter, _) = self.follower().finish().await.unwrap();
        adapter.usage().0
    }

    /// The events without their times: those may differ.
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
async fn a_log_that_was_cut_at_any_byte_gets_every_event_once() {
    let (files, events) = whole().await;
    let log = std::fs::read(&files.log).unwrap();
    for cut in 0..=log.len() {
        std::fs::write(&files.log, &log[..cut]).unwrap();
        let usage = files.finish().await;
        assert_eq!(files.events(), events, "cut at {cut}");
        assert_eq!(usage.total(), 12, "what was told before the cut counts too");
    }
}

#[tokio::test]
async fn a_daemon_that_dies_at_any_byte_of_the_output_loses_and_doubles_nothing() {
    let (_, events) = whole().await;
    for cut in 0..=RAW.len() {
        let files = Files::new();
        std::fs::write(&files.raw, &RAW.as_bytes()[..cut]).unwrap();
        let mut first = files.follower();
        while first.look().unwrap() {}
        first.leave().unwrap();
        std::fs::write(&files.raw, RAW).unwrap();
        files.finish().await;
        assert_eq!(files.events(), events, "cut at {cut}");
    }
}

#[tokio::test]
async fn what_vik_says_itself_is_not_taken_for_the_agents() {
    let (_, events) = whole().await;
    let half = RAW.len() / 2;
    let files = Files::new();
    std::fs::write(&files.raw, &RAW.as_bytes()[..half]).unwrap();
    let mut first = files.follower();
    first.look().unwrap();
    let hit = vik_core::limits::LimitHit {
        scope: vik_core::limits::LimitScope::Attempt,
        unit: vik_core::limits::LimitUnit::Tokens,
        spent: 8,
        limit: 10,
    };
    let limit = Event::Limit { hit, percent: 80 };
    first.say(Timestamp::now(), &limit).unwrap();
    first.leave().unwrap();
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
