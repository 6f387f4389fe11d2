//! Checks agent programs: whether they exist, their versions, and whether they are logged in.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use vik_agents::{InputMode, LaunchContext, LoginSign, driver};
use vik_base::report::{chain, optional};
use vik_core::ids::AgentName;
use vik_core::workflow::{AgentProfile, Home, Runtime, Stage, Workflow};
use vik_session::host::Host;

use super::check::{Check, Group, Status};
use super::probe::{self, NoVersion, Scratch, with_progress_message};
use super::test_calls::UsedAgent;
use crate::cli::built_in_agent;

const GROUP: Group = Group::Agents;

/// Checks every agent profile that a stage uses. Without a scratch folder no program is run. Returns
/// also the agents without an error.
pub(super) async fn check<'w>(
    host: &Host,
    workflow: &'w Workflow,
    scratch: Option<&Scratch>,
    cancel: &CancellationToken,
) -> (Vec<Check>, Vec<UsedAgent<'w>>) {
    let (mut checks, mut usable) = (Vec::new(), Vec::new());
    for (name, profile) in &workflow.agents {
        let mut stages = workflow.issue.stages.iter().filter(|stage| stage.agent == *name);
        // A profile that no stage uses is never started. Loading the workflow warned about it.
        if let Some(stage) = stages.next() {
            let interactive = stage.asks_before_calls() || stages.any(Stage::asks_before_calls);
            let earlier = checks.len();
            check_profile(&mut checks, host, (name, profile), interactive, scratch, cancel).await;
            if checks[earlier..]
                .iter()
                .all(|check| check.status != Status::Error)
            {
                usable.push(UsedAgent { name, profile, stage });
            }
        }
    }
    (checks, usable)
}

async fn check_profile(
    checks: &mut Vec<Check>,
    host: &Host,
    (name, profile): (&AgentName, &AgentProfile),
    interactive: bool,
    scratch: Option<&Scratch>,
    cancel: &CancellationToken,
) {
    let check = format!("agent.{name}");
    if built_in_agent::is_missing(profile) {
        let error = Check::error(GROUP, check, "no_built_in_agent", built_in_agent::MISSING);
        checks.push(error.hint(built_in_agent::HINT));
        return;
    }
    let env = match environment(host, name, profile, interactive) {
        Ok(env) => env,
        Err(error) => {
            checks.push(Check::error(GROUP, check, "agent_profile", chain(&error)));
            return;
        }
    };
    if let (Some(true), Err(why)) = (profile.steer, driver(profile.runtime).steering(profile)) {
        let message = format!("`steer: true` has no effect: {why}");
        let warning = Check::warning(GROUP, check.clone(), "not_steerable", message);
        checks.push(warning.hint("Messages of people wait for the next attempt."));
    }
    let found = match locate(host, profile, &env) {
        Ok(found) => found,
        Err(problem) => {
            checks.push(problem.check(check, profile));
            return;
        }
    };
    checks.push(match scratch {
        Some(scratch) => version(host, check, profile, &found, &env, scratch, cancel).await,
        None => Check::ok(GROUP, check, described(profile, &found, None)),
    });
    #[cfg(feature = "vex")]
    if profile.runtime == Runtime::Vex {
        let provider = super::provider::check(host, name, profile, &env);
        // A missing key is one problem.
        let has_provider = provider.status != Status::Error;
        checks.push(provider);
        if !has_provider {
            return;
        }
    }
    checks.extend(login(host, name, profile, &env));
}

/// Returns the environment that the agent will have, or an error if the agent cannot be started as
/// configured.
fn environment(
    host: &Host,
    name: &AgentName,
    profile: &AgentProfile,
    interactive: bool,
) -> Result<BTreeMap<String, String>, vik_agents::LaunchError> {
    let private = host.layout.agent_home(name);
    let launch = driver(profile.runtime).launch(&LaunchContext {
        profile,
        workdir: &host.layout.issues_dir().join("sample"),
        vik: &host.vik,
        private_home: (profile.home == Home::Private).then_some(private.as_path()),
        session_id: uuid::Uuid::nil(),
        resume: None,
        budget: vik_core::limits::Limit::default(),
        in_sandbox: false,
        input: if interactive {
            InputMode::Approvals
        } else {
            InputMode::Prompt
        },
        scope: None,
        questions: None,
        extensions: None,
        is_root: nix::unistd::geteuid().is_root(),
        environment: &host.environment.shared(),
    })?;
    let mut env = launch.env;
    // A separate check reports whether secrets have values.
    env.extend(
        profile
            .secrets
            .iter()
            .map(|name| (name.clone(), "set".to_owned())),
    );
    host.add_own(&mut env);
    Ok(env)
}

/// The reasons why a program was not found.
enum Missing {
    /// The program is not on PATH.
    OnPath(String),
    /// The path does not lead to a program.
    Path(String),
    /// The program is not beside the workflow file, so that each issue workspace must have it.
    Relative(String),
}

