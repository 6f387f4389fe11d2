//! A tolerant JSON parser for the output of models. It accepts text with a single reading, and
//! reports where the reading becomes uncertain.

use serde_json::{Map, Value};

/// The maximum depth of nested arrays and objects.
const MAX_DEPTH: usize = 64;

/// The maximum length of a key searched after a quotation mark that may end a string, in bytes.
const MAX_KEY: usize = 64;

/// What is known about the end of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing: the text may be cut off.
    Unknown,
    /// The model ended it there.
    Complete,
    /// A closing mark follows. Brackets missing before it can only be meant there.
    Closed,
}

/// Why a text was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// It ends in the middle.
    Cut,
    /// It has no certain reading.
    Wrong {
        /// The position, in bytes.
        at: usize,
        problem: &'static str,
    },
}

/// Reads the object or array at the start of a text. Returns the value and the position of its end.
pub(crate) fn read(text: &str, end: End) -> Result<(Value, usize), JsonError> {
    let mut strict = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    if let Some(Ok(value)) = strict.next() {
        return Ok((value, strict.byte_offset()));
    }
    JsonReader::new(text, end, false).all()
}

/// Reads a text that is an object or an array and nothing else.
///
/// Strings with unescaped quotation marks are accepted here, since nothing is cut off: each string
/// ends where JSON certainly continues.
pub(crate) fn read_whole(text: &str, end: End) -> Result<Value, JsonError> {
    let exact = |(value, used): (Value, usize)| match text[used..].trim_start() {
        "" => Ok(value),
        _ => Err(JsonError::Wrong {
            at: used,
            problem: "something follows, perhaps behind a quotation mark that is not escaped",
        }),
    };
    let fault = match read(text, end).and_then(exact) {
        Ok(value) => return Ok(value),
        Err(fault) => fault,
    };
    match fault {
        JsonError::Wrong { .. } if end != End::Unknown => JsonReader::new(text, end, true)
            .all()
            .and_then(exact)
            .map_err(|_| fault),
        _ => Err(fault),
    }
}

/// The position of a quoted string, which decides what may follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuotePosition {
    Key,
    Value,
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
    end: End,
    /// Whether quotation marks in strings may be unescaped.
    loose: bool,
    /// The open arrays and objects, by their closing brackets.
    open: Vec<u8>,
}

impl<'a> JsonReader<'a> {
    fn new(text: &'a str, end: End, loose: bool) -> Self {
        Self {
            text,
            at: 0,
            end,
            loose,
            open: Vec::new(),
        }
    }

