//! The changes of one file of a workspace, computed from its contents before and after.

use std::borrow::{Borrow, Cow};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path relative to a workspace, byte for byte as on the system, with `/` between its parts.
///
/// Its text is the path itself if it is UTF-8; else it is quoted, with `\ooo` for each invalid
/// byte, as git writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Creates a path from bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/')
    }

    pub fn name(&self) -> &[u8] {
        self.parts().last().unwrap_or_default()
    }

    /// Returns a text that [`from_text`](Self::from_text) can parse.
    pub fn text(&self) -> Cow<'_, str> {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.starts_with('"') => Cow::Borrowed(text),
            _ => Cow::Owned(quoted(&self.0)),
        }
    }

    /// Parses the output of [`text`](Self::text).
    pub fn from_text(text: &str) -> Self {
        let inner = text
            .strip_prefix('"')
            .and_then(|remaining| remaining.strip_suffix('"'));
        Self(
            inner
                .and_then(unquoted)
                .unwrap_or_else(|| text.as_bytes().to_vec()),
        )
    }
}

/// Maps of paths can be searched by bytes: both have the same order and the same hash.
impl Borrow<[u8]> for RelPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::from_text(&text))
    }
}

fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if matches!(letter, '"' | '\\') {
                text.push('\\');
            }
            text.push(letter);
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\{byte:03o}"));
        }
    }
    text.push('"');
    text
}

/// Returns `None` if the text is not quoted text.
fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut remaining = text.as_bytes();
    while let Some((&byte, after)) = remaining.split_first() {
        remaining = after;
        match byte {
            b'"' => return None,
            b'\\' => match remaining {
                [next @ (b'"' | b'\\'), after @ ..] => {
                    bytes.push(*next);
                    remaining = after;
                }
                [a, b, c, after @ ..] => {
                    let digits = std::str::from_utf8(&[*a, *b, *c]).ok()?.to_owned();
                    bytes.push(u8::from_str_radix(&digits, 8).ok()?);
                    remaining = after;
                }
                _ => return None,
            },
            byte => bytes.push(byte),
        }
    }
    Some(bytes)
}

/// The SHA-256 of some content.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// Calls `then` with the hexadecimal digits.
    fn with_digits<T>(self, then: impl FnOnce(&str) -> T) -> T {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [b'0'; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        then(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_digits(|digits| f.write_str(digits))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for ContentHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = "not 64 hexadecimal digits";
        let mut hash = [0; 32];
        if text.len() != 64 {
            return Err(bad);
        }
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            b'A'..=b'F' => Ok(digit - b'A' + 10),
            _ => Err(bad),
        };
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = value(digits[0])? << 4 | value(digits[1])?;
        }
        Ok(Self(hash))
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_digits(|digits| serializer.serialize_str(digits))
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Consecutive lines. If `count` is 0, `start` is the line before which they would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LineRange {
    /// The first line, from 1.
    pub start: u32,
    /// The number of lines.
    pub count: u32,
}

impl LineRange {
    /// Returns the last line. Only meaningful if `count` is not 0.
    pub fn end(self) -> u32 {
        self.start + self.count.saturating_sub(1)
    }

    /// Returns the lines as a range of indices, from 0.
    pub fn indices(self) -> std::ops::Range<usize> {
        let start = self.start.saturating_sub(1) as usize;
        start..start + self.count as usize
    }
}

/// Lines that replaced others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hunk {
    pub old: LineRange,
    pub new: LineRange,
}

/// A file before or after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The permissions, such as `0o644`.
    pub mode: u32,
    /// The size in bytes.
    pub size: u64,
    /// The hash of its content, or of the target of a link. `None` if the file is too large to
    /// read.
    pub hash: Option<ContentHash>,
    /// Whether it is a symbolic link, which is never followed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link: bool,
}

/// The kind of a file change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The file is new.
    Added,
    /// The content or the mode changed.
    Modified,
    Deleted,
    /// The file has another name, and perhaps another content.
    Renamed {
        from: RelPath,
    },
    /// A link became a file, or a file became a link.
    TypeChanged,
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The path; of a deleted file, its former path.
    pub path: RelPath,
    pub kind: ChangeKind,
    /// The file before; `None` if it was new.
    pub old: Option<Side>,
    /// The file after; `None` if it was deleted.
    pub new: Option<Side>,
    /// The changed lines, in order. `None` for a binary file, a link, or a file that is too large.
    pub hunks: Option<Vec<Hunk>>,
}

impl FileChange {
    /// Returns the changed lines in the new file.
    pub fn ranges(&self) -> impl Iterator<Item = LineRange> {
        let hunks = self.hunks.iter().flatten();
        hunks.map(|hunk| hunk.new).filter(|range| range.count > 0)
    }

    /// Returns the removed lines in the old file.
    pub fn removed(&self) -> impl Iterator<Item = LineRange> {
        let hunks = self.hunks.iter().flatten();
        hunks.map(|hunk| hunk.old).filter(|range| range.count > 0)
    }

    /// Returns the permissions before and after, if both are known and differ.
    pub fn mode_change(&self) -> Option<(u32, u32)> {
        let (old, new) = (self.old.as_ref()?, self.new.as_ref()?);
        (old.mode != new.mode && !old.link && !new.link).then_some((old.mode, new.mode))
    }

    /// Returns all paths of the change: the present one, and the former one of a renamed file.
    pub fn paths(&self) -> impl Iterator<Item = &RelPath> {
        let from = match &self.kind {
            ChangeKind::Renamed { from } => Some(from),
            _ => None,
        };
        std::iter::once(&self.path).chain(from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn path_text_is_quoted_like_git() {
        assert_eq!(RelPath::new("src/é.rs").text(), "src/é.rs");
        assert_eq!(RelPath::new(b"caf\xe9\"\\".to_vec()).text(), r#""caf\351\"\\""#);
        assert_eq!(RelPath::new("\"a\"").text(), r#""\"a\"""#);
        assert_eq!(RelPath::new("a/b").name(), b"b");
    }

    proptest! {
        #[test]
        fn path_round_trips_through_text_and_json(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let path = RelPath::new(bytes);
            prop_assert_eq!(&RelPath::from_text(&path.text()), &path);
            let json = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<RelPath>(&json).unwrap(), path);
        }

        #[test]
        fn path_accepts_any_text(text in "[\"\\\\0-9a-z]{0,12}") {
            let path = RelPath::from_text(&text);
            prop_assert_eq!(RelPath::from_text(&path.text()), path);
        }

        #[test]
        fn hash_round_trips_through_text(bytes in any::<[u8; 32]>()) {
            let hash = ContentHash(bytes);
            prop_assert_eq!(hash.to_string().parse::<ContentHash>(), Ok(hash));
        }
    }
}
