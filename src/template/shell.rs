//! Putting values into a shell script as data.
//!
//! The script is the author's own text with placeholders. It is read once, from left to right, as a POSIX shell reads
//! it, to know at each placeholder which quotes are open. A value is always written in single quotes of its own:
//! inside double quotes these are closed before and opened again behind it, which is the same word in every shell.
//!
//! Where shells differ, or where reading on would need a full parser, the reader does not guess: it remembers why
//! ("unclear"), and a placeholder behind that place is refused.

use super::error::{Place, TemplateError};
use super::render::Rendered;
use super::source::{Plan, Site};
use super::words::{Command, Open, WordEnd};

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
                what: site.text.clone(),
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
        frames: vec![Frame::Commands(Command::default())],
        heredocs: Vec::new(),
        unclear: None,
    };
    reader.read()
}

/// The value as one single-quoted shell word.
pub(super) fn single_quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

struct Placeholder<'a> {
    start: usize,
    end: usize,
    site: &'a Site,
    value: &'a str,
}

enum Frame {
    /// Commands: the script itself, or the inside of `$(…)`.
    Commands(Command),
    /// Double quotes.
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
    /// How far `text` has been copied to `out`.
    copied: usize,
    out: String,
    placeholders: Vec<Placeholder<'a>>,
    next: usize,
    frames: Vec<Frame>,
    heredocs: Vec<Heredoc>,
    unclear: Option<&'static str>,
}

