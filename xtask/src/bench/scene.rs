//! One daemon with its own folder, home and state, the stand-ins, and a reliable end.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tempfile::TempDir;
use vik_testkit::{wait_for, wait_for_value};

use super::sample::{self, Sample};
use super::scenarios::millis;
use super::setting::{Setting, Subject};
use crate::interrupt;
use crate::repo::{self, Context as _, TaskResult};

/// The interval of checking a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The bytes of a file that is emptied as soon as its scene has ended.
const LARGE_FILE: u64 = 1 << 20;
/// The time for a daemon to end before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(40);

/// A running daemon in its scenario.
pub struct Scene {
    program: PathBuf,
    folder: PathBuf,
    daemon: Child,
    workers: Vec<Child>,
    started: Instant,
    started_unix: Duration,
    /// The CPU of all earlier scenes.
    cpu_before: Duration,
}

impl Scene {
    /// Creates the scenario and starts the daemon.
    pub fn start(subject: &Subject, helper: &Path, setting: &Setting) -> TaskResult<Self> {
        let folder = new_folder().context("cannot create a folder")?;
        let root = folder.as_path();
        for part in ["bin", "daemon", "marks", "home", "state"] {
            std::fs::create_dir(root.join(part)).context("cannot create a folder")?;
        }
        for name in ["pull", "codex", "claude"] {
            std::fs::copy(helper, root.join("bin").join(name))
                .context(format!("cannot copy {}", helper.display()))?;
        }
        // A separate copy: pages shared with a second daemon of the same file would not count.
        let program = root
            .join("daemon")
            .join(subject.program.file_name().unwrap_or_default());
        std::fs::copy(&subject.program, &program)
            .context(format!("cannot copy {}", subject.program.display()))?;
        let fill = |text: &str| text.replace("{scene}", &root.to_string_lossy());
        repo::write(&root.join("issues.json"), &setting.issues)?;
        repo::write(&root.join("agent"), &fill(&setting.agent))?;
        repo::write(
            &root.join("workflow.yml"),
            &fill(&setting.workflow(subject.sandbox)),
        )?;
        nix::unistd::mkfifo(&root.join("gate"), Mode::S_IRWXU).context("cannot create a FIFO")?;
        let started_unix = unix_now();
        let cpu_before = sample::cpu_of_ended();
        let started = Instant::now();
        let daemon = run(root, &program, setting.machines.is_some())?;
        let mut workers = Vec::new();
        if let Some(machines) = &setting.machines {
            for number in 0..machines.workers {
                workers.push(work(root, &program, number, machines.capacity)?);
            }
        }
        Ok(Self {
            program,
            folder,
            daemon,
            workers,
            started,
            started_unix,
            cpu_before,
        })
    }

    /// Kills only the daemon.
    pub fn kill(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }

    /// Starts another daemon after [`Self::kill`].
    pub fn restart(&mut self) -> TaskResult {
        self.daemon = run(self.root(), &self.program, false)?;
        Ok(())
    }

