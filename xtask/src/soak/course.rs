//! The course of a soak: issues in sections, with all measurements between two sections.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Serialize;
use vik_testkit::HttpClient;

use crate::bench::sample;
use crate::bench::scene::Scene;
use crate::bench::setting::{Setting, Subject};
use crate::interrupt::pause;
use crate::repo::{self, TaskResult};

/// The number of issues between two readings of the processes.
pub const STEP: u32 = 500;
/// The interval of checking how far the daemon is.
const INTERVAL: Duration = Duration::from_millis(50);
/// The longest time without a finished issue.
const STALLED: Duration = Duration::from_secs(120);
/// How often each query is repeated; the fastest counts, since other work only makes it slower.
const REPEATED: usize = 3;
/// The time until the memory of a new daemon is read.
const IDLE: Duration = Duration::from_secs(10);

/// The extent of a soak.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Plan {
    pub issues: u32,
    pub at_once: u32,
}

/// What the processes have used since the start, without the measurements between sections.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Usage {
    pub wall_secs: f64,
    /// CPU of the daemon.
    pub daemon_secs: f64,
    /// CPU of the daemon and of all its descendants.
    pub all_secs: f64,
}

/// The state after a number of issues.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reading {
    pub issues: u32,
    pub usage: Usage,
    pub rss_bytes: u64,
    pub anonymous_bytes: u64,
    pub descriptors: usize,
}

/// All measurements after a section.
#[derive(Clone, Debug, Serialize)]
pub struct Stop {
    pub reading: Reading,
    pub disk: Vec<Disk>,
    pub queries: Vec<Query>,
}

/// The disk that one kind of data occupies.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Disk {
    pub kind: &'static str,
    pub bytes: u64,
}

/// The time of a command or of a request.
#[derive(Clone, Debug, Serialize)]
pub struct Query {
    pub name: &'static str,
    pub ms: f64,
}

/// The daemon after `kill -9`.
#[derive(Clone, Debug, Serialize)]
pub struct Restart {
    /// From the start until it answers and a pull has succeeded.
    pub ready_ms: f64,
    pub rss_bytes: u64,
    pub anonymous_bytes: u64,
    /// Commands between the two daemons.
    pub offline: Vec<Query>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Soak {
    pub plan: Plan,
    /// One after each [`STEP`] issues, and one at the end of each section.
    pub readings: Vec<Reading>,
    pub stops: Vec<Stop>,
    pub restart: Restart,
}

/// A daemon at work, and what it has used outside of the sections.
struct Course {
    scene: Scene,
    started: Instant,
    between: Usage,
}

pub fn run(subject: &Subject, helper: &Path, plan: &Plan) -> TaskResult<Soak> {
    let setting = Setting {
        pull: "{scene}/bin/pull window".to_owned(),
        idle_secs: 1,
        concurrency: plan.at_once,
        agent: "end".to_owned(),
        issue_keys: "  terminal_states: [done]\n  remove_workspace: always\n",
        ..Setting::holding(String::new())
    };
    let mut course = Course {
        scene: Scene::start(subject, helper, &setting)?,
        started: Instant::now(),
        between: Usage::default(),
    };
    let (mut readings, mut stops) = (Vec::new(), Vec::new());
    for issues in sections(plan.issues) {
        let reading = course.section(issues, plan.issues, &mut readings)?;
        stops.push(course.stop(reading)?);
    }
    let restart = course.restart(plan.issues)?;
    eprintln!("removing all files");
    course.scene.stop();
    Ok(Soak {
        plan: *plan,
        readings,
        stops,
        restart,
    })
}

/// Returns where sections end: 1,000, 2,000, 5,000, 10,000 and so on, and the last issue.
fn sections(issues: u32) -> Vec<u32> {
    let decades = (3..9).flat_map(|power| [1, 2, 5].map(|factor| factor * 10_u32.pow(power)));
    decades
        .take_while(|end| *end < issues)
        .chain(std::iter::once(issues))
        .collect()
}

impl Course {
    /// Lets issues come up to a number, and waits until all are done.
    fn section(&mut self, until: u32, of: u32, readings: &mut Vec<Reading>) -> TaskResult<Reading> {
        let root = self.scene.root().to_owned();
        repo::write(&root.join("limit"), &until.to_string())?;
        let (mut seen, mut stalled) = (0, Instant::now() + STALLED);
        loop {
            // The number of the first issue to do.
            let next = std::fs::read_to_string(root.join("next")).ok();
            let done = next.and_then(|next| next.parse::<u32>().ok()).unwrap_or(1) - 1;
            if done > seen {
                (seen, stalled) = (done, Instant::now() + STALLED);
            }
            let last = readings.last().map_or(0, |reading| reading.issues);
            if done / STEP > last / STEP || done >= until {
                let reading = self.read(done)?;
                report(readings.last(), &reading, of);
                readings.push(reading);
                if done >= until {
                    return Ok(reading);
                }
            }
            self.scene.check(stalled, &format!("{done} of {until} issues"))?;
            pause(INTERVAL)?;
        }
    }

