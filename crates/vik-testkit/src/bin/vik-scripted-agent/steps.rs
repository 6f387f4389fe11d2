//! Carries out the steps of a script.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};

use crate::asking::{self, Answer};
use crate::child::{self, Options};
use crate::lang::{self, Step};
use crate::provider::{Provider, Said, Session};
use crate::util::{
    Done, Stop, in_chunks, needs, number, open_fds, out, put, shell, status_and_text, two_numbers,
};
use crate::wait::{self, Woken};
use crate::{exit, provider_of, value_after};

struct Agent {
    argv: Vec<String>,
    prompt: Vec<u8>,
    provider: Provider,
    session: Session,
    /// Tool calls that were opened, with their commands.
    tools: HashMap<String, String>,
    traps: HashMap<Signal, String>,
    /// How often `count` has counted, this time included.
    count: u64,
    /// What the last `ask` was answered.
    answer: Option<Answer>,
}

/// Says why on stderr.
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

/// A UUID made of the time and our process id.
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
    fn script(&mut self, script: &str) -> Done {
        for step in lang::parse(script)? {
            self.step(&step).map_err(|stop| match stop {
                Stop::Fail(code, reason) => Stop::Fail(code, format!("{}: {reason}", step.name)),
                stop @ Stop::Exit(_) => stop,
            })?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Done {
        // `codex.message T` says it as Codex, whatever the current provider is.
        if let Some((name, verb)) = step.name.split_once('.')
            && let Some(provider) = Provider::parse(name)
        {
            let before = std::mem::replace(&mut self.provider, provider);
            let said = self.speak(verb, step);
            self.provider = before;
            return if said? {
                Ok(())
            } else {
                Err(format!("unknown event {}", step.name).into())
            };
        }
        if self.speak(&step.name, step)? || self.act(step)? || self.misbehave(step)? {
            return Ok(());
        }
        Err(format!("unknown step {}", step.name).into())
    }

    /// Steps that print what a provider prints.
    fn speak(&mut self, verb: &str, step: &Step) -> Result<bool, Stop> {
        match verb {
            "start" | "init" => {
                let text = step.text();
                if !text.is_empty() {
                    self.session.id = text;
                }
                self.say(&Said::Start)?;
            }
            "message" | "assistant" => self.say(&Said::Message(&step.text()))?,
            "reasoning" | "thinking" => self.say(&Said::Reasoning(&step.text()))?,
            "tool" => {
                let (words, command) = step.split(1);
                let [id] = words.as_slice() else {
                    return Err(needs("ID COMMAND"));
                };
                self.tools.insert(id.clone(), command.clone());
                self.say(&Said::Tool {
                    id,
                    command: &command,
                })?;
            }
            "toolend" => {
                let (words, output) = step.split(2);
                let Some(id) = words.first() else {
                    return Err(needs("ID [EXIT [OUTPUT]]"));
                };
                let exit_code = words.get(1).map_or(Ok(0), |code| number(code))?;
                let command = self.tools.remove(id).unwrap_or_default();
                self.say(&Said::ToolEnd {
                    id,
                    command: &command,
                    exit_code,
                    output: &output,
                })?;
            }
            "file" => {
                let words = step.words();
                let [path, more @ ..] = words.as_slice() else {
                    return Err(needs("PATH [add|update|delete]"));
                };
                self.say(&Said::File {
                    path,
                    change: more.first().map_or("add", String::as_str),
                })?;
            }
            "retry" | "error" => {
                let (status, message) = status_and_text(step, 500);
                self.say(&Said::Retry {
                    status,
                    message: &message,
                })?;
            }
            "ratelimit" => self.say(&Said::RateLimit { status: &step.text() })?,
            "done" => self.say(&Said::Done { text: &step.text() })?,
            "failed" => {
                let (status, message) = status_and_text(step, 0);
                self.say(&Said::Failed {
                    status,
                    message: &message,
                })?;
            }
            "stopped" => self.say(&Said::Stopped {
                subtype: &step.text(),
            })?,
            "ok" => {
                self.say(&Said::Start)?;
                self.say(&Said::Done { text: &step.text() })?;
            }
            "fail" => {
                let (status, message) = status_and_text(step, 500);
                self.say(&Said::Start)?;
                self.say(&Said::Failed {
                    status,
                    message: &message,
                })?;
                return Err(Stop::Exit(1));
            }
            "usage" => {
                let numbers: Vec<u64> = step
                    .words()
                    .iter()
                    .map(|word| number(word))
                    .collect::<Result<_, _>>()?;
                let [input, output, more @ ..] = numbers.as_slice() else {
                    return Err(needs("IN OUT [CACHED]"));
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

    /// Steps that do what agents do.
    fn act(&mut self, step: &Step) -> Result<bool, Stop> {
        match step.name.as_str() {
            "as" => {
                let name = step.text();
                self.provider = Provider::parse(&name).ok_or_else(|| format!("no provider {name}"))?;
            }
            // `emit codex-ok TEXT`: a whole session of a provider in one step.
            "emit" => {
                let (words, text) = step.split(1);
                let what = words.first().map_or("", String::as_str);
                let (name, verb) = what
                    .rsplit_once('-')
                    .ok_or_else(|| needs("PROVIDER-ok|fail [TEXT]"))?;
                let inner = Step {
                    name: format!("{name}.{verb}"),
                    rest: text,
                };
                self.step(&inner)?;
            }
            "line" => out(format!("{}\n", step.text()).as_bytes())?,
            "partial" => out(step.text().as_bytes())?,
            "stderr" => std::io::stderr().write_all(format!("{}\n", step.text()).as_bytes())?,
            "write" | "append" => {
                let (words, text) = step.split(1);
                let Some(path) = words.first() else {
                    return Err(needs("FILE TEXT"));
                };
                put(Path::new(path), text.as_bytes(), step.name == "append")?;
            }
            "touch" => put(Path::new(&step.text()), b"", true)?,
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
                let words = step.words();
                let Some(path) = words.first() else {
                    return Err(needs("FILE [MS]"));
                };
                self.wait_file(Path::new(path), words.get(1).map_or(Ok(60_000), |ms| number(ms))?)?;
            }
            "exit" => return Err(Stop::Exit(number(&step.text())?)),
            "count" => {
                let path = step.text();
                put(Path::new(&path), b"+", true)?;
                self.count = std::fs::metadata(&path)?.len();
            }
            "on" => {
                let (words, rest) = step.split(1);
                let Some(which) = words.first() else {
                    return Err(needs("N|N+ STEPS"));
                };
                let wanted: u64 = number(which.trim_end_matches('+'))?;
                if self.count == wanted || (which.ends_with('+') && self.count > wanted) {
                    self.script(&rest)?;
                }
            }
            "if-file" | "unless-file" => {
                let (words, rest) = step.split(1);
                let Some(path) = words.first() else {
                    return Err(needs("FILE STEPS"));
                };
                if Path::new(path).exists() == (step.name == "if-file") {
                    self.script(&rest)?;
                }
            }
            "repeat" => {
                let (words, rest) = step.split(1);
                let Some(times) = words.first() else {
                    return Err(needs("N STEPS"));
                };
                for _ in 0..number::<u64>(times)? {
                    self.script(&rest)?;
                }
            }
            "expect-prompt" => {
                let wanted = step.text();
                if !String::from_utf8_lossy(&self.prompt).contains(&wanted) {
                    return Err(Stop::Fail(exit::PROMPT, format!("the prompt has no {wanted:?}")));
                }
            }
            "dump-env" => {
                // From the kernel, so that it is what the process was started with.
                let env = std::fs::read("/proc/self/environ")?;
                let lines: Vec<u8> = env.iter().map(|&b| if b == 0 { b'\n' } else { b }).collect();
                put(Path::new(&step.text()), &lines, false)?;
            }
            "dump-argv" => {
                let lines: String = self.argv.iter().map(|arg| format!("{arg}\n")).collect();
                put(Path::new(&step.text()), lines.as_bytes(), false)?;
            }
            "dump-stdin" => put(Path::new(&step.text()), &self.prompt, false)?,
            "dump-fds" => put(Path::new(&step.text()), open_fds()?.as_bytes(), false)?,
            "pidfile" => child::write_pid(Path::new(&step.text()))?,
            // ID TOOL INPUT: asks before a call, and waits for the answer.
            "ask" => {
                let (words, input) = step.split(2);
                let [id, tool] = words.as_slice() else {
                    return Err(needs("ID TOOL INPUT"));
                };
                self.say(&Said::Tool { id, command: &input })?;
                let input = serde_json::from_str(&input).map_err(|error| Stop::from(error.to_string()))?;
                let answer = asking::ask(id, tool, &input)?;
                self.say(&Said::ToolEnd {
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
                put(Path::new(&step.text()), line.as_bytes(), false)?;
            }
            "chdir" => std::env::set_current_dir(step.text())?,
            "never-read-stdin" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Steps that do what agents should not do.
    fn misbehave(&mut self, step: &Step) -> Result<bool, Stop> {
        match step.name.as_str() {
            "flood" | "stderrflood" => {
                let (lines, bytes) = two_numbers(step, 100)?;
                let line = [vec![b'x'; bytes.saturating_sub(1)], vec![b'\n']].concat();
                let to_stdout = step.name == "flood";
                in_chunks(lines, to_stdout, |chunk, _| chunk.extend_from_slice(&line))?;
            }
            "flood-events" => {
                let (events, bytes) = two_numbers(step, 100)?;
                let text = "x".repeat(bytes);
                let provider = self.provider;
                let session = &mut self.session;
                in_chunks(events, true, |chunk, number| {
                    for line in session.lines(provider, &Said::Message(&format!("{number} {text}"))) {
                        chunk.extend_from_slice(line.as_bytes());
                        chunk.push(b'\n');
                    }
                })?;
            }
            "bigline" => {
                let bytes: u64 = number(&step.text())?;
                in_chunks(bytes, true, |chunk, _| chunk.push(b'x'))?;
                out(b"\n")?;
            }
            "garbage" => {
                let mut state = 0x9e37_79b9_7f4a_7c15_u64;
                in_chunks(number(&step.text())?, true, |chunk, _| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    chunk.push(state.to_le_bytes()[3]);
                })?;
            }
            "nonutf8" => out(b"{\"type\":\"\xff\xfe broken \xc3\x28\"}\n")?,
            "close-stdout" => {
                std::io::stdout().flush()?;
                nix::unistd::close(1).map_err(|e| Stop::Fail(exit::STEP, e.to_string()))?;
            }
            "spawn" => {
                let (words, script) = step.split(1);
                let options = words.first().map_or("-", String::as_str);
                self.spawn(options, &script)?;
            }
            // MS [OPTIONS]: a grandchild of the supervisor that only sleeps.
            "fork-hold-stdout" => self.sleeper(step, "hold-stdout")?,
            "setsid-child" => self.sleeper(step, "setsid")?,
            "daemonise" => self.sleeper(step, "double")?,
            "clearenv" => {
                use std::os::unix::process::CommandExt;
                let rest = step.text();
                let error = Command::new(std::env::current_exe()?)
                    .arg0(self.argv.first().map_or("agent", String::as_str))
                    .args(["--script", &rest])
                    .env_clear()
                    .stdin(Stdio::null())
                    .exec();
                return Err(error.into());
            }
            "ignore" => {
                let text = step.text();
                let signals: Vec<Signal> = text.split(',').map(wait::signal).collect::<Result<_, _>>()?;
                wait::hold(&signals)?;
            }
            "trap" => {
                let (words, script) = step.split(1);
                let Some(name) = words.first() else {
                    return Err(needs("SIGNAL STEPS"));
                };
                let signal = wait::signal(name)?;
                wait::hold(&[signal])?;
                self.traps.insert(signal, script);
            }
            "stop-self" => raise(Signal::SIGSTOP).map_err(|e| Stop::Fail(exit::STEP, e.to_string()))?,
            "signal" => {
                let signal = wait::signal(&step.text())?;
                wait::release(signal);
                // Whatever stands in its way: the runtime's own handler of SIGSEGV, or a SIGINT that whoever started
                // the tests in the background had ignored.
                signal_hook::low_level::emulate_default_handler(signal as i32)
                    .map_err(|e| Stop::Fail(exit::STEP, e.to_string()))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn say(&mut self, said: &Said<'_>) -> Done {
        let mut text = self.session.lines(self.provider, said).join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        out(text.as_bytes())
    }

    fn spawn(&self, options: &str, script: &str) -> Done {
        let options = Options::parse(options)?;
        let program = self.argv.first().map_or("agent", String::as_str);
        child::spawn(&options, program, script).map_err(|reason| Stop::Fail(exit::STEP, reason))
    }

    fn sleeper(&self, step: &Step, kind: &str) -> Done {
        let words = step.words();
        let millis = words.first().map_or("600000", String::as_str);
        number::<u64>(millis)?;
        let more = words
            .get(1)
            .map(|options| format!(",{options}"))
            .unwrap_or_default();
        self.spawn(&format!("{kind}{more}"), &format!("sleep {millis}"))
    }

    /// Runs a shell command; what it prints goes to stderr, as an agent's stdout is for events.
    fn command(&self, command: &str, may_fail: bool) -> Done {
        let output = shell(command).output()?;
        std::io::stderr().write_all(&output.stdout)?;
        std::io::stderr().write_all(&output.stderr)?;
        if output.status.success() || may_fail {
            return Ok(());
        }
        Err(Stop::Fail(exit::COMMAND, format!("{}: {command}", output.status)))
    }

    /// Runs a shell command as a tool call, with its events.
    fn tool_run(&mut self, command: &str) -> Done {
        let id = format!("tool_{}", self.session.items);
        self.say(&Said::Tool { id: &id, command })?;
        let output = shell(command).output()?;
        let text = [output.stdout, output.stderr].concat();
        let exit_code = output.status.code().unwrap_or(-1);
        self.say(&Said::ToolEnd {
            id: &id,
            command,
            exit_code,
            output: &String::from_utf8_lossy(&text),
        })
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Done {
        let trapped: Vec<Signal> = self.traps.keys().copied().collect();
        loop {
            match wait::until(deadline, &trapped)? {
                Woken::Time => return Ok(()),
                Woken::Signal(signal) => self.trapped(signal)?,
            }
        }
    }

    fn wait_file(&mut self, path: &Path, millis: u64) -> Done {
        let deadline = Instant::now() + Duration::from_millis(millis);
        let trapped: Vec<Signal> = self.traps.keys().copied().collect();
        while let Some(woken) = wait::file_or_tick(path, &trapped)? {
            if let Woken::Signal(signal) = woken {
                self.trapped(signal)?;
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

    fn trapped(&mut self, signal: Signal) -> Done {
        let script = self.traps.get(&signal).cloned().unwrap_or_default();
        self.script(&script)
    }
}
