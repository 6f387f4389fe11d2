//! Runs an agent as the daemon does, but without a daemon: command line and environment from its
//! adapter, the prompt on stdin, its lines mapped at the end.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use serde_json::Value;
use vik_agents::{AgentRequest, Conclusion, Exit, Extensions, InitialInput, InputMode, LaunchContext};
use vik_core::ids::MessageId;
use vik_core::message::Message;
use vik_core::workflow::{AgentProfile, OutputFormat, Runtime};
use vik_testkit::TestEnv;

/// The prompt of an agent whose input stays open.
pub(crate) const PROMPT: &str = "Do the task.\n";

pub(crate) struct AgentRun {
    pub(crate) conclusion: Conclusion,
    /// The events, as in a session log.
    pub(crate) events: Vec<Value>,
    /// The messages that the agent has taken.
    pub(crate) taken: Vec<MessageId>,
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
    start_with(env, profile, prompt, None)
}

/// The same with MCP servers and skills.
pub(crate) fn start_with(
    env: &TestEnv,
    profile: &AgentProfile,
    prompt: &str,
    extensions: Option<&Extensions>,
) -> Child {
    let mut child = spawn(env, profile, InputMode::Prompt, None, extensions);
    let _ = child.stdin.take().unwrap().write_all(prompt.as_bytes());
    child
}

fn spawn(
    env: &TestEnv,
    profile: &AgentProfile,
    input: InputMode,
    resume: Option<&str>,
    extensions: Option<&Extensions>,
) -> Child {
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
            resume,
            budget: vik_core::limits::Limit::default(),
            scope: None,
            in_sandbox: false,
            input,
            questions: None,
            extensions,
            is_root: nix::unistd::geteuid().is_root(),
            environment: &environment,
        })
        .unwrap();
    for file in &launch.files {
        std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
        std::fs::write(&file.path, &file.text).unwrap();
    }
    let mut command = env.command(&launch.argv[0]);
    command.args(&launch.argv[1..]).env_clear().envs(&launch.env);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

impl AgentRun {
    /// Runs an agent until it exits.
    pub(crate) fn run(env: &TestEnv, profile: &AgentProfile, prompt: &str) -> Self {
        Self::wait(start(env, profile, prompt), profile)
    }

    /// Runs an agent whose input stays open, until it exits. After each event, the messages that
    /// `send` returns are sent to it. Its input is closed when it waits for nothing.
    pub(crate) fn converse(
        env: &TestEnv,
        profile: &AgentProfile,
        resume: Option<&str>,
        mut send: impl FnMut(&Value) -> Option<Message>,
    ) -> Self {
        let input = InitialInput {
            prompt: PROMPT,
            workdir: &env.work(),
            resume,
            in_sandbox: false,
            asks: false,
        };
        let driver = vik_agents::driver(profile.runtime);
        let mut adapter = driver.interactive_adapter(profile, None, &input).unwrap();
        let mut child = spawn(env, profile, InputMode::Messages, resume, None);
        let mut stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut events, mut taken, mut untaken) = (Vec::new(), Vec::new(), Vec::new());
        let mut line = Vec::new();
        loop {
            for request in adapter.take_requests() {
                match request {
                    AgentRequest::Send(line) => {
                        writeln!(stdin.as_ref().unwrap(), "{line}").unwrap();
                    }
                    AgentRequest::MessageTaken { id } => {
                        // Claude Code gives the prompt an id, too.
                        taken.extend(
                            untaken
                                .iter()
                                .position(|sent| *sent == id)
                                .map(|at| untaken.remove(at)),
                        );
                    }
                    AgentRequest::TurnEnded { .. } if !untaken.is_empty() => {}
                    AgentRequest::TurnEnded { .. } | AgentRequest::Close => stdin = None,
                    other => panic!("{other:?}"),
                }
            }
            line.clear();
            if stdout.read_until(b'\n', &mut line).unwrap() == 0 {
                break;
            }
            let first = events.len();
            adapter.line(line.trim_ascii_end(), &mut |event| {
                events.push(serde_json::to_value(&event).unwrap());
            });
            for message in events[first..].iter().filter_map(&mut send) {
                for line in adapter.message_lines(&message).unwrap() {
                    writeln!(stdin.as_ref().unwrap(), "{line}").unwrap();
                }
                untaken.push(message.id);
            }
        }
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let exit = output.status.code().map(Exit::Code);
        let exit = exit.unwrap_or_else(|| Exit::Signal(output.status.signal().unwrap()));
        let conclusion = adapter.conclude(exit, &String::from_utf8_lossy(&output.stderr));
        Self {
            conclusion,
            events,
            taken,
        }
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
        Self {
            conclusion,
            events,
            taken: Vec::new(),
        }
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.events
            .iter()
            .map(|event| event["kind"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}
