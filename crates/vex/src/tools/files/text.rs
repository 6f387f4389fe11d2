//! Text in files: line ends, byte order marks, and edits by a model that knows neither.

use std::borrow::Cow;

/// The byte order mark.
pub(crate) const BOM: &str = "\u{feff}";
/// How much of a file is examined to distinguish text from other data.
const SNIFF_BYTES: usize = 8 * 1024;

/// The line ends of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnding {
    Lf,
    CrLf,
}

impl LineEnding {
    /// Returns the most frequent line end of a text.
    pub(crate) fn of(text: &str) -> Self {
        let crlf = text.matches("\r\n").count();
        if crlf > 0 && crlf * 2 >= text.matches('\n').count() {
            Self::CrLf
        } else {
            Self::Lf
        }
    }

    /// Returns the text with all of its line ends converted.
    pub(crate) fn on(self, text: &str) -> Cow<'_, str> {
        let plain = if text.contains("\r\n") {
            Cow::Owned(text.replace("\r\n", "\n"))
        } else {
            Cow::Borrowed(text)
        };
        match self {
            Self::Lf => plain,
            Self::CrLf if plain.contains('\n') => Cow::Owned(plain.replace('\n', "\r\n")),
            Self::CrLf => plain,
        }
    }
}

/// Returns `old` and `new` with the line ends of `text`; nothing else is changed.
pub(crate) fn adapted<'a>(text: &str, old: &'a str, new: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
    if text.contains(old) {
        // A single line does not show its line end: the new text follows the file.
        let new = match LineEnding::of(text) {
            LineEnding::CrLf if !old.contains('\n') && !new.contains("\r\n") => LineEnding::CrLf.on(new),
            _ => Cow::Borrowed(new),
        };
        return (Cow::Borrowed(old), new);
    }
    for ending in [LineEnding::CrLf, LineEnding::Lf] {
        let other = ending.on(old);
        if text.contains(other.as_ref()) {
            return (other, ending.on(new));
        }
    }
    (Cow::Borrowed(old), Cow::Borrowed(new))
}

/// Returns the kind of a content that is not displayable text.
pub(crate) fn binary_kind(start: &[u8]) -> Option<&'static str> {
    const MAGIC: &[(&[u8], &str)] = &[
        (b"\x89PNG\r\n\x1a\n", "PNG image"),
        (b"\xff\xd8\xff", "JPEG image"),
        (b"GIF8", "GIF image"),
        (b"%PDF-", "PDF document"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"\x1f\x8b", "gzip data"),
        (b"\xfd7zXZ\0", "xz data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"BZh", "bzip2 data"),
        (b"\x7fELF", "ELF program or library"),
        (b"\0asm", "WebAssembly module"),
        (b"SQLite format 3\0", "SQLite database"),
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
    ];
    let start = &start[..start.len().min(SNIFF_BYTES)];
    // A text may start like one of these; then text follows.
    let known = MAGIC.iter().find(|(magic, _)| start.starts_with(magic));
    match known {
        Some((_, kind)) if start.contains(&0) || std::str::from_utf8(start).is_err_and(cut_inside) => {
            Some(kind)
        }
        _ if start.contains(&0) => Some("binary data"),
        _ => None,
    }
}

/// Returns whether bytes are invalid UTF-8 for another reason than a cut at the end.
fn cut_inside(error: std::str::Utf8Error) -> bool {
    error.error_len().is_some()
}

/// Returns the start of a line, with a note about the omitted part.
pub(crate) fn short_line(line: &str, max: usize) -> Cow<'_, str> {
    if line.len() <= max {
        return Cow::Borrowed(line);
    }
    let cut = line.floor_char_boundary(max);
    Cow::Owned(format!("{} [… {} bytes more]", &line[..cut], line.len() - cut))
}

/// Returns a number of lines as text: `1 line`, `2 lines`.
pub(crate) fn count_of_lines(number: usize) -> String {
    match number {
        1 => "1 line".to_owned(),
        n => format!("{n} lines"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edit_follows_the_line_ends_of_the_file() {
        let file = "a\r\nb\r\nc\r\n";
        let shown = |text, old, new| {
            let (old, new) = adapted(text, old, new);
            format!("{old:?} -> {new:?}")
        };
        assert_eq!(shown(file, "a\nb", "x\ny"), r#""a\r\nb" -> "x\r\ny""#);
        assert_eq!(shown(file, "b", "x\ny"), r#""b" -> "x\r\ny""#);
        assert_eq!(shown(file, "a\r\nb", "x\r\ny"), r#""a\r\nb" -> "x\r\ny""#);
        assert_eq!(shown("a\nb\n", "a\r\nb", "x\r\ny"), r#""a\nb" -> "x\ny""#);
        assert_eq!(shown("a\nb\n", "a", "x\r\ny"), r#""a" -> "x\r\ny""#);
        assert_eq!(
            shown("a\nb\r\nc\nd\n", "a\nb", "x"),
            r#""a\nb" -> "x""#,
            "mixed: nothing fits, nothing is guessed"
        );
    }

    #[test]
    fn binary_kind_is_detected_by_content() {
        assert_eq!(binary_kind(b"\x89PNG\r\n\x1a\n\0\0"), Some("PNG image"));
        assert_eq!(binary_kind(b"a\0b"), Some("binary data"));
        assert_eq!(binary_kind(b"\xff\xfea\0"), Some("UTF-16 text"));
        for text in ["GIF8 is a format", "PK", "BZh!", "", "äöü"] {
            assert_eq!(binary_kind(text.as_bytes()), None, "{text}");
        }
        assert_eq!(binary_kind(b"caf\xe9\n"), None, "text of another encoding");
        let long = "ä".repeat(SNIFF_BYTES);
        assert_eq!(binary_kind(&long.as_bytes()[1..]), None);
    }

    proptest! {
        #[test]
        fn line_ends_are_uniform_and_come_back(text in "[ab\r\n]{0,30}") {
            let text = text.replace('\r', "");
            let crlf = LineEnding::CrLf.on(&text).into_owned();
            prop_assert_eq!(crlf.matches("\r\n").count(), text.matches('\n').count());
            prop_assert_eq!(LineEnding::Lf.on(&crlf).into_owned(), text);
            prop_assert_eq!(LineEnding::CrLf.on(&crlf).into_owned(), crlf);
        }
    }
}
