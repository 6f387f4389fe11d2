//! The loop with a scripted model and real tools.

mod endings;
mod long_run;
mod messages;
mod mistakes;
mod samples;

use std::num::NonZeroU32;

use serde_json::{Value, json};

use super::{Ending, Run, Settings, run};
use crate::conversation::{Arguments, Block, Message, StopReason, ToolCall, Turn, Usage};
use crate::events::testing::Sink;
use crate::inbox::{Inbox, PersonMessage};
use crate::interrupt::Interrupt;
use crate::provider::protocol::ToolCalls;
use crate::provider::{ModelInfo, Progress, Provider, ProviderError, Request};
use crate::session::{Head, Origin, Session, Store};
use crate::tools::{Permission, Root, Toolbox};

/// The messages of each request.
type Seen = Vec<Vec<Message>>;

/// Answers by a function of the number of the request, from 0, and its messages.
struct Fake<F> {
    answer: F,
    seen: Seen,
    info: ModelInfo,
}

impl<F: FnMut(usize, &[Message]) -> Result<Turn, ProviderError>> Provider for Fake<F> {
    fn turn(
        &mut self,
        request: Request<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
        _interrupt: &Interrupt,
    ) -> Result<Turn, ProviderError> {
        let number = self.seen.len();
        if is_for_summary(request.messages) {
            progress(Progress::Retry {
                attempt: 2,
                delay_ms: 0,
                reason: "a summary takes long",
            });
        }
        self.seen.push(request.messages.to_vec());
        let answer = (self.answer)(number, request.messages);
        if let Err(ProviderError::Empty(_)) = answer {
            progress(Progress::Empty(&used(text_turn(""), 1000, 0.0)));
        }
        answer
    }

    fn set_tool_calls(&mut self, form: ToolCalls) {
        self.info.tool_calls = form;
    }

    fn model(&self) -> &ModelInfo {
        &self.info
    }
}

/// Returns whether the model is asked for a summary of turns that will be dropped.
fn is_for_summary(messages: &[Message]) -> bool {
    matches!(messages.last(), Some(Message::User { text }) if text.contains("sum up in at most"))
}

/// A workspace and everything that a run needs.
struct Scene {
    dir: tempfile::TempDir,
    task: String,
    settings: Settings,
    window: Option<u64>,
    priced: bool,
    permission: Permission,
    interrupt: Interrupt,
    inbox: Inbox,
    origin: Origin,
    tool_calls: ToolCalls,
}

struct Played {
    ending: Ending,
    seen: Seen,
    events: Vec<Value>,
}

impl Played {
    fn events<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["type"] == kind)
    }
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let snapshots = dir.path().join("snapshots");
        Self {
            dir,
            task: "Do the task.".to_owned(),
            settings: Settings {
                snapshots: Some(snapshots),
                ..Settings::default()
            },
            window: None,
            priced: true,
            permission: Permission::WorkspaceWrite,
            interrupt: Interrupt::new(),
            inbox: Inbox::default(),
            origin: Origin::New,
            tool_calls: ToolCalls::Native,
        }
    }

    fn settings(change: impl FnOnce(&mut Settings)) -> Self {
        let mut scene = Self::new();
        change(&mut scene.settings);
        scene
    }

    fn turns(turns: u32) -> Self {
        Self::settings(|settings| settings.limits.turns = NonZeroU32::new(turns))
    }

    fn work(&self) -> std::path::PathBuf {
        self.dir.path().join("work")
    }

    fn store(&self) -> Store {
        Store::at(self.dir.path().join("sessions"))
    }

    fn play(&self, answer: impl FnMut(usize, &[Message]) -> Result<Turn, ProviderError>) -> Played {
        let root = Root::open(&self.work(), false).unwrap();
        let cwd = root.path().display().to_string();
        let head = Head::new(cwd, "fake".to_owned(), "fake".to_owned(), "You are.".to_owned());
        let mut session = Session::open(Some(&self.store()), self.origin, head).unwrap();
        let prompt = (self.origin == Origin::New).then(|| self.task.clone());
        session.ask(prompt, None).unwrap();
        let tools = Toolbox::new(root, self.permission);
        let (events, journal) = Sink::journal();
        let mut provider = Fake {
            answer,
            seen: Vec::new(),
            info: ModelInfo {
                tool_calls: self.tool_calls,
                model: "fake".to_owned(),
                context_window: self.window,
                priced: self.priced,
            },
        };
        let ending = run(Run {
            provider: &mut provider,
            tools: &tools,
            journal: &journal,
            interrupt: &self.interrupt,
            session: &mut session,
            settings: &self.settings,
            inbox: &self.inbox,
        });
        let text = events.text();
        Played {
            ending,
            seen: provider.seen,
            events: text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
        }
    }

    /// Like [`Scene::play`], with these answers one after the other.
    fn play_turns(&self, turns: Vec<Turn>) -> Played {
        let mut turns = turns.into_iter();
        self.play(move |_, _| {
            turns
                .next()
                .ok_or_else(|| ProviderError::Diverged("no more".to_owned()))
        })
    }
}

fn text_turn(text: &str) -> Turn {
    Turn {
        blocks: vec![Block::text(text)],
        ..Turn::default()
    }
}

fn calls(calls: &[(&str, Value)]) -> Turn {
    // Ids are unique in a conversation.
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let blocks = calls.iter().map(|(tool, input)| {
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Block::ToolCall(ToolCall::new(format!("call_{number}"), *tool, input.clone()))
    });
    Turn {
        blocks: blocks.collect(),
        stop: StopReason::ToolUse,
        ..Turn::default()
    }
}

fn sh(command: &str) -> Turn {
    calls(&[("run_command", json!({"command": command}))])
}

fn used(turn: Turn, input_tokens: u64, cost_usd: f64) -> Turn {
    Turn {
        usage: Usage {
            input_tokens,
            ..Usage::default()
        },
        counted: true,
        cost_usd: Some(cost_usd),
        ..turn
    }
}

/// Returns the text of the last user message.
fn last_user(messages: &[Message]) -> &str {
    match messages.last() {
        Some(Message::User { text }) => text,
        other => panic!("no words: {other:?}"),
    }
}

const REPORT: &str = "I looked at everything and there is nothing to change.";
