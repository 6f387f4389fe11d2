//! The transcript of a session, from its session log.

mod events;
mod layout;

use std::collections::HashMap;

use jiff::tz::TimeZone;
use vik_api::EventsPage;
use vik_core::ids::IssueId;
use vik_text::transcript::Entry as Content;

use super::scroll::Scroll;
use crate::msg::{Command, EventsRequest};
use crate::table::CellText;

use events::Item;

/// The number of events in one request.
const EVENTS_PER_PAGE: u64 = 500;
/// The maximum number of events that are kept: the oldest are dropped and can be loaded again.
const MAX_ITEMS: usize = 8_000;

/// The transcript of one session.
pub(crate) struct Transcript {
    pub(crate) session_id: String,
    pub(crate) issue_id: IssueId,
    /// The stage and the agent, for display.
    pub(crate) label: String,
    pub(crate) error: Option<String>,
    /// Whether the last event is loaded.
    pub(crate) ended: bool,
    /// Whether a page was received yet.
    pub(crate) loaded: bool,
    /// Whether tool calls are shown with input and output, and reasoning in full.
    pub(crate) unfolded: bool,
    /// Whether the newest line stays visible.
    pub(crate) tail: bool,
    pub(crate) scroll: Scroll,
    pub(crate) lines: Vec<Vec<CellText>>,
    items: Vec<Item>,
    entries: Vec<Entry>,
    /// The first line of each entry.
    starts: Vec<usize>,
    /// The entry of each call.
    calls: HashMap<String, usize>,
    /// The first entry without lines or with outdated ones.
    stale_from: usize,
    layout_columns: usize,
    pub(super) busy: bool,
    /// Whether the running request is for an earlier page.
    pub(super) earlier_busy: bool,
    time_zone: TimeZone,
}

/// Events that are shown together: an event, and for a tool call its result.
struct Entry {
    item: usize,
    result: Option<usize>,
}

impl Transcript {
    /// `events` is the number of events in the log, if it is known.
    pub(super) fn new(
        session_id: &str,
        issue_id: &IssueId,
        label: String,
        events: u64,
        time_zone: TimeZone,
        commands: &mut Vec<Command>,
    ) -> Self {
        let mut new = Self {
            session_id: session_id.to_owned(),
            issue_id: issue_id.clone(),
            label,
            error: None,
            ended: false,
            loaded: false,
            unfolded: false,
            tail: true,
            scroll: Scroll::default(),
            lines: Vec::new(),
            items: Vec::new(),
            entries: Vec::new(),
            starts: Vec::new(),
            calls: HashMap::new(),
            stale_from: 0,
            layout_columns: 0,
            busy: false,
            earlier_busy: false,
            time_zone,
        };
        new.request_page(events.saturating_sub(EVENTS_PER_PAGE), commands);
        new
    }

    fn request_page(&mut self, after: u64, commands: &mut Vec<Command>) {
        self.busy = true;
        commands.push(Command::Events(EventsRequest {
            session_id: self.session_id.clone(),
            after,
            limit: EVENTS_PER_PAGE as usize,
        }));
    }

    /// Requests new events, unless a request is running or the log has ended.
    pub(super) fn request_newer(&mut self, commands: &mut Vec<Command>) {
        if !self.busy && !self.ended {
            self.request_page(self.last_seq(), commands);
        }
    }

    /// Requests the page before the first event, if there is one.
    fn request_earlier(&mut self, commands: &mut Vec<Command>) {
        let first = self.first_seq();
        if first > 1 && !self.busy {
            self.busy = true;
            self.earlier_busy = true;
            let after = (first - 1).saturating_sub(EVENTS_PER_PAGE);
            commands.push(Command::Events(EventsRequest {
                session_id: self.session_id.clone(),
                after,
                limit: (first - 1 - after) as usize,
            }));
        }
    }

    fn last_seq(&self) -> u64 {
        self.items.last().map_or(0, |item| item.seq)
    }

    /// Returns the `seq` of the first loaded event; 0 if there is none.
    pub(crate) fn first_seq(&self) -> u64 {
        self.items.first().map_or(0, |item| item.seq)
    }

    /// Returns the number of loaded events.
    pub(crate) fn events(&self) -> usize {
        self.items.len()
    }

    /// Handles a page; pages may arrive in any order.
    pub(super) fn on_page(
        &mut self,
        request: &EventsRequest,
        page: &EventsPage,
        commands: &mut Vec<Command>,
    ) {
        self.busy = false;
        self.error = None;
        let earlier = std::mem::take(&mut self.earlier_busy);
        let first_page = !std::mem::replace(&mut self.loaded, true);
        let mut new: Vec<Item> = page
            .events
            .iter()
            .filter_map(|raw| Item::read(raw.get()))
            .collect();
        new.sort_by_key(|item| item.seq);
        let last_received = new.last().map_or(request.after, |item| item.seq);
        if earlier && !self.items.is_empty() {
            let first = self.first_seq();
            new.retain(|item| item.seq < first);
            self.prepend(new);
            return;
        }
        if first_page && page.last_seq.saturating_sub(last_received) > EVENTS_PER_PAGE {
            // The log is longer than expected: show its end.
            self.request_page(page.last_seq - EVENTS_PER_PAGE, commands);
            return;
        }
        let last = self.last_seq();
        new.retain(|item| item.seq > last);
        let has_new = !new.is_empty();
        new.into_iter().for_each(|item| self.push(item));
        self.forget_oldest();
        let is_complete = last_received >= page.last_seq;
        self.ended = page.ended && is_complete;
        if !is_complete && has_new {
            self.request_page(self.last_seq(), commands);
        }
    }