impl Missing {
    fn check(&self, check: String, profile: &AgentProfile) -> Check {
        match self {
            Self::OnPath(name) => {
                let install = driver(profile.runtime).install_command();
                let hint = match install.filter(|_| profile.command.is_empty()) {
                    Some(command) => format!("install it: {command}"),
                    None => "install it, or set its path in `command`".to_owned(),
                };
                Check::error(
                    GROUP,
                    check,
                    "agent_not_found",
                    format!("`{name}` is not on PATH"),
                )
                .hint(hint)
            }
            Self::Path(path) => Check::error(
                GROUP,
                check,
                "agent_not_found",
                format!("{path} is not an executable file"),
            ),
            Self::Relative(path) => {
                let message = format!(
                    "the folder of the workflow file has no `{path}`: each issue's workspace must have it; not checked"
                );
                Check::warning(GROUP, check, "agent_relative", message)
                    .hint("put the program there, or use an absolute path")
            }
        }
    }
}

fn locate(host: &Host, profile: &AgentProfile, env: &BTreeMap<String, String>) -> Result<PathBuf, Missing> {
    let Some(name) = driver(profile.runtime).program(profile) else {
        return Ok(host.vik.clone());
    };
    let beside_workflow = host.program_beside_workflow(profile);
    if beside_workflow.is_none() && name.contains('/') && Path::new(name).is_relative() {
        return Err(Missing::Relative(name.to_owned()));
    }
    let path = env.get("PATH").map_or("", String::as_str);
    let name = beside_workflow.map_or_else(|| name.to_owned(), |path| path.display().to_string());
    probe::find(&name, path).ok_or_else(|| {
        if name.contains('/') {
            Missing::Path(name)
        } else {
            Missing::OnPath(name)
        }
    })
}

fn described(profile: &AgentProfile, program: &Path, version: Option<&str>) -> String {
    let model = optional(", model ", profile.model.as_deref(), "");
    let is_built_in = driver(profile.runtime).program(profile).is_none();
    match version {
        None if is_built_in => format!("the built-in agent{model}"),
        Some(version) if is_built_in => format!("the built-in agent, {version}{model}"),
        None => format!("{}{model}", program.display()),
        Some(version) => format!("{version} ({}){model}", program.display()),
    }
}

async fn version(
    host: &Host,
    check: String,
    profile: &AgentProfile,
    program: &Path,
    env: &BTreeMap<String, String>,
    scratch: &Scratch,
    cancel: &CancellationToken,
) -> Check {
    let driver = driver(profile.runtime);
    let version_args = driver.version_args();
    if version_args.is_empty() {
        return Check::ok(GROUP, check, described(profile, program, None));
    }
    let profile_args = profile.command.iter().skip(1).map(String::as_str);
    let args: Vec<OsString> = profile_args
        .chain(version_args.iter().copied())
        .map(Into::into)
        .collect();
    // Some programs create files in their home as soon as they start.
    let mut env = env.clone();
    if let Some(name) = driver.home_variable() {
        env.insert(name.to_owned(), scratch.path().to_string_lossy().into_owned());
    }
    let program_path = program.display();
    let run = probe::version(host, scratch, program, args, env, cancel);
    match with_progress_message(&format!("the version of {program_path}"), run).await {
        Ok(version) => Check::ok(GROUP, check, described(profile, program, Some(&version))),
        Err(NoVersion::Silent | NoVersion::Cancelled) => Check::warning(
            GROUP,
            check,
            "agent_version",
            format!("{program_path} did not print a version"),
        ),
        Err(NoVersion::TimedOut) => Check::warning(
            GROUP,
            check,
            "agent_version",
            format!("{program_path} did not print a version within 10s"),
        ),
        Err(NoVersion::Failed(how)) => {
            Check::error(GROUP, check, "agent_broken", format!("{program_path} {how}"))
                .hint("run it manually with --version for details")
        }
    }
}

/// Checks for signs of a login. Only names are shown, never values.
pub(super) fn login(
    host: &Host,
    name: &AgentName,
    profile: &AgentProfile,
    env: &BTreeMap<String, String>,
) -> Option<Check> {
    let driver = driver(profile.runtime);
    let signs = driver.login_signs(profile, env);
    if signs.is_empty() {
        return None;
    }
    let check = format!("login.{name}");
    let is_present = |sign: &&LoginSign| match sign {
        LoginSign::Variable(name) => env.get(*name).is_some_and(|value| !value.is_empty()),
        LoginSign::File(path) => path.is_file(),
        LoginSign::Setting(path, text) => contains(&host.workflow_dir.join(path), text),
    };
    let sign_name = |sign: &LoginSign| match sign {
        LoginSign::Variable(name) => (*name).to_owned(),
        LoginSign::File(path) | LoginSign::Setting(path, _) => path.display().to_string(),
    };
    if let Some(sign) = signs.iter().find(is_present) {
        return Some(Check::ok(GROUP, check, format!("{} found", sign_name(sign))));
    }
    let locations: Vec<String> = signs.iter().map(sign_name).collect();
    let message = format!("no login found (looked for {})", locations.join(", "));
    let others = driver.other_login_signs(profile, env);
    let missing = if others.is_some_and(|others| !others.iter().any(|sign| is_present(&sign))) {
        Check::error(GROUP, check, "agent_login", message)
    } else {
        Check::warning(GROUP, check, "agent_login", message)
    };
    Some(match driver.login_hint() {
        Some(hint) => missing.hint(hint),
        None => missing,
    })
}

/// Returns whether a file contains a text. A file that cannot be read may contain it.
#[expect(
    clippy::disallowed_methods,
    reason = "settings of the user, outside of any workspace"
)]
fn contains(path: &Path, text: &str) -> bool {
    match std::fs::read(path) {
        Ok(bytes) => memchr::memmem::find(&bytes, text.as_bytes()).is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
