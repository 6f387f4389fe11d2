//! The scenarios that are measured.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::metric::{Key, Measured};
use super::scene::{Scene, Setting, Subject};
use super::{sample, watched};
use crate::repo::TaskResult;

/// One question to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// Time from the last byte of the pull's output to the first instruction of the agent
    Latency,
    /// Ten sessions of 100,000 events at once
    Events,
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

/// The extent of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The number of consecutive issues in each round.
    pub issues: usize,
    /// The number of concurrent sessions that print events.
    pub sessions: usize,
    pub events: usize,
    /// The number of concurrent sessions that only wait.
    pub crowd: usize,
    /// How long an idle daemon is observed.
    pub idle: Duration,
    /// The number of issues in a large pull.
    pub pulled_issues: usize,
    /// The number of sessions that wait, are adopted and are stopped.
    pub waiting_sessions: usize,
    /// The number of events that each of them has printed.
    pub events_printed: usize,
}

impl Scenario {
    pub fn measure(self, subject: &Subject, helper: &Path, extent: &Extent) -> TaskResult<Measured> {
        match self {
            Self::Latency => latency(subject, helper, extent),
            Self::Events => events(subject, helper, extent),
            Self::Crowd => crowd(subject, helper, extent),
            Self::Idle => idle(subject, helper, extent),
            Self::Pulls => pulls(subject, helper, extent),
            Self::Watched => watched::watched(subject, helper, extent),
            Self::Feed => watched::feed(),
            Self::Thousand => thousand(subject, helper, extent),
        }
    }

    /// Returns whether the predecessor can be measured too: it has no agents that outlive a daemon,
    /// and no feed.
    pub fn supports_predecessor(self) -> bool {
        !matches!(self, Self::Thousand | Self::Watched | Self::Feed)
    }
}

fn latency(subject: &Subject, helper: &Path, extent: &Extent) -> TaskResult<Measured> {
    let setting = Setting {
        pull: "{scene}/bin/pull fresh".to_owned(),
        idle_secs: 1,
        concurrency: 10,
        agent: "end".to_owned(),
        issues: String::new(),
        outlive: false,
    };
    let mut scene = Scene::start(subject, helper, &setting)?;
    scene.wait_for(
        "done",
        extent.issues,
        Duration::from_secs(extent.issues as u64 * 4 + 20),
    )?;
    let times = scene.latencies();
    let claims = scene.claims().into_iter().map(millis).collect();
    scene.stop();
    Ok(Measured::from([(Key::PollToExec, times), (Key::Claim, claims)]))
}

fn events(subject: &Subject, helper: &Path, extent: &Extent) -> TaskResult<Measured> {
    let lines = tempfile::NamedTempFile::new().map_err(|error| format!("cannot create a file: {error}"))?;
    std::fs::write(lines.path(), output(extent.events))
        .map_err(|error| format!("cannot write lines: {error}"))?;
    let setting = Setting {
        pull: "{scene}/bin/pull once {scene}/issues.json".to_owned(),
        idle_secs: 1,
        concurrency: u32::try_from(extent.sessions).unwrap_or(u32::MAX),
        agent: format!("flood {}", lines.path().display()),
        issues: issues(extent.sessions, "todo"),
        outlive: false,
    };
    let mut scene = Scene::start(subject, helper, &setting)?;
    scene.wait_for("done", extent.sessions, Duration::from_secs(300))?;
    let wall = scene.elapsed();
    let used = scene.sample()?;
    let written = sample::bytes_below(&scene.root().join("home"));
    scene.stop();
    Ok(Measured::from([
        (Key::EventsWall, vec![wall.as_secs_f64()]),
        (Key::EventsCpu, vec![used.cpu.as_secs_f64()]),
        (Key::EventsChildrenCpu, vec![used.children_cpu.as_secs_f64()]),
        (Key::EventsPeak, vec![megabytes(used.peak_rss)]),
        (Key::EventsWritten, vec![megabytes(written)]),
    ]))
}

fn crowd(subject: &Subject, helper: &Path, extent: &Extent) -> TaskResult<Measured> {
    let setting = Setting {
        pull: "cat {scene}/issues.json".to_owned(),
        idle_secs: 5,
        concurrency: u32::try_from(extent.crowd).unwrap_or(u32::MAX),
        agent: "hold {scene}/gate".to_owned(),
        issues: issues(extent.crowd, "todo"),
        outlive: false,
    };
    let mut scene = Scene::start(subject, helper, &setting)?;
    scene.wait_for("agent", extent.crowd, Duration::from_secs(300))?;
    let started = scene
        .times("agent")
        .into_iter()
        .map(|(_, time)| time)
        .max()
        .unwrap_or_default();
    // All sessions run; the resources of the start are released, and a pull was read beside them.
    sleep(Duration::from_secs(6));
    let used = scene.sample()?;
    let shims = scene.shims_pss();
    scene.stop();
    Ok(Measured::from([
        (Key::CrowdStarted, vec![started.as_secs_f64()]),
        (Key::CrowdCpu, vec![used.cpu.as_secs_f64()]),
        (Key::CrowdPeak, vec![megabytes(used.peak_rss)]),
        (Key::CrowdShims, vec![megabytes(shims)]),
    ]))
}

