//! The sandbox of an agent, and of scripts that run code which agents wrote.

use std::collections::BTreeMap;
use std::path::Path;

use vik_base::report;
use vik_core::outcome::FailureClass;
use vik_core::workflow::{AgentProfile, Runtime, SandboxPolicy};
use vik_proc::{Sandbox, SandboxLimits};
use vik_store::AttemptFailure;

use super::opened::AttemptContext;
use crate::hooks::{Hook, ScriptContext};
use crate::sandbox::{self, ConfineError, SandboxSubject};

impl AttemptContext<'_> {
    /// Returns the policy of the workflow; `None`: no sandbox.
    pub(super) fn sandbox_policy(&self) -> Option<SandboxPolicy> {
        SandboxPolicy::of(&self.spec.profile, &self.start().stage)
    }

    /// Returns the agent's sandbox, and adds the writable folders to its environment.
    pub(super) fn confine_agent(
        &self,
        workdir: &Path,
        env: &mut BTreeMap<String, String>,
    ) -> Result<Option<Sandbox>, AttemptFailure> {
        let Some(policy) = self.sandbox_policy() else {
            return Ok(None);
        };
        self.describe(&policy, workdir, Some(&self.spec.profile), None, env)
            .map(Some)
    }

    /// Returns the sandbox of an MCP server: that of the agent, except that it has neither the
    /// agent's own files nor the temporary files and caches of the issue, but a folder of its own.
    /// `own` has the variables that the workflow sets for the server: those for that folder replace
    /// only other ones.
    pub(super) fn confine_server(
        &self,
        policy: &SandboxPolicy,
        workdir: &Path,
        folder: &Path,
        own: &BTreeMap<String, String>,
        env: &mut BTreeMap<String, String>,
    ) -> Result<Sandbox, AttemptFailure> {
        let profile = AgentProfile {
            runtime: Runtime::Command,
            command: Vec::new(),
            env: own.clone(),
            env_pass: Vec::new(),
            ..self.spec.profile.clone()
        };
        let mut sandbox = self.describe(policy, workdir, Some(&profile), Some(folder), env)?;
        // The limits of the agent's tree include it. Its own folder is not a part of them.
        let disk = sandbox.limits.disk;
        sandbox.limits = SandboxLimits {
            disk,
            ..SandboxLimits::default()
        };
        Ok(sandbox)
    }

    /// Confines a script that runs code which the agent wrote: `verify`, and hooks if the workflow
    /// demands it.
    pub(super) fn confine_script(
        &self,
        hook: Hook,
        workdir: &Path,
        place: &mut ScriptContext<'_>,
    ) -> Result<(), AttemptFailure> {
        place.runs_agent_code = match hook {
            Hook::Verify => true,
            Hook::BeforeRun | Hook::AfterRun => self.start().stage.hooks_in_sandbox,
            Hook::AfterCreate => self.spec.create_in_sandbox,
            Hook::StartState | Hook::BeforeRemove => false,
        };
        let policy = match hook {
            Hook::AfterCreate => Some(SandboxPolicy::default()),
            _ => self.sandbox_policy(),
        };
        if let Some(policy) = policy.filter(|_| place.runs_agent_code) {
            let sandbox = self.describe(&policy, workdir, None, None, &mut place.env)?;
            place.sandbox = Some(sandbox);
        }
        Ok(())
    }

    /// Returns the hosts that the sandbox refused, each once, for the session log.
    pub(super) fn refused_host_messages(&self) -> Vec<String> {
        let mut counts: BTreeMap<(String, u16), (String, usize)> = BTreeMap::new();
        for refusal in vik_proc::read_refusals(&self.files.refusals()) {
            let entry = counts
                .entry((refusal.host, refusal.port))
                .or_insert((refusal.why, 0));
            entry.1 += 1;
        }
        let counts = counts.into_iter().map(|((host, port), (why, count))| {
            let times = match count {
                1 => String::new(),
                count => format!(", {count} times"),
            };
            let host = report::one_line(&vik_mask::mask(&host), 200);
            format!("the sandbox refused {host}:{port}{times}: {why}")
        });
        counts.collect()
    }

    fn describe(
        &self,
        policy: &SandboxPolicy,
        workdir: &Path,
        agent: Option<&AgentProfile>,
        scratch: Option<&Path>,
        env: &mut BTreeMap<String, String>,
    ) -> Result<Sandbox, AttemptFailure> {
        let start = self.start();
        let subject = SandboxSubject {
            issue: &start.issue.id,
            workflow: &self.attempt.workflow,
            workdir,
            agent,
            scope: start.intent.scope.as_ref().filter(|_| agent.is_some()),
            scratch,
        };
        sandbox::confine(self.host(), policy, subject, env).map_err(|error| {
            let class = match &error {
                ConfineError::Scratch(_) => FailureClass::Hook,
                _ => FailureClass::Usage,
            };
            AttemptFailure::failed(class, report::chain(&error))
        })
    }
}
