//! The session of a person who has taken an issue over: the agent's own interactive program, with
//! the environment and the sandbox of the stage, in the issue's workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use vik_agents::{InputMode, Launch, LaunchContext, driver};
use vik_base::{failpoint, report};
use vik_core::attempt::Resume;
use vik_core::ids::AttemptId;
use vik_core::machine::TakenOver;
use vik_core::outcome::FailureClass;
use vik_core::workflow::AgentProfile;
use vik_proc::{ExitRecord, FileLock, Mark, ShimLost, ShimSpec, Stdin, StdoutMode, Supervised, Supervisor};
use vik_store::{AttemptFailure, AttemptFiles, AttemptSpec, Journal, PastAttempt};
use vik_workspace::Workspace;

use super::full::DiskFaults;
use super::handle::AttemptHandle;
use super::opened::{Attempt, AttemptContext, broken};
use super::prepared::resolve_base_url;
use super::scripts::ScriptRunner;
use crate::host::{ATTEMPT_MARK, Host, INSTANCE_MARK, os_env};

/// Variables of the person's terminal that its programs need.
const TERMINAL_VARIABLES: [&str; 4] = ["TERM", "COLORTERM", "TERM_PROGRAM", "LANG"];

/// What a person continues: the last attempt of a stage.
pub struct PersonSession {
    attempt: Attempt,
    spec: Box<AttemptSpec>,
    files: AttemptFiles,
    session: AttemptId,
}

/// The program of a session, before it is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The variable with the agent's private home, if it has one.
    pub home: Option<(String, String)>,
    /// Whether it continues the conversation of the attempt.
    pub resumes: bool,
    /// Whether it is the agent's own program, and not a shell.
    pub is_agent: bool,
}

impl PersonSession {
    /// Prepares the session that continues `past`. `None` if an older version of Vik wrote the
    /// record of the attempt.
    pub fn new(
        host: Arc<Host>,
        loaded: &vik_workflow::LoadedWorkflow,
        past: &PastAttempt,
        hold: &TakenOver,
    ) -> Option<Self> {
        let mut spec = past.record.kept.clone()?;
        if let Some(profile) = loaded.workflow.agents.get(&spec.start.stage.agent) {
            spec.profile.env = profile.env.clone();
        }
        let conversation = past.ended.as_ref().and_then(|ended| {
            let id = ended.result.provider_session_id.clone()?;
            let is_valid = driver(spec.profile.runtime).is_valid_session_id(&id);
            (is_valid && !ended.result.resume_failed).then_some(id)
        });
        let earlier = spec.start.resume.take();
        spec.start.resume = match conversation {
            Some(id) => Some(Resume {
                attempt_id: past.record.session_id,
                provider_session_id: id,
                total: Default::default(),
                cost: Default::default(),
                worker: spec.start.worker.clone(),
            }),
            None => earlier,
        };
        let start = Arc::new(spec.start.clone());
        let files = AttemptFiles::new(
            &host.layout.issue_sessions_dir(&start.issue.id),
            &start.stage.name,
            hold.session,
        );
        let (_, link) = AttemptHandle::new();
        Some(Self {
            attempt: Attempt {
                host,
                workflow: Arc::clone(&loaded.workflow),
                prompts: Arc::clone(&loaded.prompts),
                start,
                commands: link.commands,
                updates: link.updates,
                orphan_grace: std::time::Duration::ZERO,
                lease: None,
                hub: None,
            },
            spec,
            files,
            session: hold.session,
        })
    }

    /// Returns the id of the conversation that is continued.
    pub fn conversation(&self) -> Option<&str> {
        let resume = self.spec.start.resume.as_ref()?;
        Some(&resume.provider_session_id)
    }

