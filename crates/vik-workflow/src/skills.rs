//! Skills: folders with a `SKILL.md`, which describes itself in its front matter.
//!
//! The form is that of <https://agentskills.io>. Only `name` and `description` are read, leniently:
//! agents read the whole file themselves.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use vik_core::workflow::Workflow;
use vik_proc::untrusted;
use vik_workflow_reader::{Diagnostic, Loaded};
use vik_workspace::fs::list_folder;
use vik_workspace::resolve_path;

/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";

const MAX_FILES: usize = 1000;
const MAX_BYTES: u64 = 16 << 20;
const MAX_DEPTH: usize = 8;
const MAX_SKILL_FILE: u64 = 1 << 20;
const MAX_DESCRIPTION: usize = 1024;

/// A skill as its folder contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The name of the folder, which is the name of the skill.
    pub name: String,
    /// What it is for, in one line.
    pub description: String,
    /// The absolute path of its files.
    pub folder: PathBuf,
    /// Its files, in the order of their names.
    pub files: Vec<SkillFile>,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFile {
    /// The path within the folder.
    pub path: PathBuf,
    pub is_executable: bool,
}

/// Why a folder is no skill that agents can get.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    #[error("the folder {} has no {SKILL_FILE}", .0.display())]
    Missing(PathBuf),
    #[error("cannot read the skill {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the front matter of {} has no `description`", .0.display())]
    NoDescription(PathBuf),
    #[error("the name of the folder {} is not made of `A-Z a-z 0-9 . _ -`", .0.display())]
    Name(PathBuf),
    #[error("the skill contains {}, which is neither a file nor a folder", .0.display())]
    NotFile(PathBuf),
    #[error("the skill {} has more than {MAX_FILES} files, {MAX_DEPTH} levels or {} MiB", .0.display(), MAX_BYTES >> 20)]
    TooLarge(PathBuf),
}

impl Skill {
    /// Reads the folder of a skill, which is relative to the folder of the workflow.
    ///
    /// # Errors
    /// When it is no skill, too large, or contains a link.
    pub fn read(workflow_dir: &Path, path: &str) -> Result<Self, SkillError> {
        let folder = resolve_path(workflow_dir, path);
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.bytes().all(is_plain) {
            return Err(SkillError::Name(folder));
        }
        let text = untrusted::read_below(&folder, Path::new(SKILL_FILE), MAX_SKILL_FILE);
        let text = text.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SkillError::Missing(folder.clone()),
            _ => SkillError::Unreadable {
                path: folder.join(SKILL_FILE),
                source,
            },
        })?;
        let description = description(&String::from_utf8_lossy(&text))
            .ok_or_else(|| SkillError::NoDescription(folder.join(SKILL_FILE)))?;
        let mut walk = Walk {
            folder: &folder,
            files: Vec::new(),
            bytes: 0,
        };
        walk.add(Path::new(""), 0)?;
        let mut files = walk.files;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self {
            name: name.to_owned(),
            description,
            files,
            folder,
        })
    }

    /// Reads a file of the skill.
    ///
    /// # Errors
    /// When it cannot be read, or was replaced by a link.
    pub fn content(&self, file: &SkillFile) -> io::Result<Vec<u8>> {
        untrusted::read_below(&self.folder, &file.path, MAX_BYTES)
    }
}

struct Walk<'a> {
    folder: &'a Path,
    files: Vec<SkillFile>,
    bytes: u64,
}

impl Walk<'_> {
    fn add(&mut self, below: &Path, depth: usize) -> Result<(), SkillError> {
        let unreadable = |source| SkillError::Unreadable {
            path: self.folder.join(below),
            source,
        };
        if depth > MAX_DEPTH {
            return Err(SkillError::TooLarge(self.folder.to_owned()));
        }
        for entry in list_folder(&self.folder.join(below)).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = below.join(entry.file_name());
            // Not that of a link's target.
            let metadata: Metadata = entry.metadata().map_err(unreadable)?;
            if metadata.is_dir() {
                self.add(&path, depth + 1)?;
                continue;
            }
            if !metadata.is_file() {
                return Err(SkillError::NotFile(self.folder.join(path)));
            }
            self.bytes += metadata.len();
            if self.files.len() >= MAX_FILES || self.bytes > MAX_BYTES {
                return Err(SkillError::TooLarge(self.folder.to_owned()));
            }
            self.files.push(SkillFile {
                path,
                is_executable: metadata.permissions().mode() & 0o100 != 0,
            });
        }
        Ok(())
    }
}

