//! The effects of keys.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use vik_api::{Action, ApprovalView, QuestionView};
use vik_core::approval::Answer;
use vik_core::message::NewMessage;
use vik_core::scheduler;

use super::{App, Mode, Screen, Tab};
use crate::action;
use crate::msg::Command;

/// The maximum length of a message, in characters.
const MAX_MESSAGE_CHARS: usize = 4_000;

impl App {
    pub(super) fn on_key(&mut self, key: KeyEvent, commands: &mut Vec<Command>) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            commands.push(Command::Quit);
            return;
        }
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Filter(before) => self.key_in_filter(key, control, before),
            Mode::Help(top) => self.key_in_help(key, top),
            Mode::Confirm(action) => self.key_in_confirm(key, action, commands),
            Mode::Answer(yes, approval, text) => {
                self.key_in_answer(key, control, (yes, approval, text), commands);
            }
            Mode::Question(question, text) => {
                self.key_in_question(key, control, (question, text), commands);
            }
            Mode::Message(message) => self.key_in_message(key, control, message, commands),
            // Alt and Control change the meaning of a letter, so such a key is ignored.
            Mode::Normal if control || key.modifiers.contains(KeyModifiers::ALT) => {
                self.control_key(key, commands);
            }
            Mode::Normal => self.key(key.code, commands),
        }
    }

    pub(super) fn on_paste(&mut self, pasted: &str) {
        let plain = pasted.chars().map(|c| if c.is_control() { ' ' } else { c });
        match &mut self.mode {
            Mode::Filter(_) => {
                self.filter.extend(plain.take(200));
                self.arrange_tables();
            }
            Mode::Answer(_, _, text) | Mode::Question(_, text) => text.extend(plain.take(MAX_MESSAGE_CHARS)),
            Mode::Message(message) => {
                let lines = pasted.replace("\r\n", "\n").replace('\r', "\n");
                let plain = lines
                    .chars()
                    .map(|c| if c.is_control() && c != '\n' { ' ' } else { c });
                message.text.extend(plain.take(MAX_MESSAGE_CHARS));
            }
            _ => {}
        }
    }

    fn key_in_filter(&mut self, key: KeyEvent, control: bool, before: String) {
        let mut stay = true;
        match key.code {
            KeyCode::Enter => stay = false,
            KeyCode::Esc => {
                // Restores the filter from before the edit, or clears an unchanged one.
                let changed = self.filter != before;
                self.filter = if changed { before.clone() } else { String::new() };
                stay = false;
            }
            KeyCode::Up => self.step(-1),
            KeyCode::Down => self.step(1),
            code => edit(&mut self.filter, code, control),
        }
        self.arrange_tables();
        if stay {
            self.mode = Mode::Filter(before);
        }
    }

    /// Edits the message of an approval; it may stay empty.
    fn key_in_answer(
        &mut self,
        key: KeyEvent,
        control: bool,
        (yes, approval, mut text): (bool, Box<ApprovalView>, String),
        commands: &mut Vec<Command>,
    ) {
        match key.code {
            KeyCode::Enter => {
                let message = Some(text).filter(|text| !text.trim().is_empty());
                let answer = match yes {
                    true => Answer::Approve { message },
                    false => Answer::denied(message),
                };
                return self.steer(action::answer(*approval, answer), commands);
            }
            KeyCode::Esc => return self.notify("no answer was sent".to_owned()),
            code => edit(&mut text, code, control),
        }
        self.mode = Mode::Answer(yes, approval, text);
    }

    /// Edits the answer to a question; the number of a choice stands for its text.
    fn key_in_question(
        &mut self,
        key: KeyEvent,
        control: bool,
        (question, mut text): (Box<QuestionView>, String),
        commands: &mut Vec<Command>,
    ) {
        match key.code {
            KeyCode::Enter if text.trim().is_empty() => {
                return self.notify("an empty answer was not sent".to_owned());
            }
            KeyCode::Enter => {
                return self.steer(action::answer_question(*question, text), commands);
            }
            KeyCode::Esc => return self.notify("no answer was sent".to_owned()),
            code => edit(&mut text, code, control),
        }
        self.mode = Mode::Question(question, text);
    }

    /// Edits a message to the agent of an issue.
    fn key_in_message(
        &mut self,
        key: KeyEvent,
        control: bool,
        mut message: NewMessage,
        commands: &mut Vec<Command>,
    ) {
        match key.code {
            KeyCode::Enter if message.text.trim().is_empty() => {
                return self.notify("an empty message was not sent".to_owned());
            }
            KeyCode::Enter => {
                return self.steer(scheduler::Command::SendMessage(message).into(), commands);
            }
            KeyCode::Esc => return self.notify("no message was sent".to_owned()),
            KeyCode::Tab => message.interrupt = !message.interrupt,
            code => edit(&mut message.text, code, control),
        }
        self.mode = Mode::Message(message);
    }

    fn start_answer(&mut self, yes: bool) {
        match self.current_approval() {
            Some(approval) => self.mode = Mode::Answer(yes, Box::new(approval.clone()), String::new()),
            None => self.notify("no pending request here; press 5 to list requests".to_owned()),
        }
    }

    fn key_in_help(&mut self, key: KeyEvent, top: usize) {
        let last = crate::view::help_scroll(self.size);
        let top = match key.code {
            KeyCode::Down | KeyCode::Char('j') => top + 1,
            KeyCode::Up | KeyCode::Char('k') => top.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => top + 10,
            KeyCode::PageUp => top.saturating_sub(10),
            // Any other key closes it.
            _ => return,
        };
        self.mode = Mode::Help(top.min(last));
    }

    fn key_in_confirm(&mut self, key: KeyEvent, action: Action, commands: &mut Vec<Command>) {
        match key.code {
            KeyCode::Char('y' | 'Y') => self.steer(action, commands),
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => self.notify("no action taken".to_owned()),
            // An unrelated key neither confirms nor closes the question.
            _ => self.mode = Mode::Confirm(action),
        }
    }

    fn control_key(&mut self, key: KeyEvent, commands: &mut Vec<Command>) {
        match key.code {
            KeyCode::Char('l') => commands.push(Command::Redraw),
            KeyCode::Char('d') => self.half_page(1, commands),
            KeyCode::Char('R' | 'u') => self.half_page(-1, commands),
            KeyCode::Char('f') => self.page(1, commands),
            KeyCode::Char('b') => self.page(-1, commands),
            KeyCode::Home => self.jump(0, commands),
            KeyCode::End => self.jump(usize::MAX, commands),
            _ => {}
        }
    }

    fn key(&mut self, code: KeyCode, commands: &mut Vec<Command>) {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => self.back(code == KeyCode::Esc, commands),
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help(0),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1, commands),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1, commands),
            KeyCode::PageUp => self.page(-1, commands),
            KeyCode::PageDown | KeyCode::Char(' ') => self.page(1, commands),
            KeyCode::Home | KeyCode::Char('g') => self.jump(0, commands),
            KeyCode::End | KeyCode::Char('G') => self.jump(usize::MAX, commands),
            KeyCode::Enter => self.open_selected(commands),
            KeyCode::Char('d') => self.open_diff(commands),
            KeyCode::Char('e') => self.open_issue(),
            KeyCode::Char('c') => {
                self.with_issue(|app, issue| {
                    if app.is_finished(&issue) {
                        app.notify_error(format!("issue {issue} is finished: nothing to cancel"));
                    } else {
                        app.mode = Mode::Confirm(scheduler::Command::Cancel(issue).into());
                    }
                });
            }
            KeyCode::Char('R' | 'u') => {
                if let Some(issue) = self.target_issue() {
                    self.steer(action::retry(issue), commands);
                }
            }
            KeyCode::Char('A') => match self.current_question() {
                Some(question) => self.mode = Mode::Question(Box::new(question.clone()), String::new()),
                None => self.notify("no open question here".to_owned()),
            },
            KeyCode::Char('m') => {
                if let Some(issue) = self.target_issue() {
                    self.mode = Mode::Message(NewMessage {
                        issue,
                        text: String::new(),
                        interrupt: false,
                    });
                }
            }
            KeyCode::Char('T') => self.with_issue(|app, issue| {
                app.mode = Mode::Confirm(match app.is_taken_over(&issue) {
                    true => action::hand_back(issue),
                    false => action::take_over(issue),
                });
            }),
            KeyCode::Char('a') => self.start_answer(true),
            KeyCode::Char('x') => self.start_answer(false),
            KeyCode::Char('p') => self.pause_all(commands),
            KeyCode::Char('P') => self.pause_issue(commands),
            KeyCode::Char('r') => self.refresh(commands),
            _ => match self.screens.last_mut() {
                Some(_) => self.screen_key(code),
                None => self.list_key(code, commands),
            },
        }
    }

    fn list_key(&mut self, code: KeyCode, commands: &mut Vec<Command>) {
        let tabs = self.tabs();
        let at = tabs.iter().position(|&tab| tab == self.tab).unwrap_or(0);
        match code {
            KeyCode::Char('1') => self.show_tab(Tab::Sessions, commands),
            KeyCode::Char('2') => self.show_tab(Tab::Parked, commands),
            KeyCode::Char('3') => self.show_tab(Tab::Waiting, commands),
            KeyCode::Char('4') => self.show_tab(Tab::Issues, commands),
            KeyCode::Char('5') => self.show_tab(Tab::Approvals, commands),
            KeyCode::Char('6') if tabs.contains(&Tab::Workers) => self.show_tab(Tab::Workers, commands),
            KeyCode::Tab | KeyCode::Right => self.show_tab(tabs[(at + 1) % tabs.len()], commands),
            KeyCode::BackTab | KeyCode::Left => {
                self.show_tab(tabs[(at + tabs.len() - 1) % tabs.len()], commands);
            }
            KeyCode::Char('/') => self.mode = Mode::Filter(self.filter.clone()),
            KeyCode::Char('s') => self.sort(false),
            KeyCode::Char('S') => self.sort(true),
            _ => {}
        }
    }

    fn screen_key(&mut self, code: KeyCode) {
        match self.screens.last_mut() {
            Some(Screen::Transcript(screen)) => {
                if let KeyCode::Char('t') | KeyCode::Tab = code {
                    screen.toggle_fold();
                }
            }
            Some(Screen::Diff(screen)) => match code {
                KeyCode::Char('n' | ']') | KeyCode::Tab => screen.jump(true),
                KeyCode::Char('N' | '[') | KeyCode::BackTab => screen.jump(false),
                KeyCode::Right | KeyCode::Char('l') => screen.skip = (screen.skip + 8).min(4_000),
                KeyCode::Left | KeyCode::Char('h') => screen.skip = screen.skip.saturating_sub(8),
                _ => {}
            },
            _ => {}
        }
    }

    /// Closes the topmost screen; quits if there is none.
    fn back(&mut self, escape: bool, commands: &mut Vec<Command>) {
        if self.screens.pop().is_some() {
            return;
        }
        if escape && !self.filter.is_empty() {
            self.filter.clear();
            self.arrange_tables();
        } else {
            commands.push(Command::Quit);
        }
    }

    fn move_by(&mut self, lines: isize, commands: &mut Vec<Command>) {
        match self.screens.last_mut() {
            Some(Screen::Transcript(screen)) => screen.scroll_by(lines, commands),
            Some(Screen::Diff(screen)) => screen.scroll.scroll_by(lines),
            Some(Screen::Issue(screen)) => screen.scroll.scroll_by(lines),
            None => self.step(lines),
        }
    }

    fn rows(&self) -> isize {
        match self.screens.last() {
            Some(Screen::Transcript(screen)) => screen.scroll.page(),
            Some(Screen::Diff(screen)) => screen.scroll.page(),
            Some(Screen::Issue(screen)) => screen.scroll.page(),
            None => isize::try_from(super::list_rows(self).saturating_sub(1).max(1)).unwrap_or(1),
        }
    }

    fn page(&mut self, direction: isize, commands: &mut Vec<Command>) {
        let rows = self.rows();
        self.move_by(direction * rows, commands);
    }

    fn half_page(&mut self, direction: isize, commands: &mut Vec<Command>) {
        let rows = (self.rows() / 2).max(1);
        self.move_by(direction * rows, commands);
    }

    fn jump(&mut self, line: usize, commands: &mut Vec<Command>) {
        match self.screens.last_mut() {
            Some(Screen::Transcript(screen)) => screen.scroll_to(line, commands),
            Some(Screen::Diff(screen)) => screen.scroll.scroll_to(line),
            Some(Screen::Issue(screen)) => screen.scroll.scroll_to(line),
            None => self.select(line),
        }
    }

    fn step(&mut self, steps: isize) {
        with_table!(self, (&mut) table => table.step(steps));
    }

    fn select(&mut self, place: usize) {
        with_table!(self, (&mut) table => table.select(place));
    }

    fn sort(&mut self, reverse: bool) {
        let columns = self.size.0;
        with_table!(self, (&mut) table => match reverse {
            true => table.sort_reverse(),
            false => table.sort_next(columns),
        });
        self.arrange_tables();
    }

    fn pause_all(&mut self, commands: &mut Vec<Command>) {
        match self.status.as_ref().map(|status| status.paused) {
            // The status is unknown, so neither pause nor resume can be chosen.
            None => self.notify_error("the daemon has not answered yet".to_owned()),
            Some(true) => self.steer(scheduler::Command::Resume(None).into(), commands),
            Some(false) => self.steer(scheduler::Command::Pause(None).into(), commands),
        }
    }

    fn pause_issue(&mut self, commands: &mut Vec<Command>) {
        if let Some(issue) = self.target_issue() {
            let command = match self.paused_issues().contains(&issue) {
                true => scheduler::Command::Resume(Some(issue)),
                false => scheduler::Command::Pause(Some(issue)),
            };
            self.steer(command.into(), commands);
        }
    }

    fn refresh(&mut self, commands: &mut Vec<Command>) {
        self.steer(Action::Refresh, commands);
        if let Some(Screen::Diff(screen)) = self.screens.last_mut() {
            screen.loading = true;
            commands.push(Command::Diff(screen.issue_id.clone()));
        }
    }

    fn steer(&mut self, action: Action, commands: &mut Vec<Command>) {
        self.set_notice(format!("{} …", action::progress_text(&action)), false, 60);
        commands.push(Command::Steer(action));
    }
}

/// Applies a key to a text that is being edited.
fn edit(text: &mut String, code: KeyCode, control: bool) {
    match code {
        KeyCode::Char('u') if control => text.clear(),
        KeyCode::Char('w') if control => {
            let end = text.trim_end().rfind(' ').map_or(0, |at| at + 1);
            text.truncate(end);
        }
        KeyCode::Char(c) if !control => text.push(c),
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
}
