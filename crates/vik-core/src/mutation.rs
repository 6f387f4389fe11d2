//! Classifies the changes of an attempt, as far as the text alone allows.
//!
//! The classes follow from tokens and lines, without parsing: an uncertain change has no class.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::file_change::{ChangeKind, FileChange, LineRange};

/// The class of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum MutationClass {
    /// Another path with the same content.
    Rename,
    /// The same tokens in the same order: only white space differs.
    Formatting,
    /// Code that existed before: lines were moved, or declared names were renamed throughout the
    /// file.
    AstRefactor,
    /// Code with new meaning: a new file, text or number.
    IntentEvolution,
}

impl MutationClass {
    /// Returns the name used in records.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A change with the contents before and after; `None` where a content is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    pub change: &'a FileChange,
    pub old: Option<&'a [u8]>,
    pub new: Option<&'a [u8]>,
}

/// Extensions of files that count as source code.
const CODE: [&str; 40] = [
    "bash", "c", "cc", "cpp", "cs", "css", "cts", "cxx", "dart", "ex", "exs", "fs", "go", "h", "hpp", "hs",
    "java", "jl", "js", "jsx", "kt", "lua", "m", "mjs", "ml", "mts", "php", "pl", "py", "r", "rb", "rs",
    "scala", "sh", "sql", "swift", "ts", "tsx", "vue", "zig",
];

/// Keywords that declare a name.
const DECLARES: [&str; 22] = [
    "class",
    "const",
    "def",
    "enum",
    "fn",
    "fun",
    "func",
    "function",
    "interface",
    "let",
    "local",
    "macro",
    "mod",
    "module",
    "mut",
    "namespace",
    "static",
    "struct",
    "trait",
    "type",
    "val",
    "var",
];

/// Returns the classes of all changes of one attempt, in order.
pub fn classify(changes: &[Texts<'_>]) -> Vec<Option<MutationClass>> {
    let all_removed = Pool::of(changes.iter().flat_map(|texts| texts.removed()));
    let all_added = Pool::of(changes.iter().flat_map(|texts| texts.added()));
    changes
        .iter()
        .map(|texts| texts.class(&all_removed, &all_added))
        .collect()
}

impl<'a> Texts<'a> {
    fn lines(content: Option<&'a [u8]>, ranges: impl Iterator<Item = LineRange>) -> Vec<&'a [u8]> {
        let lines = content.unwrap_or_default().split_inclusive(|byte| *byte == b'\n');
        let lines: Vec<_> = lines.collect();
        let parts = ranges.filter_map(|range| lines.get(range.indices()));
        parts.flatten().copied().collect()
    }

    fn removed(&self) -> Vec<&'a [u8]> {
        Self::lines(self.old, self.change.removed())
    }

    fn added(&self) -> Vec<&'a [u8]> {
        Self::lines(self.new, self.change.ranges())
    }

    fn is_code(&self) -> bool {
        let name = self.change.path.name();
        let dot = name.iter().rposition(|byte| *byte == b'.');
        let extension = dot.and_then(|dot| std::str::from_utf8(&name[dot + 1..]).ok());
        extension.is_some_and(|extension| CODE.contains(&extension.to_ascii_lowercase().as_str()))
    }

    fn class(&self, all_removed: &Pool<'_>, all_added: &Pool<'_>) -> Option<MutationClass> {
        let hunks = self.change.hunks.as_ref()?;
        if hunks.is_empty() {
            let renamed = matches!(self.change.kind, ChangeKind::Renamed { .. });
            return renamed.then_some(MutationClass::Rename);
        }
        let (removed, added) = (self.removed(), self.added());
        if let (Some(old), Some(new)) = (self.old, self.new) {
            let (old, new) = (tokens(old), tokens(new));
            if old == new {
                return Some(MutationClass::Formatting);
            }
            if self.is_code() && is_renaming(&old, &new) {
                return Some(MutationClass::AstRefactor);
            }
        }
        if !self.is_code() {
            return None;
        }
        if all_removed.has_all(&added) && all_added.has_all(&removed) {
            return Some(MutationClass::AstRefactor);
        }
        let is_whole = matches!(self.change.kind, ChangeKind::Added | ChangeKind::Deleted);
        let has_new_literal = added
            .iter()
            .flat_map(|line| tokens(line))
            .any(|token| is_literal(token) && !all_removed.literals.contains_key(token));
        (is_whole || has_new_literal).then_some(MutationClass::IntentEvolution)
    }
}

/// Lines and their literals, without surrounding white space.
struct Pool<'a> {
    lines: HashMap<&'a [u8], usize>,
    literals: HashMap<&'a [u8], usize>,
}

impl<'a> Pool<'a> {
    fn of(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut pool = Self {
            lines: HashMap::new(),
            literals: HashMap::new(),
        };
        for line in lines {
            *pool.lines.entry(line.trim_ascii()).or_default() += 1;
            for token in tokens(line).into_iter().filter(|token| is_literal(token)) {
                *pool.literals.entry(token).or_default() += 1;
            }
        }
        pool
    }

    /// Returns whether the pool contains all these lines, each as often; empty lines are ignored.
    fn has_all(&self, lines: &[&[u8]]) -> bool {
        let mut left = self.lines.clone();
        let mut lines = lines
            .iter()
            .map(|line| line.trim_ascii())
            .filter(|line| !line.is_empty());
        lines.all(|line| match left.get_mut(line) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        })
    }
}