/// Returns the `description` in the front matter as one line.
fn description(text: &str) -> Option<String> {
    let mut lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
    lines.next().filter(|line| line.trim_end() == "---")?;
    let front: Vec<&str> = lines.take_while(|line| line.trim_end() != "---").collect();
    let at = front.iter().position(|line| line.starts_with("description:"))?;
    let first = front[at]["description:".len()..].trim();
    let is_block = first.starts_with(['>', '|']) && first.len() <= 3;
    let more = front[at + 1..]
        .iter()
        .take_while(|line| line.is_empty() || line.starts_with([' ', '\t']));
    let parts = (!is_block)
        .then_some(first)
        .into_iter()
        .chain(more.map(|line| line.trim()));
    let joined = parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let quote = |quote: char| {
        joined
            .strip_prefix(quote)
            .and_then(|text| text.strip_suffix(quote))
    };
    let plain = quote('"').or_else(|| quote('\'')).unwrap_or(&joined);
    let short: String = plain
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_DESCRIPTION)
        .collect();
    Some(short).filter(|text| !text.trim().is_empty())
}

/// Checks the skills of profiles and stages.
pub(super) fn check(workflow: &Workflow, loaded: &Loaded, workflow_dir: &Path) -> Vec<Diagnostic> {
    let of_agents = workflow
        .agents
        .iter()
        .map(|(name, profile)| (format!("agents.{name}"), &profile.skills));
    let of_stages = workflow.issue.stages.iter();
    let of_stages =
        of_stages.filter_map(|stage| Some((format!("issue.stages.{}", stage.name), stage.skills.as_ref()?)));
    let mut findings = Vec::new();
    for (at, paths) in of_agents.chain(of_stages) {
        let mut names = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            let error = |message: String, hint: &str| {
                let place = format!("{at}.skills.{index}");
                Diagnostic::error("bad_skill", place, message)
                    .hint(hint)
                    .at(loaded.document())
            };
            match Skill::read(workflow_dir, path) {
                Ok(skill) if names.contains(&skill.name) => {
                    let message = format!("there are two skills with the name `{}`", skill.name);
                    findings.push(error(
                        message,
                        "the name of the folder is the name of the skill: rename one of them",
                    ));
                }
                Ok(skill) => names.push(skill.name),
                Err(problem) => {
                    let hint = "a skill is a folder with a `SKILL.md`, whose front matter has `name` and `description`; the path is \
                                relative to the folder of the workflow file";
                    findings.push(error(problem.to_string(), hint));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn description_is_read_leniently() {
        for (text, expected) in [
            ("---\nname: a\ndescription: Does it.\n---\nx", Some("Does it.")),
            (
                "---\ndescription: 'Use: when needed'\n---\n",
                Some("Use: when needed"),
            ),
            (
                "---\ndescription: Use: when needed\nname: a\n---\n",
                Some("Use: when needed"),
            ),
            (
                "---\ndescription: >-\n  One\n  two.\nname: a\n---\n",
                Some("One two."),
            ),
            ("\u{feff}---\r\ndescription: \"a\"\r\n---\r\n", Some("a")),
            ("---\nname: a\n---\ndescription: no", None),
            ("---\ndescription:\nname: a\n---\n", None),
            ("description: no", None),
        ] {
            assert_eq!(description(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn skill_is_a_folder_without_links() {
        let folder = tempfile::tempdir().unwrap();
        let skill = folder.path().join("review");
        fs::create_dir_all(skill.join("scripts")).unwrap();
        let read = || Skill::read(folder.path(), "review");
        assert!(matches!(read(), Err(SkillError::Missing(_))));
        assert!(matches!(
            Skill::read(folder.path(), "none"),
            Err(SkillError::Missing(_))
        ));
        fs::write(skill.join(SKILL_FILE), "text").unwrap();
        assert!(matches!(read(), Err(SkillError::NoDescription(_))));
        fs::write(skill.join(SKILL_FILE), "---\ndescription: Reviews.\n---\n").unwrap();
        fs::write(skill.join("scripts/run.sh"), "echo").unwrap();
        fs::set_permissions(skill.join("scripts/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        let found = read().unwrap();
        let files: Vec<_> = found
            .files
            .iter()
            .map(|file| (file.path.to_str().unwrap(), file.is_executable))
            .collect();
        assert_eq!(files, [(SKILL_FILE, false), ("scripts/run.sh", true)]);
        assert_eq!(found.content(&found.files[1]).unwrap(), b"echo");
        let by_path = Skill::read(Path::new("/"), skill.to_str().unwrap()).unwrap();
        assert_eq!(
            (by_path.name.as_str(), by_path.description.as_str()),
            ("review", "Reviews.")
        );
        std::os::unix::fs::symlink("/etc/passwd", skill.join("link")).unwrap();
        assert!(matches!(read(), Err(SkillError::NotFile(_))));
    }
}