type Step = Result<(), TemplateError>;

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<String, TemplateError> {
        while self.at < self.text.len() {
            match self.frames.last() {
                Some(Frame::Double) => self.in_double()?,
                _ => self.in_commands()?,
            }
        }
        if self.frames.len() > 1
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

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn here(&self) -> Option<&Placeholder<'a>> {
        self.placeholders
            .get(self.next)
            .filter(|placeholder| placeholder.start == self.at)
    }

    /// The innermost list of commands.
    fn command(&mut self) -> &mut Command {
        let index = self
            .frames
            .iter()
            .rposition(|frame| matches!(frame, Frame::Commands(_)))
            .unwrap_or(0);
        match &mut self.frames[index] {
            Frame::Commands(command) => command,
            Frame::Double => unreachable!("the first frame is commands"),
        }
    }

    fn unclear(&mut self, why: &'static str) {
        self.unclear.get_or_insert(why);
    }

    /// Moves over `bytes` of author's text, which belong to the current word.
    fn word_text(&mut self, bytes: usize) {
        let text = &self.text[self.at..self.at + bytes];
        self.command().push(text, Open::Bare);
        self.at += bytes;
    }

    fn quoted_text(&mut self, bytes: usize) {
        let text = &self.text[self.at..self.at + bytes];
        self.command().push(text, Open::Quoted);
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

    /// Whether this place is in `$(…)` that stands in double quotes or in another one.
    fn nested(&self) -> bool {
        let inner = self
            .frames
            .iter()
            .skip(1)
            .filter(|frame| matches!(frame, Frame::Commands(_)))
            .count();
        inner > 1 || (inner == 1 && matches!(self.frames.get(1), Some(Frame::Double)))
    }

    /// Refuses a placeholder that begins before `end`.
    fn no_value_before(&self, end: usize, place: Place) -> Step {
        match self.placeholders.get(self.next) {
            Some(placeholder) if placeholder.start < end => Err(refuse(placeholder.site, place)),
            _ => Ok(()),
        }
    }

    fn end_word(&mut self) -> Step {
        let in_substitution = self.frames.len() > 1;
        match self.command().end_word() {
            Ok(WordEnd::Plain) => Ok(()),
            Ok(WordEnd::Case) => {
                if in_substitution {
                    self.unclear("`case` in a command substitution");
                }
                Ok(())
            }
            Ok(WordEnd::Alias) => {
                self.unclear("`alias`");
                Ok(())
            }
            Err((site, place)) => Err(refuse(&site, place)),
        }
    }

    fn in_commands(&mut self) -> Step {
        if self.here().is_some() {
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
                let end = self.at + self.rest().find('\n').unwrap_or(self.rest().len());
                self.no_value_before(end, Place::Comment)?;
                self.at = end;
            }
            '\\' => self.backslash(Open::Bare)?,
            '\'' => self.single()?,
            '"' => {
                self.quoted_text(0);
                self.at += 1;
                self.frames.push(Frame::Double);
            }
            '`' => self.backticks()?,
            '$' => self.dollar(Open::Bare)?,
            '<' | '>' => self.redirection()?,
            '(' => self.open_paren()?,
            ')' => self.close_paren()?,
            ';' | '&' | '|' => {
                self.end_word()?;
                let next = self.rest()[1..].chars().next();
                // `>&` and `<&` are part of the redirection; `&>` is bash's, and a `&` and a `>` elsewhere.
                let case_end = c == ';' && matches!(next, Some(';' | '&'));
                self.command().end_command(case_end);
                self.at += if case_end { 2 } else { 1 };
            }
            other => self.word_text(other.len_utf8()),
        }
        Ok(())
    }

    fn in_double(&mut self) -> Step {
        if self.here().is_some() {
            return self.value(Quotes::Double);
        }
        let Some(c) = self.peek() else { return Ok(()) };
        match c {
            '"' => {
                self.at += 1;
                self.frames.pop();
            }
            '\\' => self.backslash(Open::Quoted)?,
            '`' => self.backticks()?,
            '$' => self.dollar(Open::Quoted)?,
            other => {
                if other == '\n' && !self.heredocs.is_empty() {
                    self.unclear("a line break in quotes on a line with `<<`");
                }
                self.quoted_text(other.len_utf8());
            }
        }
        Ok(())
    }

    fn backslash(&mut self, open: Open) -> Step {
        let before = self.text[..self.at].chars().next_back();
        self.at += 1;
        if let Some(placeholder) = self.here() {
            return Err(refuse(placeholder.site, Place::AfterBackslash));
        }
        match self.peek() {
            Some('\n') => {
                // A line goes on. Shells take the two characters out before they look for operators.
                if matches!(before, Some('$' | '<' | '>' | '&' | '|' | ';' | '(' | ')' | '\\')) {
                    self.unclear("an operator that is broken by a backslash at the end of a line");
                }
                self.at += 1;
            }
            Some(other) => {
                let bytes = other.len_utf8();
                self.command().push("", Open::Quoted);
                match open {
                    Open::Bare | Open::Quoted => self.quoted_text(bytes),
                }
            }
            None => {}
        }
        Ok(())
    }

    fn single(&mut self) -> Step {
        self.quoted_text(0);
        self.at += 1;
        loop {
            if self.here().is_some() {
                self.value(Quotes::Single)?;
                continue;
            }
            let Some(c) = self.peek() else {
                self.unclear("a quote that is never closed");
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
                self.unclear("a line break in quotes on a line with `<<`");
            }
            self.quoted_text(c.len_utf8());
        }
    }

    /// Old-style substitution: it ends at the next backtick that has no backslash before it.
    fn backticks(&mut self) -> Step {
        let mut escaped = false;
        let mut end = None;
        for (offset, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '`' => {
                    end = Some(self.at + offset);
                    break;
                }
                _ => {}
            }
        }
        let Some(end) = end else {
            self.no_value_before(self.text.len(), Place::Backticks)?;
            self.at = self.text.len();
            return Ok(());
        };
        self.no_value_before(end, Place::Backticks)?;
        let inner = &self.text[self.at + 1..end];
        if inner.contains(['\'', '"', '\\', '#', '<']) || inner.contains("$(") || inner.contains("${") {
            self.unclear("quotes in backticks");
        }
        self.word_text(end + 1 - self.at);
        Ok(())
    }

    fn dollar(&mut self, open: Open) -> Step {
        let dollar = self.at;
        let mut next = self.rest()[1..].chars();
        match next.next() {
            Some('(') if next.next() == Some('(') => self.arithmetic(),
            Some('(') => {
                self.word_text(2);
                self.frames.push(Frame::Commands(Command::default()));
                Ok(())
            }
            Some('{') => self.parameter(),
            Some('[') => {
                self.unclear("`$[`");
                self.word_text(2);
                Ok(())
            }
            Some('\'') if open == Open::Bare => self.ansi_quotes(),
            Some('\\') => {
                self.word_text(1);
                Ok(())
            }
            Some(c) if c == '_' || c.is_ascii_alphabetic() => {
                let name = self.rest()[1..]
                    .find(|c: char| c != '_' && !c.is_ascii_alphanumeric())
                    .unwrap_or(self.rest().len() - 1);
                self.word_text(1 + name);
                // Inside double quotes the value gets quotes of its own, so it cannot make the name longer.
                Ok(())
            }
            Some(c @ ('0'..='9' | '#' | '?' | '!' | '@' | '*' | '-' | '$')) => {
                self.word_text(1 + c.len_utf8());
                Ok(())
            }
            _ => {
                self.word_text(1);
                match self.here() {
                    Some(placeholder) if self.at == dollar + 1 => {
                        Err(refuse(placeholder.site, Place::AfterDollar))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// `$((…))`: left out as a whole.
    fn arithmetic(&mut self) -> Step {
        let mut depth = 0_usize;
        let mut end = None;
        for (offset, c) in self.rest().char_indices().skip(1) {
            match c {
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    if depth == 1 && !self.rest()[offset + 1..].starts_with(')') && self.closes_inner(offset)
                    {
                        break;
                    }
                    if depth == 0 {
                        end = Some(self.at + offset + 1);
                        break;
                    }
                }
                '\'' | '"' | '`' | '\\' | '{' | '<' | '\n' => break,
                '$' if self.rest()[offset + 1..].starts_with(['(', '\'', '[']) => break,
                _ => {}
            }
        }
        match end {
            Some(end) => {
                self.no_value_before(end, Place::Arithmetic)?;
                self.word_text(end - self.at);
            }
            None => {
                self.unclear("`$((`");
                if let Some(placeholder) = self.placeholders.get(self.next) {
                    return Err(refuse(placeholder.site, Place::Arithmetic));
                }
                self.word_text(3);
            }
        }
        Ok(())
    }

    /// Whether the parenthesis at `offset` closes the second one of `$((`.
    fn closes_inner(&self, offset: usize) -> bool {
        let mut depth = 0_usize;
        for c in self.rest()[3..offset].chars() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        depth == 0
    }

    /// `${…}`: left out as a whole where it is simple.
    fn parameter(&mut self) -> Step {
        let mut depth = 1_usize;
        let mut end = None;
        let mut before = '{';
        for (offset, c) in self.rest().char_indices().skip(2) {
            match c {
                '{' if before == '$' => depth += 1,
                '}' => depth -= 1,
                '\'' | '"' | '`' | '\\' | '{' | '(' | '\n' => break,
                _ => {}
            }
            if depth == 0 {
                end = Some(self.at + offset + 1);
                break;
            }
            before = c;
        }
        match end {
            Some(end) => {
                self.no_value_before(end, Place::Parameter)?;
                self.word_text(end - self.at);
            }
            None => {
                let inside = self
                    .rest()
                    .find('}')
                    .map_or(self.text.len(), |offset| self.at + offset);
                self.no_value_before(inside, Place::Parameter)?;
                self.unclear("quotes in `${…}`");
                self.word_text(2);
            }
        }
        Ok(())
    }

    /// `$'…'`: bash reads escapes in it, other shells do not.
    fn ansi_quotes(&mut self) -> Step {
        let Some(length) = self.rest()[2..].find('\'') else {
            self.no_value_before(self.text.len(), Place::AnsiQuotes)?;
            self.at = self.text.len();
            return Ok(());
        };
        let end = self.at + 2 + length;
        self.no_value_before(end, Place::AnsiQuotes)?;
        if self.text[self.at..end].contains('\\') {
            self.unclear("`$'…\\…'`");
        }
        self.quoted_text(end + 1 - self.at);
        Ok(())
    }

    fn redirection(&mut self) -> Step {
        // `2>` is a file descriptor, not a word; taking it for a word is on the safe side.
        self.end_word()?;
        let rest = self.rest();
        if rest.starts_with("<<") && !rest.starts_with("<<<") {
            let strip_tabs = rest.starts_with("<<-");
            self.at += if strip_tabs { 3 } else { 2 };
            return self.heredoc_start(strip_tabs);
        }
        let length = rest
            .find(|c| !matches!(c, '<' | '>' | '&' | '|'))
            .unwrap_or(rest.len())
            .min(3);
        let operator = ["<<<", "<>", ">>", ">|", ">&", "<&", "<", ">"]
            .into_iter()
            .find(|operator| rest[..length].starts_with(operator))
            .map_or(1, str::len);
        self.at += operator;
        self.command().redirect();
        Ok(())
    }

    fn heredoc_start(&mut self, strip_tabs: bool) -> Step {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        let mut end = String::new();
        let mut quoted = false;
        let mut quote = None;
        loop {
            if let Some(placeholder) = self.here() {
                return Err(refuse(placeholder.site, Place::Heredoc));
            }
            let Some(c) = self.peek() else { break };
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (Some('"'), '\\' | '$' | '`') | (None, '$' | '`') => {
                    self.unclear("a here-document whose end mark is no plain word");
                    end.push(c);
                }
                (Some(_), '\n') => {
                    self.unclear("a here-document whose end mark is no plain word");
                    end.push(c);
                }
                (Some(_), c) => end.push(c),
                (None, '\'' | '"') => {
                    quote = Some(c);
                    quoted = true;
                }
                (None, '\\') => {
                    quoted = true;
                    self.at += 1;
                    match self.peek() {
                        Some('\n') | None => self.unclear("a here-document whose end mark is no plain word"),
                        Some(next) => {
                            end.push(next);
                            self.at += next.len_utf8() - 1;
                        }
                    }
                }
                (None, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => break,
                (None, c) => end.push(c),
            }
            self.at += c.len_utf8();
        }
        if self.frames.len() > 1 {
            self.unclear("a here-document in a command substitution");
        }
        self.heredocs.push(Heredoc {
            end,
            strip_tabs,
            quoted,
        });
        Ok(())
    }

    fn heredoc_bodies(&mut self) -> Step {
        for heredoc in std::mem::take(&mut self.heredocs) {
            loop {
                if self.at >= self.text.len() {
                    return Ok(());
                }
                let length = self.rest().find('\n').unwrap_or(self.rest().len());
                let end = self.at + length;
                self.no_value_before(end, Place::Heredoc)?;
                let line = &self.text[self.at..end];
                self.at = (end + 1).min(self.text.len());
                let bare = if heredoc.strip_tabs {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                if bare == heredoc.end {
                    break;
                }
                if !heredoc.quoted && (line.ends_with('\\') || line.contains("$(") || line.contains('`')) {
                    self.unclear("a here-document that holds commands or a broken line");
                }
            }
        }
        Ok(())
    }

    fn open_paren(&mut self) -> Step {
        if self.rest().starts_with("((") && !self.command().in_word() && self.command().at_start() {
            self.unclear("`((`");
        }
        self.end_word()?;
        self.command().open_paren();
        self.at += 1;
        Ok(())
    }

    fn close_paren(&mut self) -> Step {
        self.end_word()?;
        self.at += 1;
        if self.command().close_paren() || self.frames.len() == 1 {
            return Ok(());
        }
        if !self.heredocs.is_empty() {
            self.unclear("a here-document in a command substitution");
        }
        self.frames.pop();
        // The outer word goes on behind the substitution.
        self.command().push(")", Open::Bare);
        Ok(())
    }
}

enum Quotes {
    None,
    Single,
    Double,
}

fn refuse(site: &Site, place: Place) -> TemplateError {
    TemplateError::Refused {
        line: site.line,
        what: site.text.clone(),
        place,
    }
}