    fn all(mut self) -> Result<(Value, usize), JsonError> {
        let value = self.value()?;
        Ok((value, self.at))
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong<T>(&self, problem: &'static str) -> Result<T, JsonError> {
        Err(JsonError::Wrong { at: self.at, problem })
    }

    /// Returns the next byte after white space.
    fn next(&mut self) -> Result<u8, JsonError> {
        self.at += blank(&self.text[self.at..]);
        self.byte().ok_or(JsonError::Cut)
    }

    fn value(&mut self) -> Result<Value, JsonError> {
        match self.next()? {
            b'{' if self.is_doubled() => self.nested(b'}', Self::doubled),
            b'{' => self.nested(b'}', Self::object),
            b'[' => self.nested(b']', Self::array),
            quote @ (b'"' | b'\'' | b'`') => self.quoted(quote, QuotePosition::Value).map(Value::String),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.literal(),
        }
    }

    fn nested(
        &mut self,
        close: u8,
        read: fn(&mut Self) -> Result<Value, JsonError>,
    ) -> Result<Value, JsonError> {
        if self.open.len() == MAX_DEPTH {
            return self.wrong("it nests too deep");
        }
        self.at += 1;
        self.open.push(close);
        let value = read(self)?;
        self.open.pop();
        Ok(value)
    }

    /// Returns whether the array or object ends here; otherwise a value must follow. A superfluous
    /// comma is skipped.
    fn ends(&mut self, close: u8, first: bool) -> Result<bool, JsonError> {
        let next = match self.next() {
            // All values are complete, and a closing mark follows: only this bracket can be
            // missing.
            Err(JsonError::Cut) if self.end == End::Closed && !first => return Ok(true),
            next => next?,
        };
        if next == close {
            self.at += 1;
            return Ok(true);
        }
        if first {
            return Ok(false);
        }
        if next != b',' {
            return self.wrong(
                "a comma or a closing bracket is missing, or a quotation mark within a text is not escaped",
            );
        }
        self.at += 1;
        if self.next()? == close {
            self.at += 1;
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns whether an object is in the place of a key.
    fn is_doubled(&self) -> bool {
        self.text[self.at + 1..].trim_ascii_start().starts_with('{')
    }

    /// Reads an object in doubled braces: some models repeat those of their prompt template.
    fn doubled(&mut self) -> Result<Value, JsonError> {
        let value = self.value()?;
        match self.next() {
            Ok(b'}') => self.at += 1,
            Err(JsonError::Cut) if self.end != End::Unknown => {}
            Ok(_) => return self.wrong("a brace is missing behind an object in braces"),
            Err(fault) => return Err(fault),
        }
        Ok(value)
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        while !self.ends(b']', items.is_empty())? {
            items.push(self.value()?);
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        let mut map = Map::new();
        while !self.ends(b'}', map.is_empty())? {
            let key = match self.next()? {
                quote @ (b'"' | b'\'') => self.quoted(quote, QuotePosition::Key)?,
                _ => self.bare_key()?,
            };
            if self.next()? != b':' {
                return self.wrong("a colon is missing behind a key");
            }
            self.at += 1;
            let value = self.value()?;
            // In a text that had to be repaired, a repeated key means that it was misread.
            if map.insert(key, value).is_some() {
                return self.wrong("a key comes twice");
            }
        }
        Ok(Value::Object(map))
    }

    fn bare_key(&mut self) -> Result<String, JsonError> {
        let tail = &self.text[self.at..];
        let length = identifier(tail);
        if length == 0 {
            return self.wrong("a key is missing");
        }
        self.at += length;
        Ok(tail[..length].to_owned())
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let tail = &self.text[self.at..];
        let length = tail
            .bytes()
            .take_while(|b| b.is_ascii_digit() || b"+-.eE".contains(b))
            .count();
        if length == tail.len() && self.end == End::Unknown {
            return Err(JsonError::Cut);
        }
        match serde_json::from_str(&tail[..length]) {
            Ok(number) => {
                self.at += length;
                Ok(Value::Number(number))
            }
            Err(_) => self.wrong("this is no number"),
        }
    }

    fn literal(&mut self) -> Result<Value, JsonError> {
        let tail = &self.text[self.at..];
        let length = identifier(tail);
        let value = match &tail[..length] {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            _ if length > 0 && length == tail.len() && self.end == End::Unknown => {
                return Err(JsonError::Cut);
            }
            _ => return self.wrong("a value is missing or has no quotation marks"),
        };
        self.at += length;
        Ok(value)
    }

    fn quoted(&mut self, quote: u8, place: QuotePosition) -> Result<String, JsonError> {
        let tail = &self.text[self.at..];
        let triple = [quote; 3];
        if place == QuotePosition::Value && quote != b'`' && tail.as_bytes().starts_with(&triple) {
            return self.verbatim(3, quote);
        }
        if quote == b'`' {
            return self.verbatim(1, quote);
        }
        self.at += 1;
        let mut text = String::new();
        loop {
            let tail = &self.text[self.at..];
            let Some(stop) = tail.bytes().position(|b| b == quote || b == b'\\') else {
                return Err(JsonError::Cut);
            };
            text.push_str(&tail[..stop]);
            self.at += stop + 1;
            if tail.as_bytes()[stop] == b'\\' {
                self.escape(quote, &mut text)?;
            } else if !self.loose || self.ends_string(place) {
                return Ok(text);
            } else {
                text.push(char::from(quote));
            }
        }
    }

    /// Reads a string in Python's triple quotation marks or in backticks, unchanged, if it needs no
    /// escapes.
    fn verbatim(&mut self, marks: usize, quote: u8) -> Result<String, JsonError> {
        let start = self.at + marks;
        let mark = &self.text[self.at..start];
        let Some(length) = self.text[start..].find(mark) else {
            return Err(JsonError::Cut);
        };
        let text = &self.text[start..start + length];
        if text.contains('\\') || (quote == b'`' && text.contains("${")) {
            return self.wrong("a text in such quotation marks must not need escapes");
        }
        self.at = start + length + marks;
        Ok(text.to_owned())
    }

    /// Reads an escape after a backslash.
    fn escape(&mut self, quote: u8, out: &mut String) -> Result<(), JsonError> {
        let next = self.text[self.at..].chars().next().ok_or(JsonError::Cut)?;
        let plain = match next {
            '"' | '\\' | '/' => next,
            '\'' if quote == b'\'' => next,
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => return self.unicode(out),
            // These are escapes of regular expressions, shells and C: the backslash itself is
            // meant.
            'd' | 'w' | 's' | 'D' | 'W' | 'S' | '\n' | ' ' => {
                out.push('\\');
                next
            }
            _ if next.is_ascii_punctuation() && next != '\'' => {
                out.push('\\');
                next
            }
            _ => return self.wrong("a backslash in a text must be written twice"),
        };
        out.push(plain);
        self.at += next.len_utf8();
        Ok(())
    }

    fn unicode(&mut self, out: &mut String) -> Result<(), JsonError> {
        let unit = |at: usize| {
            let digits = self.text.get(at + 1..at + 5)?;
            let all_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
            all_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
        };
        if self.text.len() < self.at + 5 {
            return Err(JsonError::Cut);
        }
        let first = unit(self.at);
        let again = self.text[self.at..].get(5..7) == Some("\\u");
        let second = unit(self.at + 6).filter(|_| first.is_some() && again);
        let units = first.into_iter().chain(second);
        let (read, length) = match char::decode_utf16(units).next() {
            Some(Ok(read)) => (read, if read.len_utf16() == 2 { 11 } else { 5 }),
            _ => return self.wrong("this is no character"),
        };
        out.push(read);
        self.at += length;
        Ok(())
    }

    /// Returns whether JSON certainly continues here, after a quotation mark, so that the mark
    /// ended its string.
    fn ends_string(&self, place: QuotePosition) -> bool {
        let tail = &self.text[self.at..];
        let tail = &tail[blank(tail)..];
        if place == QuotePosition::Key {
            return tail.starts_with(':');
        }
        let (mut at, mut closed) = (0, 0);
        for byte in tail.bytes() {
            match byte {
                _ if byte.is_ascii_whitespace() => {}
                b'}' | b']' if self.open.iter().rev().nth(closed) == Some(&byte) => closed += 1,
                _ => break,
            }
            at += 1;
        }
        let tail = &tail[at..];
        match (tail.strip_prefix(','), self.open.iter().rev().nth(closed)) {
            (Some(next), Some(b'}')) => key(&next[blank(next)..]),
            (Some(next), Some(_)) => next[blank(next)..].starts_with(['"', '\'', '{', '[', ']']),
            _ => tail.is_empty() && closed == self.open.len(),
        }
    }
}

/// Returns whether the text starts with a key and its colon.
fn key(text: &str) -> bool {
    let Some(quote @ (b'"' | b'\'')) = text.bytes().next() else {
        return text.starts_with('}');
    };
    let name = text[1..]
        .bytes()
        .take(MAX_KEY)
        .take_while(|&b| b != quote)
        .count();
    text.as_bytes().get(1 + name) == Some(&quote) && {
        let tail = &text[2 + name..];
        tail[blank(tail)..].starts_with(':')
    }
}

fn identifier(text: &str) -> usize {
    text.bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
        .count()
}

/// Returns the length of the leading white space, in bytes.
pub(crate) fn blank(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_whitespace).count()
}
