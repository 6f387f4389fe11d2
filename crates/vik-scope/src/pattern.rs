//! Globs, compared part by part.

use std::ffi::OsStr;
use std::path::PathBuf;

use globset::{GlobBuilder, GlobMatcher};

/// The maximum length of a glob, in bytes.
pub const MAX_GLOB_BYTES: usize = 1024;

/// The maximum number of parts of a glob.
const MAX_PARTS: usize = 32;

/// Why a glob of a scope is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGlob {
    /// The list is empty.
    #[error("the list of globs is empty")]
    Empty,
    /// The list is too long.
    #[error("more than {} globs", super::MAX_GLOBS)]
    TooMany,
    /// A glob is invalid.
    #[error("`{glob}` {why}")]
    Glob {
        /// The glob, made printable.
        glob: String,
        why: String,
    },
}

impl BadGlob {
    fn of(glob: &str, why: impl Into<String>) -> Self {
        let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        Self::Glob {
            glob: glob.chars().take(80).map(clean).collect(),
            why: why.into(),
        }
    }
}

/// One glob. It also matches everything inside of a folder that it matches.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Clone, Debug)]
enum Token {
    /// `**`: any number of folders, including none.
    Deep,
    /// One part of a path.
    Name(Name),
}

#[derive(Clone, Debug)]
struct Name {
    text: String,
    kind: NameKind,
}

#[derive(Clone, Debug)]
enum NameKind {
    /// A literal name without special characters.
    Literal,
    Any,
    /// A glob with a literal prefix and suffix.
    Glob {
        matcher: Box<GlobMatcher>,
        prefix: String,
        suffix: String,
    },
}

impl Pattern {
    /// Parses a glob without its `!`.
    pub(super) fn new(glob: &str) -> Result<Self, BadGlob> {
        let bad = |why: &str| Err(BadGlob::of(glob, why));
        if glob.trim().is_empty() {
            return bad("is empty");
        }
        if glob.len() > MAX_GLOB_BYTES {
            return bad("is too long");
        }
        if glob.contains('\0') {
            return bad("contains a NUL character");
        }
        if glob.starts_with('/') || glob.starts_with("~/") {
            return bad("is not relative to the workspace");
        }
        let (inner, is_folder) = match glob.trim_end_matches('/') {
            inner if inner.len() < glob.len() => (inner, true),
            inner => (inner, false),
        };
        let mut tokens = Vec::new();
        for part in inner.split('/') {
            match part {
                "" | "." => {}
                ".." => return bad("contains `..`"),
                "**" => {
                    if !matches!(tokens.last(), Some(Token::Deep)) {
                        tokens.push(Token::Deep);
                    }
                }
                part if part.contains("**") => {
                    return bad(
                        "contains `**` next to other characters; `**` must be a complete path segment",
                    );
                }
                part if super::is_git(OsStr::new(part)) => {
                    return bad("contains `.git`, which is never in scope");
                }
                part => tokens.push(Token::Name(Name::new(glob, part)?)),
            }
        }
        if tokens.len() > MAX_PARTS {
            return bad("has too many parts");
        }
        let ends_deep = matches!(tokens.last(), Some(Token::Deep));
        if tokens.is_empty() {
            // `.` or `./` is the workspace.
            tokens.push(Token::Name(Name::any()));
        } else if ends_deep || is_folder {
            // Only the contents of the folder, because the folder itself must not become a link.
            if ends_deep {
                tokens.pop();
            }
            tokens.push(Token::Name(Name::any()));
        }
        tokens.push(Token::Deep);
        // `a/**/b` has a suffix of its own; `**/**` does not occur twice.
        Ok(Self { tokens })
    }

    /// Returns a glob that matches everything.
    pub(super) fn everything() -> Self {
        Self {
            tokens: vec![Token::Name(Name::any()), Token::Deep],
        }
    }

    pub(super) fn matches(&self, parts: &[&OsStr]) -> bool {
        // The tokens that may be next after the parts so far.
        let mut at = vec![false; self.tokens.len() + 1];
        at[0] = true;
        self.skip(&mut at);
        for part in parts {
            let mut next = vec![false; at.len()];
            for (number, token) in self.tokens.iter().enumerate() {
                if !at[number] {
                    continue;
                }
                match token {
                    Token::Deep => next[number] = true,
                    Token::Name(name) => next[number + 1] |= name.matches(part),
                }
            }
            self.skip(&mut next);
            at = next;
        }
        at[self.tokens.len()]
    }

    /// Adds the tokens that follow a `**`, which may match nothing.
    fn skip(&self, at: &mut [bool]) {
        for (number, token) in self.tokens.iter().enumerate() {
            if at[number] && matches!(token, Token::Deep) {
                at[number + 1] = true;
            }
        }
    }