    fn push(&mut self, item: Item) {
        self.items.push(item);
        self.add_entry(self.items.len() - 1);
    }

    /// Adds an entry for an event, or adds the event to the entry of its call.
    fn add_entry(&mut self, at: usize) {
        let entry = self.entries.len();
        match &self.items[at].content {
            Content::Usage { .. } => return,
            Content::Call(call) => {
                self.calls.insert(call.id.clone(), entry);
            }
            Content::Result(result) => {
                if let Some(&entry) = self.calls.get(&result.id) {
                    self.entries[entry].result = Some(at);
                    self.stale_from = self.stale_from.min(entry);
                    return;
                }
            }
            Content::Message(_) | Content::Reasoning(_) | Content::Note(_) => {}
        }
        self.entries.push(Entry {
            item: at,
            result: None,
        });
        self.stale_from = self.stale_from.min(entry);
    }

    fn prepend(&mut self, mut earlier: Vec<Item>) {
        let was = self.entries.len();
        let anchor = self.anchor();
        earlier.append(&mut self.items);
        self.items = earlier;
        self.rebuild_entries();
        let more = self.entries.len().saturating_sub(was);
        self.layout_all();
        self.restore_anchor(anchor.map(|(entry, line)| (entry + more, line)));
    }

    fn forget_oldest(&mut self) {
        if self.items.len() <= MAX_ITEMS {
            return;
        }
        let was = self.entries.len();
        let anchor = self.anchor();
        // Drops many at once, so that it does not happen for every event.
        self.items.drain(..self.items.len() - MAX_ITEMS * 3 / 4);
        self.rebuild_entries();
        let less = was.saturating_sub(self.entries.len());
        self.layout_all();
        self.restore_anchor(anchor.map(|(entry, line)| (entry.saturating_sub(less), line)));
    }

    fn rebuild_entries(&mut self) {
        self.entries.clear();
        self.calls.clear();
        self.stale_from = 0;
        (0..self.items.len()).for_each(|at| self.add_entry(at));
    }

    /// Returns the entry at the top of the window, and the line within it.
    fn anchor(&self) -> Option<(usize, usize)> {
        if self.tail {
            return None;
        }
        let entry = self
            .starts
            .partition_point(|&start| start <= self.scroll.top)
            .checked_sub(1)?;
        Some((entry, self.scroll.top - self.starts[entry]))
    }

    /// Scrolls to the former top; without an anchor to the end.
    fn restore_anchor(&mut self, anchor: Option<(usize, usize)>) {
        self.scroll.fit(self.lines.len(), self.scroll.rows);
        match anchor {
            None if self.tail => self.scroll.scroll_to(usize::MAX),
            None => {}
            Some((entry, line)) => {
                let start = self.starts.get(entry).copied().unwrap_or(self.lines.len());
                let end = self.starts.get(entry + 1).copied().unwrap_or(self.lines.len());
                self.scroll
                    .scroll_to((start + line).min(end.saturating_sub(1).max(start)));
            }
        }
    }

    fn layout_all(&mut self) {
        self.stale_from = 0;
        self.layout_stale();
    }

    fn layout_stale(&mut self) {
        let from = self.stale_from.min(self.entries.len());
        if let Some(&start) = self.starts.get(from) {
            self.lines.truncate(start);
        }
        self.starts.truncate(from);
        for at in from..self.entries.len() {
            self.starts.push(self.lines.len());
            let entry = &self.entries[at];
            let result = entry.result.and_then(|at| self.items.get(at));
            layout::layout_item(
                &self.items[entry.item],
                result,
                &layout::Page {
                    columns: self.layout_columns,
                    unfolded: self.unfolded,
                    time_zone: &self.time_zone,
                },
                &mut self.lines,
            );
        }
        self.stale_from = self.entries.len();
    }

    /// Wraps new entries, or all of them if the width has changed.
    pub(super) fn lay_out(&mut self, columns: usize, rows: usize) {
        let anchor = self.anchor();
        if columns != self.layout_columns {
            self.layout_columns = columns;
            self.stale_from = 0;
        }
        let changed = self.stale_from < self.entries.len() || self.starts.len() != self.entries.len();
        if changed {
            self.layout_stale();
        }
        let other_window = self.scroll.rows != rows;
        self.scroll.rows = rows;
        if changed || other_window {
            self.restore_anchor(anchor);
        }
    }

    /// Shows tool calls in full, or as one line each.
    pub(super) fn toggle_fold(&mut self) {
        let anchor = self.anchor();
        self.unfolded = !self.unfolded;
        self.layout_all();
        self.restore_anchor(anchor);
    }

    pub(super) fn scroll_by(&mut self, lines: isize, commands: &mut Vec<Command>) {
        self.scroll.scroll_by(lines);
        self.scrolled(commands);
    }

    pub(super) fn scroll_to(&mut self, line: usize, commands: &mut Vec<Command>) {
        self.scroll.scroll_to(line);
        self.scrolled(commands);
    }

    fn scrolled(&mut self, commands: &mut Vec<Command>) {
        self.tail = self.scroll.at_end();
        if self.scroll.top == 0 && self.first_seq() > 1 {
            self.tail = false;
            self.request_earlier(commands);
        }
    }
}
