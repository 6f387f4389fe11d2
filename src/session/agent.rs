//! The agent of an attempt: started under the shim, followed, held to its times, and judged.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Instant;

use vik_agents::{Exit, LaunchContext};
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::Start;
use vik_core::workflow::{AgentProfile, Home};
use vik_proc::{FileLock, Mark, Output, ProcessId, ShimSpec, SpawnFailureKind, Stdin, StdoutMode};

use super::attempt::{Trouble, Work};
use super::follow::{FollowError, Follower};
use super::live::LivePhase;
use crate::daemon::Shims;
use crate::hooks::{how_ended, read_tail};
use crate::host::{ATTEMPT_MARK, os_env};
use crate::report;
use crate::workspace::fs as private;

/// How much of an agent's stderr is looked at to tell why it failed.
const STDERR_TAIL_BYTES: u64 = 16 * 1024;

/// How many slices of output are mapped before the clocks are looked at.
const SLICES_A_TURN: usize = 16;

impl Work<'_> {
    pub(super) async fn agent(&mut self, workdir: &Path, lock: &FileLock) -> Result<(), Trouble> {
        let (start, host) = (self.start(), self.host());
        let broken = |what: &str, error: &dyn std::error::Error| {
            Trouble::failed(FailureClass::Agent, format!("{what}: {}", report::chain(error)))
        };
        let home = self
            .private_home()
            .map_err(|error| broken("cannot make the agent's home", &error))?;
        let mut profile = self.profile.clone();
        resolve_base_url(&mut profile, &host.workflow_dir);
        let launch = vik_agents::launch(&LaunchContext {
            profile: &profile,
            workdir,
            vik: &host.vik,
            private_home: home.as_deref(),
            session_id: start.session.0,
            resume: None,
            is_root: nix::unistd::geteuid().is_root(),
            environment: &host.environment,
        })
        .map_err(|error| Trouble::failed(FailureClass::Usage, report::chain(&error)))?;
        let mut env = launch.env;
        self.add_own(&mut env);
        let Some((program, args)) = launch.argv.split_first() else {
            return Err(Trouble::failed(FailureClass::Usage, "the agent has no command"));
        };
        let mut spec = ShimSpec::new(program, workdir);
        spec.args = args.iter().map(Into::into).collect();
        spec.env = os_env(env);
        spec.mark = Some(Mark::new(ATTEMPT_MARK, &self.id));
        spec.stdin = Stdin::File(self.files.prompt());
        spec.stdout = Output::Append(self.files.raw());
        spec.stderr = Output::Append(self.files.stderr());
        spec.exit_record = Some(self.files.exit());
        spec.census = Some(self.files.census());
        // The follower opens it before the agent may have written anything.
        private::write_private(&self.files.raw(), b"")
            .map_err(|error| broken("cannot make the raw file", &error))?;
        let Some(log) = self.log.take() else {
            return Err(Trouble::failed(FailureClass::Agent, "the session log is gone"));
        };
        let adapter = vik_agents::adapter(&profile, None);
        let mut follower = Follower::open(&self.files.raw(), adapter, log, self.attempt.live.clone())
            .map_err(|error| broken("cannot follow the agent", &error))?;
        // Known before the agent lives: it may ask the daemon in its first instant.
        let noted = Noted::new(&self.attempt.shims);
        let supervised = host
            .supervisor
            .spawn_noted(&spec, Some(lock), StdoutMode::Null, noted.note())
            .await
            .map_err(|error| broken("cannot start the shim", &error))?;
        let handle = supervised.handle();
        self.attempt.live.set(|facts| {
            facts.phase = LivePhase::Running;
        });

        let mut clocks = Clocks::new(self);
        let mut stopped: Option<Trouble> = None;
        let mut killed = false;
        let lost = loop {
            tokio::select! {
                end = supervised.wait() => match end {
                    Ok(record) => break self.exit.insert(record).proof.is_proven().then_some(()).ok_or(None),
                    Err(lost) => break Err(Some(lost)),
                },
                _ = self.attempt.orders.halted(), if stopped.is_none() => {
                    stopped = Some(Trouble::of(Outcome::Cancelled, "Vik was stopped"));
                    handle.stop();
                }
                () = self.attempt.orders.killed(), if !killed => {
                    killed = true;
                    handle.kill();
                }
                () = tokio::time::sleep(follower.wait()) => {
                    let trouble = look(&mut follower).await.err().or_else(|| clocks.ran_out(&mut follower));
                    if stopped.is_none() && let Some(trouble) = trouble {
                        stopped = Some(trouble);
                        handle.stop();
                    }
                }
            }
        };
        let (mut adapter, log) = follower
            .finish()
            .await
            .map_err(|error| broken("its output was not kept", &error))?;
        self.log = Some(log);
        let stderr = read_tail(&self.files.stderr(), STDERR_TAIL_BYTES);
        let exit = match self.exit.as_ref().map(|record| (record.code, record.signal)) {
            Some((Some(code), _)) => Exit::Code(code),
            Some((None, Some(signal))) => Exit::Signal(signal),
            _ => Exit::Signal(9),
        };
        self.conclusion = adapter.conclude(exit, &stderr);
        match (lost, stopped) {
            (Err(None), _) => Err(Trouble {
                outcome: Outcome::Failed,
                class: Some(FailureClass::UnprovenEnd),
                reason: "some of its processes could not be ended".to_owned(),
                feedback: None,
            }),
            (_, Some(trouble)) => Err(trouble),
            (Err(Some(lost)), None) => {
                let class = (!lost.proof().is_proven()).then_some(FailureClass::UnprovenEnd);
                Err(Trouble {
                    class,
                    ..Trouble::of(Outcome::Lost, report::chain(&lost))
                })
            }
            (Ok(()), None) => self.judge(),
        }
    }

    /// What the agent's own end means, when nobody stopped it.
    fn judge(&self) -> Result<(), Trouble> {
        if let Some(record) = &self.exit
            && let Some(failure) = &record.spawn_error
        {
            let class = match failure.kind {
                SpawnFailureKind::NoResources | SpawnFailureKind::Other => FailureClass::Agent,
                _ => FailureClass::Usage,
            };
            return Err(Trouble::failed(class, format!("the agent {}", how_ended(record))));
        }
        if self.conclusion.ok {
            return Ok(());
        }
        let how = self.exit.as_ref().map(how_ended).unwrap_or_default();
        let reason = self
            .conclusion
            .reason
            .clone()
            .unwrap_or_else(|| format!("the agent {how}"));
        if self.conclusion.over_budget {
            return Err(Trouble::of(Outcome::OverBudget, reason));
        }
        Err(Trouble::failed(
            self.conclusion.failure_class.unwrap_or(FailureClass::Agent),
            reason,
        ))
    }

    pub(super) fn private_home(&self) -> std::io::Result<Option<PathBuf>> {
        if self.profile.home == Home::User {
            return Ok(None);
        }
        let home = self.host().layout.agent_home(&self.start().stage.agent);
        private::create_private_dir_all(&home)?;
        Ok(Some(home))
    }
}

