//! Runs an agent as the daemon does, but without a daemon: command line and environment from its
//! adapter, the prompt on stdin, its lines mapped at the end.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use serde_json::Value;
use vik_agents::{Conclusion, Exit, LaunchContext};
use vik_core::workflow::{AgentProfile, OutputFormat, Runtime};
use vik_testkit::TestEnv;

pub(crate) struct AgentRun {
    pub(crate) conclusion: Conclusion,
    /// The events, as in a session log.
    pub(crate) events: Vec<Value>,
}

pub(crate) fn profile(runtime: Runtime) -> AgentProfile {
    AgentProfile {
        model: Some("some-model".to_owned()),
        output: OutputFormat::Jsonl,
        env_pass: vec![TestEnv::MARK.to_owned()],
        ..AgentProfile::new(runtime)
    }
}

/// Starts an agent in the test's work folder, writes the prompt and closes stdin.
pub(crate) fn start(env: &TestEnv, profile: &AgentProfile, prompt: &str) -> Child {
    let mut environment: BTreeMap<String, String> = env.environment().into_iter().collect();
    environment.insert("OPENAI_API_KEY".to_owned(), "sk-scripted".to_owned());
    environment.insert("ANTHROPIC_API_KEY".to_owned(), "sk-scripted".to_owned());
    let launch = vik_agents::driver(profile.runtime)
        .launch(&LaunchContext {
            profile,
            workdir: &env.work(),
            vik: std::path::Path::new("/bin/false"),
            private_home: None,
            session_id: uuid::Uuid::now_v7(),
            resume: None,
            budget: vik_core::limits::Limit::default(),
            scope: None,
            in_sandbox: false,
            input: vik_agents::InputMode::Prompt,
            is_root: nix::unistd::geteuid().is_root(),
            environment: &environment,
        })
        .unwrap();
    let mut command = env.command(&launch.argv[0]);
    command.args(&launch.argv[1..]).env_clear().envs(&launch.env);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(prompt.as_bytes());
    child
}

impl AgentRun {
    /// Runs an agent until it exits.
    pub(crate) fn run(env: &TestEnv, profile: &AgentProfile, prompt: &str) -> Self {
        Self::wait(start(env, profile, prompt), profile)
    }

    /// Waits until an agent exits.
    pub(crate) fn wait(child: Child, profile: &AgentProfile) -> Self {
        let output = child.wait_with_output().unwrap();
        let mut adapter = vik_agents::driver(profile.runtime).adapter(profile, None);
        let mut events = Vec::new();
        for line in output
            .stdout
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            adapter.line(line, &mut |event| {
                events.push(serde_json::to_value(&event).unwrap());
            });
        }
        let exit = output.status.code().map(Exit::Code);
        let exit = exit.unwrap_or_else(|| Exit::Signal(output.status.signal().unwrap()));
        let conclusion = adapter.conclude(exit, &String::from_utf8_lossy(&output.stderr));
        Self { conclusion, events }
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.events
            .iter()
            .map(|event| event["kind"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}
