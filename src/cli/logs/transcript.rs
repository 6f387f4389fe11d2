//! Formats sessions as one text with related lines together. Each block names its session.

use std::collections::HashMap;

use vik_base::report::date_time;
use vik_core::event::LogLine;
use vik_core::ids::AttemptId;
use vik_store::AttemptRecord;
use vik_text::transcript::{Entry, Importance, program_output, reasoning};
use vik_text::{Line, TextStyle, one_line};

use super::scripts::ScriptRun;
use super::style::OutputStyle;

/// A token count is printed again once it has grown by at least this number and by half.
const TOKENS_STEP: u64 = 20_000;

/// The state of the transcript so far.
#[derive(Debug)]
pub struct Transcript {
    paper: OutputStyle,
    sessions: HashMap<AttemptId, SessionState>,
    /// The session of the last event.
    last: Option<AttemptId>,
}

/// The printed state of one session.
#[derive(Debug, Default)]
struct SessionState {
    /// The labels of calls without a result.
    calls: HashMap<String, String>,
    /// The call whose lines are the last printed ones.
    open: Option<String>,
    tokens: u64,
    /// Whether the heading with agent, date and title was printed.
    has_heading: bool,
}

impl Transcript {
    /// Creates an empty transcript.
    pub fn new(paper: OutputStyle) -> Self {
        Self {
            paper,
            sessions: HashMap::new(),
            last: None,
        }
    }

    /// Returns the text that a line of a session's log adds.
    pub fn line(&mut self, record: &AttemptRecord, line: &[u8]) -> String {
        self.block(record, |session, paper| session.line(paper, line))
    }

    /// Returns the text of a script that ran around the agent: its name, its failure if it has
    /// failed, and its output.
    pub fn script(&mut self, record: &AttemptRecord, script: &ScriptRun, output: &str) -> String {
        self.block(record, |session, paper| {
            session.open = None;
            let output = program_output(output, script.failure.is_some(), paper.full);
            let (style, heading) = match &script.failure {
                Some(reason) => (TextStyle::Red, format!("{} failed: {reason}", script.name)),
                None if output.is_empty() => return None,
                None => (TextStyle::Bold, script.name.clone()),
            };
            let heading = Line::block(style, &heading).into_iter();
            let lines = heading.chain(output.into_iter().map(|line| line.indented(2)));
            Some(paper.event(&paper.time(script.started_at), (style, '$'), lines.collect()))
        })
    }

    fn block(
        &mut self,
        record: &AttemptRecord,
        body: impl FnOnce(&mut SessionState, OutputStyle) -> Option<String>,
    ) -> String {
        let id = record.session_id;
        let session = self.sessions.entry(id).or_default();
        if self.last != Some(id) {
            // The last lines of this session are not directly above.
            session.open = None;
        }
        let Some(body) = body(session, self.paper) else {
            return String::new();
        };
        let mut out = String::new();
        if self.last != Some(id) {
            if self.last.is_some() {
                out.push('\n');
            }
            let heading = if std::mem::replace(&mut session.has_heading, true) {
                vec![short(record)]
            } else {
                heading(record)
            };
            out.push_str(&self.paper.lines(heading));
        }
        self.last = Some(id);
        out.push_str(&body);
        out
    }
}

impl SessionState {
    fn line(&mut self, paper: OutputStyle, line: &[u8]) -> Option<String> {
        let Ok(line) = serde_json::from_slice::<LogLine>(line) else {
            let text = one_line(&String::from_utf8_lossy(line), 200);
            return Some(paper.event("", (TextStyle::Dim, '?'), vec![Line::of(TextStyle::Dim, &text)]));
        };
        let mut open = None;
        let (mark, lines) = match Entry::of(line.event) {
            Entry::Usage { tokens, line } => {
                let is_significant = tokens >= self.tokens.saturating_add(TOKENS_STEP.max(self.tokens / 2));
                if !is_significant && !paper.full {
                    return None;
                }
                self.tokens = tokens;
                ((TextStyle::Dim, '·'), vec![line])
            }
            Entry::Message(text) => ((TextStyle::Plain, ' '), Line::block(TextStyle::Plain, &text)),
            Entry::Reasoning(text) => {
                let lines = reasoning(&text, paper.full);
                if lines.is_empty() {
                    return None;
                }
                ((TextStyle::Dim, '~'), lines)
            }
            Entry::Note(note) if note.importance == Importance::Detail && !paper.full => return None,
            Entry::Note(note) => (note.mark, note.lines),
            Entry::Call(call) => {
                self.calls.insert(call.id.clone(), call.label());
                let lines = call.lines(paper.full);
                open = Some(call.id);
                ((TextStyle::Cyan, '→'), lines)
            }
            Entry::Result(result) => {
                let label = self.calls.remove(&result.id);
                if self.open.as_ref() == Some(&result.id) {
                    self.open = None;
                    let (mark, lines) = result.lines(None, paper.full);
                    return Some(paper.below(mark, lines));
                }
                result.lines(Some(label.as_deref().unwrap_or("a tool")), paper.full)
            }
        };
        self.open = open;
        let time = line.at.map(|at| paper.time(at));
        Some(paper.event(&time.unwrap_or_default(), mark, lines))
    }
}

/// Returns the full heading of a session.
fn heading(record: &AttemptRecord) -> Vec<Line> {
    let mut agent = record.agent.to_string();
    let details: Vec<_> = Some(record.runtime.as_str())
        .filter(|runtime| *runtime != agent)
        .into_iter()
        .chain(record.model.as_deref())
        .map(|part| one_line(part, 60))
        .collect();
    if !details.is_empty() {
        agent = format!("{agent} ({})", details.join(", "));
    }
    let first = short(record).and(
        TextStyle::Plain,
        &format!(" · {agent} · {}", date_time(record.started_at)),
    );
    let title = Line::of(TextStyle::Dim, &one_line(&record.issue_title, 100)).indented(3);
    vec![first, title]
}

/// Returns the short heading of a session that was introduced before.
fn short(record: &AttemptRecord) -> Line {
    Line::of(
        TextStyle::Bold,
        &format!(
            "── {} {} · attempt {}",
            one_line(record.issue_id.as_str(), 40),
            record.stage,
            record.attempt
        ),
    )
}
