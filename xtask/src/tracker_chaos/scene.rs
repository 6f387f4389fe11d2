//! The folders, the workflow and the daemon of a run.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vik_testkit::{TestEnv, wait_for};

use super::faults::Plan;
use super::record::{Attempt, Fault, Record, Report};
use super::redmine::Redmine;
use crate::interrupt;
use crate::repo::{self, Context as _, TaskResult};

/// The time for the daemon to end after SIGTERM: an `after_run` may finish.
const STOP_WITHIN: Duration = Duration::from_secs(60);

pub struct Scene {
    /// The daemon, unless it was killed.
    daemon: Option<Child>,
    pub redmine: Redmine,
    pub env: TestEnv,
    started: Instant,
}

impl Scene {
    /// Starts Redmine with all issues.
    pub fn create(mut env: TestEnv, plan: &Plan) -> TaskResult<Self> {
        // They are killed in any case, and the record has them.
        env.allow_leftovers();
        let root = env.root().display().to_string();
        env.workflow(&include_str!("workflow.yml").replace("@ROOT@", &root));
        env.write("agent.sh", include_str!("agent.sh"));
        env.write("report.sh", include_str!("report.sh"));
        for folder in ["gates", "failures"] {
            std::fs::create_dir(env.path(folder)).context(folder)?;
        }
        for piece in &plan.failures {
            env.write(format!("failures/{piece}"), "");
        }
        for taken in &plan.taken {
            env.write(format!("gates/{}", taken.piece), "");
        }
        for args in [
            &["init", "--quiet", "--bare", "origin.git"][..],
            &["clone", "--quiet", "origin.git", "first"],
            &["-C", "first", "commit", "--quiet", "--allow-empty", "-m", "start"],
            &["-C", "first", "push", "--quiet", "origin", "HEAD:main"],
        ] {
            repo::output(env.command("git").current_dir(env.root()).args(args))?;
        }
        let mut redmine = Redmine::create(&env)?;
        redmine.start()?;
        for number in 1..=plan.issues {
            redmine.create_issue(&format!("Work {number}"))?;
        }
        Ok(Self {
            daemon: None,
            redmine,
            env,
            started: Instant::now(),
        })
    }

    pub fn start_daemon(&mut self) -> TaskResult {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.env.path("daemon.log"))
            .context("cannot write daemon.log")?;
        let again = log.try_clone().map_err(|error| error.to_string())?;
        let daemon = self
            .env
            .vik(["run"])
            .envs(self.redmine.variables())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(again)
            .spawn()
            .context("cannot start vik")?;
        self.daemon = Some(daemon);
        Ok(())
    }

    pub fn kill_daemon(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }

    /// Returns an error if the daemon has ended, or if the task is to end.
    pub fn check(&mut self) -> TaskResult {
        interrupt::check()?;
        let exited = self.daemon.as_mut().and_then(|daemon| daemon.try_wait().ok()?);
        match exited {
            None => Ok(()),
            Some(status) => Err(format!(
                "the daemon ended with {status}\n{}",
                self.env.read("daemon.log")
            )),
        }
    }

    /// Returns what the scripts have reported so far.
    pub fn reports(&self) -> TaskResult<Vec<Report>> {
        let progress = self.env.read("progress");
        let reports = progress.lines().map(serde_json::from_str);
        reports.collect::<Result<_, _>>().context("a report")
    }

    /// Stops the daemon and Redmine, and reads all records.
    pub fn end(mut self, plan: Plan, seed: u64, faults: Vec<(Fault, usize)>) -> TaskResult<Record> {
        if let Some(daemon) = &mut self.daemon {
            let _ = kill(Pid::from_raw(daemon.id().cast_signed()), Signal::SIGTERM);
            if !wait_for(STOP_WITHIN, || matches!(daemon.try_wait(), Ok(Some(_)))) {
                return Err("the daemon does not end".to_owned());
            }
        }
        self.redmine.signal(Signal::SIGKILL);
        wait_for(Duration::from_secs(5), || self.env.leftovers().is_empty());
        let leftovers = self.env.leftovers().iter().map(ToString::to_string).collect();
        let runs = repo::output(&mut self.env.vik(["runs", "--json"]))?;
        let runs = serde_json::from_str(&runs).context("vik runs")?;
        let mut git = self.env.command("git");
        git.arg("-C")
            .arg(self.env.path("origin.git"))
            .args(["log", "--format=%s", "--all"]);
        let commits = repo::output(git.args(["--not", "main"]))?;
        Ok(Record {
            seed,
            issues: self.redmine.states()?.into_iter().collect(),
            taken: plan.taken.into(),
            failures: plan.failures,
            reports: self.reports()?,
            attempts: Attempt::read_all(&runs),
            moves: self.redmine.moves()?,
            comments: self.redmine.comments()?,
            commits: commits.lines().map(str::to_owned).collect(),
            faults,
            planned_faults: plan.moments.len(),
            leftovers,
            requests: self.redmine.requests(),
            wall_secs: self.started.elapsed().as_secs(),
        })
    }
}
