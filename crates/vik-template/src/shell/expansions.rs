//! Expansions that start with a `$` or a backtick. A simple expansion is skipped as a whole,
//! because no value may be in it. After any other one, the reader is "unclear".

use super::super::error::Place;
use super::super::words::{Command, Quoting};
use super::{Frame, Reader, Step, refuse};

impl Reader<'_> {
    /// Reads an old-style substitution: it ends at the next backtick without a backslash before it.
    pub(super) fn backticks(&mut self) -> Step {
        let mut escaped = false;
        let mut end = None;
        for (offset, c) in self.remaining().char_indices().skip(1) {
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
        if !self.heredocs.is_empty()
            || inner.contains(['\'', '"', '\\', '#', '<'])
            || inner.contains("$(")
            || inner.contains("${")
        {
            self.mark_unclear("quotes in backticks");
        }
        self.word_text(end + 1 - self.at);
        Ok(())
    }

    pub(super) fn dollar(&mut self, open: Quoting) -> Step {
        let dollar = self.at;
        let mut next = self.remaining()[1..].chars();
        match next.next() {
            Some('(') if next.next() == Some('(') => self.arithmetic(),
            Some('(') => {
                if !self.heredocs.is_empty() {
                    self.mark_unclear("a command substitution on a line with `<<`");
                }
                self.word_text(2);
                self.frames.push(Frame::Substitution);
                self.inner.push(Command::default());
                Ok(())
            }
            Some('{') => self.parameter(),
            Some('[') => {
                self.mark_unclear("`$[`");
                self.word_text(2);
                Ok(())
            }
            Some('\'') if open == Quoting::Bare => self.ansi_quotes(),
            Some('\\') => {
                self.word_text(1);
                Ok(())
            }
            Some(c) if c == '_' || c.is_ascii_alphabetic() => {
                let name = self.remaining()[1..]
                    .find(|c: char| c != '_' && !c.is_ascii_alphanumeric())
                    .unwrap_or(self.remaining().len() - 1);
                // A value after it gets its own quotes, so it cannot extend the name.
                self.word_text(1 + name);
                Ok(())
            }
            Some(c @ ('0'..='9' | '#' | '?' | '!' | '@' | '*' | '-' | '$')) => {
                self.word_text(1 + c.len_utf8());
                Ok(())
            }
            _ => {
                self.word_text(1);
                match self.placeholder_here() {
                    Some(placeholder) if self.at == dollar + 1 => {
                        Err(refuse(placeholder.site, Place::AfterDollar))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Skips `$((…))` as a whole.
    fn arithmetic(&mut self) -> Step {
        let mut depth = 0_usize;
        let mut end = None;
        for (offset, c) in self.remaining().char_indices().skip(1) {
            match c {
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    if depth == 1
                        && !self.remaining()[offset + 1..].starts_with(')')
                        && self.closes_inner(offset)
                    {
                        break;
                    }
                    if depth == 0 {
                        end = Some(self.at + offset + 1);
                        break;
                    }
                }
                '\'' | '"' | '`' | '\\' | '{' | '<' | '\n' => break,
                '$' if self.remaining()[offset + 1..].starts_with(['(', '\'', '[']) => break,
                _ => {}
            }
        }
        match end {
            Some(end) => {
                self.no_value_before(end, Place::Arithmetic)?;
                self.word_text(end - self.at);
            }
            None => {
                self.mark_unclear("`$((`");
                if let Some(placeholder) = self.placeholders.get(self.next) {
                    return Err(refuse(placeholder.site, Place::Arithmetic));
                }
                self.word_text(3);
            }
        }
        Ok(())
    }

    /// Returns whether the parenthesis at `offset` closes the second one of `$((`.
    fn closes_inner(&self, offset: usize) -> bool {
        let mut depth = 0_usize;
        for c in self.remaining()[3..offset].chars() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        depth == 0
    }

    /// Skips `${…}` as a whole if it is simple.
    fn parameter(&mut self) -> Step {
        let mut depth = 1_usize;
        let mut end = None;
        let mut before = '{';
        // `${ command; }` is a substitution in some shells.
        let name = |c: char| c == '_' || c.is_ascii_alphanumeric() || "@*#?$!-".contains(c);
        if !self.remaining()[2..].starts_with(name) {
            self.mark_unclear("`${` without a name");
        }
        for (offset, c) in self.remaining().char_indices().skip(2) {
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
                    .remaining()
                    .find('}')
                    .map_or(self.text.len(), |offset| self.at + offset);
                self.no_value_before(inside, Place::Parameter)?;
                self.mark_unclear("quotes in `${…}`");
                self.word_text(2);
            }
        }
        Ok(())
    }

    /// Reads `$'…'`: bash interprets escapes in it, other shells do not.
    fn ansi_quotes(&mut self) -> Step {
        let Some(length) = self.remaining()[2..].find('\'') else {
            self.no_value_before(self.text.len(), Place::AnsiQuotes)?;
            self.at = self.text.len();
            return Ok(());
        };
        let end = self.at + 2 + length;
        self.no_value_before(end, Place::AnsiQuotes)?;
        if self.text[self.at..end].contains(['\\', '\n']) {
            self.mark_unclear("`$'…'` with a backslash or a line break");
        }
        self.quoted_text(end + 1 - self.at);
        Ok(())
    }
}
