//! `vex exec --ask` in a terminal: a person types a prompt, follows the turn, answers before each
//! call, and types the next prompt.
//!
//! Each turn is one `vex exec --ask --json` of its own, which resumes the session. So a turn that is
//! interrupted or crashes loses nothing, and the conversation stays one that Vik can resume.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use signal_hook::consts::SIGINT;

use super::args::ExecArgs;
use crate::events::ExitReason;

/// The longest part of a tool's output that is shown, in characters.
const SHOWN: usize = 1000;

/// What a person typed.
enum Input {
    Line(String),
    End,
}

pub(super) fn run(args: &ExecArgs) -> ExitReason {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        print("vex: `--ask` needs a terminal, or `--json` and a program that answers\n");
        return ExitReason::Usage;
    }
    // Ctrl-C ends the turn, which is another process of this terminal, but not the conversation.
    let was_interrupted = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGINT, was_interrupted) {
        print(&format!("vex: cannot handle signals: {error}\n"));
        return ExitReason::Failed;
    }
    print("Type a prompt; Ctrl-C stops the turn, Ctrl-D leaves.\n");
    let mut session = args.resume.map(|id| id.to_string());
    loop {
        let prompt = match read("\n> ") {
            Ok(Input::Line(line)) if line.trim().is_empty() => continue,
            Ok(Input::Line(line)) => line,
            Ok(Input::End) => return ExitReason::Done,
            Err(error) => {
                print(&format!("vex: {error}\n"));
                return ExitReason::Failed;
            }
        };
        if let Err(error) = turn(&prompt, &mut session) {
            print(&format!("vex: {error}\n"));
            return ExitReason::Failed;
        }
    }
}

/// Runs one turn. `session` is set to the session that it continued or created.
fn turn(prompt: &str, session: &mut Option<String>) -> io::Result<()> {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    args.push("--json".into());
    if let Some(id) = session.as_deref() {
        args.extend(["--resume".into(), id.into()]);
    }
    let mut child = Command::new(std::env::current_exe()?)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    send(&mut input, &json!({ "prompt": prompt }));
    for line in BufReader::new(output).split(b'\n') {
        let Ok(event) = serde_json::from_slice::<Value>(&line?) else {
            continue;
        };
        if let Some(id) = event["session_id"].as_str() {
            *session = Some(id.to_owned());
        }
        show(&event);
        if event["type"] == "ask" {
            let answer = answer(&event)?;
            send(&mut input, &answer);
        }
    }
    child.wait()?;
    Ok(())
}

/// Sends a line to the turn. One that has ended needs no answer.
fn send(input: &mut ChildStdin, line: &Value) {
    let _ = input.write_all(format!("{line}\n").as_bytes());
}

/// Asks the person whether a call may run.
fn answer(event: &Value) -> io::Result<Value> {
    let id = &event["ask"];
    let subject = event["command"].as_str().map_or_else(
        || {
            let paths = event["paths"].as_array().into_iter().flatten();
            paths.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        },
        str::to_owned,
    );
    let tool = event["tool"].as_str().unwrap_or_default();
    print(&format!("allow {tool}: {subject}\n"));
    Ok(match read("y, or why not: ")? {
        Input::Line(line) if matches!(line.trim(), "y" | "yes") => json!({"ask": id, "decision": "allow"}),
        Input::Line(line) if !line.trim().is_empty() => {
            json!({"ask": id, "decision": "deny", "message": line.trim()})
        }
        _ => json!({"ask": id, "decision": "deny"}),
    })
}

/// Shows an event to the person.
fn show(event: &Value) {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    match text("type") {
        "message" => print(&format!("{}\n", text("text"))),
        "tool_call" => print(&format!(
            "* {} {}\n",
            text("tool"),
            shortened(&event["input"].to_string())
        )),
        "tool_result" => print(&format!("{}\n", shortened(text("output")))),
        "warning" | "error" => print(&format!("{}: {}\n", text("type"), text("message"))),
        "retry" => print(&format!("retrying: {}\n", text("reason"))),
        _ => {}
    }
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Reads a line of the person.
fn read(lead: &str) -> io::Result<Input> {
    print(lead);
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line)? {
        0 => Ok(Input::End),
        _ => Ok(Input::Line(line.trim_end_matches(['\n', '\r']).to_owned())),
    }
}

/// Prints text of a model or a tool, which must not control the terminal.
fn print(text: &str) {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    let text: String = text
        .chars()
        .map(|c| if is_plain(c) { c } else { '\u{fffd}' })
        .collect();
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
