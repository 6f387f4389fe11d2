//! Here-documents: their start and their end. No value may be in one.

use super::super::error::Place;
use super::{Heredoc, Reader, Step, refuse};

impl Reader<'_> {
    pub(super) fn heredoc_start(&mut self, strip_tabs: bool) -> Step {
        self.at += self.remaining().len() - self.remaining().trim_start_matches([' ', '\t']).len();
        let mut end = String::new();
        let mut quoted = false;
        let mut quote = None;
        loop {
            if let Some(placeholder) = self.placeholder_here() {
                return Err(refuse(placeholder.site, Place::Heredoc));
            }
            let Some(c) = self.peek() else { break };
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (Some('"'), '\\' | '$' | '`') | (None, '$' | '`') | (Some(_), '\n') => {
                    self.mark_unclear("a here-document whose end mark is not a plain word");
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
                    if self.placeholder_here().is_none() {
                        match self.peek() {
                            Some('\n') | None => {
                                self.mark_unclear("a here-document whose end mark is not a plain word");
                            }
                            Some(next) => end.push(next),
                        }
                        self.at += self.peek().map_or(0, char::len_utf8);
                    }
                    continue;
                }
                (None, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => break,
                (None, c) => end.push(c),
            }
            self.at += c.len_utf8();
        }
        if !self.inner.is_empty() {
            self.mark_unclear("a here-document in a command substitution");
        }
        self.heredocs.push(Heredoc {
            end,
            strip_tabs,
            quoted,
        });
        Ok(())
    }

    pub(super) fn heredoc_bodies(&mut self) -> Step {
        for heredoc in std::mem::take(&mut self.heredocs) {
            loop {
                if self.at >= self.text.len() {
                    return Ok(());
                }
                let length = self.remaining().find('\n').unwrap_or(self.remaining().len());
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
                    self.mark_unclear("a here-document that contains commands or a broken line");
                }
            }
        }
        Ok(())
    }
}