    fn read(&self, issues: u32) -> TaskResult<Reading> {
        let (sample, so_far) = (self.scene.sample()?, self.so_far()?);
        Ok(Reading {
            issues,
            usage: so_far.since(self.between),
            rss_bytes: sample.rss,
            anonymous_bytes: sample.anonymous,
            descriptors: self.scene.descriptors(),
        })
    }

    fn so_far(&self) -> TaskResult<Usage> {
        let sample = self.scene.sample()?;
        let daemon = sample.cpu.as_secs_f64();
        Ok(Usage {
            wall_secs: self.started.elapsed().as_secs_f64(),
            daemon_secs: daemon,
            all_secs: daemon + sample.cpu_of_ended.as_secs_f64(),
        })
    }

    /// Measures disk and queries while the daemon has nothing to do.
    fn stop(&mut self, reading: Reading) -> TaskResult<Stop> {
        let before = self.so_far()?;
        // The last attempts end, and their workspaces are removed.
        pause(Duration::from_secs(2))?;
        let stop = Stop {
            reading,
            disk: disk(&self.scene.root().join("home/vik")),
            queries: self.queries(reading.issues)?,
        };
        self.between = self.between.plus(self.so_far()?.since(before));
        Ok(stop)
    }

    fn queries(&self, issues: u32) -> TaskResult<Vec<Query>> {
        let mut queries = self.commands(issues)?;
        let status: &[&str] = &["status", "workflow.yml"];
        queries.push(self.command("vik status", status)?);
        let client = HttpClient::unix(self.scene.socket()?);
        for (name, path) in [
            ("state", "state".to_owned()),
            ("issues", "issues?limit=50".to_owned()),
            ("report", "report?since=24h".to_owned()),
            ("an issue", format!("issues/b-{issues}")),
        ] {
            let path = format!("/api/v1/{path}");
            queries.push(fastest(name, || {
                let reply = client.get(&path);
                if reply.status == 200 {
                    return Ok(());
                }
                Err(format!("{path} answered with {}: {}", reply.status, reply.body))
            })?);
        }
        Ok(queries)
    }

    /// Measures the commands that need no daemon.
    fn commands(&self, issues: u32) -> TaskResult<Vec<Query>> {
        let issue = format!("b-{issues}");
        Ok(vec![
            self.command("vik runs", &["runs"])?,
            self.command("vik show", &["show", &issue])?,
            self.command("vik explain", &["explain", &issue])?,
        ])
    }

    fn command(&self, name: &'static str, args: &[&str]) -> TaskResult<Query> {
        fastest(name, || {
            let mut command = self.scene.command();
            repo::run(command.args(args).stdout(Stdio::null()))
        })
    }

    /// Kills the daemon, runs commands without one, and starts another.
    fn restart(&mut self, issues: u32) -> TaskResult<Restart> {
        self.scene.kill();
        let offline = self.commands(issues)?;
        let started = Instant::now();
        self.scene.restart()?;
        let client = HttpClient::unix(self.scene.socket()?);
        let socket = self.scene.socket()?;
        let is_ready = || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok() && client.get("/readyz").status == 200
        };
        while !is_ready() {
            self.scene.check(started + STALLED, "the daemon is not ready")?;
            pause(Duration::from_millis(5))?;
        }
        let ready = started.elapsed();
        eprintln!("ready {} ms after `kill -9` and a new start", ready.as_millis());
        pause(IDLE)?;
        let sample = self.scene.sample()?;
        Ok(Restart {
            ready_ms: ready.as_secs_f64() * 1e3,
            rss_bytes: sample.rss,
            anonymous_bytes: sample.anonymous,
            offline,
        })
    }
}

