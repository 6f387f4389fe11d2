//! Files that the first message shows, so that a small model need not ask for them.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use super::files::ReadFile;
use super::memory::digest;
use super::walk::Walk;
use super::{Need, Subject, Tool as _, Toolbox};
use crate::events::Journal;
use crate::interrupt::Interrupt;
use crate::redact::redact;

/// The maximum number of files among which is chosen, apart from those that are named by their paths.
const MAX_FILES: usize = 2000;
/// The maximum number of files that are named by their paths.
const MAX_NAMED: usize = 100;
/// The maximum size of a file that is shown, in bytes.
const MAX_FILE: usize = 16 * 1024;
/// The minimum length of a word of the task that is searched in files.
const MIN_WORD: usize = 4;

/// A file that is shown whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// The path relative to the workspace.
    pub(crate) path: String,
    pub(crate) content: String,
}

/// The chosen files, and the paths of the others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Attachments {
    pub(crate) shown: Vec<Attachment>,
    pub(crate) others: Vec<String>,
}

/// How closely a file belongs to the task, closest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    /// The task names its path.
    Named,
    /// The failing check names it, or a named file does, or it contains a name from the task.
    Mentioned,
    Other,
}

struct Candidate {
    relation: Relation,
    path: String,
    bytes: Vec<u8>,
    content: String,
}

impl Toolbox {
    /// Returns the files that belong to a task, as far as they fit into `max` bytes: those that it
    /// names, then those that the output of a failing check or a named file names, then the
    /// smallest of the others. Files that may not be read, contain a secret or are no text are left out.
    pub(crate) fn attachments(
        &self,
        task: &str,
        output: &str,
        max: usize,
        journal: &Journal,
        interrupt: &Interrupt,
    ) -> Attachments {
        let named = self.named_paths(&[task, output]);
        let mut candidates = self.candidates(named, journal, interrupt);
        for one in &mut candidates {
            if names(task, &one.path) {
                one.relation = Relation::Named;
            }
        }
        let named: String = candidates
            .iter()
            .filter(|one| one.relation == Relation::Named)
            .map(|one| one.content.as_str())
            .collect();
        let identifiers: Vec<&str> = identifiers(task).collect();
        for one in candidates
            .iter_mut()
            .filter(|one| one.relation == Relation::Other)
        {
            let is_mentioned = names(output, &one.path)
                || stem(&one.path).is_some_and(|stem| has_word(&named, stem))
                || identifiers.iter().any(|name| has_word(&one.content, name));
            if is_mentioned {
                one.relation = Relation::Mentioned;
            }
        }
        candidates.sort_by(|a, b| {
            let order = |one: &Candidate| {
                (
                    one.relation,
                    if one.relation == Relation::Other {
                        one.content.len()
                    } else {
                        0
                    },
                )
            };
            order(a).cmp(&order(b))
        });
        let mut left = max;
        let mut chosen = Attachments::default();
        for one in candidates {
            let size = one.content.len() + one.path.len() + 10;
            if one.content.is_empty() || size > left {
                chosen.others.push(one.path);
                continue;
            }
            left -= size;
            if let Ok(place) = self.root.place_to_read(&PathBuf::from(&one.path)) {
                self.files.remember(&place.resolved, digest(&one.bytes));
            }
            chosen.shown.push(Attachment {
                path: one.path,
                content: one.content,
            });
        }
        chosen.shown.sort_by(|a, b| a.path.cmp(&b.path));
        chosen.others.sort_unstable();
        chosen
    }

    /// Forgets which files the model has seen.
    pub(crate) fn forget_files(&self) {
        self.files.clear();
    }

    /// Reads a file of the workspace that is not larger than what may be shown.
    fn small_file(&self, path: &str) -> Option<Vec<u8>> {
        let path = Path::new(path);
        let file = self.root.place_to_read(path).ok()?.read(path).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() <= MAX_FILE).then_some(bytes)
    }

    /// Returns the paths of files that texts name, relative to the workspace.
    fn named_paths(&self, texts: &[&str]) -> Vec<PathBuf> {
        let root = self.root.path();
        let in_workspace = |word: &str| {
            let path = Path::new(word.trim_end_matches('.'));
            let below = path.strip_prefix(root).unwrap_or(path);
            let below = below.strip_prefix(".").unwrap_or(below);
            let is_plain = below
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            (is_plain && root.join(below).is_file()).then(|| below.to_owned())
        };
        let is_part = |c: char| c.is_alphanumeric() || "._-+@/".contains(c);
        let words = texts.iter().flat_map(|text| text.split(|c| !is_part(c)));
        let mut found = Vec::new();
        for path in words
            .filter(|word| word.contains(['.', '/']))
            .filter_map(in_workspace)
        {
            if found.len() == MAX_NAMED {
                break;
            }
            if !found.contains(&path) {
                found.push(path);
            }
        }
        found
    }

    /// Returns the files that may be shown, first those with the paths `named`. One that may not has
    /// no content.
    fn candidates(&self, named: Vec<PathBuf>, journal: &Journal, interrupt: &Interrupt) -> Vec<Candidate> {
        let context = self.context(journal, interrupt);
        let mut found: Vec<Candidate> = Vec::new();
        let mut add = |only: Vec<PathBuf>, max: usize| {
            let known: HashSet<String> = found.iter().map(|one| one.path.clone()).collect();
            let walk = Walk {
                path: PathBuf::from("."),
                glob: None,
                all: false,
                only,
            };
            // An interrupt ends the walk early; the run ends by it right after.
            let _ = walk.files(&context, |file| {
                if !known.contains(&file.shown) {
                    found.extend(self.candidate(file.shown));
                }
                Ok(found.len() < max)
            });
        };
        if !named.is_empty() {
            add(named, MAX_NAMED);
        }
        add(Vec::new(), MAX_FILES + MAX_NAMED);
        found
    }

    /// Returns a file of the workspace, if it may be read.
    fn candidate(&self, path: String) -> Option<Candidate> {
        let subject = || Subject::Paths(vec![path.clone()]);
        self.judge(ReadFile::NAME, Need::Read, subject).ok()?;
        let bytes = self.small_file(&path).unwrap_or_default();
        let is_plain =
            |text: &&str| !text.contains('\0') && matches!(redact(text), std::borrow::Cow::Borrowed(_));
        let content = std::str::from_utf8(&bytes)
            .ok()
            .filter(is_plain)
            .unwrap_or_default()
            .to_owned();
        Some(Candidate {
            relation: Relation::Other,
            path,
            bytes,
            content,
        })
    }
}

