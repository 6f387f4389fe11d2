//! The scenarios that are measured.

use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

use super::metric::{Key, Measured};
use super::sample::{self, Sample};
use super::scene::Scene;
use super::setting::{Runtime, Sandbox, Setting, Subject};
use super::watched;
use crate::interrupt::pause;
use crate::repo::{self, Context as _, TaskResult};

/// The time for each of many sessions to start, on a busy machine.
const EACH_WITHIN: Duration = Duration::from_millis(300);
/// The time for new sessions to become silent.
const SETTLE: Duration = Duration::from_secs(15);
/// How long silent sessions are observed: several of the longest intervals of a shim.
const SILENCE: Duration = Duration::from_secs(20);

/// One question to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// Time from the last byte of the pull's output to the first instruction of the agent
    Latency,
    /// Ten sessions of 100,000 events at once
    Events,
    /// Ten agents that each print ten parts of an answer in a second
    Streaming,
    /// 500 issues at once
    Crowd,
    /// Nothing to do, with an empty pull and with 10,000 issues
    Idle,
    /// A pull of 10,000 issues every second
    Pulls,
    /// 200 readers of the feed, beside agents that print 10,000 events a second
    Watched,
    /// 10,000 facts a second to 200 readers of the feed, without a daemon
    Feed,
    /// 1,000 live sessions; then the daemon is killed, another one adopts them, and all are stopped
    Thousand,
}

/// The number of consecutive issues in each round.
pub const ISSUES: usize = 17;
/// The number of concurrent sessions that print events, and of the events of each.
const SESSIONS: usize = 10;
const EVENTS: usize = 100_000;
/// The parts of an answer that each of them prints in a second.
const PARTS: u32 = 10;
/// The number of concurrent sessions that only wait.
const CROWD: usize = 500;
/// How long an idle daemon is observed.
const IDLE: Duration = Duration::from_secs(30);
/// The number of issues in a large pull.
const PULLED_ISSUES: usize = 10_000;
/// The number of sessions that wait, are adopted and are stopped, and of the events that each of
/// them has printed.
const WAITING_SESSIONS: usize = 1_000;
pub const EVENTS_PRINTED: usize = 100;

impl Scenario {
    pub fn measure(self, subject: &Subject, helper: &Path) -> TaskResult<Measured> {
        match self {
            Self::Latency => latency(subject, helper),
            Self::Events => events(subject, helper),
            Self::Streaming => streaming(subject, helper),
            Self::Crowd => crowd(subject, helper),
            Self::Idle => idle(subject, helper),
            Self::Pulls => pulls(subject, helper),
            Self::Watched => watched::watched(subject, helper),
            Self::Feed => watched::feed(),
            Self::Thousand => thousand(subject, helper),
        }
    }

    /// Returns whether the predecessor can be measured too: it has no agents that outlive a daemon,
    /// no feed, and no parts of answers.
    pub fn supports_predecessor(self) -> bool {
        !matches!(
            self,
            Self::Thousand | Self::Watched | Self::Feed | Self::Streaming
        )
    }
}

fn latency(subject: &Subject, helper: &Path) -> TaskResult<Measured> {
    let setting = Setting {
        pull: "{scene}/bin/pull fresh".to_owned(),
        idle_secs: 1,
        concurrency: 10,
        agent: "end".to_owned(),
        ..Setting::holding(String::new())
    };
    let mut scene = Scene::start(subject, helper, &setting)?;
    scene.wait_for("done", ISSUES, Duration::from_secs(ISSUES as u64 * 4 + 20))?;
    let times = scene.latencies();
    let claims = scene.claims().into_iter().map(millis).collect();
    scene.stop();
    Ok(Measured::from([(Key::PollToExec, times), (Key::Claim, claims)]))
}