    /// Returns whether both may match the same path.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        table(self, other, |reach, a, b, own, theirs| {
            let step = |da, db| reach(a + da, b + db);
            match (own, theirs) {
                (None, None) => true,
                // Each matches nothing, or the next part of the other.
                (Some(Token::Deep), Some(_)) => step(1, 0) || step(0, 1),
                (Some(_), Some(Token::Deep)) => step(0, 1) || step(1, 0),
                (Some(Token::Deep), None) => step(1, 0),
                (None, Some(Token::Deep)) => step(0, 1),
                (Some(Token::Name(own)), Some(Token::Name(theirs))) => own.overlaps(theirs) && step(1, 1),
                (Some(Token::Name(_)), None) | (None, Some(Token::Name(_))) => false,
            }
        })
    }

    /// Returns whether it certainly matches everything that the other matches. It may return false
    /// wrongly, but never true.
    pub(super) fn covers(&self, other: &Self) -> bool {
        // The last token matches everything that is left.
        let last = self.tokens.len() - 1;
        table(self, other, |reach, a, b, own, theirs| match (own, theirs) {
            _ if a >= last => true,
            (Some(Token::Deep), Some(_)) => reach(a + 1, b) || reach(a, b + 1),
            (Some(Token::Name(own)), Some(Token::Name(theirs))) => own.covers(theirs) && reach(a + 1, b + 1),
            _ => false,
        })
    }

    /// Returns the folder or file that contains all its matches.
    pub(super) fn root(&self) -> PathBuf {
        let literal = |token: &Token| match token {
            Token::Name(Name {
                text,
                kind: NameKind::Literal,
            }) => Some(text.clone()),
            _ => None,
        };
        self.tokens.iter().map_while(literal).collect()
    }
}

/// Answers a question about the suffixes of two patterns, from their ends: `ask` gets the answers
/// for the suffixes after a step, the two positions, and the tokens there.
fn table(
    a: &Pattern,
    b: &Pattern,
    ask: impl Fn(&dyn Fn(usize, usize) -> bool, usize, usize, Option<&Token>, Option<&Token>) -> bool,
) -> bool {
    let (rows, columns) = (a.tokens.len() + 1, b.tokens.len() + 1);
    let mut known = vec![false; rows * columns];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let reach =
                |row: usize, column: usize| row < rows && column < columns && known[row * columns + column];
            let answer = ask(&reach, row, column, a.tokens.get(row), b.tokens.get(column));
            known[row * columns + column] = answer;
        }
    }
    known[0]
}

impl Name {
    fn any() -> Self {
        Self {
            text: "*".to_owned(),
            kind: NameKind::Any,
        }
    }

    fn new(glob: &str, part: &str) -> Result<Self, BadGlob> {
        if part == "*" {
            return Ok(Self::any());
        }
        let special = |c: char| "*?[]{}\\".contains(c);
        let kind = if part.contains(special) {
            let matcher = GlobBuilder::new(part)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|error| BadGlob::of(glob, format!("is not a valid glob: {}", error.kind())))?
                .compile_matcher();
            let end = part.find(special).unwrap_or(part.len());
            // The character after an escaped one is omitted too: a suffix that is too short does no
            // harm.
            let start = part
                .rfind(special)
                .and_then(|at| part[at..].char_indices().nth(2).map(|(next, _)| at + next));
            NameKind::Glob {
                matcher: Box::new(matcher),
                prefix: part[..end].to_owned(),
                suffix: start.map_or_else(String::new, |start| part[start..].to_owned()),
            }
        } else {
            NameKind::Literal
        };
        Ok(Self {
            text: part.to_owned(),
            kind,
        })
    }

    fn matches(&self, part: &OsStr) -> bool {
        match &self.kind {
            NameKind::Literal => *part == *self.text,
            NameKind::Any => true,
            NameKind::Glob { matcher, .. } => matcher.is_match(part),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        use NameKind::{Any, Glob, Literal};
        match (&self.kind, &other.kind) {
            (Any, _) | (_, Any) => true,
            (Literal, _) => other.matches(OsStr::new(&self.text)),
            (_, Literal) => self.matches(OsStr::new(&other.text)),
            (
                Glob { prefix, suffix, .. },
                Glob {
                    prefix: their_prefix,
                    suffix: their_suffix,
                    ..
                },
            ) => {
                (prefix.starts_with(their_prefix.as_str()) || their_prefix.starts_with(prefix.as_str()))
                    && (suffix.ends_with(their_suffix.as_str()) || their_suffix.ends_with(suffix.as_str()))
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (NameKind::Any, _) => true,
            (_, NameKind::Literal) => self.matches(OsStr::new(&other.text)),
            _ => self.text == other.text,
        }
    }
}
