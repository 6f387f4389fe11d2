//! `vik doctor --probe`: one short call of each agent with each login and model, as a stage would
//! run it: by its driver, under the shim and in the sandbox.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use vik_agents::{Conclusion, Exit, Launch, LaunchContext, driver};
use vik_base::report::{chain, count, one_line, optional};
use vik_core::ids::{AgentName, IssueId};
use vik_core::outcome::FailureClass;
use vik_core::workflow::{AgentProfile, Home, Runtime, SandboxPolicy, Stage, Workflow};
use vik_proc::{CommandRun, Limits, Mark, Output, ShimSpec, Stdin};
use vik_session::attempt::reported_spend;
use vik_session::host::{ATTEMPT_MARK, Host, os_env};
use vik_session::sandbox::SandboxSubject;
use vik_session::secrets::Resolver;
use vik_session::secrets::masked::read_tail;
use vik_workspace::fs::{create_private_dir_all, write_private};

use super::check::{Check, Group, PROBE};
use super::probe::{Scratch, sandbox_of, scratch_host, with_progress_message};

const GROUP: Group = Group::Agents;

const PROMPT: &[u8] = b"Answer with the single word OK, and do nothing else.\n";

const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_BYTES: usize = 4 * 1024 * 1024;
const STDERR_BYTES: u64 = 16 * 1024;

/// An agent of the workflow, and the first stage that uses it.
#[derive(Clone, Copy)]
pub(super) struct UsedAgent<'w> {
    pub(super) name: &'w AgentName,
    pub(super) profile: &'w AgentProfile,
    pub(super) stage: &'w Stage,
}

impl UsedAgent<'_> {
    /// Returns whether a call of this agent shows the same as a call of the other: it is the same
    /// program with the same login and model.
    fn is_same_call(&self, other: &Self) -> bool {
        let (own, other_profile) = (self.profile, other.profile);
        let is_private = own.home == Home::Private;
        own.runtime == other_profile.runtime
            && own.command == other_profile.command
            && own.model == other_profile.model
            && own.provider == other_profile.provider
            && own.base_url == other_profile.base_url
            && own.args == other_profile.args
            && own.env == other_profile.env
            && own.env_pass == other_profile.env_pass
            && own.secrets == other_profile.secrets
            && own.home == other_profile.home
            && (!is_private || self.name == other.name)
    }

    /// Returns the agent and its model for people.
    fn description(&self) -> String {
        let runtime = self.profile.runtime.as_str();
        match &self.profile.model {
            Some(model) => format!("{} ({runtime}, model {model})", self.name),
            None => format!("{} ({runtime})", self.name),
        }
    }
}

/// Calls each of the agents once, and returns a check for each call and one for their sum. Prints
/// first that this costs money.
pub(super) async fn check(
    host: &Host,
    workflow: &Workflow,
    agents: &[UsedAgent<'_>],
    scratch: &Scratch,
    cancel: &CancellationToken,
) -> Vec<Check> {
    let mut calls: Vec<UsedAgent<'_>> = Vec::new();
    let mut checks = Vec::new();
    for agent in agents {
        if agent.profile.runtime == Runtime::Command {
            let message = "not called: Vik knows no short call of a program with `runtime: command`";
            checks.push(Check::ok(GROUP, format!("{PROBE}.{}", agent.name), message));
        } else if !calls.iter().any(|call| call.is_same_call(agent)) {
            calls.push(*agent);
        }
    }
    if calls.is_empty() {
        return checks;
    }
    let list: Vec<_> = calls.iter().map(UsedAgent::description).collect();
    let text = format!(
        "--probe sends a request to each model, which costs money: {}\n",
        list.join(", ")
    );
    // A failed write loses nothing important.
    let _ = io::stderr().lock().write_all(text.as_bytes());
    let mut sum = 0.0;
    for call in &calls {
        let probe = Probe {
            host,
            workflow,
            call,
            scratch,
            cancel,
        };
        let awaited = format!("an answer of {}", call.name);
        let (check, usd) = with_progress_message(&awaited, probe.run()).await;
        sum += usd;
        checks.push(check);
    }
    let count = count(calls.len(), "call");
    let message = format!("{count}, ${sum:.4} as reported by the agents");
    checks.push(Check::ok(GROUP, PROBE, message));
    checks
}

struct Probe<'p> {
    host: &'p Host,
    workflow: &'p Workflow,
    call: &'p UsedAgent<'p>,
    scratch: &'p Scratch,
    cancel: &'p CancellationToken,
}