/// Returns whether a text names a file, by its path or its name.
fn names(text: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    has_word(text, path) || (name.contains('.') && has_word(text, name))
}

/// Returns whether a text contains a word that no letter, digit or underscore continues.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(continues) && !text[at + word.len()..].starts_with(continues))
}

/// Returns the name of a file without its extension, if it is long enough to be searched.
fn stem(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    (stem.len() >= MIN_WORD).then_some(stem)
}

/// Returns the words of a task that look like names in code: with an underscore or an inner capital.
fn identifiers(task: &str) -> impl Iterator<Item = &str> {
    let words = task.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.filter(|word| {
        let has_inner_capital =
            word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
        word.len() >= MIN_WORD && (word.contains('_') || has_inner_capital)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::testing::Sink;
    use crate::tools::{Permission, Root, WriteFile};

    fn of(files: &[(&str, &str)], task: &str, output: &str, max: usize) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let tools = Toolbox::new(Root::open(dir.path(), false).unwrap(), Permission::WorkspaceWrite);
        let chosen = tools.attachments(task, output, max, &Sink::journal().1, &Interrupt::new());
        let others = chosen.others.iter().map(|path| format!("({path})"));
        chosen
            .shown
            .iter()
            .map(|one| one.path.clone())
            .chain(others)
            .collect()
    }

    #[test]
    fn closest_files_come_first() {
        let files = [
            ("README.md", "Hello."),
            ("src/calc.py", "from numbers_ import double\n"),
            ("src/numbers_.py", "def double(n): return n\n"),
            ("src/report.py", "def old_total(): pass\n"),
            ("src/unrelated.py", "x = 1\n"),
        ];
        let all = [
            "README.md",
            "src/calc.py",
            "src/numbers_.py",
            "src/report.py",
            "src/unrelated.py",
        ];
        assert_eq!(of(&files, "Fix it.", "", 1000), all);
        assert_eq!(
            of(&files, "Fix calc.py.", "", 100),
            [
                "src/calc.py",
                "src/numbers_.py",
                "(README.md)",
                "(src/report.py)",
                "(src/unrelated.py)"
            ]
        );
        assert_eq!(of(&files, "Remove old_total.", "", 50)[0], "src/report.py");
        assert_eq!(
            of(&files, "Fix it.", "File \"src/unrelated.py\", line 1", 40)[0],
            "src/unrelated.py"
        );
    }

    #[test]
    fn named_file_is_shown_however_many_files_there_are() {
        let many: Vec<String> = (0..MAX_FILES + MAX_NAMED)
            .map(|nth| format!("a/{nth:04}.txt"))
            .collect();
        let mut files: Vec<(&str, &str)> = many.iter().map(|path| (path.as_str(), "")).collect();
        files.extend([
            (".gitignore", "out\n"),
            ("out/b.py", "1"),
            ("src/b.py", "2"),
            ("src/c.py", "3"),
            ("src/d.py", "4"),
            ("src/.env", "A=1"),
        ]);
        let task = "Correct src/b.py, out/b.py, ./src/c.py. and /src/d.py or ../x, not src/.env.";
        assert_eq!(
            of(&files, task, "", 1000)[..3],
            ["src/b.py", "src/c.py", "(a/0000.txt)"]
        );
        assert_eq!(of(&files, "Go on.", "error in src/d.py:3", 1000)[0], "src/d.py");
    }

    #[test]
    fn secrets_binary_and_ignored_files_are_not_shown() {
        let key = format!("key = \"{}_{}\"\n", "ghp", "abcdefghijklmnopqrstuvwxyz0123456789");
        let files = [
            (".gitignore", "out\n"),
            (".env", "A=1\n"),
            ("out/big.py", "x"),
            ("bin.dat", "a\0b"),
            ("conf.py", &key),
            ("long.txt", &"x".repeat(MAX_FILE + 1)),
        ];
        assert_eq!(
            of(&files, "Read all.", "", 100_000),
            ["(bin.dat)", "(conf.py)", "(long.txt)"]
        );
    }

    #[test]
    fn shown_file_can_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.py"), "1\n").unwrap();
        let tools = Toolbox::new(Root::open(dir.path(), false).unwrap(), Permission::WorkspaceWrite);
        let (journal, interrupt) = (Sink::journal().1, Interrupt::new());
        let write = crate::conversation::ToolCall::new(
            "1",
            WriteFile::NAME,
            serde_json::json!({"path": "a.py", "content": "2\n"}),
        );
        assert!(tools.call(&write, &journal, &interrupt).is_error);
        tools.attachments("Change a.py.", "", 100, &journal, &interrupt);
        assert!(!tools.call(&write, &journal, &interrupt).is_error);
        tools.forget_files();
        let again = crate::conversation::ToolCall::new(
            "2",
            WriteFile::NAME,
            serde_json::json!({"path": "a.py", "content": "3\n"}),
        );
        assert!(tools.call(&again, &journal, &interrupt).is_error);
    }
}