    /// Returns the runtime of the agent as in the workflow file.
    pub fn runtime(&self) -> &'static str {
        self.spec.profile.runtime.as_str()
    }

    /// Returns the command of the session.
    ///
    /// # Errors
    /// If the profile cannot be expressed as a command line.
    pub fn command(&self, workdir: &Path) -> Result<SessionCommand, AttemptFailure> {
        let start = &self.spec.start;
        let home = self
            .attempt
            .host
            .layout
            .issue_agent_home(&start.issue.id, &start.stage.agent);
        let is_private = self.spec.profile.home == vik_core::workflow::Home::Private;
        let home = is_private.then_some(home);
        let (launch, is_agent) = self.launch(workdir, home.as_deref())?;
        let variable = driver(self.spec.profile.runtime).home_variable();
        let home = variable
            .zip(home)
            .map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned()));
        Ok(SessionCommand {
            resumes: is_agent && self.conversation().is_some(),
            argv: launch.argv,
            home,
            is_agent,
        })
    }

    /// Returns the agent's own session, or a shell with the environment of the agent if it has none.
    fn launch(&self, workdir: &Path, private_home: Option<&Path>) -> Result<(Launch, bool), AttemptFailure> {
        let host = &self.attempt.host;
        let mut profile: AgentProfile = self.spec.profile.clone();
        resolve_base_url(&mut profile, &host.workflow_dir);
        let in_sandbox = vik_core::workflow::SandboxPolicy::of(&profile, &self.spec.start.stage).is_some();
        let context = LaunchContext {
            profile: &profile,
            workdir,
            vik: &host.vik,
            private_home,
            session_id: self.session.0,
            resume: self.conversation(),
            budget: Default::default(),
            in_sandbox,
            input: InputMode::Prompt,
            questions: None,
            extensions: None,
            scope: self.spec.start.intent.scope.as_ref(),
            is_root: nix::unistd::geteuid().is_root(),
            environment: &host.environment.shared(),
        };
        let driver = driver(profile.runtime);
        let usage = |error: vik_agents::LaunchError| {
            AttemptFailure::failed(FailureClass::Usage, report::chain(&error))
        };
        if let Some(launch) = driver.terminal_session(&context).map_err(usage)? {
            return Ok((launch, true));
        }
        let mut launch = driver.launch(&context).map_err(usage)?;
        let shell = host.environment.get("SHELL").filter(|shell| !shell.is_empty());
        launch.argv = vec![shell.unwrap_or("/bin/sh").to_owned()];
        Ok((launch, false))
    }

    /// Starts the session on a pseudo-terminal, under a shim that ends it with this process.
    ///
    /// # Errors
    /// If the agent's environment or its sandbox cannot be prepared, or the shim cannot be started.
    pub async fn start(
        &self,
        folder: &Workspace,
        lock: FileLock,
        terminal: &Path,
    ) -> Result<RunningSession<'_>, AttemptFailure> {
        let journal = Journal::open(&self.files.journal())
            .map_err(|error| broken("cannot open the journal of the session", &error))?;
        let cx = AttemptContext {
            attempt: &self.attempt,
            spec: self.spec.clone(),
            files: &self.files,
            id: self.session.to_string(),
            started_at: Timestamp::now(),
            journal: Arc::new(Mutex::new(journal)),
            disk: DiskFaults::default(),
        };
        let lock = Arc::new(lock);
        let secrets = cx.resolve_secrets().await?;
        let scripts = ScriptRunner {
            cx: &cx,
            secrets: &secrets,
            lock: &lock,
            folder: Some(folder),
        };
        let workdir = folder.path();
        let home = cx.private_home().await?;
        let (launch, _) = self.launch(workdir, home.as_deref())?;
        let mut spec = ShimSpec::new("", workdir);
        spec.mark = Some(Mark::new(ATTEMPT_MARK, &cx.id));
        let environment = &self.attempt.host.environment;
        let adjust = |env: &mut BTreeMap<String, String>| {
            // It is the person's process: `vik stop` must not end it with those of the daemon.
            env.remove(INSTANCE_MARK);
            let of_terminal = TERMINAL_VARIABLES
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), environment.get(name)?.to_owned())));
            env.extend(of_terminal);
        };
        let env = scripts.agent_process(launch, &mut spec, adjust).await?;
        spec.env = os_env(env);
        spec.stdin = Stdin::Terminal(terminal.to_owned());
        let census = self.census();
        vik_workspace::fs::create_parent(&census)
            .map_err(|error| broken("cannot create the folder of the session", &error))?;
        spec.census = Some(census);
        // Shims of the daemon carry its mark, and end with it.
        let supervisor =
            Supervisor::this_program().map_err(|error| broken("cannot prepare the shim", &error))?;
        let supervised = supervisor
            .spawn(&spec, Some(&lock), StdoutMode::Null)
            .await
            .map_err(|error| broken("cannot start the shim", &error))?;
        failpoint::reach("session_started");
        Ok(RunningSession { cx, supervised })
    }

    fn census(&self) -> PathBuf {
        let layout = &self.attempt.host.layout;
        layout.taken_over_census(&self.spec.start.issue.id)
    }
}

/// A session that has been started. Dropping it ends its processes.
pub struct RunningSession<'a> {
    cx: AttemptContext<'a>,
    supervised: Supervised,
}

impl RunningSession<'_> {
    /// Ends the session by the stop ladder.
    pub fn stop(&self) {
        self.supervised.stop();
    }

    /// Waits until no process of the session is alive, and takes over what the agent wrote outside of
    /// the workspace: a refreshed login, and commits of a linked work tree.
    ///
    /// # Errors
    /// If the shim died, or the commits cannot be taken over.
    pub async fn wait(&self, folder: &Workspace) -> Result<Result<ExitRecord, ShimLost>, AttemptFailure> {
        let end = self.supervised.wait().await;
        self.cx.exchange_login().await;
        let _ = std::fs::remove_file(self.cx.files.journal());
        self.cx.take_over_commits(folder).await?;
        Ok(end)
    }
}
