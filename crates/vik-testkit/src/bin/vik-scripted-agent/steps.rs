//! Executes the steps of a script.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};

use crate::approval::{self, Answer};
use crate::child::{self, Options};
use crate::lang::{self, Step};
use crate::provider::{AgentEvent, Provider, Session};
use crate::util::{
    StepResult, Stop, first_and_text, missing_args, number, open_fds, print, print_pieces, shell,
    status_and_text, two_numbers, write_file,
};
use crate::wait::{self, WakeReason};
use crate::{exit, provider_of, value_after};

struct Agent {
    argv: Vec<String>,
    prompt: Vec<u8>,
    provider: Provider,
    session: Session,
    /// The commands of open tool calls.
    tools: HashMap<String, String>,
    traps: HashMap<Signal, String>,
    /// The value of `count`, including this run.
    count: u64,
    /// The answer to the last `ask`.
    answer: Option<Answer>,
}

/// Prints the reason on stderr and returns the exit code.
pub(crate) fn fail(code: i32, reason: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "vik-scripted-agent: {reason}");
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Runs a whole script.
pub(crate) fn run(argv: &[String], prompt: Vec<u8>, script: &str) -> ExitCode {
    let id = ["--session-id", "--resume", "resume"]
        .iter()
        .find_map(|flag| value_after(argv, flag));
    let model = value_after(argv, "--model")
        .or_else(|| value_after(argv, "-m"))
        .unwrap_or("scripted");
    let mut agent = Agent {
        provider: provider_of(argv.first().map_or("", String::as_str)),
        session: Session {
            id: id.map_or_else(fresh_id, str::to_owned),
            model: model.to_owned(),
            cwd: std::env::current_dir().unwrap_or_default().display().to_string(),
            input_tokens: 1000,
            cached_tokens: 0,
            output_tokens: 20,
            cost_usd: 0.0033,
            items: 0,
        },
        argv: argv.to_vec(),
        prompt,
        tools: HashMap::new(),
        traps: HashMap::new(),
        count: 0,
        answer: None,
    };
    match agent.script(script) {
        Ok(()) | Err(Stop::Exit(0)) => ExitCode::SUCCESS,
        Err(Stop::Exit(code)) => std::process::exit(code),
        Err(Stop::Fail(code, reason)) => fail(code, &reason),
    }
}

/// Returns a UUID made of the time and the process id.
fn fresh_id() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let millis = now.as_millis() & 0xffff_ffff_ffff;
    let nanos = now.subsec_nanos();
    format!(
        "{:08x}-{:04x}-7{:03x}-8{:03x}-{:012x}",
        millis >> 16,
        millis & 0xffff,
        nanos & 0xfff,
        (nanos >> 12) & 0xfff,
        std::process::id()
    )
}