    /// Kills only the daemon and starts another. Returns, for each session, the time until the new
    /// one has adopted it.
    pub fn kill_and_restart(&mut self, sessions: usize) -> TaskResult<Vec<Duration>> {
        self.kill();
        let started = unix_now();
        self.restart()?;
        let deadline = Instant::now() + Duration::from_secs(60 + sessions as u64 / 10);
        loop {
            // The log has the times: nothing is lost while this process leaves the cores to others.
            interrupt::pause(Duration::from_millis(500))?;
            let times = self.adoptions(started);
            if times.len() >= sessions {
                return Ok(times);
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "only {} of {sessions} sessions were adopted",
                    times.len()
                ));
            }
        }
    }

    /// Returns when sessions were adopted, according to the daemon's log.
    fn adoptions(&self, since: Duration) -> Vec<Duration> {
        let home = self.root().join("home/vik");
        let logs = sample::files_below(&home, "")
            .into_iter()
            .filter(|path| path.to_string_lossy().contains("/logs/vik.log."));
        let text: String = logs
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .collect();
        let times = text
            .lines()
            .filter(|line| line.contains("agent taken over"))
            .filter_map(|line| unix(line.split_whitespace().next()?))
            .filter_map(|at| at.checked_sub(since));
        times.collect()
    }

    /// Returns, for each attempt, the time from its decision until its claim was on disk.
    pub fn claims(&self) -> Vec<Duration> {
        let journals = sample::files_below(&self.root().join("home/vik"), ".steps.jsonl");
        let times = journals.iter().filter_map(|path| {
            // The id is created with the decision and contains its time.
            let id = path.file_name()?.to_str()?.strip_suffix(".steps.jsonl")?;
            let id: String = id.chars().rev().filter(|c| *c != '-').take(32).collect();
            let id: String = id.chars().rev().take(12).collect();
            let decided = Duration::from_millis(u64::from_str_radix(&id, 16).ok()?);
            let event: serde_json::Value =
                serde_json::from_str(std::fs::read_to_string(path).ok()?.lines().next()?).ok()?;
            unix(event["at"].as_str()?)?.checked_sub(decided)
        });
        times.collect()
    }

    /// Runs `vik stop` and returns the time until no process is left.
    pub fn stop_all(mut self) -> TaskResult<Duration> {
        let started = Instant::now();
        let mut stop = self.command();
        stop.args(["stop", "workflow.yml", "--timeout", "120"])
            .stdout(Stdio::null());
        repo::run(&mut stop)?;
        let _ = self.daemon.wait();
        // The daemon and the last shims may still be about to exit.
        let ended = wait_for_value(Duration::from_secs(5), || {
            let took = started.elapsed();
            sample::processes_below(self.root()).is_empty().then_some(took)
        });
        ended.ok_or_else(|| {
            let left = sample::processes_below(self.root());
            format!(
                "{} processes are left over after `vik stop`: {left:?}",
                left.len()
            )
        })
    }

    pub fn root(&self) -> &Path {
        &self.folder
    }

    /// Returns a command of the daemon's program in the environment of the scenario.
    pub fn command(&self) -> Command {
        command(self.root(), &self.program)
    }

    /// Returns the control socket of the daemon.
    pub fn socket(&self) -> TaskResult<PathBuf> {
        let folder = self.root().join("state/vik/instances");
        let found = std::fs::read_dir(&folder)
            .ok()
            .and_then(|mut found| found.next()?.ok());
        found
            .map(|entry| entry.path().join("vik.sock"))
            .ok_or_else(|| format!("no instance in {}", folder.display()))
    }

    /// Returns the time since the start of the daemon.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the current usage of the daemon.
    pub fn sample(&self) -> TaskResult<Sample> {
        Sample::read(self.daemon.id())
    }

    /// Returns the current usage of each worker.
    pub fn sample_workers(&self) -> TaskResult<Vec<Sample>> {
        self.workers
            .iter()
            .map(|worker| Sample::read(worker.id()))
            .collect()
    }

    /// Returns the number of open descriptors of the daemon.
    pub fn descriptors(&self) -> usize {
        sample::descriptors(self.daemon.id())
    }

    /// Returns the marks of this kind: files `marks/*.KIND`.
    fn marks(&self, kind: &str) -> Vec<PathBuf> {
        sample::files_below(&self.root().join("marks"), &format!(".{kind}"))
    }

    /// Returns the times of the marks of this kind, by issue, since the start of the daemon.
    pub fn times(&self, kind: &str) -> Vec<(String, Duration)> {
        let time = |path: PathBuf| {
            let issue = path.file_stem()?.to_str()?.to_owned();
            let nanos: u64 = std::fs::read_to_string(&path).ok()?.parse().ok()?;
            Some((
                issue,
                Duration::from_nanos(nanos).saturating_sub(self.started_unix),
            ))
        };
        self.marks(kind).into_iter().filter_map(time).collect()
    }

    /// Returns the time of the last mark of this kind, since the start of the daemon.
    pub fn last(&self, kind: &str) -> Duration {
        let times = self.times(kind).into_iter().map(|(_, time)| time);
        times.max().unwrap_or_default()
    }

    /// Returns the times from the end of each pull's output to the first instruction of its agent,
    /// in milliseconds.
    pub fn latencies(&self) -> Vec<f64> {
        let agents = self.times("agent");
        let pulls = self.times("pull").into_iter();
        let times = pulls.filter_map(|(issue, pulled)| {
            let (_, started) = agents.iter().find(|(other, _)| *other == issue)?;
            Some(millis(*started) - millis(pulled))
        });
        times.collect()
    }

    /// Waits until there are this many marks of this kind.
    pub fn wait_for(&mut self, kind: &str, count: usize, within: Duration) -> TaskResult {
        let deadline = Instant::now() + within;
        loop {
            let checked = Instant::now();
            let have = self.marks(kind).len();
            if have >= count {
                return Ok(());
            }
            self.check(deadline, &format!("{have} of {count} marks `{kind}`"))?;
            // Listing many marks takes time that the processes of the scenario need.
            sleep(POLL_INTERVAL.max(checked.elapsed() * 20));
        }
    }

    /// Returns an error if the daemon has ended, at the deadline, or if the task is to end. `progress`
    /// describes how far the scenario is.
    pub fn check(&mut self, deadline: Instant, progress: &str) -> TaskResult {
        interrupt::check()?;
        let exited = self.daemon.try_wait().map_err(|error| error.to_string())?;
        if exited.is_none() && Instant::now() <= deadline {
            return Ok(());
        }
        let how = exited.map_or_else(
            || "took too long".to_owned(),
            |status| format!("ended with {status}"),
        );
        let stderr = std::fs::read_to_string(self.root().join("daemon.stderr")).unwrap_or_default();
        let stderr: Vec<&str> = stderr.lines().rev().take(5).collect();
        Err(format!("the daemon {how}: {progress}; stderr: {stderr:?}"))
    }

    /// Returns the memory of the processes between the daemon and its agents, with shared pages
    /// divided among them.
    pub fn shims_pss(&self) -> u64 {
        let shims = self.shims();
        shims
            .into_iter()
            .filter_map(|pid| Sample::read(pid).ok())
            .map(|sample| sample.pss)
            .sum()
    }

    /// Returns the processes between the daemon and its agents.
    pub fn shims(&self) -> Vec<u32> {
        let own = self.daemon.id();
        let agents = self.root().join("bin");
        let shims = sample::processes_below(self.root()).into_iter().filter(|pid| {
            *pid != own
                && !std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(&agents))
        });
        shims.collect()
    }

    /// Ends the daemon and all its processes. Returns the CPU that all of them used.
    pub fn stop(mut self) -> Duration {
        self.end();
        sample::cpu_of_ended().saturating_sub(self.cpu_before)
    }

    fn end(&mut self) {
        let pid = Pid::from_raw(self.daemon.id().cast_signed());
        if matches!(self.daemon.try_wait(), Ok(None)) {
            let _ = kill(pid, Signal::SIGTERM);
            wait_for(STOP_WITHIN, || !matches!(self.daemon.try_wait(), Ok(None)));
            let _ = self.daemon.kill();
            let _ = self.daemon.wait();
        }
        for worker in &self.workers {
            let _ = kill(Pid::from_raw(worker.id().cast_signed()), Signal::SIGTERM);
        }
        for worker in &mut self.workers {
            wait_for(STOP_WITHIN, || !matches!(worker.try_wait(), Ok(None)));
            let _ = worker.kill();
            let _ = worker.wait();
        }
        let deadline = Instant::now() + STOP_WITHIN;
        loop {
            // Orphans of the daemon.
            while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) =
                waitpid(None, Some(WaitPidFlag::WNOHANG))
            {}
            let left = sample::processes_below(&self.folder);
            if left.is_empty() || Instant::now() > deadline {
                return;
            }
            for pid in left {
                let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
            }
            sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end();
        // Only the space of large files is freed now.
        for path in sample::files_below(&self.folder, "") {
            let is_large = path
                .symlink_metadata()
                .is_ok_and(|facts| facts.len() > LARGE_FILE);
            if is_large && let Ok(file) = std::fs::OpenOptions::new().write(true).open(path) {
                let _ = file.set_len(0);
            }
        }
    }
}

