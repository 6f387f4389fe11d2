//! Asking before each call, natively: `vex exec --ask`. vex decides nothing by itself there, and a vex that does not know the
//! flag ends with a usage error.

use serde::Deserialize;
use vik_core::approval::Call;

use crate::ask::{Ask, Verdict, Word, quoted};
use crate::wire::{self, Text};

/// The words of one session.
#[derive(Debug)]
pub(super) struct Asking {
    words: Vec<Word>,
    closed: bool,
}

/// An event `ask`.
#[derive(Deserialize)]
struct Question<'a> {
    #[serde(borrow)]
    ask: Text<'a>,
    #[serde(borrow)]
    tool: Text<'a>,
    #[serde(borrow)]
    command: Option<Text<'a>>,
    #[serde(default, borrow)]
    paths: Vec<Text<'a>>,
    writes: bool,
}

impl Asking {
    pub(super) fn new(prompt: &str) -> Self {
        Self {
            words: vec![Word::Send(format!(r#"{{"prompt":{}}}"#, quoted(prompt)))],
            closed: false,
        }
    }

    pub(super) fn take(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.words)
    }

    pub(super) fn hear(&mut self, line: &str) {
        let Some(question) = wire::object::<Question<'_>>(line) else {
            let why = "a question of vex is not understood".to_owned();
            return self.words.push(Word::Broken(why));
        };
        let id = question.ask.0.into_owned();
        self.words.push(Word::Ask(Ask {
            call: Call {
                tool: question.tool.0.into_owned(),
                command: question.command.map(|command| command.0.into_owned()),
                paths: question
                    .paths
                    .into_iter()
                    .map(|path| path.0.into_owned())
                    .collect(),
            },
            writes: question.writes,
            answered_by: head(&id),
            id,
        }));
    }

    pub(super) fn done(&mut self) {
        if !self.closed {
            self.closed = true;
            self.words.push(Word::Close);
        }
    }
}

fn head(id: &str) -> String {
    format!(r#"{{"ask":{}"#, quoted(id))
}

/// The line that gives a verdict.
pub(super) fn answer(ask: &Ask, verdict: Verdict<'_>) -> String {
    let head = &ask.answered_by;
    match verdict {
        Verdict::Allow => format!(r#"{head},"decision":"allow"}}"#),
        Verdict::Refuse(words) => format!(r#"{head},"decision":"deny","message":{}}}"#, quoted(words)),
    }
}
