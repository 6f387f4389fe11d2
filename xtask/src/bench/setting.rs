//! What a scenario runs: the program, and the workflow with its parameters.

use std::fmt::Write as _;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct Subject {
    /// The name in the table.
    pub name: &'static str,
    pub program: PathBuf,
    pub sandbox: Sandbox,
}

/// The sandbox of the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// The program has none.
    Missing,
    Default,
    Off,
}

impl Subject {
    /// Returns the same program with `sandbox: off`.
    pub fn without_sandbox(&self) -> Self {
        Self {
            sandbox: Sandbox::Off,
            ..self.clone()
        }
    }
}

/// The runtime of the agents.
#[derive(Clone, Copy, Debug)]
pub enum Runtime {
    Codex,
    /// Claude Code, which also prints the parts of its answers.
    StreamingClaude,
}

/// The parameters of a scenario.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The pull command; `{scene}` is the scenario's folder.
    pub pull: String,
    pub idle_secs: u32,
    pub concurrency: u32,
    pub runtime: Runtime,
    /// The plan of the agent; see the helper.
    pub agent: String,
    /// The file `issues.json` of the scenario.
    pub issues: String,
    /// Whether agents outlive their daemon.
    pub outlive: bool,
    /// Further keys of `issue`, each on a line with two spaces in front.
    pub issue_keys: &'static str,
    /// A hub and workers in place of a daemon.
    pub machines: Option<Machines>,
}

/// Hubs and workers on a Temporal server.
#[derive(Clone, Debug)]
pub struct Machines {
    /// The address of the server.
    pub address: String,
    pub task_queue: &'static str,
    pub workers: u32,
    /// The maximum number of agents of each worker.
    pub capacity: u32,
}

impl Setting {
    /// Returns a setting with these issues and one agent at a time, which runs until the end.
    pub fn holding(issues: String) -> Self {
        Self {
            pull: "cat {scene}/issues.json".to_owned(),
            idle_secs: 5,
            concurrency: 1,
            runtime: Runtime::Codex,
            agent: "hold {scene}/gate".to_owned(),
            issues,
            outlive: false,
            issue_keys: "",
            machines: None,
        }
    }

    /// Returns the workflow file; `{scene}` is the scenario's folder.
    pub fn workflow(&self, sandbox: Sandbox) -> String {
        let mut text = String::new();
        let Setting {
            pull,
            idle_secs,
            concurrency,
            runtime,
            outlive,
            issue_keys,
            machines,
            ..
        } = self;
        if let Some(Machines {
            address, task_queue, ..
        }) = machines
        {
            let _ = writeln!(
                text,
                "engine:\n  temporal: {{ address: '{address}', task_queue: {task_queue} }}"
            );
        }
        let grace = if *outlive { "\n  orphan_grace: 10m" } else { "" };
        // The stand-ins leave their marks outside of the workspace.
        let sandbox = match sandbox {
            Sandbox::Missing => "",
            Sandbox::Default => "    sandbox:\n      write: ['{scene}/marks']\n",
            Sandbox::Off => "    sandbox: off\n",
        };
        let runtime = match runtime {
            Runtime::Codex => "codex",
            Runtime::StreamingClaude => "claude_code\n    stream: true",
        };
        // Otherwise only keys that both programs know.
        let _ = write!(
            text,
            "loop:\n  max_issue_concurrency: {concurrency}{grace}\nworkspace:\n  root: home/vik\n\
             agents:\n  stand_in:\n    runtime: {runtime}\n    model: m\n{sandbox}\
             issues:\n  pull:\n    command: {pull}\n    idle_sec: {idle_secs}\n\
             issue:\n{issue_keys}  stages:\n    work:\n      when:\n        state: todo\n      agent: stand_in\n      prompt: Work on it.\n      \
             hooks:\n        after_run: touch {{scene}}/marks/{{{{ issue.id }}}}.done\n"
        );
        text
    }
}
