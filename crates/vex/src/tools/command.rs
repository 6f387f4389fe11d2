//! Running a command: in a process group of its own, with a deadline, its output kept at both ends.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::root::Root;
use super::tool::Execute;
use super::{Ran, Subject, Tool, ToolContext, ToolError};
use crate::interrupt::Interrupt;

/// The longest time that a model may ask for, in milliseconds.
pub(crate) const MAX_TIMEOUT_MS: u64 = 30 * 60 * 1000;
/// The time a command gets where the model does not say.
const DEFAULT_TIMEOUT_MS: u64 = 2 * 60 * 1000;
/// How much of the start and of the end of the output is kept, in bytes.
const KEEP_BYTES: usize = 12 * 1024;
/// How long a group may take to end after TERM.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long the output may stay open after the command is gone.
const DRAIN: Duration = Duration::from_millis(200);

#[derive(Deserialize)]
pub(crate) struct RunCommand {
    pub(crate) command: String,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

impl Tool for RunCommand {
    const NAME: &'static str = "run_command";
    const ALIASES: &'static [&'static str] = &[
        "bash",
        "shell",
        "sh",
        "exec",
        "execute",
        "execute_command",
        "run",
        "run_shell_command",
        "terminal",
    ];
    const DESCRIPTION: &'static str = "Run a shell command without stdin; the start and the end of its output come back. Processes that it leaves \
         behind are stopped.";
    type Kind = Execute;
    const REQUIRED: &'static [&'static str] = &["command"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("cmd", "command"),
        ("script", "command"),
        ("code", "command"),
        ("workdir", "cwd"),
        ("working_directory", "cwd"),
        ("directory", "cwd"),
        ("timeout", "timeout_ms"),
    ];
    const PATHS: &'static [&'static str] = &["cwd"];

    fn properties() -> Value {
        json!({"command": {"type": "string"},
               "cwd": {"type": "string", "description": "relative to the working directory"},
               "timeout_ms": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_MS}})
    }

    /// A list of words, as some models write it, becomes the line that it means.
    fn mend(arguments: &mut Map<String, Value>) {
        let Some(Value::Array(words)) = arguments.get("command") else {
            return;
        };
        let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
        let line = match words.as_deref() {
            Some(["bash" | "sh" | "/bin/bash" | "/bin/sh", "-c" | "-lc", line]) => (*line).to_owned(),
            Some(words @ [_, ..]) => words
                .iter()
                .map(|word| quoted(word))
                .collect::<Vec<_>>()
                .join(" "),
            _ => return,
        };
        arguments.insert("command".to_owned(), line.into());
    }

    fn subject(input: &Value) -> Subject {
        match input["command"].as_str() {
            Some(line) => Subject::Command(line.to_owned()),
            None => Subject::Unknown,
        }
    }

    fn run(self, context: &ToolContext<'_>) -> Result<Ran, ToolError> {
        run(context.root, self, context.interrupt)
    }
}

/// A word as the shell takes it for itself.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What the helping threads tell.
enum Told {
    /// The leader of the group is gone, with this exit code where it is known.
    Exited(Option<i32>),
    /// Nobody holds the output open any more.
    Closed,
    /// The run is interrupted.
    Interrupted,
}

/// How a command ended.
struct Ended {
    code: Option<i32>,
    cut: Option<Cut>,
    /// Whether the output is closed already.
    closed: bool,
}

/// Why a command was stopped.
#[derive(Clone, Copy)]
enum Cut {
    TimedOut,
    Interrupted,
}

/// The start and the end of an output.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(KEEP_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(KEEP_BYTES);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    fn into_text(mut self) -> String {
        let tail = self.tail.make_contiguous();
        if self.left_out == 0 {
            self.head.extend_from_slice(tail);
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        format!(
            "{}\n[… {} bytes left out …]\n{}",
            String::from_utf8_lossy(&self.head),
            self.left_out,
            String::from_utf8_lossy(tail)
        )
    }
}

