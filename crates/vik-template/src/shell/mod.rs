//! Inserts values into a shell script as data.
//!
//! The script is the author's own text with placeholders. It is read once, from left to right, as a
//! POSIX shell reads it, so that the open quotes at each placeholder are known. A value is always
//! written in its own single quotes. Inside double quotes, these are closed before the value and
//! opened again after it, which is the same word in every shell.
//!
//! If shells differ, or if reading further would need a full parser, the reader does not guess: it
//! stores the reason ("unclear"), and refuses every later placeholder.

mod expansions;
mod heredocs;

use super::error::{Place, TemplateError};
use super::plan::{Plan, Rendered, Site};
use super::words::{Command, Quoting, WordEnd};

/// Writes the values into the text of a script.
pub(super) fn quote(plan: &Plan, rendered: &Rendered) -> Result<String, TemplateError> {
    let mut placeholders = Vec::new();
    let mark = format!("\u{1}{}=", plan.nonce);
    for (start, _) in rendered.text.match_indices(&mark) {
        let number = &rendered.text[start + mark.len()..];
        let Some((number, _)) = number.split_once(';') else {
            continue;
        };
        let Some((site, value)) = number
            .parse()
            .ok()
            .and_then(|number: usize| rendered.values.get(number))
        else {
            continue;
        };
        let Some(site) = plan.sites.get(*site) else {
            continue;
        };
        if value.contains('\0') {
            return Err(TemplateError::Nul {
                line: site.line,
                text: site.text.clone(),
            });
        }
        placeholders.push(Placeholder {
            start,
            end: start + mark.len() + number.len() + 1,
            site,
            value,
        });
    }
    let reader = Reader {
        text: &rendered.text,
        at: 0,
        copied: 0,
        out: String::with_capacity(rendered.text.len()),
        placeholders,
        next: 0,
        frames: Vec::new(),
        outer: Command::default(),
        inner: Vec::new(),
        heredocs: Vec::new(),
        unclear: None,
    };
    reader.read()
}

/// Returns the value as one single-quoted shell word.
pub(super) fn single_quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

struct Placeholder<'a> {
    start: usize,
    end: usize,
    site: &'a Site,
    value: &'a str,
}

/// A construct that is open around a place; without one, the place is in the script itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Substitution,
    Double,
}

struct Heredoc {
    end: String,
    strip_tabs: bool,
    quoted: bool,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// The end of the part of `text` that has been copied to `out`.
    copied: usize,
    out: String,
    placeholders: Vec<Placeholder<'a>>,
    next: usize,
    frames: Vec<Frame>,
    /// The commands of the script itself.
    outer: Command,
    /// The commands of each open `$(…)`.
    inner: Vec<Command>,
    heredocs: Vec<Heredoc>,
    unclear: Option<&'static str>,
}