impl Agent {
    fn script(&mut self, script: &str) -> StepResult {
        for step in lang::parse(script)? {
            self.step(&step).map_err(|stop| match stop {
                Stop::Fail(code, reason) => Stop::Fail(code, format!("{}: {reason}", step.name)),
                stop @ Stop::Exit(_) => stop,
            })?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> StepResult {
        // `codex.message T` prints it as Codex, whatever the current provider is.
        if let Some((name, verb)) = step.name.split_once('.')
            && let Some(provider) = Provider::parse(name)
        {
            let before = std::mem::replace(&mut self.provider, provider);
            let event = self.provider_step(verb, step);
            self.provider = before;
            return if event? {
                Ok(())
            } else {
                Err(format!("unknown event {}", step.name).into())
            };
        }
        if self.provider_step(&step.name, step)? || self.action_step(step)? || self.fault_step(step)? {
            return Ok(());
        }
        Err(format!("unknown step {}", step.name).into())
    }

    /// Executes a step that prints a provider's event. Returns whether the step is one.
    fn provider_step(&mut self, verb: &str, step: &Step) -> Result<bool, Stop> {
        match verb {
            "start" | "init" => {
                let text = step.text();
                if !text.is_empty() {
                    self.session.id = text;
                }
                self.emit(&AgentEvent::Start)?;
            }
            "message" | "assistant" => self.emit(&AgentEvent::Message(&step.text()))?,
            "reasoning" | "thinking" => self.emit(&AgentEvent::Reasoning(&step.text()))?,
            "tool" => {
                let (id, command) = first_and_text(step, "ID COMMAND")?;
                self.tools.insert(id.clone(), command.clone());
                self.emit(&AgentEvent::Tool {
                    id: &id,
                    command: &command,
                })?;
            }
            "toolend" => {
                let (args, output) = step.split(2);
                let Some(id) = args.first() else {
                    return Err(missing_args("ID [EXIT [OUTPUT]]"));
                };
                let exit_code = args.get(1).map_or(Ok(0), |code| number(code))?;
                let command = self.tools.remove(id).unwrap_or_default();
                self.emit(&AgentEvent::ToolEnd {
                    id,
                    command: &command,
                    exit_code,
                    output: &output,
                })?;
            }
            "file" => {
                let args = step.args();
                let [path, more @ ..] = args.as_slice() else {
                    return Err(missing_args("PATH [add|update|delete]"));
                };
                self.emit(&AgentEvent::File {
                    path,
                    change: more.first().map_or("add", String::as_str),
                })?;
            }
            "retry" | "error" => {
                let (status, message) = status_and_text(step, 500);
                self.emit(&AgentEvent::Retry {
                    status,
                    message: &message,
                })?;
            }
            "ratelimit" => self.emit(&AgentEvent::RateLimit { status: &step.text() })?,
            "done" => self.emit(&AgentEvent::Done { text: &step.text() })?,
            "failed" => {
                let (status, message) = status_and_text(step, 0);
                self.emit(&AgentEvent::Failed {
                    status,
                    message: &message,
                })?;
            }
            "stopped" => self.emit(&AgentEvent::Stopped {
                subtype: &step.text(),
            })?,
            "ok" => {
                self.emit(&AgentEvent::Start)?;
                self.emit(&AgentEvent::Done { text: &step.text() })?;
            }
            "fail" => {
                let (status, message) = status_and_text(step, 500);
                self.emit(&AgentEvent::Start)?;
                self.emit(&AgentEvent::Failed {
                    status,
                    message: &message,
                })?;
                return Err(Stop::Exit(1));
            }
            "usage" => {
                let numbers: Vec<u64> = step
                    .args()
                    .iter()
                    .map(|text| number(text))
                    .collect::<Result<_, _>>()?;
                let [input, output, more @ ..] = numbers.as_slice() else {
                    return Err(missing_args("IN OUT [CACHED]"));
                };
                self.session.input_tokens = *input;
                self.session.output_tokens = *output;
                self.session.cached_tokens = more.first().copied().unwrap_or(0);
            }
            "cost" => self.session.cost_usd = number(&step.text())?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Executes a step of normal agent behaviour. Returns whether the step is one.
    fn action_step(&mut self, step: &Step) -> Result<bool, Stop> {
        match step.name.as_str() {
            "as" => {
                let name = step.text();
                self.provider = Provider::parse(&name).ok_or_else(|| format!("no provider {name}"))?;
            }
            // `emit codex-ok TEXT`: a whole session of a provider in one step.
            "emit" => {
                let (args, text) = step.split(1);
                let qualified = args.first().map_or("", String::as_str);
                let (name, verb) = qualified
                    .rsplit_once('-')
                    .ok_or_else(|| missing_args("PROVIDER-ok|fail [TEXT]"))?;
                let inner = Step {
                    name: format!("{name}.{verb}"),
                    args_text: text,
                };
                self.step(&inner)?;
            }
            "line" => print(format!("{}\n", step.text()).as_bytes())?,
            "partial" => print(step.text().as_bytes())?,
            "stderr" => std::io::stderr().write_all(format!("{}\n", step.text()).as_bytes())?,
            "write" | "append" => {
                let (path, text) = first_and_text(step, "FILE TEXT")?;
                write_file(Path::new(&path), text.as_bytes(), step.name == "append")?;
            }
            "touch" => write_file(Path::new(&step.text()), b"", true)?,
            "run" => self.command(&step.text(), false)?,
            "try" => self.command(&step.text(), true)?,
            "do" => self.tool_run(&step.text())?,
            "commit" => {
                let message = step.text().replace('\'', "'\\''");
                self.command(&format!("git add -A && git commit -q -m '{message}'"), false)?;
            }
            "sleep" => {
                let millis = number(&step.text())?;
                self.wait(Some(Instant::now() + Duration::from_millis(millis)))?;
            }
            "hang" => self.wait(None)?,
            "wait-file" => {
                let args = step.args();
                let Some(path) = args.first() else {
                    return Err(missing_args("FILE [MS]"));
                };
                self.wait_file(Path::new(path), args.get(1).map_or(Ok(60_000), |ms| number(ms))?)?;
            }
            "exit" => return Err(Stop::Exit(number(&step.text())?)),
            "count" => {
                let path = step.text();
                write_file(Path::new(&path), b"+", true)?;
                self.count = std::fs::metadata(&path)?.len();
            }
            "on" => {
                let (which, script) = first_and_text(step, "N|N+ STEPS")?;
                let wanted: u64 = number(which.trim_end_matches('+'))?;
                if self.count == wanted || (which.ends_with('+') && self.count > wanted) {
                    self.script(&script)?;
                }
            }
            "if-file" | "unless-file" => {
                let (path, script) = first_and_text(step, "FILE STEPS")?;
                if Path::new(&path).exists() == (step.name == "if-file") {
                    self.script(&script)?;
                }
            }
            "repeat" => {
                let (times, script) = first_and_text(step, "N STEPS")?;
                for _ in 0..number::<u64>(&times)? {
                    self.script(&script)?;
                }
            }
            "expect-prompt" => {
                let wanted = step.text();
                if !String::from_utf8_lossy(&self.prompt).contains(&wanted) {
                    return Err(Stop::Fail(exit::PROMPT, format!("the prompt has no {wanted:?}")));
                }
            }
            "dump-env" => {
                // Read from the kernel, so that it is the environment at the start of the process.
                let env = std::fs::read("/proc/self/environ")?;
                let lines: Vec<u8> = env.iter().map(|&b| if b == 0 { b'\n' } else { b }).collect();
                write_file(Path::new(&step.text()), &lines, false)?;
            }
            "dump-argv" => {
                let lines: String = self.argv.iter().map(|arg| format!("{arg}\n")).collect();
                write_file(Path::new(&step.text()), lines.as_bytes(), false)?;
            }
            "dump-stdin" => write_file(Path::new(&step.text()), &self.prompt, false)?,
            "dump-fds" => write_file(Path::new(&step.text()), open_fds()?.as_bytes(), false)?,
            "pidfile" => child::write_pid(Path::new(&step.text()))?,
            // ID TOOL INPUT: asks for approval of a call and waits for the answer.
            "ask" => {
                let (args, input) = step.split(2);
                let [id, tool] = args.as_slice() else {
                    return Err(missing_args("ID TOOL INPUT"));
                };
                self.emit(&AgentEvent::Tool { id, command: &input })?;
                let input = serde_json::from_str(&input).map_err(|error| Stop::from(error.to_string()))?;
                let answer = approval::ask(id, tool, &input)?;
                self.emit(&AgentEvent::ToolEnd {
                    id,
                    command: tool,
                    exit_code: i32::from(!answer.allowed),
                    output: if answer.allowed { "done" } else { &answer.line },
                })?;
                self.answer = Some(answer);
            }
            "yes" | "no" => {
                let allowed = self.answer.as_ref().map(|answer| answer.allowed);
                if allowed == Some(step.name == "yes") {
                    self.script(&step.text())?;
                }
            }
            "dump-answer" => {
                let line = self.answer.as_ref().map_or("", |answer| &answer.line);
                write_file(Path::new(&step.text()), line.as_bytes(), false)?;
            }
            "chdir" => std::env::set_current_dir(step.text())?,
            "never-read-stdin" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Executes a step of faulty agent behaviour. Returns whether the step is one.
    fn fault_step(&mut self, step: &Step) -> Result<bool, Stop> {
        match step.name.as_str() {
            "flood" | "stderrflood" => {
                let (lines, bytes) = two_numbers(step, 100)?;
                let line = [vec![b'x'; bytes.saturating_sub(1)], vec![b'\n']].concat();
                let to_stdout = step.name == "flood";
                print_pieces(lines, to_stdout, |chunk, _| chunk.extend_from_slice(&line))?;
            }
            "flood-events" => {
                let (events, bytes) = two_numbers(step, 100)?;
                let text = "x".repeat(bytes);
                let provider = self.provider;
                let session = &mut self.session;
                print_pieces(events, true, |chunk, number| {
                    for line in session.lines(provider, &AgentEvent::Message(&format!("{number} {text}"))) {
                        chunk.extend_from_slice(line.as_bytes());
                        chunk.push(b'\n');
                    }
                })?;
            }
            "bigline" => {
                let bytes: u64 = number(&step.text())?;
                print_pieces(bytes, true, |chunk, _| chunk.push(b'x'))?;
                print(b"\n")?;
            }
            "garbage" => {
                let mut state = 0x9e37_79b9_7f4a_7c15_u64;
                print_pieces(number(&step.text())?, true, |chunk, _| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    chunk.push(state.to_le_bytes()[3]);
                })?;
            }
            "nonutf8" => print(b"{\"type\":\"\xff\xfe broken \xc3\x28\"}\n")?,
            "close-stdout" => {
                std::io::stdout().flush()?;
                nix::unistd::close(1).map_err(|e| Stop::Fail(exit::STEP, e.to_string()))?;
            }
            "spawn" => {
                let (args, script) = step.split(1);
                let options = args.first().map_or("-", String::as_str);
                self.spawn(options, &script)?;
            }
            // MS [OPTIONS]: a grandchild of the supervisor that only sleeps.
            "fork-hold-stdout" => self.sleeper(step, "hold-stdout")?,
            "setsid-child" => self.sleeper(step, "setsid")?,
            "daemonise" => self.sleeper(step, "double")?,
            "clearenv" => {
                use std::os::unix::process::CommandExt;
                let script = step.text();
                let error = Command::new(std::env::current_exe()?)
                    .arg0(self.argv.first().map_or("agent", String::as_str))
                    .args(["--script", &script])
                    .env_clear()
                    .stdin(Stdio::null())
                    .exec();
                return Err(error.into());
            }
            "ignore" => {
                let text = step.text();
                let signals: Vec<Signal> = text
                    .split(',')
                    .map(wait::parse_signal)
                    .collect::<Result<_, _>>()?;
                wait::block_signals(&signals)?;
            }
            "trap" => {
                let (name, script) = first_and_text(step, "SIGNAL STEPS")?;
                let signal = wait::parse_signal(&name)?;
                wait::block_signals(&[signal])?;
                self.traps.insert(signal, script);
            }
            "stop-self" => raise(Signal::SIGSTOP).map_err(|e| Stop::Fail(exit::STEP, e.to_string()))?,
            "signal" => {
                let signal = wait::parse_signal(&step.text())?;
                wait::unblock_signal(signal);
                // Other handlers are removed: that of the runtime for SIGSEGV, or an inherited
                // ignored SIGINT of a test run in the background.
                signal_hook::low_level::emulate_default_handler(signal as i32)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn emit(&mut self, event: &AgentEvent<'_>) -> StepResult {
        let mut text = self.session.lines(self.provider, event).join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        print(text.as_bytes())
    }

    fn spawn(&self, options: &str, script: &str) -> StepResult {
        let options = Options::parse(options)?;
        let program = self.argv.first().map_or("agent", String::as_str);
        child::spawn(&options, program, script).map_err(|reason| Stop::Fail(exit::STEP, reason))
    }

    fn sleeper(&self, step: &Step, kind: &str) -> StepResult {
        let args = step.args();
        let millis = args.first().map_or("600000", String::as_str);
        number::<u64>(millis)?;
        let more = args
            .get(1)
            .map(|options| format!(",{options}"))
            .unwrap_or_default();
        self.spawn(&format!("{kind}{more}"), &format!("sleep {millis}"))
    }

    /// Runs a shell command. Its output goes to stderr, because stdout is for events.
    fn command(&self, command: &str, may_fail: bool) -> StepResult {
        let output = shell(command).output()?;
        std::io::stderr().write_all(&output.stdout)?;
        std::io::stderr().write_all(&output.stderr)?;
        if output.status.success() || may_fail {
            return Ok(());
        }
        Err(Stop::Fail(exit::COMMAND, format!("{}: {command}", output.status)))
    }

    /// Runs a shell command as a tool call, with its events.
    fn tool_run(&mut self, command: &str) -> StepResult {
        let id = format!("tool_{}", self.session.items);
        self.emit(&AgentEvent::Tool { id: &id, command })?;
        let output = shell(command).output()?;
        let text = [output.stdout, output.stderr].concat();
        let exit_code = output.status.code().unwrap_or(-1);
        self.emit(&AgentEvent::ToolEnd {
            id: &id,
            command,
            exit_code,
            output: &String::from_utf8_lossy(&text),
        })
    }

    fn wait(&mut self, deadline: Option<Instant>) -> StepResult {
        let trapped: Vec<Signal> = self.traps.keys().copied().collect();
        loop {
            match wait::until(deadline, &trapped)? {
                WakeReason::Deadline => return Ok(()),
                WakeReason::Signal(signal) => self.on_trapped(signal)?,
            }
        }
    }

    fn wait_file(&mut self, path: &Path, millis: u64) -> StepResult {
        let deadline = Instant::now() + Duration::from_millis(millis);
        let trapped: Vec<Signal> = self.traps.keys().copied().collect();
        while let Some(woken) = wait::file_or_tick(path, &trapped)? {
            if let WakeReason::Signal(signal) = woken {
                self.on_trapped(signal)?;
            }
            if Instant::now() > deadline {
                return Err(Stop::Fail(
                    exit::DEADLINE,
                    format!("{} did not appear", path.display()),
                ));
            }
        }
        Ok(())
    }

    fn on_trapped(&mut self, signal: Signal) -> StepResult {
        let script = self.traps.get(&signal).cloned().unwrap_or_default();
        self.script(&script)
    }
}
