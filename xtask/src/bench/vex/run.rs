//! One run of one agent, and its resource usage.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vik_agents::LaunchContext;
use vik_core::workflow::{AgentProfile, OutputFormat, Runtime};
use vik_testkit::RealAgent;
use vik_testkit::server::ModelServer;

use super::tasks::Task;
use crate::repo::{self, Context as _, TaskResult};

pub struct Agent {
    /// The name and version.
    pub name: String,
    runtime: Runtime,
    program: PathBuf,
    model: &'static str,
}

impl Agent {
    /// Creates the agent of this repository.
    pub fn vex(program: PathBuf) -> TaskResult<Self> {
        Ok(Self {
            name: "vex".to_owned(),
            runtime: Runtime::Vex,
            program,
            model: "claude-sonnet-4-5",
        })
    }

    pub fn real(agent: RealAgent, program: PathBuf) -> TaskResult<Self> {
        let version_output = repo::output(Command::new(&program).arg("--version"))?;
        let version = version_output
            .split_whitespace()
            .find(|token| token.starts_with(|c: char| c.is_ascii_digit()));
        let (name, runtime, model) = match agent {
            RealAgent::Codex => ("Codex CLI", Runtime::Codex, "gpt-5.5"),
            RealAgent::Claude => ("Claude Code", Runtime::ClaudeCode, "claude-sonnet-4-5"),
        };
        Ok(Self {
            name: format!("{name} {}", version.unwrap_or_default()),
            runtime,
            program,
            model,
        })
    }

    /// Returns the arguments and the environment, as the daemon builds them.
    fn launch(&self, folder: &Path, server: &ModelServer) -> TaskResult<vik_agents::Launch> {
        let codex = self.runtime == Runtime::Codex;
        let profile = AgentProfile {
            model: Some(self.model.to_owned()),
            command: vec![self.program.to_string_lossy().into_owned()],
            output: OutputFormat::Jsonl,
            provider: (self.runtime == Runtime::Vex).then(|| "anthropic".to_owned()),
            base_url: Some(if codex { server.v1() } else { server.url() }),
            ..AgentProfile::new(self.runtime)
        };
        let home = folder.join("home").to_string_lossy().into_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = [
            ("HOME", home.as_str()),
            ("PATH", &path),
            ("OPENAI_API_KEY", "sk-scripted"),
            ("ANTHROPIC_API_KEY", "sk-scripted"),
        ];
        let environment = environment
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let launched = vik_agents::driver(profile.runtime).launch(&LaunchContext {
            profile: &profile,
            workdir: &folder.join("work"),
            vik: Path::new("/bin/false"),
            private_home: None,
            session_id: uuid::Uuid::now_v7(),
            resume: None,
            budget: vik_core::limits::Limit::default(),
            scope: None,
            in_sandbox: false,
            input: vik_agents::InputMode::Prompt,
            questions: None,
            extensions: None,
            is_root: nix::unistd::geteuid().is_root(),
            environment: &environment,
        });
        launched.map_err(|error| error.to_string())
    }
}

/// The resource usage of one run.
#[derive(Clone, Copy, Debug)]
pub struct RunFigures {
    /// From the start of the process to the end of the first request, in milliseconds.
    pub first_request_ms: f64,
    /// The whole run, in milliseconds.
    pub wall_ms: f64,
    /// User and system time of the process and its waited-for descendants, in milliseconds.
    pub cpu_ms: f64,
    /// User and system time of the process alone, in milliseconds.
    pub own_cpu_ms: f64,
    /// The peak memory of its largest process, in megabytes.
    pub peak_mb: f64,
    /// The body of the first request to the model, in kilobytes.
    pub first_kb: f64,
    /// The bodies of all requests, in kilobytes.
    pub sent_kb: f64,
}

/// Runs an agent in a new home and a new repository.
pub fn run(agent: &Agent, task: Task, helper: &Path) -> TaskResult<RunFigures> {
    let folder = tempfile::Builder::new().prefix("vb").tempdir();
    let folder = folder.context("cannot create a folder")?;
    let root = folder.path();
    for part in ["home", "work"] {
        std::fs::create_dir(root.join(part)).context("cannot create a folder")?;
    }
    repo::output(
        Command::new("git")
            .args(["init", "-q"])
            .current_dir(root.join("work")),
    )?;
    repo::write(&root.join("prompt"), "Do the task.\n")?;
    let server = ModelServer::start_json(task.script()).context("cannot start the model server")?;
    let launch = agent.launch(root, &server)?;
    let open =
        |path: &Path, file: std::io::Result<File>| file.context(format!("cannot open {}", path.display()));
    let (prompt, stderr) = (root.join("prompt"), root.join("stderr"));
    let figures = root.join("figures");
    let status = Command::new(helper)
        .arg("measure")
        .arg(&figures)
        .args(&launch.argv)
        .env_clear()
        .envs(&launch.env)
        .current_dir(root.join("work"))
        .stdin(open(&prompt, File::open(&prompt))?)
        .stdout(Stdio::null())
        .stderr(open(&stderr, File::create(&stderr))?)
        .status()
        .context(format!("cannot start {}", helper.display()))?;
    let turns = server.turns();
    let measured = repo::read(&figures).unwrap_or_default();
    let numbers: Vec<f64> = measured
        .split(' ')
        .filter_map(|number| number.parse().ok())
        .collect();
    let ([start, wall, cpu, own_cpu, peak, exit], [first, ..]) = (&numbers[..], &turns[..]) else {
        let stderr = repo::read(&stderr).unwrap_or_default();
        return Err(format!("{} sent no request ({status}): {stderr}", agent.name));
    };
    if *exit != 0.0 || turns.len() != task.answers() {
        let stderr = repo::read(&stderr).unwrap_or_default();
        return Err(format!(
            "{} ended with {exit} after {} of {} answers: {stderr}",
            agent.name,
            turns.len(),
            task.answers()
        ));
    }
    let sent: usize = server.requests().iter().map(|request| request.bytes).sum();
    Ok(RunFigures {
        first_request_ms: (first.at_unix_ns as f64 - start) / 1e6,
        wall_ms: wall / 1e6,
        cpu_ms: cpu / 1e3,
        own_cpu_ms: own_cpu / 1e3,
        peak_mb: peak / 1e6,
        first_kb: first.bytes as f64 / 1e3,
        sent_kb: sent as f64 / 1e3,
    })
}