type Step = Result<(), TemplateError>;

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<String, TemplateError> {
        while self.at < self.text.len() {
            match self.frames.last() {
                Some(Frame::Double) => self.in_double()?,
                Some(Frame::Substitution) | None => self.in_commands()?,
            }
        }
        if !self.frames.is_empty()
            && let Some(last) = self.placeholders.last()
        {
            return Err(refuse(
                last.site,
                Place::Unclear("a quote or `$(` that is never closed"),
            ));
        }
        self.end_word()?;
        self.out.push_str(&self.text[self.copied..]);
        Ok(self.out)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn remaining(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn placeholder_here(&self) -> Option<&Placeholder<'a>> {
        self.placeholders
            .get(self.next)
            .filter(|placeholder| placeholder.start == self.at)
    }

    /// Returns the innermost list of commands.
    fn command(&mut self) -> &mut Command {
        self.inner.last_mut().unwrap_or(&mut self.outer)
    }

    fn mark_unclear(&mut self, why: &'static str) {
        self.unclear.get_or_insert(why);
    }

    /// Consumes `bytes` of the author's text, which belong to the current word.
    fn word_text(&mut self, bytes: usize) {
        let text = &self.text[self.at..self.at + bytes];
        self.command().push(text, Quoting::Bare);
        self.at += bytes;
    }

    fn quoted_text(&mut self, bytes: usize) {
        let text = &self.text[self.at..self.at + bytes];
        self.command().push(text, Quoting::Quoted);
        self.at += bytes;
    }

    /// Writes the value of the placeholder at this place.
    fn value(&mut self, quotes: Quotes) -> Step {
        let nested = self.nested();
        let Some(placeholder) = self.placeholders.get(self.next) else {
            return Ok(());
        };
        let (site, value, start, end) = (
            placeholder.site,
            placeholder.value,
            placeholder.start,
            placeholder.end,
        );
        if let Some(why) = self.unclear {
            return Err(refuse(site, Place::Unclear(why)));
        }
        if nested {
            return Err(refuse(site, Place::NestedSubstitution));
        }
        self.out.push_str(&self.text[self.copied..start]);
        let word = single_quoted(value);
        match quotes {
            Quotes::None => self.out.push_str(&word),
            Quotes::Single => self.out.push_str(&word[1..word.len() - 1]),
            Quotes::Double => {
                self.out.push('"');
                self.out.push_str(&word);
                self.out.push('"');
            }
        }
        self.copied = end;
        self.at = end;
        self.next += 1;
        self.command().push_value(site);
        Ok(())
    }

    /// Returns whether this place is in a `$(…)` inside double quotes or inside another one.
    fn nested(&self) -> bool {
        self.inner.len() > 1 || (self.inner.len() == 1 && self.frames.first() == Some(&Frame::Double))
    }

    /// Refuses a placeholder that starts before `end`.
    fn no_value_before(&self, end: usize, place: Place) -> Step {
        match self.placeholders.get(self.next) {
            Some(placeholder) if placeholder.start < end => Err(refuse(placeholder.site, place)),
            _ => Ok(()),
        }
    }

    fn end_word(&mut self) -> Step {
        let in_substitution = !self.inner.is_empty();
        match self.command().end_word() {
            Ok(WordEnd::Plain) => Ok(()),
            Ok(WordEnd::Case) => {
                if in_substitution {
                    self.mark_unclear("`case` in a command substitution");
                }
                Ok(())
            }
            Ok(WordEnd::Alias) => {
                self.mark_unclear("`alias`");
                Ok(())
            }
            Err((site, place)) => Err(refuse(&site, place)),
        }
    }

    fn in_commands(&mut self) -> Step {
        if self.placeholder_here().is_some() {
            return self.value(Quotes::None);
        }
        let Some(c) = self.peek() else { return Ok(()) };
        match c {
            ' ' | '\t' => {
                self.end_word()?;
                self.at += 1;
            }
            '\n' => {
                self.end_word()?;
                self.command().end_command(false);
                self.at += 1;
                self.heredoc_bodies()?;
            }
            '#' if !self.command().in_word() => {
                let end = self.at + self.remaining().find('\n').unwrap_or(self.remaining().len());
                self.no_value_before(end, Place::Comment)?;
                self.at = end;
            }
            '\\' => self.backslash()?,
            '\'' => self.single()?,
            '"' => {
                self.quoted_text(0);
                self.at += 1;
                self.frames.push(Frame::Double);
            }
            '`' => self.backticks()?,
            '$' => self.dollar(Quoting::Bare)?,
            '<' | '>' => self.redirection()?,
            '(' => self.open_paren()?,
            ')' => self.close_paren()?,
            ';' | '&' | '|' => {
                self.end_word()?;
                let next = self.remaining()[1..].chars().next();
                // `>&` and `<&` are part of the redirection. `&>` is one in bash, and a `&` and a
                // `>` elsewhere.
                let case_end = c == ';' && matches!(next, Some(';' | '&'));
                self.command().end_command(case_end);
                self.at += if case_end { 2 } else { 1 };
            }
            other => self.word_text(other.len_utf8()),
        }
        Ok(())
    }

    fn in_double(&mut self) -> Step {
        if self.placeholder_here().is_some() {
            return self.value(Quotes::Double);
        }
        let Some(c) = self.peek() else { return Ok(()) };
        match c {
            '"' => {
                self.at += 1;
                self.frames.pop();
            }
            '\\' => self.backslash()?,
            '`' => self.backticks()?,
            '$' => self.dollar(Quoting::Quoted)?,
            other => {
                if other == '\n' && !self.heredocs.is_empty() {
                    self.mark_unclear("a line break in quotes on a line with `<<`");
                }
                self.quoted_text(other.len_utf8());
            }
        }
        Ok(())
    }

    fn backslash(&mut self) -> Step {
        let before = self.text[..self.at].chars().next_back();
        self.at += 1;
        if let Some(placeholder) = self.placeholder_here() {
            return Err(refuse(placeholder.site, Place::AfterBackslash));
        }
        let mut following = self.remaining().chars();
        match following.next() {
            Some('\n') => {
                // A continued line. Shells remove the two characters before they look for
                // operators, so an operator may be split by them.
                let operator = |c: char| "$<>&|;()'\"{[`\\#!-\n".contains(c);
                if before == Some('$')
                    || (matches!(before, Some('<' | '>' | '&' | '|' | ';' | '(' | ')' | '\\'))
                        && following.next().is_none_or(operator))
                {
                    self.mark_unclear("an operator that is broken by a backslash at the end of a line");
                }
                self.at += 1;
            }
            Some(other) => self.quoted_text(other.len_utf8()),
            None => {}
        }
        Ok(())
    }

    fn single(&mut self) -> Step {
        self.quoted_text(0);
        self.at += 1;
        loop {
            if self.placeholder_here().is_some() {
                self.value(Quotes::Single)?;
                continue;
            }
            let Some(c) = self.peek() else {
                self.mark_unclear("a quote that is never closed");
                return match self.placeholders.last() {
                    Some(last) => Err(refuse(last.site, Place::Unclear("a quote that is never closed"))),
                    None => Ok(()),
                };
            };
            if c == '\'' {
                self.at += 1;
                return Ok(());
            }
            if c == '\n' && !self.heredocs.is_empty() {
                self.mark_unclear("a line break in quotes on a line with `<<`");
            }
            self.quoted_text(c.len_utf8());
        }
    }

    fn redirection(&mut self) -> Step {
        self.command().drop_descriptor();
        self.end_word()?;
        let remaining = self.remaining();
        if remaining.starts_with("<<") && !remaining.starts_with("<<<") {
            let strip_tabs = remaining.starts_with("<<-");
            self.at += if strip_tabs { 3 } else { 2 };
            return self.heredoc_start(strip_tabs);
        }
        let length = remaining
            .find(|c| !matches!(c, '<' | '>' | '&' | '|'))
            .unwrap_or(remaining.len())
            .min(3);
        let operator = ["<<<", "<>", ">>", ">|", ">&", "<&", "<", ">"]
            .into_iter()
            .find(|operator| remaining[..length].starts_with(operator))
            .map_or(1, str::len);
        self.at += operator;
        self.command().redirect();
        Ok(())
    }

    fn open_paren(&mut self) -> Step {
        if self.remaining().starts_with("((") && !self.command().in_word() && self.command().at_start() {
            self.mark_unclear("`((`");
        }
        self.end_word()?;
        self.command().open_paren();
        self.at += 1;
        Ok(())
    }

    fn close_paren(&mut self) -> Step {
        self.end_word()?;
        self.at += 1;
        if self.command().close_paren() || self.inner.is_empty() {
            return Ok(());
        }
        if !self.heredocs.is_empty() {
            self.mark_unclear("a here-document in a command substitution");
        }
        self.frames.pop();
        let tainted = self.inner.pop().and_then(|mut commands| commands.tainted());
        // The outer word continues after the substitution.
        self.command().push(")", Quoting::Bare);
        if let Some(site) = tainted {
            self.command().taint(site);
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Quotes {
    None,
    Single,
    Double,
}

fn refuse(site: &Site, place: Place) -> TemplateError {
    TemplateError::Refused {
        line: site.line,
        text: site.text.clone(),
        place,
    }
}
