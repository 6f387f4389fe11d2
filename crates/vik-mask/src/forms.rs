//! The forms in which programs write a value.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

use crate::masker::MIN_BYTES;

/// The minimum length from which a line of a multi-line value is masked separately.
const MIN_LINE: usize = 16;

/// The line lengths of Base64 output: `base64`, and PEM.
const BASE64_LINES: [usize; 2] = [76, 64];

/// The line length of `xxd -p`.
const HEX_LINES: usize = 60;

/// For longer values only the common forms are searched, and their lines.
const MANY_FORMS: usize = 8 * 1024;

/// The maximum nesting of JSON texts inside of JSON texts.
const DEPTH: usize = 3;

/// Returns all forms of a value, including the value itself.
pub(crate) fn of(value: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    if value.len() > MANY_FORMS {
        forms.extend([value.to_owned(), Json::PLAIN.escape(value)]);
    } else {
        written(value, &mut forms);
        percents(value, &mut forms);
    }
    for line in lines(value) {
        written(line, &mut forms);
    }
    base64s(value, &mut forms);
    hexes(value, &mut forms);
    forms.retain(|form| form.len() >= MIN_BYTES);
    forms
}

/// Returns the lines of a value that are specific enough to be masked separately.
fn lines(value: &str) -> impl Iterator<Item = &str> {
    let is_one = !value.contains('\n');
    value.lines().map(str::trim).filter(move |line| {
        let has = |class: fn(&u8) -> bool| line.bytes().any(|byte| class(&byte));
        let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
        let is_long = line.len() >= MIN_LINE || (line.len() >= MIN_BYTES && is_mixed);
        // `-----BEGIN PRIVATE KEY-----` also occurs in public texts.
        !is_one && is_long && !line.starts_with("-----")
    })
}

/// Adds the value as it is, escaped for JSON and the like, and quoted for a shell.
fn written(value: &str, forms: &mut BTreeSet<String>) {
    forms.insert(value.to_owned());
    for style in [
        Json::PLAIN,
        Json::SLASH,
        Json::LOWER,
        Json::UPPER,
        Json::PHP,
        Json::HTML,
    ] {
        let mut text = value.to_owned();
        for _ in 0..DEPTH {
            text = style.escape(&text);
            forms.insert(text.clone());
        }
    }
    forms.insert(value.escape_debug().to_string());
    forms.insert(value.replace('\n', "\r\n"));
    // 'it'\''s', 'it'"'"'s'
    forms.insert(value.replace('\'', r"'\''"));
    forms.insert(value.replace('\'', r#"'"'"'"#));
    // "a \"word\""
    forms.insert(with_backslashes(value, |c| "\\\"$`".contains(c)));
    // $'it\'s', and Python's representation of a text
    let escaped = with_backslashes(value, |c| "\\'".contains(c));
    forms.insert(escaped.clone());
    forms.insert(
        escaped
            .replace('\n', "\\n")
            .replace('\r', "\\r")
            .replace('\t', "\\t"),
    );
    // Backslashes before special characters of shells and patterns: `printf %q` of bash, Ruby's
    // Shellwords, Perl's quotemeta, Python's re.escape, zsh.
    for kept in [
        "_-./:%+@=",
        "_-./:%+@=,",
        "_-./:%+@=#~",
        "_-./:%+@=,#~",
        "_-.,:+/@",
        "_",
        "_/.:-",
        "_!\"%',/:;<=>@`",
        "_\"'!,/:;<=>@`%",
    ] {
        let special = |c: char| {
            c.is_ascii() && !c.is_ascii_control() && !c.is_ascii_alphanumeric() && !kept.contains(c)
        };
        let text = with_backslashes(value, special);
        // Some programs quote a line break, or a character that is special only at the start.
        forms.insert(text.replace('\n', "'\n'"));
        forms.insert(text.replace('\n', "\\\n"));
        if text.starts_with(['#', '~', '=']) {
            forms.insert(format!("\\{text}"));
        }
        forms.insert(text);
    }
    for octal in [false, true] {
        for escape in ["\\E", "\\e", "\\033"] {
            forms.insert(c_escapes(value, "\\'", octal, escape));
        }
        // File names of git, `ls --quoting-style=c`
        forms.insert(c_escapes(value, "\\\"", octal, "\\033"));
    }
}

/// Escapes as in C and in `$'…'` of shells; with `octal`, bytes outside of ASCII are escaped too.
fn c_escapes(value: &str, signs: &str, octal: bool, escape: &str) -> String {
    let mut out = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\u{1b}' => out.push_str(escape),
            c if c.is_ascii_control() || (octal && !c.is_ascii()) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            c => {
                if signs.contains(c) {
                    out.push('\\');
                }
                out.push(c);
            }
        }
    }
    out
}