fn events(subject: &Subject, helper: &Path) -> TaskResult<Measured> {
    let lines = lines_of_agent(EVENTS)?;
    let setting = Setting {
        pull: "{scene}/bin/pull once {scene}/issues.json".to_owned(),
        idle_secs: 1,
        concurrency: u32::try_from(SESSIONS).unwrap_or(u32::MAX),
        agent: format!("flood {}", lines.path().display()),
        ..Setting::holding(issues(SESSIONS, "todo"))
    };
    let mut scene = Scene::start(subject, helper, &setting)?;
    scene.wait_for("done", SESSIONS, Duration::from_secs(300))?;
    let wall = scene.elapsed();
    let used = scene.sample()?;
    let written = sample::bytes_below(&scene.root().join("home"));
    let printed = std::fs::metadata(lines.path()).map_or(0, |file| file.len());
    if written < printed * SESSIONS as u64 {
        return Err(format!(
            "the agents did not print all events: only {written} bytes were written"
        ));
    }
    let total = scene.stop();
    Ok(Measured::from([
        (Key::EventsWall, vec![wall.as_secs_f64()]),
        (Key::EventsTotalCpu, vec![total.as_secs_f64()]),
        (Key::EventsCpu, vec![used.cpu.as_secs_f64()]),
        (Key::EventsPeak, vec![megabytes(used.peak_rss)]),
        (Key::EventsWritten, vec![megabytes(written)]),
    ]))
}

fn streaming(subject: &Subject, helper: &Path) -> TaskResult<Measured> {
    let part = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"twelve chars"}},"session_id":"s","parent_tool_use_id":null}"#;
    let lines = NamedTempFile::new().context("cannot create a file")?;
    repo::write(lines.path(), &format!("{part}\n"))?;
    let setting = Setting {
        // Pulls would be most of the work.
        idle_secs: 600,
        concurrency: SESSIONS as u32,
        runtime: Runtime::StreamingClaude,
        agent: format!("pace {PARTS} {}", lines.path().display()),
        ..Setting::holding(issues(SESSIONS, "todo"))
    };
    let mut scene = Scene::start(subject, helper, &setting)?;
    scene.wait_for("agent", SESSIONS, Duration::from_secs(60))?;
    pause(SETTLE)?;
    let before = scene.sample()?;
    pause(SILENCE)?;
    let used = scene.sample()?.cpu - before.cpu;
    scene.stop();
    let share = used.as_secs_f64() * 100.0 / SILENCE.as_secs_f64();
    Ok(Measured::from([(Key::Streaming, vec![share])]))
}

/// Measures 500 starts: with the default sandbox, and without one.
fn crowd(subject: &Subject, helper: &Path) -> TaskResult<Measured> {
    let setting = Setting {
        concurrency: u32::try_from(CROWD).unwrap_or(u32::MAX),
        ..Setting::holding(issues(CROWD, "todo"))
    };
    let run = |subject: &Subject| {
        let mut scene = Scene::start(subject, helper, &setting)?;
        scene.wait_for("agent", CROWD, Duration::from_secs(300))?;
        let started = scene.last("agent");
        // All sessions run; the resources of the start are released, and a pull was read beside them.
        pause(Duration::from_secs(6))?;
        let used = scene.sample()?;
        let shims = scene.shims_pss();
        TaskResult::Ok((started, used, shims, scene.stop()))
    };
    let (started, used, shims, total) = run(subject)?;
    let without_sandbox = match subject.sandbox {
        Sandbox::Missing | Sandbox::Off => total,
        Sandbox::Default => run(&subject.without_sandbox())?.3,
    };
    Ok(Measured::from([
        (Key::CrowdStarted, vec![started.as_secs_f64()]),
        (Key::CrowdTotalCpu, vec![total.as_secs_f64()]),
        (Key::CrowdCpu, vec![used.cpu.as_secs_f64()]),
        (Key::CrowdPeak, vec![megabytes(used.peak_rss)]),
        (Key::CrowdOffCpu, vec![without_sandbox.as_secs_f64()]),
        (Key::CrowdShims, vec![megabytes(shims)]),
    ]))
}

