//! Processes that a test can kill or freeze: this test program again, in another role.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::server::{KEY, PATIENCE, connect_to};
use crate::{attempt, compaction, lead};

const ROLE: &str = "VIK_TEMPORAL_TEST_ROLE";
const PORT: &str = "VIK_TEMPORAL_TEST_PORT";
const NAME: &str = "VIK_TEMPORAL_TEST_NAME";

/// What a child prints starts with this, among the lines of the test harness.
const PREFIX: &str = "child: ";

pub struct Process {
    child: Child,
    /// The child exits when this is closed, even if the test is killed.
    _stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Process {
    pub fn start(role: &str, name: &str, port: u16) -> Self {
        Self::spawn(
            &mut Command::new(std::env::current_exe().unwrap()),
            role,
            name,
            port,
        )
    }

    /// Starts a process that stops at the points that are armed in this folder.
    pub fn with_fail_points(role: &str, port: u16, folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Self::spawn(command.env("VIK_CRASH_DIR", folder), role, "", port)
    }

    fn spawn(command: &mut Command, role: &str, name: &str, port: u16) -> Self {
        let mut child = command
            .args(["--exact", "child::runs_a_role", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .env(NAME, name)
            .env(PORT, port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The harness prints the name of the test without a line end.
                if let Some((_, line)) = line.split_once(PREFIX) {
                    let _ = sender.send(line.to_owned());
                }
            }
        });
        Self {
            _stdin: child.stdin.take(),
            child,
            lines,
        }
    }

    /// Waits until the child prints this line, and returns how long it took.
    pub fn wait_for(&self, expected: &str) -> Duration {
        let started = Instant::now();
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            if line.unwrap_or_else(|_| panic!("no line `{expected}`")) == expected {
                return started.elapsed();
            }
        }
    }

    /// Returns all lines that the child has printed and that were not read.
    pub fn printed(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a line for the test that started this process.
pub fn print(line: &str) {
    println!("{PREFIX}{line}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process of another test"]
async fn runs_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let port = std::env::var(PORT).unwrap().parse().unwrap();
    let client = connect_to(port, KEY).await;
    match role.as_str() {
        "hub" => lead::run_hub(client).await,
        "compacting" => compaction::run_compacting(client).await,
        "worker" => {
            let name = std::env::var(NAME).unwrap().parse().unwrap();
            attempt::run_worker(client, &name).await;
        }
        role => panic!("unknown role {role}"),
    }
}