fn with_backslashes(value: &str, special: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        if special(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// How a program escapes texts of JSON.
#[derive(Clone, Copy)]
struct Json {
    slash: bool,
    unicode: bool,
    upper: bool,
    html: bool,
}

impl Json {
    const PLAIN: Self = Self {
        slash: false,
        unicode: false,
        upper: false,
        html: false,
    };
    const SLASH: Self = Self {
        slash: true,
        ..Self::PLAIN
    };
    const LOWER: Self = Self {
        unicode: true,
        ..Self::PLAIN
    };
    const UPPER: Self = Self {
        unicode: true,
        upper: true,
        ..Self::PLAIN
    };
    const PHP: Self = Self {
        slash: true,
        ..Self::LOWER
    };
    const HTML: Self = Self {
        html: true,
        ..Self::PLAIN
    };

    fn escape(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '/' if self.slash => out.push_str("\\/"),
                c if c < ' ' || (self.unicode && !c.is_ascii()) || (self.html && "<>&".contains(c)) => {
                    self.unit(c, &mut out);
                }
                c => out.push(c),
            }
        }
        out
    }

    fn unit(self, c: char, out: &mut String) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = if self.upper {
                write!(out, "\\u{unit:04X}")
            } else {
                write!(out, "\\u{unit:04x}")
            };
        }
    }
}

/// Adds Base64 in both alphabets: of the value alone, and of the value inside of a longer text at
/// each of the three offsets.
fn base64s(value: &str, forms: &mut BTreeSet<String>) {
    for alphabet in [&STANDARD, &URL_SAFE] {
        for offset in 0..3 {
            inside_base64(alphabet, value.as_bytes(), offset, forms);
        }
        for end in ["", "\n"] {
            let alone = encode(alphabet, format!("{value}{end}").as_bytes());
            let padded = format!("{alone}{}", "=".repeat(alone.len().wrapping_neg() % 4));
            for width in BASE64_LINES {
                broken(&padded, width, forms);
            }
            if end.is_empty() {
                forms.insert(padded);
            }
        }
    }
}

fn encode(alphabet: &Alphabet, bytes: &[u8]) -> String {
    GeneralPurpose::new(alphabet, NO_PAD).encode(bytes)
}

/// Adds the value after a number of other bytes: the part that does not depend on its neighbours,
/// and its end when nothing follows.
fn inside_base64(alphabet: &Alphabet, value: &[u8], offset: usize, forms: &mut BTreeSet<String>) {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(value);
    let encoded = encode(alphabet, &bytes);
    let start = (offset * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    forms.insert(encoded[start..end].to_owned());
    forms.insert(encoded[start..].to_owned());
}

/// Adds a long form that is broken into lines: each line, and all of them.
fn broken(form: &str, width: usize, forms: &mut BTreeSet<String>) {
    if form.len() <= width {
        return;
    }
    // The form is ASCII.
    let lines: Vec<&str> = (0..form.len())
        .step_by(width)
        .map(|at| &form[at..form.len().min(at + width)])
        .collect();
    forms.insert(lines.join("\n"));
    forms.insert(lines.join("\\n"));
    let long = lines.iter().filter(|line| line.len() >= MIN_LINE);
    forms.extend(long.map(|line| (*line).to_owned()));
}

fn hexes(value: &str, forms: &mut BTreeSet<String>) {
    let mut lower = String::with_capacity(value.len() * 2);
    for byte in value.bytes() {
        let _ = write!(lower, "{byte:02x}");
    }
    broken(&lower, HEX_LINES, forms);
    forms.insert(lower.to_ascii_uppercase());
    forms.insert(lower);
}

/// Adds percent-encoded forms: of all characters, or of those that programs encode; spaces may be
/// `+`.
fn percents(value: &str, forms: &mut BTreeSet<String>) {
    // None; RFC 3986; with slashes, as in paths; encodeURIComponent; encodeURI; forms.
    let kept = ["", "-._~", "-._~/", "-._~!*'()", "-._~!*'();,/?:@&=+$#", "-._*"];
    for (at, kept) in kept.into_iter().enumerate() {
        for plus in [false, true] {
            for upper in [false, true] {
                let mut out = String::with_capacity(value.len() * 3);
                for byte in value.bytes() {
                    let stays = at > 0 && (byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte));
                    // Writing to a string cannot fail.
                    let _ = match byte {
                        b' ' if plus => out.write_char('+'),
                        byte if stays => out.write_char(char::from(byte)),
                        byte if upper => write!(out, "%{byte:02X}"),
                        byte => write!(out, "%{byte:02x}"),
                    };
                }
                forms.insert(out);
            }
        }
    }
}