impl Usage {
    pub fn since(self, before: Self) -> Self {
        Self {
            wall_secs: self.wall_secs - before.wall_secs,
            daemon_secs: self.daemon_secs - before.daemon_secs,
            all_secs: self.all_secs - before.all_secs,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            wall_secs: self.wall_secs + other.wall_secs,
            daemon_secs: self.daemon_secs + other.daemon_secs,
            all_secs: self.all_secs + other.all_secs,
        }
    }
}

/// What one issue has used between two readings.
pub struct PerIssue {
    pub per_second: f64,
    pub daemon_ms: f64,
    pub all_ms: f64,
}

impl Reading {
    /// Returns the use for each issue since an earlier reading, or since the start.
    pub fn per_issue(&self, before: Option<&Self>) -> PerIssue {
        let (issues, usage) = before.map_or((0, Usage::default()), |before| (before.issues, before.usage));
        let (issues, used) = (f64::from(self.issues - issues), self.usage.since(usage));
        PerIssue {
            per_second: issues / used.wall_secs,
            daemon_ms: used.daemon_secs * 1e3 / issues,
            all_ms: used.all_secs * 1e3 / issues,
        }
    }
}

/// Prints how far the soak is, for the person who waits.
fn report(before: Option<&Reading>, reading: &Reading, of: u32) {
    let used = reading.per_issue(before);
    eprintln!(
        "{} of {of} issues: {:.0} per second; CPU of each: daemon {:.1} ms, all {:.1} ms; {} MB (load {})",
        reading.issues,
        used.per_second,
        used.daemon_ms,
        used.all_ms,
        reading.rss_bytes / 1_000_000,
        repo::load_average()
    );
}

/// Returns the disk that the folders of a workflow occupy.
fn disk(home: &Path) -> Vec<Disk> {
    let workflows = std::fs::read_dir(home.join("workflows"));
    let folder = workflows.ok().and_then(|mut found| found.next()?.ok());
    let folder = folder.map_or_else(|| home.to_owned(), |entry| entry.path());
    let kinds = [
        ("ledger", "service"),
        ("trace", "trace"),
        ("sessions", "sessions"),
        ("scratch", "scratch"),
        ("workspaces", "issues"),
        ("logs", "logs"),
    ];
    kinds
        .map(|(kind, name)| Disk {
            kind,
            bytes: sample::disk_below(&folder.join(name)),
        })
        .into()
}

fn fastest(name: &'static str, run: impl Fn() -> TaskResult) -> TaskResult<Query> {
    let mut fastest = Duration::MAX;
    for _ in 0..REPEATED {
        let started = Instant::now();
        run()?;
        fastest = fastest.min(started.elapsed());
    }
    Ok(Query {
        name,
        ms: fastest.as_secs_f64() * 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_end_at_round_numbers_and_at_the_last_issue() {
        assert_eq!(sections(300), [300]);
        assert_eq!(sections(5_000), [1_000, 2_000, 5_000]);
        assert_eq!(sections(12_000), [1_000, 2_000, 5_000, 10_000, 12_000]);
    }

    #[test]
    fn usage_of_an_issue_is_that_of_its_interval() {
        let reading = |issues, secs| Reading {
            issues,
            usage: Usage {
                wall_secs: secs,
                daemon_secs: secs * 2.0,
                all_secs: secs * 3.0,
            },
            rss_bytes: 0,
            anonymous_bytes: 0,
            descriptors: 0,
        };
        let (first, second) = (reading(100, 10.0), reading(300, 15.0));
        let used = second.per_issue(Some(&first));
        assert_eq!((used.per_second, used.daemon_ms, used.all_ms), (40.0, 50.0, 75.0));
        assert_eq!(first.per_issue(None).per_second, 10.0);
    }
}