fn run(root: &Root, input: RunCommand, interrupt: &Interrupt) -> Result<Ran, ToolError> {
    let fail = |error: std::io::Error| ToolError::Failed(format!("cannot run the command: {error}"));
    let cwd = match &input.cwd {
        Some(path) => {
            let place = root.look(path)?;
            place.directory(path)?;
            root.path().join(path)
        }
        None => root.path().to_owned(),
    };
    let timeout = Duration::from_millis(
        input
            .timeout_ms
            .unwrap_or(DEFAULT_TIMEOUT_MS)
            .clamp(1, MAX_TIMEOUT_MS),
    );

    // One pipe for both streams keeps their order.
    let (reader, writer) = std::io::pipe().map_err(fail)?;
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(&input.command)
        .current_dir(cwd)
        .env("PAGER", "cat")
        .env("GIT_PAGER", "cat")
        .env("GIT_EDITOR", "true")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(fail)?)
        .stderr(writer)
        .process_group(0);
    let mut child = command.spawn().map_err(fail)?;
    // The writers in `command` would keep the pipe open.
    drop(command);
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    interrupt.watch_group(Some(group));

    let (tell, told) = channel();
    let kept = Arc::new(Mutex::new(Kept::default()));
    let (tell_closed, kept_by_reader) = (tell.clone(), Arc::clone(&kept));
    std::thread::spawn(move || {
        let mut reader = reader;
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(n @ 1..) = reader.read(&mut buffer) {
            lock(&kept_by_reader).push(&buffer[..n]);
        }
        let _ = tell_closed.send(Told::Closed);
    });
    let tell_interrupt = tell.clone();
    let listening = interrupt.listen(move || drop(tell_interrupt.send(Told::Interrupted)));
    std::thread::spawn(move || drop(tell.send(Told::Exited(wait(group)))));

    let ended = supervise(group, &told, Instant::now() + timeout);
    // Its leader is not reaped yet, so the number still belongs to this group, whatever is left of it.
    sweep(group, &told, ended.closed);
    let _ = child.wait();
    drop(listening);
    interrupt.watch_group(None);
    let kept = std::mem::take(&mut *lock(&kept));
    Ok(report(input.command, ended.code, kept, ended.cut, timeout))
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the leader to exit, without reaping it where the system can.
fn wait(leader: Pid) -> Option<i32> {
    loop {
        #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
        let status = {
            use nix::sys::wait::{Id, WaitPidFlag, waitid};
            waitid(Id::Pid(leader), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
        };
        #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
        let status = nix::sys::wait::waitpid(leader, None);
        match status {
            Ok(WaitStatus::Exited(_, code)) => return Some(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Some(128 + signal as i32),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// Waits for the end of the leader, and brings it about when the time is up or the run is interrupted.
fn supervise(group: Pid, told: &Receiver<Told>, deadline: Instant) -> Ended {
    let mut cut = None;
    let mut deadline = deadline;
    let mut closed = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match told.recv_timeout(left) {
            Ok(Told::Exited(code)) => return Ended { code, cut, closed },
            Ok(Told::Closed) => closed = true,
            Ok(Told::Interrupted) if cut.is_some() => {}
            Ok(Told::Interrupted) => {
                cut = Some(Cut::Interrupted);
                let _ = killpg(group, Signal::SIGTERM);
                deadline = Instant::now() + TERM_GRACE;
            }
            Err(RecvTimeoutError::Timeout) if cut.is_none() => {
                cut = Some(Cut::TimedOut);
                let _ = killpg(group, Signal::SIGTERM);
                deadline = Instant::now() + TERM_GRACE;
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = killpg(group, Signal::SIGKILL);
                deadline = Instant::now() + Duration::from_secs(60);
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Ended {
                    code: None,
                    cut,
                    closed,
                };
            }
        }
    }
}

/// Ends what the command left behind in its group, and waits shortly for the end of the output.
fn sweep(group: Pid, told: &Receiver<Told>, closed: bool) {
    let drain = || matches!(told.recv_timeout(DRAIN), Ok(Told::Closed));
    // A writer that was faster than the reader is no leftover.
    let closed = closed || matches!(told.recv_timeout(DRAIN / 10), Ok(Told::Closed));
    let _ = killpg(group, Signal::SIGTERM);
    if !closed && !drain() {
        let _ = killpg(group, Signal::SIGKILL);
        drain();
    }
}

fn report(command: String, code: Option<i32>, kept: Kept, cut: Option<Cut>, timeout: Duration) -> Ran {
    let mut text = kept.into_text();
    let note = match cut {
        None => None,
        Some(Cut::TimedOut) => Some(format!("[stopped after {} ms]", timeout.as_millis())),
        Some(Cut::Interrupted) => Some("[stopped: interrupted]".to_owned()),
    };
    if let Some(note) = note {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&note);
        text.push('\n');
    }
    Ran {
        text,
        command,
        exit_code: code.filter(|_| cut.is_none()),
        is_error: cut.is_some() || code != Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_in(dir: &std::path::Path, command: &str, timeout_ms: u64, interrupt: &Interrupt) -> Ran {
        let root = Root::open(dir, false).unwrap();
        let input = RunCommand {
            command: command.to_owned(),
            cwd: None,
            timeout_ms: Some(timeout_ms),
        };
        run(&root, input, interrupt).unwrap()
    }

    fn sh(command: &str, timeout_ms: u64) -> Ran {
        let dir = tempfile::tempdir().unwrap();
        run_in(dir.path(), command, timeout_ms, &Interrupt::new())
    }

    fn gone(pid: &str) -> bool {
        let pid = Pid::from_raw(pid.trim().parse().unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        while nix::sys::signal::kill(pid, None).is_ok() {
            // A zombie of a process that nobody reaps is gone, too.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if stat.contains(") Z ") {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    #[test]
    fn exit_codes_and_both_streams() {
        let output = sh("echo out; echo err >&2; exit 3", 60_000);
        assert_eq!(
            (output.text.as_str(), output.exit_code, output.is_error),
            ("out\nerr\n", Some(3), true)
        );
        let output = sh("cat; kill -9 $$", 60_000);
        assert_eq!(output.exit_code, Some(137));
    }

    #[test]
    fn a_flood_keeps_both_ends() {
        let output = sh("echo start; yes | head -c 3000000; echo end", 60_000);
        assert!(output.text.starts_with("start\n") && output.text.ends_with("end\n"));
        assert!(output.text.len() < 3 * KEEP_BYTES, "{}", output.text.len());
        assert!(output.text.contains("bytes left out"));
    }

    #[test]
    fn the_time_limit_ends_the_whole_group_even_when_it_ignores_term() {
        let start = Instant::now();
        let output = sh("trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000", 300);
        assert!(start.elapsed() < Duration::from_secs(30));
        assert!(output.is_error && output.exit_code.is_none());
        assert!(
            output.text.ends_with("[stopped after 300 ms]\n"),
            "{}",
            output.text
        );
        assert!(gone(output.text.lines().next().unwrap()));
    }

    #[test]
    fn what_is_left_behind_is_stopped() {
        let start = Instant::now();
        let output = sh("sleep 1000 & echo $!", 60_000);
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(output.exit_code, Some(0));
        assert!(gone(&output.text));
    }

    #[test]
    fn an_interrupt_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        let (other, mark) = (interrupt.clone(), dir.path().join("started"));
        let setter = std::thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_secs(20);
            while !mark.exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
            other.set();
        });
        let output = run_in(dir.path(), "touch started; sleep 1000", 600_000, &interrupt);
        setter.join().unwrap();
        assert_eq!(output.text, "[stopped: interrupted]\n");
    }
}