/// The three kinds of idling at once: they hardly load the machine.
fn idle(subject: &Subject, helper: &Path) -> TaskResult<Measured> {
    let settings = ["[]".to_owned()]
        .into_iter()
        .chain(["backlog", "todo"].map(|state| issues(PULLED_ISSUES, state)))
        .map(Setting::holding);
    // Two pulls, and the agent in the only slot.
    let usage = observe(subject, helper, settings, Duration::from_secs(8))?;
    let keys = [
        [Key::IdleRss, Key::IdlePss, Key::IdlePeak, Key::IdleCpu],
        [Key::OtherRss, Key::OtherPss, Key::OtherPeak, Key::OtherCpu],
        [
            Key::WaitingRss,
            Key::WaitingPss,
            Key::WaitingPeak,
            Key::WaitingCpu,
        ],
    ];
    let mut measured = Measured::new();
    for (keys, (sample, cpu)) in keys.into_iter().zip(usage) {
        let values = [
            megabytes(sample.rss),
            megabytes(sample.pss),
            megabytes(sample.peak_rss),
            cpu * 1000.0,
        ];
        measured.extend(keys.into_iter().zip(values.map(|value| vec![value])));
    }
    Ok(measured)
}

/// The cost of a pull: with issues that match no stage, and with as many matching ones while one
/// agent has the only slot.
fn pulls(subject: &Subject, helper: &Path) -> TaskResult<Measured> {
    let settings = ["backlog", "todo"].into_iter().map(|state| Setting {
        idle_secs: 1,
        ..Setting::holding(issues(PULLED_ISSUES, state))
    });
    let usage = observe(subject, helper, settings, Duration::from_secs(5))?;
    let keys = [Key::PullsOther, Key::PullsWaiting].into_iter();
    Ok(keys
        .zip(usage)
        .map(|(key, (_, cpu))| (key, vec![cpu * 100.0]))
        .collect())
}

/// Runs daemons beside each other. Returns the usage of each at the end, and its share of a core.
fn observe(
    subject: &Subject,
    helper: &Path,
    settings: impl Iterator<Item = Setting>,
    settle: Duration,
) -> TaskResult<Vec<(Sample, f64)>> {
    let scenes = settings
        .map(|setting| Scene::start(subject, helper, &setting))
        .collect::<TaskResult<Vec<_>>>()?;
    pause(settle)?;
    let before: Vec<_> = scenes.iter().map(Scene::sample).collect();
    pause(IDLE)?;
    let after: Vec<_> = scenes.iter().map(Scene::sample).collect();
    for scene in scenes {
        scene.stop();
    }
    let samples = before.into_iter().zip(after);
    samples
        .map(|(before, after)| {
            let (before, after) = (before?, after?);
            let cpu = (after.cpu - before.cpu).as_secs_f64() / IDLE.as_secs_f64();
            Ok((after, cpu))
        })
        .collect()
}

fn thousand(subject: &Subject, helper: &Path) -> TaskResult<Measured> {
    let lines = lines_of_agent(EVENTS_PRINTED)?;
    let (mut scene, living) = live(subject, helper, WAITING_SESSIONS, lines.path())?;
    let printed = (WAITING_SESSIONS * EVENTS_PRINTED) as f64;
    let adopted = scene.kill_and_restart(WAITING_SESSIONS)?;
    let after = scene.sample()?;
    let stopped = scene.stop_all()?;
    let (scene, without_sandbox) = live(&subject.without_sandbox(), helper, WAITING_SESSIONS, lines.path())?;
    scene.stop();
    Ok(Measured::from([
        (Key::LivingStarted, vec![living.started.as_secs_f64()]),
        (Key::LivingRss, vec![megabytes(living.daemon.rss)]),
        (Key::LivingPss, vec![megabytes(living.daemon.pss)]),
        (Key::LivingCpu, vec![living.daemon_cpu * 1000.0]),
        (Key::LivingShimsCpu, vec![living.shims_cpu * 1000.0]),
        (Key::LivingShimsOffCpu, vec![without_sandbox.shims_cpu * 1000.0]),
        (
            Key::LivingEvent,
            vec![living.daemon.cpu.as_secs_f64() * 1e6 / printed],
        ),
        (
            Key::LivingShim,
            living
                .shims_private
                .iter()
                .map(|bytes| *bytes as f64 / 1e3)
                .collect(),
        ),
        (Key::Adopted, adopted.iter().map(|time| millis(*time)).collect()),
        (Key::AdoptedRss, vec![megabytes(after.rss)]),
        (Key::StoppedAll, vec![stopped.as_secs_f64()]),
    ]))
}

