//! The lines of the program that controls vex: the prompt, approvals of calls, and messages of
//! people.
//!
//! `vex exec --ask` and `--messages` are for a program that controls vex. Its lines are JSON: first
//! `{"prompt": TEXT}`, then for each event `ask` one `{"ask": ID, "decision": "allow"}` or `{"ask":
//! ID, "decision": "deny", "message": TEXT}`, in any order. An invalid line or the end of stdin
//! denies the call. With `--messages`, `{"message": {"id": ID, "text": TEXT}}` is a message of a
//! person; `"interrupt": true` in it stops the current step.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;

use crate::events::{Journal, Question};
use crate::inbox::{Inbox, PersonMessage};
use crate::interrupt::Interrupt;

/// The maximum length of a line, in bytes: a prompt may be as long.
const MAX_LINE: u64 = 32 * 1024 * 1024;
/// How long to wait for the prompt.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// The answer for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallDecision {
    Allow,
    /// Denied; the model gets this message.
    Deny(String),
}

/// Requests an approval before each call.
#[derive(Clone, Default)]
pub struct CallApprover(Arc<Mutex<State>>);

impl std::fmt::Debug for CallApprover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asker")
    }
}

#[derive(Default)]
struct State {
    count: u64,
    waiting: HashMap<String, SyncSender<CallDecision>>,
    /// Why no more answers can arrive.
    closed: Option<String>,
    /// The inbox of a run that takes messages.
    inbox: Option<Inbox>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageLine {
    message: PersonMessage,
}

/// An answer of the controlling program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskReply {
    ask: String,
    decision: Decision,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Allow,
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prompt {
    prompt: String,
}

impl CallApprover {
    /// Starts to read from the controlling program. Returns the prompt. Messages go to `inbox`;
    /// without one, a message is an invalid line.
    ///
    /// # Errors
    /// When no prompt arrives, as a message for people.
    pub(crate) fn listen(
        source: impl Read + Send + 'static,
        interrupt: &Interrupt,
        inbox: Option<Inbox>,
    ) -> Result<(Self, String), String> {
        let asker = Self::default();
        asker.state().inbox = inbox;
        let (sender, receiver) = sync_channel(2);
        let interrupted = sender.clone();
        let _listening =
            interrupt.listen(move || drop(interrupted.try_send(Err("interrupted by a signal".to_owned()))));
        let answers = asker.clone();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(source);
            let prompt = line(&mut lines).and_then(|line| {
                let prompt: Result<Prompt, _> = serde_json::from_slice(&line);
                prompt.map_err(|error| format!("the first line is not a prompt: {error}"))
            });
            let has_prompt = prompt.is_ok();
            let _ = sender.try_send(prompt.map(|prompt| prompt.prompt));
            if has_prompt {
                answers.read_answers(&mut lines);
            }
        });
        let prompt = match receiver.recv_timeout(PROMPT_TIMEOUT) {
            Ok(prompt) => prompt?,
            Err(RecvTimeoutError::Timeout) => return Err("no prompt on stdin".to_owned()),
            Err(RecvTimeoutError::Disconnected) => return Err("stdin cannot be read".to_owned()),
        };
        Ok((asker, prompt))
    }

    fn read_answers(&self, lines: &mut impl BufRead) {
        let why = loop {
            match line(lines).and_then(|line| self.on_line(&line)) {
                Ok(()) => {}
                Err(why) => break why,
            }
        };
        let mut state = self.state();
        for (_, waiting) in state.waiting.drain() {
            let _ = waiting.try_send(CallDecision::Deny(unanswered(&why)));
        }
        state.closed = Some(why);
    }

    fn on_line(&self, line: &[u8]) -> Result<(), String> {
        let inbox = self.state().inbox.clone();
        if let (Some(inbox), Ok(line)) = (inbox, serde_json::from_slice::<MessageLine>(line)) {
            inbox.deliver(line.message);
            return Ok(());
        }
        let answer: AskReply =
            serde_json::from_slice(line).map_err(|error| format!("a line of stdin is no answer: {error}"))?;
        let verdict = match answer.decision {
            Decision::Allow => CallDecision::Allow,
            Decision::Deny => {
                CallDecision::Deny(answer.message.unwrap_or_else(|| "it was not allowed".to_owned()))
            }
        };
        if let Some(waiting) = self.state().waiting.remove(&answer.ask) {
            let _ = waiting.try_send(verdict);
        }
        Ok(())
    }

    /// Asks for an approval and waits for the answer.
    pub(crate) fn ask(
        &self,
        mut question: Question,
        journal: &Journal,
        interrupt: &Interrupt,
    ) -> CallDecision {
        let (sender, receiver) = sync_channel(2);
        {
            let mut state = self.state();
            if let Some(why) = &state.closed {
                return CallDecision::Deny(unanswered(why));
            }
            state.count += 1;
            question.id = state.count.to_string();
            state.waiting.insert(question.id.clone(), sender.clone());
        }
        let id = question.id.clone();
        // Emitted only after the answer can be received.
        journal.ask(question);
        let _listening = interrupt.listen(move || {
            drop(sender.try_send(CallDecision::Deny("interrupted: it was not run".to_owned())));
        });
        let verdict = receiver.recv();
        self.state().waiting.remove(&id);
        verdict.unwrap_or_else(|_| CallDecision::Deny(unanswered("stdin has ended")))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unanswered(why: &str) -> String {
    format!("nobody answers whether it may be run, so it was not: {why}")
}

fn line(lines: &mut impl BufRead) -> Result<Vec<u8>, String> {
    let mut line = Vec::new();
    let read = lines.take(MAX_LINE).read_until(b'\n', &mut line);
    match read {
        Err(error) => Err(format!("stdin cannot be read: {error}")),
        Ok(_) if line.last() != Some(&b'\n') => Err("stdin has ended".to_owned()),
        Ok(_) => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::{Value, json};

    use super::*;
    use crate::tools::{Permission, Policy};

    /// Runs calls. `answer` gives the reply to each question, in order.
    fn answered(
        answer: impl Fn(&Value) -> String + Send + 'static,
        calls: &[(&str, Value)],
    ) -> (Vec<String>, Vec<Value>) {
        let (events, events_writer) = std::io::pipe().unwrap();
        let (stdin, mut stdin_writer) = std::io::pipe().unwrap();
        let journal = Journal::new(true, Box::new(events_writer), Box::new(std::io::sink()));
        writeln!(stdin_writer, "{}", json!({"prompt": "go \n on"})).unwrap();
        let interrupt = Interrupt::new();
        let (asker, prompt) = CallApprover::listen(stdin, &interrupt, None).unwrap();
        assert_eq!(prompt, "go \n on");
        let answers = std::thread::spawn(move || {
            let mut questions = Vec::new();
            for line in BufReader::new(events).lines() {
                let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
                if event["type"] == "ask" {
                    let reply = answer(&event);
                    questions.push(event);
                    if reply.is_empty() {
                        // An empty reply closes the connection.
                        break;
                    }
                    let _ = writeln!(stdin_writer, "{reply}");
                }
            }
            questions
        });
        let bench = crate::tools::testing::Bench::with(Policy {
            asker: Some(asker),
            ..Policy::from(Permission::WorkspaceWrite)
        });
        let bench = crate::tools::testing::Bench { journal, ..bench };
        let outputs = calls
            .iter()
            .map(|(tool, input)| bench.call(tool, input.clone()).output)
            .collect();
        let crate::tools::testing::Bench { journal, .. } = bench;
        drop(journal);
        (outputs, answers.join().unwrap())
    }

    #[test]
    fn ask_runs_only_approved_calls() {
        let answer = |event: &Value| {
            let id = &event["ask"];
            match event["command"].as_str() {
                Some(command) if command.contains("push") => {
                    json!({"ask": id, "decision": "deny", "message": "{\"code\":\"no\"}"}).to_string()
                }
                _ => json!({"ask": id, "decision": "allow"}).to_string(),
            }
        };
        let calls = [
            ("write_file", json!({"path": "a", "content": "x\n"})),
            ("run_command", json!({"command": "echo push"})),
            ("read_file", json!({"path": "a"})),
        ];
        let (outputs, asked) = answered(answer, &calls);
        assert_eq!(outputs[1], "{\"code\":\"no\"}");
        assert!(outputs[2].contains('x'), "{}", outputs[2]);
        assert_eq!(asked.len(), 3);
        assert_eq!(
            (&asked[0]["paths"], &asked[0]["writes"]),
            (&json!(["a"]), &json!(true))
        );
        assert_eq!(asked[1]["command"], "echo push");
        assert_eq!(asked[2]["writes"], json!(false));
    }

    #[test]
    fn ask_denies_without_a_valid_answer() {
        for reply in [
            "",
            "no json",
            "{\"ask\":\"1\"}",
            "{\"ask\":\"1\",\"decision\":\"maybe\"}",
            "[]",
        ] {
            let call = ("write_file", json!({"path": "a", "content": "x"}));
            let (outputs, _) = answered(move |_| reply.to_owned(), &[call.clone(), call]);
            for output in outputs {
                assert!(output.contains("nobody answers"), "{reply}: {output}");
            }
        }
    }

    #[test]
    fn ask_without_a_prompt_does_not_start() {
        for reply in ["", "{}\n", "{\"prompt\": 7}\n", "go\n", "{\"prompt\":\"half"] {
            let error = CallApprover::listen(reply.as_bytes(), &Interrupt::new(), None).unwrap_err();
            assert!(
                error.contains("prompt") || error.contains("ended"),
                "{reply}: {error}"
            );
        }
    }
}