/// Returns the tokens of a text: names, numbers, quoted texts, and single other characters.
fn tokens(text: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut remaining = text.trim_ascii_start();
    while let Some(&first) = remaining.first() {
        let len = if is_name(first) {
            remaining
                .iter()
                .position(|byte| !is_name(*byte))
                .unwrap_or(remaining.len())
        } else if matches!(first, b'"' | b'\'' | b'`') {
            quoted(remaining).unwrap_or(1)
        } else {
            1
        };
        found.push(&remaining[..len]);
        remaining = remaining[len..].trim_ascii_start();
    }
    found
}

/// Returns the length of a quoted text that ends on its line.
fn quoted(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'\n' => return None,
            byte if byte == text[0] => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_literal(token: &[u8]) -> bool {
    let is_text = token.len() > 1 && matches!(token[0], b'"' | b'\'' | b'`');
    is_text || token[0].is_ascii_digit()
}

/// Returns whether the new tokens are the old ones after renaming names that the old text declares,
/// each to one new name throughout.
fn is_renaming(old: &[&[u8]], new: &[&[u8]]) -> bool {
    if old.len() != new.len() {
        return false;
    }
    let mut to: HashMap<&[u8], &[u8]> = HashMap::new();
    let mut from: HashMap<&[u8], &[u8]> = HashMap::new();
    for (before, after) in old.iter().zip(new) {
        if *to.entry(before).or_insert(after) != *after || *from.entry(after).or_insert(before) != *before {
            return false;
        }
    }
    let is_declared = |name: &[u8]| {
        old.windows(2).any(|pair| {
            let is_declaring = std::str::from_utf8(pair[0]).is_ok_and(|token| DECLARES.contains(&token));
            is_declaring && pair[1] == name
        })
    };
    let names = |token: &[u8]| is_name(token[0]) && !token[0].is_ascii_digit();
    to.iter()
        .filter(|(before, after)| before != after)
        .all(|(before, after)| names(before) && names(after) && is_declared(before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_change::{Hunk, RelPath};

    /// Returns a change of a whole text.
    fn change(path: &str, kind: ChangeKind, old: &str, new: &str) -> FileChange {
        let all = |text: &str| LineRange {
            start: 1,
            count: u32::try_from(text.lines().count()).unwrap(),
        };
        let hunk = Hunk {
            old: all(old),
            new: all(new),
        };
        FileChange {
            path: RelPath::new(path),
            kind,
            old: None,
            new: None,
            hunks: Some(if old == new { Vec::new() } else { vec![hunk] }),
        }
    }

    fn class(path: &str, old: &str, new: &str) -> Option<MutationClass> {
        let change = change(path, ChangeKind::Modified, old, new);
        let texts = Texts {
            change: &change,
            old: Some(old.as_bytes()),
            new: Some(new.as_bytes()),
        };
        classify(&[texts])[0]
    }

    #[test]
    fn evident_changes_have_a_class() {
        use MutationClass::*;
        assert_eq!(class("a.rs", "fn a() {}\n", "fn a()\n{\n}\n"), Some(Formatting));
        assert_eq!(class("notes.md", "a  b\n", "a b\n"), Some(Formatting));
        assert_eq!(
            class("a.rs", "fn a() {}\na();\n", "fn b() {}\nb();\n"),
            Some(AstRefactor)
        );
        assert_eq!(
            class("a.py", "def a():\n  x()\n", "def a():\n  x(1)\n"),
            Some(IntentEvolution)
        );
        assert_eq!(class("a.js", "f('a')\n", "f('b')\n"), Some(IntentEvolution));
        assert_eq!(
            class("a.rs", "fn a() {}\nfn b() {}\n", "fn b() {}\nfn a() {}\n"),
            Some(AstRefactor)
        );
    }

    #[test]
    fn ambiguous_changes_have_no_class() {
        // The function is not declared here, so the call may be of another one.
        assert_eq!(class("a.rs", "x.add(y);\n", "x.remove(y);\n"), None);
        assert_eq!(class("a.rs", "let on = true;\n", "let on = false;\n"), None);
        // Two names became one.
        assert_eq!(
            class("a.rs", "let a; let b; a + b\n", "let a; let a; a + a\n"),
            None
        );
        assert_eq!(class("a.rs", "let a; a\n", "let b; a\n"), None);
        assert_eq!(class("notes.md", "one\n", "2\n"), None);
    }

    #[test]
    fn code_moved_between_files_is_no_new_intent() {
        let text = "fn a() {\n    b(1)\n}\n";
        let all_removed = change("a.rs", ChangeKind::Modified, text, "");
        let all_added = change("b.rs", ChangeKind::Added, "", text);
        let texts = |change, old: &'static str, new: &'static str| Texts {
            change,
            old: Some(old.as_bytes()),
            new: Some(new.as_bytes()),
        };
        let both = [texts(&all_removed, text, ""), texts(&all_added, "", text)];
        assert_eq!(classify(&both), [Some(MutationClass::AstRefactor); 2]);
        assert_eq!(classify(&both[1..]), [Some(MutationClass::IntentEvolution)]);
    }

    #[test]
    fn file_with_only_another_name_is_renamed() {
        let from = RelPath::new("a");
        let change = change("b", ChangeKind::Renamed { from }, "x", "x");
        let texts = Texts {
            change: &change,
            old: None,
            new: None,
        };
        assert_eq!(classify(&[texts]), [Some(MutationClass::Rename)]);
    }

    proptest::proptest! {
        #[test]
        fn classify_accepts_any_text(old in "[a-c0-2 \"'\\\\\n]{0,20}", new in "[a-c0-2 \"'\\\\\n]{0,20}") {
            let class_found = class("a.rs", &old, &new);
            if class_found == Some(MutationClass::Formatting) {
                let packed = |text: &str| text.split_ascii_whitespace().collect::<String>();
                proptest::prop_assert_eq!(packed(&old), packed(&new));
            }
        }
    }
}
