//! The sandbox around an agent, and around scripts that run what agents wrote.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use vik_core::event::Event;
use vik_core::outcome::FailureClass;
use vik_core::workflow::{AgentProfile, SandboxPolicy};
use vik_proc::{ExitRecord, Overrun, Sandbox};
use vik_store::Trouble;

use super::attempt::Work;
use super::follow::Follower;
use crate::hooks::Hook;
use crate::report;
use crate::sandbox::{self, Inmate};

impl Work<'_> {
    /// What the workflow wants; `None`: no sandbox.
    pub(super) fn sandbox_policy(&self) -> Option<SandboxPolicy> {
        SandboxPolicy::of(&self.kept.profile, &self.start().stage)
    }

    /// The agent's sandbox, and in its environment where it can write.
    pub(super) fn confine_agent(
        &self,
        workdir: &Path,
        env: &mut BTreeMap<String, String>,
    ) -> Result<Option<Sandbox>, Trouble> {
        let Some(policy) = self.sandbox_policy() else {
            return Ok(None);
        };
        self.confine(&policy, workdir, Some(&self.kept.profile), env)
    }

    /// The sandbox of a script, where it has one: `verify` runs what the agent wrote, and always does.
    pub(super) fn confine_script(
        &self,
        hook: Hook,
        workdir: &Path,
        env: &mut BTreeMap<String, String>,
    ) -> Result<Option<Sandbox>, Trouble> {
        let policy = match hook {
            Hook::Verify => self.sandbox_policy(),
            Hook::BeforeRun | Hook::AfterRun if self.start().stage.hooks_in_sandbox => self.sandbox_policy(),
            Hook::AfterCreate if self.kept.create_in_sandbox => Some(SandboxPolicy::default()),
            _ => None,
        };
        let Some(policy) = policy else { return Ok(None) };
        self.confine(&policy, workdir, None, env)
    }

    /// Says in the log which hosts the sandbox has refused, each once.
    pub(super) fn tell_refusals(&self, follower: &mut Follower) {
        let mut counts: BTreeMap<(String, u16), (String, usize)> = BTreeMap::new();
        for refusal in vik_proc::read_refusals(&self.files.refusals()) {
            let entry = counts
                .entry((refusal.host, refusal.port))
                .or_insert((refusal.why, 0));
            entry.1 += 1;
        }
        for ((host, port), (why, count)) in counts {
            let times = if count == 1 {
                String::new()
            } else {
                format!(", {count} times")
            };
            let host = report::one_line(&host, 200);
            let event = Event::Error {
                message: format!("the sandbox refused {host}:{port}{times}: {why}").into(),
                fatal: false,
                failure_class: None,
                http_status: None,
            };
            if let Err(error) = follower.say(Timestamp::now(), &event) {
                let error = report::chain(&error);
                tracing::warn!(
                    session = self.id,
                    error,
                    "what the sandbox refused is not in the session log"
                );
            }
        }
    }

    fn confine(
        &self,
        policy: &SandboxPolicy,
        workdir: &Path,
        agent: Option<&AgentProfile>,
        env: &mut BTreeMap<String, String>,
    ) -> Result<Option<Sandbox>, Trouble> {
        let start = self.start();
        let inmate = Inmate {
            issue: &start.issue.id,
            workdir,
            agent,
            scope: start.intent.scope.as_ref().filter(|_| agent.is_some()),
        };
        let sandbox = sandbox::confine(self.host(), policy, inmate, env);
        sandbox.map(Some).map_err(|error| {
            let reason = format!("cannot make the folder for temporary files: {error}");
            Trouble::failed(FailureClass::Hook, reason)
        })
    }
}

/// What it means that a tree was killed for using too much.
pub(super) fn overrun(record: &ExitRecord) -> Option<Trouble> {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let reason = match record.overrun? {
        Overrun::Memory { used, limit } => format!(
            "it used {} MiB of memory and was killed: its sandbox allows {} MiB (`sandbox.memory`)",
            mib(used),
            mib(limit)
        ),
        Overrun::Processes { used, limit } => {
            format!("it had {used} processes and was killed: its sandbox allows {limit} (`sandbox.pids`)")
        }
    };
    Some(Trouble::failed(FailureClass::Agent, reason))
}
