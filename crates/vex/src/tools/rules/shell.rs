//! Parses a line for the shell as far as a rule requires: its simple commands and their words.
//!
//! It is conservative, not complete. Parts that only the shell will know (variables, substitutions,
//! patterns of files) are [`Glyph::Any`] in a word; unreadable syntax makes the line unreadable.
//! Commands in substitutions, in subshells and after wrappers such as `sudo`, `env`, `xargs` and
//! `sh -c` are included.

mod redirections;

use std::iter::Peekable;
use std::str::Chars;

use super::wrappers::{self, Wrapped};

/// A character of a word, or a part that only the shell will know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glyph {
    Char(char),
    /// Anything: empty, a part of a word, or several words.
    Any,
}

/// A word without its quotes.
pub(super) type Word = Vec<Glyph>;

/// One command with its words, without redirections and assignments.
#[derive(Clone, Debug, Default)]
pub(super) struct SimpleCommand {
    pub(super) words: Vec<Word>,
    /// It sets variables, or writes to a file by a redirection.
    pub(super) does_more: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct CommandLine {
    pub(super) commands: Vec<SimpleCommand>,
    /// Commands that its wrappers and shells may run.
    pub(super) wrapped: Vec<Vec<Word>>,
    /// A part of it could not be read.
    pub(super) unreadable: bool,
}

/// The maximum depth of lines in lines.
const MAX_DEPTH: usize = 12;
/// Words that precede a command.
const PREFIX_KEYWORDS: [&str; 13] = [
    "!", "{", "}", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "time",
];
/// Words after which a line is unreadable.
const UNSUPPORTED_KEYWORDS: [&str; 7] = ["case", "select", "function", "coproc", "alias", "enable", "hash"];

pub(super) fn read(text: &str) -> CommandLine {
    let mut line = CommandLine::default();
    read_into(text, &mut line, 0);
    line
}

fn read_into(text: &str, line: &mut CommandLine, depth: usize) {
    if depth > MAX_DEPTH {
        line.unreadable = true;
        return;
    }
    let mut reader = ShellReader {
        chars: text.chars().peekable(),
        line,
        depth,
    };
    if reader.list(None).is_none() {
        line.unreadable = true;
    }
}

/// Returns the text of a word, if all of it is known.
pub(super) fn known(word: &[Glyph]) -> Option<String> {
    word.iter()
        .map(|glyph| match glyph {
            Glyph::Char(c) => Some(*c),
            Glyph::Any => None,
        })
        .collect()
}

struct ShellReader<'a> {
    chars: Peekable<Chars<'a>>,
    line: &'a mut CommandLine,
    depth: usize,
}

/// The state of the current command.
#[derive(Default)]
struct CommandBuilder {
    simple: SimpleCommand,
    word: Option<Word>,
    /// The current word contains quotes or escapes, so it is no keyword and no number.
    quoted: bool,
    /// A pattern started in the current word: its remaining part may mean anything.
    open: bool,
    /// The next word belongs to a redirection; the value is whether that writes to a file.
    target: Option<bool>,
    /// The words of a `for` are data.
    is_for: bool,
    /// The ends of the heredocs that start on the next line, and whether they are expanded.
    heredocs: Vec<(String, bool, bool)>,
}

impl CommandBuilder {
    fn glyph(&mut self, glyph: Glyph) {
        let word = self.word.get_or_insert_default();
        if !self.open {
            word.push(glyph);
        }
    }
}