/// The folder of all scenes. It is removed after the last one: an ext4 without a journal does not
/// use a freed inode for minutes, and searches for another past all of those, so that the removal
/// of one scene would slow down the next.
static FOLDER: Mutex<Option<TempDir>> = Mutex::new(None);

/// Creates the folder of a scene. Its path is short, because the names of sockets are short.
fn new_folder() -> std::io::Result<PathBuf> {
    let mut all = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    let all = match &mut *all {
        Some(all) => all,
        none => {
            let all = tempfile::Builder::new().prefix("vb").tempdir()?;
            // An ext4 then places each folder below it in a part of the disk with few folders, away
            // from the inodes that something else has freed. Others do not know the attribute.
            let _ = Command::new("chattr")
                .arg("+T")
                .arg(all.path())
                .stderr(Stdio::null())
                .status();
            none.insert(all)
        }
    };
    let folder = tempfile::Builder::new().prefix("").tempdir_in(all.path())?;
    Ok(folder.keep())
}

/// Removes the folders of all scenes.
pub fn remove_folders() {
    let all = FOLDER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Err(error)) = all.map(TempDir::close) {
        eprintln!("cannot remove the folders of the benchmark: {error}");
    }
}

/// Returns a command of the daemon's program in the environment of the scenario.
fn command(root: &Path, program: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [root.join("bin").as_os_str(), &path].join(OsStr::new(":"));
    let mut command = Command::new(program);
    command
        .current_dir(root)
        .env_clear()
        .env("PATH", path)
        .env("HOME", root.join("home"))
        .env("XDG_STATE_HOME", root.join("state"))
        .stdin(Stdio::null());
    command
}

fn run(root: &Path, program: &Path, is_hub: bool) -> TaskResult<Child> {
    command(root, program)
        .args(["run", "workflow.yml"])
        .args(is_hub.then_some("--role=hub"))
        // Ctrl-C is for the task, which ends the daemon.
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(log(&root.join("daemon.stderr"))?)
        .spawn()
        .context(format!("cannot start {}", program.display()))
}

fn work(root: &Path, program: &Path, number: u32, capacity: u32) -> TaskResult<Child> {
    command(root, program)
        .args(["worker", "workflow.yml"])
        .args([format!("--name=w{number}"), format!("--capacity={capacity}")])
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(log(&root.join(format!("worker-{number}.stderr")))?)
        .spawn()
        .context(format!("cannot start {}", program.display()))
}

fn log(path: &Path) -> TaskResult<Stdio> {
    let file = std::fs::File::create(path).context(format!("cannot create {}", path.display()))?;
    Ok(file.into())
}

/// Parses a time in a log, since 1970.
fn unix(text: &str) -> Option<Duration> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Duration::try_from(at.duration_since(jiff::Timestamp::UNIX_EPOCH)).ok()
}

fn unix_now() -> Duration {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
}