/// Sessions that are silent after their first events.
pub struct Living {
    /// From the start of the daemon until all agents run.
    pub started: Duration,
    pub daemon: Sample,
    /// The CPU of the daemon while all are silent, as a share of a core.
    pub daemon_cpu: f64,
    /// The CPU of all shims, likewise.
    pub shims_cpu: f64,
    /// The private memory of each shim, in bytes.
    pub shims_private: Vec<u64>,
    /// The number of all processes of the scenario.
    pub processes: usize,
    /// The number of open descriptors of the daemon.
    pub descriptors: usize,
}

/// Starts sessions that print these lines and then wait, and measures them.
pub fn live(subject: &Subject, helper: &Path, sessions: usize, lines: &Path) -> TaskResult<(Scene, Living)> {
    let setting = Setting {
        idle_secs: 60,
        concurrency: u32::try_from(sessions).unwrap_or(u32::MAX),
        agent: format!("tell {} {{scene}}/gate", lines.display()),
        outlive: true,
        ..Setting::holding(issues(sessions, "todo"))
    };
    let mut scene = Scene::start(subject, helper, &setting)?;
    scene.wait_for(
        "agent",
        sessions,
        Duration::from_secs(300).max(EACH_WITHIN * sessions as u32),
    )?;
    let started = scene.last("agent");
    // A new process tree is checked more often than one that has not changed for a while.
    pause(SETTLE)?;
    let shims = scene.shims();
    let (daemon_before, shims_before) = (scene.sample()?, sample::cpu_of(&shims));
    pause(SILENCE)?;
    let (daemon, shims_cpu) = (scene.sample()?, sample::cpu_of(&shims) - shims_before);
    let living = Living {
        started,
        daemon_cpu: (daemon.cpu - daemon_before.cpu).as_secs_f64() / SILENCE.as_secs_f64(),
        shims_cpu: shims_cpu.as_secs_f64() / SILENCE.as_secs_f64(),
        daemon,
        shims_private: sample::private_of(&shims),
        processes: sample::processes_below(scene.root()).len(),
        descriptors: scene.descriptors(),
    };
    Ok((scene, living))
}

pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Returns a pull with this many issues, about 350 bytes each.
pub fn issues(count: usize, state: &str) -> String {
    let text =
        "The command prints amounts without cents, so that totals look wrong to people who read them. "
            .repeat(2);
    let issue = |number: usize| {
        format!(
            r#"{{"id":"b-{number}","title":"Show cents in amounts, part {number}","state":"{state}","description":"{text}","labels":["bug","amounts"],"url":"https://tracker.example/issues/{number}"}}"#
        )
    };
    format!("[{}]", (1..=count).map(issue).collect::<Vec<_>>().join(",\n"))
}

/// Creates a file with the output of an agent.
pub fn lines_of_agent(events: usize) -> TaskResult<NamedTempFile> {
    let file = NamedTempFile::new().context("cannot create a file")?;
    std::fs::write(file.path(), output(events)).context("cannot write lines")?;
    Ok(file)
}

/// Returns the output of an agent: lines of about 400 bytes in the format of Codex.
fn output(events: usize) -> String {
    let prose = "The tests pass now; what is left is the error path of the parser. ".repeat(5);
    let log = "test result: ok. 12 passed; 0 failed; 0 ignored\\n".repeat(4);
    let mut text = String::with_capacity(events * 410);
    for event in 0..events {
        let id = event / 4;
        let line = match event % 4 {
            0 => format!(
                r#"{{"type":"item.completed","item":{{"id":"item_{id}","type":"reasoning","text":"{}"}}}}"#,
                &prose[..320]
            ),
            1 => format!(
                r#"{{"type":"item.completed","item":{{"id":"item_{id}m","type":"agent_message","text":"{}"}}}}"#,
                &prose[..315]
            ),
            2 => format!(
                r#"{{"type":"item.started","item":{{"id":"item_{id}c","type":"command_execution","command":"/bin/bash -lc 'cargo test -p parser --quiet -- {}'","aggregated_output":"","exit_code":null,"status":"in_progress"}}}}"#,
                "parser::errors::position ".repeat(8)
            ),
            _ => format!(
                r#"{{"type":"item.completed","item":{{"id":"item_{id}c","type":"command_execution","command":"/bin/bash -lc 'cargo test -p parser --quiet'","aggregated_output":"{log}","exit_code":0,"status":"completed"}}}}"#
            ),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}