impl Probe<'_> {
    /// Returns the result, and the cost in USD if it is known.
    async fn run(&self) -> (Check, f64) {
        let started = Instant::now();
        let ran = match self.call.profile.runtime {
            Runtime::Vex => self.own_probe().await,
            _ => self.short_session().await,
        };
        let took = started.elapsed().as_secs_f64();
        let (name, profile) = (self.call.name, self.call.profile);
        let check = format!("{PROBE}.{name}");
        match ran {
            Ok(Answered::Skipped(why)) => (Check::ok(GROUP, check, format!("not called: {why}")), 0.0),
            Ok(Answered::Yes { usd }) => {
                let model = profile.model.as_deref().unwrap_or("of its settings");
                let cost = usd.map(|usd| format!(", ${usd:.4}")).unwrap_or_default();
                let message = format!("{name} answers (model {model}, {took:.1}s{cost})");
                (Check::ok(GROUP, check, message), usd.unwrap_or(0.0))
            }
            Err(Refused { class, reason, usd }) => {
                let kind = optional(" (", class, ")");
                let reason = one_line(&vik_mask::mask(&reason), 300);
                let message = format!("{name} does not answer{kind}: {reason}");
                // Time solves these.
                let is_temporary = matches!(class, Some(FailureClass::RateLimit | FailureClass::Overloaded));
                let failed = if is_temporary {
                    Check::warning(GROUP, check, "agent_silent", message)
                } else {
                    Check::error(GROUP, check, "agent_silent", message)
                };
                (hint(failed, class, profile), usd)
            }
        }
    }

    /// Runs the agent with a prompt of one line.
    async fn short_session(&self) -> Result<Answered, Refused> {
        let profile = self.call.profile;
        let (run, stderr) = self.command(|launch| launch).await?;
        if let Some(error) = &run.exit.spawn_error {
            return Err(Refused::of(error.message.clone()));
        }
        let mut adapter = driver(profile.runtime).adapter(profile, None);
        for line in run
            .stdout
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            adapter.line(line, &mut |_| {});
        }
        let exit = match (run.exit.code, run.exit.signal) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(9)),
        };
        let conclusion: Conclusion = adapter.conclude(exit, &stderr);
        let (spend, _) = reported_spend(profile, conclusion.usage, conclusion.cost_usd);
        let usd = spend.map(|spend| spend.usd.usd()).filter(|usd| *usd > 0.0);
        if conclusion.ok {
            return Ok(Answered::Yes { usd });
        }
        Err(Refused {
            class: conclusion.failure_class,
            reason: conclusion.reason.unwrap_or_default(),
            usd: usd.unwrap_or(0.0),
        })
    }

    /// Runs `vik vex doctor --probe`, whose request is smaller than a session.
    async fn own_probe(&self) -> Result<Answered, Refused> {
        let profile = self.call.profile;
        if profile.provider.as_deref() == Some("replay") {
            return Ok(Answered::Skipped("it replays a recording"));
        }
        let (run, stderr) = self
            .command(|launch| {
                let program = launch.argv.iter().take_while(|arg| *arg != "exec");
                let mut argv: Vec<String> = program.cloned().collect();
                argv.extend(["doctor", "--probe", "--json"].map(str::to_owned));
                let flags = [
                    ("-m", &profile.model),
                    ("--provider", &profile.provider),
                    ("--base-url", &profile.base_url),
                ];
                for (flag, value) in flags {
                    argv.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
                }
                Launch { argv, ..launch }
            })
            .await?;
        let findings: Vec<serde_json::Value> = serde_json::from_slice(&run.stdout).unwrap_or_default();
        let errors = findings.iter().filter(|finding| finding["level"] == "error");
        let messages: Vec<_> = errors.filter_map(|finding| finding["message"].as_str()).collect();
        if run.is_success() {
            return Ok(Answered::Yes { usd: None });
        }
        let reason = if messages.is_empty() {
            stderr
        } else {
            messages.join("; ")
        };
        Err(Refused::of(reason))
    }

    /// Runs a command line made of that of the agent. Returns the end of its stderr, too.
    async fn command(&self, change: impl FnOnce(Launch) -> Launch) -> Result<(CommandRun, String), Refused> {
        let UsedAgent { name, profile, stage } = *self.call;
        let id = uuid::Uuid::now_v7();
        let failed = |error: &dyn std::error::Error| Refused::of(chain(error));
        let host = scratch_host(self.host, self.workflow, self.scratch);
        let issue = IssueId::new(format!("probe-{name}"));
        let workdir = host.layout.issue_dir(&issue);
        create_private_dir_all(&workdir).map_err(|error| failed(&error))?;
        let private = self.host.layout.agent_home(name);
        let policy = SandboxPolicy::of(profile, stage);
        let launch = driver(profile.runtime)
            .launch(&LaunchContext {
                profile,
                workdir: &workdir,
                vik: &host.vik,
                private_home: (profile.home == Home::Private).then_some(private.as_path()),
                session_id: id,
                resume: None,
                budget: vik_core::limits::Limit::default(),
                in_sandbox: policy.is_some(),
                input: vik_agents::InputMode::Prompt,
                scope: None,
                questions: None,
                extensions: None,
                is_root: nix::unistd::geteuid().is_root(),
                environment: &host.environment.shared(),
            })
            .map_err(|error| failed(&error))?;
        let launch = change(launch);
        let mut env = launch.env;
        env.extend(self.secrets().await?);
        host.add_own(&mut env);
        let (program, args) = launch
            .argv
            .split_first()
            .ok_or_else(|| Refused::of("no command"))?;
        let files = self.scratch.path();
        let (prompt, stderr) = (
            files.join(format!("{id}.prompt")),
            files.join(format!("{id}.stderr")),
        );
        write_private(&prompt, PROMPT).map_err(|error| failed(&error))?;
        let mut spec = ShimSpec::command(program, &workdir);
        if let Some(program) = host.program_beside_workflow(profile) {
            spec.program = program.into();
        }
        spec.args = args.iter().map(Into::into).collect();
        let subject = SandboxSubject {
            issue: &issue,
            workflow: self.workflow,
            workdir: &workdir,
            agent: Some(profile),
            scope: None,
            scratch: None,
        };
        spec.sandbox = sandbox_of((self.host, &host), policy.as_ref(), subject, &mut env)
            .map_err(|error| failed(&error))?;
        spec.env = os_env(env);
        spec.mark = Some(Mark::new(ATTEMPT_MARK, format!("doctor-{id}")));
        spec.stdin = Stdin::File(prompt);
        spec.stderr = Output::Append(stderr.clone());
        let limits = Limits {
            timeout: TIMEOUT,
            max_bytes: MAX_BYTES,
        };
        let run = host
            .supervisor
            .output(&spec, limits, self.cancel.cancelled())
            .await;
        let run = run.map_err(|error| failed(&error))?;
        if run.timed_out {
            return Err(Refused::of(format!("no answer within {}s", TIMEOUT.as_secs())));
        }
        Ok((run, read_tail(&stderr, STDERR_BYTES)))
    }

    async fn secrets(&self) -> Result<BTreeMap<String, String>, Refused> {
        let resolver = Resolver {
            host: self.host,
            secrets: &self.workflow.secrets,
            folder: self.scratch.path(),
        };
        let names = &self.call.profile.secrets;
        let values = resolver.values(names, self.cancel.cancelled()).await;
        let values = values.map_err(|error| Refused::of(chain(&error)))?;
        Ok(values.of(names).collect())
    }
}

