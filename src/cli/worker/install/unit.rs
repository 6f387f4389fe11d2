//! The systemd user unit of a worker, and where its files are.

use std::fmt::Write as _;

use super::destination::UnitName;
use crate::cli::worker::options::WorkerOptions;

/// The `PATH` of the worker and of its agents; `%h` is the home directory.
const PATH: &str = "%h/.local/bin:%h/.cargo/bin:/usr/local/bin:/usr/bin:/bin";

/// The signal after which a worker takes no more attempts, and ends when it has none.
const DRAIN_SIGNAL: &str = "USR1";

/// The paths of an installation, relative to the home directory of the remote user.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    pub unit: &'a UnitName,
}

impl Layout<'_> {
    /// Returns the folder with the program and the workflow.
    pub fn data(self) -> String {
        format!(".local/share/{}", self.unit)
    }

    pub fn program(self) -> String {
        format!("{}/bin/vik", self.data())
    }

    /// Returns the path of a file that is relative to the folder of the workflow file.
    pub fn workflow_file(self, name: &str) -> String {
        format!("{}/workflow/{name}", self.data())
    }

    /// Returns the file that lists those of the workflow, one on each line.
    pub fn workflow_list(self) -> String {
        format!("{}/workflow.files", self.data())
    }

    pub fn env_file(self) -> String {
        format!(".config/vik/{}.env", self.unit)
    }

    pub fn unit_file(self) -> String {
        format!(".config/systemd/user/{}.service", self.unit)
    }
}

/// Returns the `PATH` of the unit in a shell, where `$HOME` is the home directory.
pub fn shell_path() -> String {
    PATH.replace("%h", "$HOME")
}

/// Returns the text of the unit that runs the worker with the workflow file of this name.
///
/// Stopping it drains: `ExecStop` waits until the worker has ended, at most for the first
/// `TimeoutStopSec`. After that, systemd sends SIGTERM, and the worker ends its agents. A worker that
/// ended by itself has no `MAINPID`, so the failure of the command is ignored.
pub fn text(layout: Layout<'_>, options: &WorkerOptions, workflow: &str) -> String {
    let unit = layout.unit;
    let (data, program, env_file) = (layout.data(), layout.program(), layout.env_file());
    let args = options.to_args().into_iter().chain([workflow.to_owned()]);
    let args = args.fold(String::new(), |mut text, arg| {
        let _ = write!(text, " {}", quoted(&arg));
        text
    });
    format!(
        "# Written by `vik worker install`, which replaces it. Change it with `systemctl --user edit {unit}`.
[Unit]
Description=Vik worker
After=network-online.target

[Service]
Type=exec
WorkingDirectory=%h/{data}/workflow
ExecStart=%h/{program} worker{args}
# Drain: take no more attempts, and wait for the running ones.
ExecStop=-/bin/sh -c 'kill -s {DRAIN_SIGNAL} \"$$MAINPID\" && while kill -s 0 \"$$MAINPID\" 2>/dev/null; do sleep 1; done'
TimeoutStopSec=1h
Environment=PATH={PATH}
EnvironmentFile=-%h/{env_file}
# The worker reports when it is connected.
NotifyAccess=main
Restart=on-failure
RestartSec=10
# Do not restart after usage errors, an invalid workflow, or if another worker is running.
RestartPreventExitStatus=2 3 5
# Shims end their agents.
KillMode=process
Delegate=memory pids
DelegateSubgroup=daemon

[Install]
WantedBy=default.target
"
    )
}

/// Returns an argument of `ExecStart` that systemd passes on as it is.
fn quoted(arg: &str) -> String {
    let mut text = String::with_capacity(arg.len() + 2);
    text.push('"');
    for c in arg.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            // Specifiers and variables.
            '%' | '$' => text.extend([c, c]),
            _ => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_runs_the_worker_and_drains() {
        let unit: UnitName = "vik-worker".parse().unwrap();
        let options = WorkerOptions {
            name: Some("build-1".parse().unwrap()),
            labels: vec!["gpu".parse().unwrap(), "linux".parse().unwrap()],
            capacity: std::num::NonZeroU32::new(4),
        };
        insta::assert_snapshot!(text(Layout { unit: &unit }, &options, "workflow.yml"));
    }

    /// Runs the command of `ExecStop` as systemd does, for a worker that exits with 7 when it drains.
    #[test]
    fn stop_command_waits_until_the_worker_has_drained() {
        use std::io::Read as _;
        use std::process::{Command, Stdio};
        let unit: UnitName = "vik-worker".parse().unwrap();
        let unit = text(Layout { unit: &unit }, &WorkerOptions::default(), "workflow.yml");
        let line = unit.lines().find(|line| line.starts_with("ExecStop=")).unwrap();
        let script = line.split('\'').nth(1).unwrap().replace("$$", "$");
        let mut worker = Command::new("sh")
            .args(["-c", "trap 'exit 7' USR1; echo; while :; do sleep 0.05; done"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0];
        worker.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let stop = |pid: &str| {
            let mut stop = Command::new("/bin/sh");
            stop.args(["-c", &script])
                .env("MAINPID", pid)
                .stderr(Stdio::null());
            stop.spawn().unwrap()
        };
        let mut stopping = stop(&worker.id().to_string());
        assert_eq!(worker.wait().unwrap().code(), Some(7));
        assert!(stopping.wait().unwrap().success());
        // A worker that ended by itself has no process, and nothing is signalled.
        assert!(!stop("").wait().unwrap().success());
    }

    #[test]
    fn arguments_of_a_unit_are_data() {
        assert_eq!(quoted("workflow.yml"), r#""workflow.yml""#);
        assert_eq!(quoted(r#"a b"\%h$HOME'"#), r#""a b\"\\%%h$$HOME'""#);
    }

    #[test]
    fn options_that_are_not_given_are_those_of_the_worker() {
        assert_eq!(WorkerOptions::default().to_args(), [""; 0]);
    }
}