impl ShellReader<'_> {
    /// Reads up to the end, or to the `)` that closes this list. Returns `None` if it is
    /// unreadable.
    fn list(&mut self, close: Option<char>) -> Option<()> {
        let mut now = CommandBuilder::default();
        while let Some(c) = self.chars.next() {
            match c {
                ' ' | '\t' => self.end_word(&mut now)?,
                '\n' => {
                    self.end_command(&mut now)?;
                    for (end, tabs, expands) in std::mem::take(&mut now.heredocs) {
                        self.heredoc(&end, tabs, expands)?;
                    }
                }
                ';' | '|' => self.end_command(&mut now)?,
                '&' if self.chars.peek() == Some(&'>') => {
                    self.end_word(&mut now)?;
                    now.target = Some(true);
                    self.chars.next();
                    self.chars.next_if_eq(&'>');
                }
                '&' => self.end_command(&mut now)?,
                '(' if now.word.is_none() && now.simple.words.is_empty() && now.target.is_none() => {
                    self.nested(|reader| reader.list(Some(')')))?;
                }
                // A function, an array, or a pattern that only some shells support.
                '(' => return None,
                ')' => {
                    self.end_command(&mut now)?;
                    return (close == Some(')') && now.heredocs.is_empty()).then_some(());
                }
                '#' if now.word.is_none() => while self.chars.next_if(|&c| c != '\n').is_some() {},
                '<' | '>' => self.redirection(c, &mut now)?,
                c => self.glyphs(c, &mut now)?,
            }
        }
        self.end_command(&mut now)?;
        (close.is_none() && now.heredocs.is_empty()).then_some(())
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let done = read(self);
        self.depth -= 1;
        done
    }

    /// Adds a character to a word outside of double quotes.
    fn glyphs(&mut self, c: char, now: &mut CommandBuilder) -> Option<()> {
        match c {
            '\\' => match self.chars.next()? {
                '\n' => {}
                c => {
                    now.quoted = true;
                    now.glyph(Glyph::Char(c));
                }
            },
            '\'' => {
                now.quoted = true;
                now.word.get_or_insert_default();
                loop {
                    match self.chars.next()? {
                        '\'' => break,
                        c => now.glyph(Glyph::Char(c)),
                    }
                }
            }
            '"' => {
                now.quoted = true;
                now.word.get_or_insert_default();
                loop {
                    match self.chars.next()? {
                        '"' => break,
                        '\\' => match self.chars.next()? {
                            '\n' => {}
                            c @ ('$' | '`' | '"' | '\\') => now.glyph(Glyph::Char(c)),
                            c => {
                                now.glyph(Glyph::Char('\\'));
                                now.glyph(Glyph::Char(c));
                            }
                        },
                        '$' => self.dollar(now, true)?,
                        '`' => self.backtick(now)?,
                        c => now.glyph(Glyph::Char(c)),
                    }
                }
            }
            '$' => self.dollar(now, false)?,
            '`' => self.backtick(now)?,
            '*' | '?' => now.glyph(Glyph::Any),
            '~' if now.word.is_none() => now.glyph(Glyph::Any),
            // The command `[`, and the braces of a group.
            '[' | '{' | '}'
                if now.word.is_none() && self.chars.peek().is_none_or(|c| c.is_whitespace() || *c == ';') =>
            {
                now.glyph(Glyph::Char(c));
            }
            '[' | '{' => {
                now.glyph(Glyph::Any);
                now.open = true;
            }
            c => now.glyph(Glyph::Char(c)),
        }
        Some(())
    }

    /// Reads an expansion after a `$`.
    fn dollar(&mut self, now: &mut CommandBuilder, in_quotes: bool) -> Option<()> {
        match self.chars.peek().copied() {
            Some('(') => {
                self.chars.next();
                now.glyph(Glyph::Any);
                self.nested(|reader| reader.list(Some(')')))
            }
            Some('{') => {
                self.chars.next();
                now.glyph(Glyph::Any);
                self.nested(|reader| reader.braces(in_quotes))
            }
            // Shells interpret these differently.
            Some('\'' | '"') if !in_quotes => None,
            Some(c) if c == '_' || c.is_ascii_alphanumeric() => {
                while self
                    .chars
                    .next_if(|c| *c == '_' || c.is_ascii_alphanumeric())
                    .is_some()
                {}
                now.glyph(Glyph::Any);
                Some(())
            }
            Some('@' | '*' | '#' | '?' | '-' | '$' | '!') => {
                self.chars.next();
                now.glyph(Glyph::Any);
                Some(())
            }
            _ => {
                now.glyph(Glyph::Char('$'));
                Some(())
            }
        }
    }

    /// Reads the remaining part of `${…}`: only the commands in it matter.
    fn braces(&mut self, in_quotes: bool) -> Option<()> {
        let mut inside = CommandBuilder::default();
        loop {
            match self.chars.next()? {
                '}' => return Some(()),
                // Shells differ in whether it quotes.
                '\'' if in_quotes => return None,
                c => self.glyphs(c, &mut inside)?,
            }
        }
    }

    fn backtick(&mut self, now: &mut CommandBuilder) -> Option<()> {
        let mut inner = String::new();
        loop {
            match self.chars.next()? {
                '`' => break,
                '\\' => match self.chars.next()? {
                    c @ ('`' | '\\' | '$') => inner.push(c),
                    c => inner.extend(['\\', c]),
                },
                c => inner.push(c),
            }
        }
        now.glyph(Glyph::Any);
        read_into(&inner, self.line, self.depth + 1);
        Some(())
    }

    fn end_word(&mut self, now: &mut CommandBuilder) -> Option<()> {
        let quoted = std::mem::take(&mut now.quoted);
        now.open = false;
        let Some(word) = now.word.take() else {
            return Some(());
        };
        if let Some(writes) = now.target.take() {
            let harmless = known(&word).is_some_and(|path| path == "/dev/null");
            now.simple.does_more |= writes && !harmless;
            return Some(());
        }
        if now.is_for {
            return Some(());
        }
        if now.simple.words.is_empty() {
            let text = known(&word).filter(|_| !quoted);
            let text = text.as_deref();
            if text.is_some_and(|text| PREFIX_KEYWORDS.contains(&text)) {
                return Some(());
            }
            if text.is_some_and(|text| UNSUPPORTED_KEYWORDS.contains(&text)) {
                return None;
            }
            if text == Some("for") {
                now.is_for = true;
                return Some(());
            }
            if is_assignment(&word) {
                now.simple.does_more = true;
                return Some(());
            }
        }
        now.simple.words.push(word);
        Some(())
    }

    fn end_command(&mut self, now: &mut CommandBuilder) -> Option<()> {
        self.end_word(now)?;
        if now.target.take().is_some() {
            return None;
        }
        now.is_for = false;
        let simple = std::mem::take(&mut now.simple);
        if simple.words.is_empty() && !simple.does_more {
            return Some(());
        }
        self.collect_wrapped(&simple.words);
        self.line.commands.push(simple);
        Some(())
    }

    /// Records what a command would run, recursively.
    fn collect_wrapped(&mut self, words: &[Word]) {
        for found in wrappers::wrapped(words) {
            match found {
                Wrapped::Command(words) => {
                    if wrappers::takes_a_line(&words) {
                        self.collect_wrapped(&words);
                    }
                    self.line.wrapped.push(words);
                }
                Wrapped::Line(text) => {
                    let mut inner = CommandLine::default();
                    read_into(&text, &mut inner, self.depth + 1);
                    self.line.unreadable |= inner.unreadable;
                    self.line.wrapped.append(&mut inner.wrapped);
                    let commands = inner.commands.into_iter().map(|simple| simple.words);
                    self.line.wrapped.extend(commands);
                }
                Wrapped::Unknown => self.line.unreadable = true,
            }
        }
    }
}

/// Returns whether a word is `NAME=…` or `NAME+=…`.
fn is_assignment(word: &[Glyph]) -> bool {
    let mut name = 0;
    for (index, glyph) in word.iter().enumerate() {
        match glyph {
            Glyph::Char('=') => return name > 0,
            Glyph::Char('+') if word.get(index + 1) == Some(&Glyph::Char('=')) => {}
            Glyph::Char(c) if *c == '_' || c.is_ascii_alphabetic() || (name > 0 && c.is_ascii_digit()) => {
                name += 1;
            }
            _ => return false,
        }
    }
    false
}