/// The answer of an agent.
enum Answered {
    Yes {
        usd: Option<f64>,
    },
    /// It was not called, for this reason.
    Skipped(&'static str),
}

/// Why there is no answer.
struct Refused {
    class: Option<FailureClass>,
    reason: String,
    usd: f64,
}

impl Refused {
    fn of(reason: impl Into<String>) -> Self {
        Self {
            class: None,
            reason: reason.into(),
            usd: 0.0,
        }
    }
}

/// Adds what solves the failure.
fn hint(check: Check, class: Option<FailureClass>, profile: &AgentProfile) -> Check {
    let login = driver(profile.runtime).login_hint();
    let hint = match class {
        Some(FailureClass::Auth) => login,
        Some(FailureClass::Model) => Some("set a `model` that your account can use"),
        Some(FailureClass::RateLimit | FailureClass::Overloaded) => {
            Some("wait: Vik does the same, and starts the agent again later")
        }
        Some(FailureClass::Network) => Some("check the network, the proxy variables and `sandbox.network`"),
        Some(FailureClass::Usage) => Some("check `args` and the version of the agent"),
        _ if profile.runtime == Runtime::Vex => {
            Some("run `vik vex doctor --probe` with the same provider and model for details")
        }
        _ => None,
    };
    match hint {
        Some(hint) => check.hint(hint),
        None => check,
    }
}