/// The three kinds of idling at once: they hardly load the machine.
fn idle(subject: &Subject, helper: &Path, extent: &Extent) -> TaskResult<Measured> {
    let setting = |issues: String| Setting {
        pull: "cat {scene}/issues.json".to_owned(),
        idle_secs: 5,
        concurrency: 1,
        agent: "hold {scene}/gate".to_owned(),
        issues,
        outlive: false,
    };
    let empty = Scene::start(subject, helper, &setting("[]".to_owned()))?;
    let other = Scene::start(subject, helper, &setting(issues(extent.pulled_issues, "backlog")))?;
    let waiting = Scene::start(subject, helper, &setting(issues(extent.pulled_issues, "todo")))?;
    // Two pulls, and the agent in the only slot.
    sleep(Duration::from_secs(8));
    let scenes = [empty, other, waiting];
    let before = scenes.each_ref().map(Scene::sample);
    sleep(extent.idle);
    let after = scenes.each_ref().map(Scene::sample);
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
    for ((keys, before), after) in keys.into_iter().zip(before).zip(after) {
        let (before, after) = (before?, after?);
        let cpu = (after.cpu - before.cpu).as_secs_f64() / extent.idle.as_secs_f64();
        let values = [
            megabytes(after.rss),
            megabytes(after.pss),
            megabytes(after.peak_rss),
            cpu * 1000.0,
        ];
        measured.extend(keys.into_iter().zip(values.map(|value| vec![value])));
    }
    scenes.into_iter().for_each(Scene::stop);
    Ok(measured)
}

/// The cost of a pull: with issues that match no stage, and with as many matching ones while one
/// agent has the only slot.
fn pulls(subject: &Subject, helper: &Path, extent: &Extent) -> TaskResult<Measured> {
    let setting = |issues: String| Setting {
        pull: "cat {scene}/issues.json".to_owned(),
        idle_secs: 1,
        concurrency: 1,
        agent: "hold {scene}/gate".to_owned(),
        issues,
        outlive: false,
    };
    let other = Scene::start(subject, helper, &setting(issues(extent.pulled_issues, "backlog")))?;
    let waiting = Scene::start(subject, helper, &setting(issues(extent.pulled_issues, "todo")))?;
    sleep(Duration::from_secs(5));
    let scenes = [other, waiting];
    let before = scenes.each_ref().map(Scene::sample);
    sleep(extent.idle);
    let after = scenes.each_ref().map(Scene::sample);
    let mut measured = Measured::new();
    for ((key, before), after) in [Key::PullsOther, Key::PullsWaiting]
        .into_iter()
        .zip(before)
        .zip(after)
    {
        let cpu = (after?.cpu - before?.cpu).as_secs_f64() / extent.idle.as_secs_f64();
        measured.insert(key, vec![cpu * 100.0]);
    }
    scenes.into_iter().for_each(Scene::stop);
    Ok(measured)
}

fn thousand(subject: &Subject, helper: &Path, extent: &Extent) -> TaskResult<Measured> {
    let lines = tempfile::NamedTempFile::new().map_err(|error| format!("cannot create a file: {error}"))?;
    std::fs::write(lines.path(), output(extent.events_printed))
        .map_err(|error| format!("cannot write lines: {error}"))?;
    let setting = Setting {
        pull: "cat {scene}/issues.json".to_owned(),
        idle_secs: 60,
        concurrency: u32::try_from(extent.waiting_sessions).unwrap_or(u32::MAX),
        agent: format!("tell {} {{scene}}/gate", lines.path().display()),
        issues: issues(extent.waiting_sessions, "todo"),
        outlive: false,
    };
    let mut scene = Scene::start(subject, helper, &setting.outliving())?;
    scene.wait_for("agent", extent.waiting_sessions, Duration::from_secs(300))?;
    let started = scene.sample()?;
    sleep(Duration::from_secs(10));
    let used = scene.sample()?;
    let idle = (used.cpu - started.cpu).as_secs_f64() / 10.0;
    let events = (extent.waiting_sessions * extent.events_printed) as f64;
    let shims = scene.shims_private();
    let adopted = scene.kill_and_restart(extent.waiting_sessions)?;
    let after = scene.sample()?;
    let stopped = scene.stop_all()?;
    Ok(Measured::from([
        (Key::LivingRss, vec![megabytes(used.rss)]),
        (Key::LivingPss, vec![megabytes(used.pss)]),
        (Key::LivingCpu, vec![idle * 1000.0]),
        (Key::LivingEvent, vec![used.cpu.as_secs_f64() * 1e6 / events]),
        (
            Key::LivingShim,
            shims.into_iter().map(|bytes| bytes as f64 / 1e3).collect(),
        ),
        (Key::Adopted, adopted.iter().map(|time| millis(*time)).collect()),
        (Key::AdoptedRss, vec![megabytes(after.rss)]),
        (Key::StoppedAll, vec![stopped.as_secs_f64()]),
    ]))
}

pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn megabytes(bytes: u64) -> f64 {
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

/// Returns the output of an agent: lines of about 400 bytes in the format of Codex.
pub fn output(events: usize) -> String {
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
