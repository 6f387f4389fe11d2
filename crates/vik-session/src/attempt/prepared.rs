//! A prepared attempt: all that its agent needs exists, and the agent starts under the shim.

use std::collections::BTreeMap;
use std::path::Path;

use tokio::sync::Semaphore;
use vik_agents::{Launch, LaunchContext, driver};
use vik_base::report;
use vik_core::outcome::FailureClass;
use vik_core::workflow::AgentProfile;
use vik_proc::{Output, ShimSpec, Stdin};
use vik_session_log::Reopened;
use vik_store::AttemptFailure;
use vik_workspace::fs as private;

use super::exited::{Detached, Exited};
use super::finished::Finished;
use super::opened::{AttemptContext, broken};
use super::running::Running;
use super::scripts::ScriptRunner;
use super::session_log::ClosableLog;
use super::workplace::Workplace;
use crate::host::os_env;
use crate::secrets::{self, Values};

/// The agents that may be started at once. Each start has the paths that its sandbox hides in memory
/// several times, which hundreds of starts must not have at the same time.
static STARTS: Semaphore = Semaphore::const_new(32);

/// An attempt whose workspace and prompt are ready.
pub(super) struct Prepared<'a> {
    pub(super) cx: &'a AttemptContext<'a>,
    pub(super) log: Reopened,
    pub(super) secrets: Values,
    pub(super) workplace: Workplace,
}

impl<'a> Prepared<'a> {
    /// Starts the agent, and watches it until no process of it is alive. A start that fails is the
    /// end too.
    ///
    /// # Errors
    /// When the attempt was detached.
    pub(super) async fn run_agent(self) -> Result<Finished<'a>, Detached> {
        let permit = STARTS.acquire().await;
        let launched = self.launch().await;
        let Self {
            cx,
            log,
            secrets,
            workplace,
        } = self;
        let is_ended = log.is_ended;
        let started = match launched {
            Err(failure) => Err(Exited::without_agent(cx, log, failure)),
            Ok(spec) => match cx.open_reader(log) {
                Ok(reader) => Running::start(cx, spec, reader, &workplace, is_ended).await,
                Err(failure) => Err(failure),
            }
            .map_err(|failure| Exited::without_agent(cx, ClosableLog::new(None, is_ended), failure)),
        };
        drop(permit);
        let exited = match started {
            Ok(running) => running.watch(Some(workplace.scripts(cx, &secrets))).await?,
            Err(exited) => exited,
        };
        Ok(exited.with(Some(secrets), workplace))
    }

    /// Returns the specification of the process to start.
    async fn launch(&self) -> Result<ShimSpec, AttemptFailure> {
        self.cx.check_lease()?;
        let (cx, workdir) = (self.cx, self.workplace.workdir());
        let scripts = self.workplace.scripts(cx, &self.secrets);
        let (start, host) = (cx.start(), cx.host());
        let input = cx.input_mode();
        if input.is_open() {
            // The shim reads this file, and its existence tells the next daemon that the input is
            // open.
            private::write_private(&cx.files.stdin(), b"")
                .map_err(|error| broken("cannot create the agent's input", &error))?;
        }
        let home = cx.private_home().await?;
        let mut profile = cx.spec.profile.clone();
        resolve_base_url(&mut profile, &host.workflow_dir);
        let questions = cx.can_ask().then(|| cx.files.questions_dir());
        let extensions = cx.prepare_extensions().await?;
        let launch = driver(profile.runtime)
            .launch(&LaunchContext {
                profile: &profile,
                workdir,
                vik: &host.vik,
                private_home: home.as_deref(),
                session_id: start.attempt_id.0,
                resume: start
                    .resume
                    .as_ref()
                    .map(|resume| resume.provider_session_id.as_str()),
                budget: start.budget,
                in_sandbox: cx.sandbox_policy().is_some(),
                input,
                scope: start.intent.scope.as_ref(),
                questions: questions.as_deref(),
                extensions: extensions.as_ref(),
                is_root: nix::unistd::geteuid().is_root(),
                environment: &host.environment.shared(),
            })
            .map_err(|error| AttemptFailure::failed(FailureClass::Usage, report::chain(&error)))?;
        let files = launch.files.clone();
        let mut spec = cx.shim_spec(workdir);
        let mut env = scripts.agent_process(launch, &mut spec, |_| {}).await?;
        if let Some(program) = host.program_beside_workflow(&profile) {
            spec.program = program.into();
        }
        cx.prepare_questions(&mut env, spec.sandbox.as_mut())?;
        if let Some(extensions) = &extensions {
            cx.show_extensions(extensions, &files, spec.sandbox.as_mut())?;
            scripts.separate_servers(&mut spec, &mut env)?;
        }
        spec.env = os_env(env);
        spec.stdin = if input.is_open() {
            Stdin::Follow(cx.files.stdin())
        } else {
            Stdin::File(cx.files.prompt())
        };
        spec.stdout = Output::Append(cx.files.raw());
        spec.stderr = Output::Append(cx.files.stderr());
        spec.refusals = Some(cx.files.refusals());
        let kept = cx.kept_output();
        (spec.kept, spec.kept_discount) = (kept.files, Some(kept.discount));
        spec.kept
            .extend(spec.servers.as_ref().map(|servers| servers.log.clone()));
        spec.orphan_grace = cx.attempt.orphan_grace;
        if spec.orphan_grace.is_zero() {
            spec.control = None;
        }
        // The file must exist before the reader opens it and before the agent writes.
        private::write_private(&cx.files.raw(), b"")
            .map_err(|error| broken("cannot create the raw file", &error))?;
        Ok(spec)
    }
}

impl ScriptRunner<'_> {
    /// Gives a process the command line and the sandbox of the agent, and returns its environment.
    /// `adjust` changes what it has besides its secrets.
    pub(super) async fn agent_process(
        &self,
        launch: Launch,
        spec: &mut ShimSpec,
        adjust: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Result<BTreeMap<String, String>, AttemptFailure> {
        let (cx, workdir) = (self.cx, spec.cwd.clone());
        let mut env = launch.env;
        cx.add_vik_variables(&mut env);
        let secret_variables = self.secret_variables(&cx.agent_secrets());
        if !secret_variables.is_empty() {
            let names: Vec<&str> = secret_variables.iter().map(|(name, _)| name.as_str()).collect();
            env.insert(secrets::NAMES.to_owned(), names.join(","));
        }
        env.extend(secret_variables);
        adjust(&mut env);
        let Some((program, args)) = launch.argv.split_first() else {
            return Err(AttemptFailure::failed(
                FailureClass::Usage,
                "the agent has no command",
            ));
        };
        spec.program = program.into();
        spec.args = args.iter().map(Into::into).collect();
        spec.sandbox = cx.confine_agent(&workdir, &mut env)?;
        cx.separate_commits(&workdir)
            .await
            .map_err(|error| broken("cannot create a repository for the linked work tree", &error))?;
        self.withhold_credentials(&workdir, &mut env, spec.sandbox.as_mut())?;
        Ok(env)
    }
}

/// Makes the path of a recorded conversation absolute: it is relative to the folder of the
/// workflow, and the agent runs in the issue workspace.
pub(super) fn resolve_base_url(profile: &mut AgentProfile, workflow_dir: &Path) {
    if profile.provider.as_deref() == Some("replay")
        && let Some(path) = &mut profile.base_url
    {
        let plain = path.strip_prefix("file://").unwrap_or(path);
        *path = workflow_dir.join(plain).to_string_lossy().into_owned();
    }
}
