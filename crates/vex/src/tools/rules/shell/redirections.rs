//! Redirections and here-documents.

use super::{CommandBuilder, Glyph, ShellReader, Word};

impl ShellReader<'_> {
    pub(super) fn redirection(&mut self, first: char, now: &mut CommandBuilder) -> Option<()> {
        // A number directly before it is a descriptor.
        let is_number = |word: &Word| word.iter().all(|glyph| matches!(glyph, Glyph::Char('0'..='9')));
        if !now.quoted && now.word.as_ref().is_some_and(is_number) {
            now.word = None;
        }
        self.end_word(now)?;
        match (first, self.chars.peek().copied()) {
            // A command in the place of a file.
            (_, Some('(')) => {
                self.chars.next();
                now.glyph(Glyph::Any);
                return self.nested(|reader| reader.list(Some(')')));
            }
            ('<', Some('<')) => {
                self.chars.next();
                if self.chars.next_if_eq(&'<').is_some() {
                    now.target = Some(false);
                    return Some(());
                }
                let tabs = self.chars.next_if_eq(&'-').is_some();
                let (end, quoted) = self.heredoc_end()?;
                now.heredocs.push((end, tabs, !quoted));
            }
            (_, Some('&')) => {
                self.chars.next();
                // To another descriptor, or, in some shells, to a file.
                let descriptor = self.chars.peek().is_some_and(|c| c.is_ascii_digit() || *c == '-');
                now.target = Some(first == '>' && !descriptor);
            }
            (_, next) => {
                let writes = first == '>' || next == Some('>');
                self.chars.next_if(|c| matches!(c, '>' | '|'));
                now.target = Some(writes);
            }
        }
        Some(())
    }

    fn heredoc_end(&mut self) -> Option<(String, bool)> {
        while self.chars.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let (mut end, mut quoted) = (String::new(), false);
        while let Some(&c) = self.chars.peek() {
            match c {
                '\'' | '"' => {
                    quoted = true;
                    self.chars.next();
                    loop {
                        match self.chars.next()? {
                            inner if inner == c => break,
                            inner => end.push(inner),
                        }
                    }
                }
                '\\' => {
                    quoted = true;
                    self.chars.next();
                    end.push(self.chars.next()?);
                }
                c if c.is_whitespace() || ";&|<>()".contains(c) => break,
                '$' | '`' => return None,
                c => {
                    end.push(c);
                    self.chars.next();
                }
            }
        }
        (!end.is_empty()).then_some((end, quoted))
    }

    /// Reads the lines up to `end`; the commands in its substitutions matter.
    pub(super) fn heredoc(&mut self, end: &str, tabs: bool, expands: bool) -> Option<()> {
        let mut body = String::new();
        loop {
            let mut one = String::new();
            let mut closed = false;
            for c in self.chars.by_ref() {
                if c == '\n' {
                    closed = true;
                    break;
                }
                one.push(c);
            }
            let shown = if tabs { one.trim_start_matches('\t') } else { &one };
            if shown == end {
                break;
            }
            if !closed {
                return None;
            }
            body.push_str(&one);
            body.push('\n');
        }
        if !expands {
            return Some(());
        }
        let mut inside = CommandBuilder::default();
        let mut reader = ShellReader {
            chars: body.chars().peekable(),
            line: &mut *self.line,
            depth: self.depth + 1,
        };
        while let Some(c) = reader.chars.next() {
            match c {
                '\\' => drop(reader.chars.next()),
                '$' => reader.dollar(&mut inside, true)?,
                '`' => reader.backtick(&mut inside)?,
                _ => {}
            }
        }
        Some(())
    }
}