/// Keeps the shim of an attempt in the list of those that live.
struct Noted {
    shims: Shims,
    own: Arc<OnceLock<ProcessId>>,
}

impl Noted {
    fn new(shims: &Shims) -> Self {
        Self {
            shims: Arc::clone(shims),
            own: Arc::default(),
        }
    }

    /// To be told who the shim is.
    fn note(&self) -> impl FnOnce(ProcessId) + Send + 'static {
        let (shims, own) = (Arc::clone(&self.shims), Arc::clone(&self.own));
        move |shim| {
            let _ = own.set(shim);
            shims.lock().unwrap_or_else(PoisonError::into_inner).push(shim);
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let own = self.own.get();
        self.shims
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|shim| Some(shim) != own);
    }
}

/// The times an attempt must keep.
struct Clocks<'a> {
    start: &'a Start,
    began: Instant,
    stderr: PathBuf,
    stderr_size: u64,
}

impl<'a> Clocks<'a> {
    fn new(work: &Work<'a>) -> Self {
        Self {
            start: work.start(),
            began: Instant::now(),
            stderr: work.files.stderr(),
            stderr_size: 0,
        }
    }

    fn ran_out(&mut self, follower: &mut Follower) -> Option<Trouble> {
        let stage = &self.start.stage;
        if self.began.elapsed() >= stage.timeout.0 {
            return Some(Trouble::of(
                Outcome::TimedOut,
                format!("it took longer than {}", stage.timeout),
            ));
        }
        if follower.tool_open() >= stage.tool_timeout.0 {
            let reason = format!("a tool call took longer than {}", stage.tool_timeout);
            return Some(Trouble::of(Outcome::TimedOut, reason));
        }
        if follower.silence() >= stage.stall_timeout.0 {
            // What it writes to stderr is a sign of life too.
            let size = std::fs::metadata(&self.stderr).map_or(0, |meta| meta.len());
            if size != self.stderr_size {
                self.stderr_size = size;
                follower.hear();
                return None;
            }
            return Some(Trouble::of(
                Outcome::Stalled,
                format!("nothing was heard for {}", stage.stall_timeout),
            ));
        }
        None
    }
}

async fn look(follower: &mut Follower) -> Result<(), Trouble> {
    let trouble = |error: FollowError| Trouble::failed(FailureClass::Agent, report::chain(&error));
    for _ in 0..SLICES_A_TURN {
        if !follower.look().map_err(trouble)? {
            break;
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// A recorded conversation lies beside the workflow: its path must hold in the issue workspace too.
fn resolve_base_url(profile: &mut AgentProfile, workflow_dir: &Path) {
    if profile.provider.as_deref() == Some("replay")
        && let Some(path) = &mut profile.base_url
    {
        let plain = path.strip_prefix("file://").unwrap_or(path);
        *path = workflow_dir.join(plain).to_string_lossy().into_owned();
    }
}
