//! Skills: folders with a `SKILL.md`, which describes itself in its front matter.
//!
//! The form is that of <https://agentskills.io>. Only `name` and `description` are read, as vex reads
//! them ([`skill`]): agents read the whole file themselves.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use vik_core::workflow::Workflow;
use vik_proc::untrusted;
use vik_workflow_reader::{Diagnostic, Loaded, skill};
use vik_workspace::fs::list_folder;
use vik_workspace::resolve_path;

/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";

const MAX_FILES: usize = 1000;
const MAX_BYTES: u64 = 16 << 20;
const MAX_DEPTH: usize = 8;

/// A skill as its folder contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The name of the folder, which is that of its copy for the agent.
    pub name: String,
    /// The name in the front matter, by which vex calls it; that of the folder if there is none.
    pub declared_name: String,
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
    #[error("cannot use {}: {reason}", path.display())]
    Manifest { path: PathBuf, reason: String },
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
        let text = untrusted::read_below(&folder, Path::new(SKILL_FILE), skill::MAX_BYTES);
        let text = text.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SkillError::Missing(folder.clone()),
            io::ErrorKind::FileTooLarge => SkillError::Manifest {
                path: folder.join(SKILL_FILE),
                reason: format!("it is larger than {} KiB", skill::MAX_BYTES / 1024),
            },
            _ => SkillError::Unreadable {
                path: folder.join(SKILL_FILE),
                source,
            },
        })?;
        let front = String::from_utf8_lossy(&text);
        let manifest = skill::Manifest::read(skill::split(&front).front, name);
        let (manifest, _) = manifest.map_err(|reason| SkillError::Manifest {
            path: folder.join(SKILL_FILE),
            reason,
        })?;
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
            declared_name: manifest.name,
            description: manifest.description,
            files,
            folder,
        })
    }

    /// Returns whether agents could mistake one for the other.
    fn has_a_name_of(&self, other: &Self) -> bool {
        self.name == other.name || self.declared_name == other.declared_name
    }

    /// Reads a file of the skill.
    ///
    /// # Errors
    /// When it cannot be read, or was replaced by a link.
    pub fn content(&self, file: &SkillFile) -> io::Result<Vec<u8>> {
        untrusted::read_below(&self.folder, &file.path, MAX_BYTES)
    }

    /// Returns the content of its [`SKILL_FILE`] without the fields that permit tools or run commands
    /// ([`skill::without_grants`]).
    ///
    /// # Errors
    /// When its front matter cannot be read: the file has changed since the skill was read.
    pub fn without_grants(&self, content: &[u8]) -> io::Result<String> {
        skill::without_grants(&String::from_utf8_lossy(content), &self.name).map_err(io::Error::other)
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
        let mut known: Vec<Skill> = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            let error = |message: String, hint: &str| {
                let place = format!("{at}.skills.{index}");
                Diagnostic::error("bad_skill", place, message)
                    .hint(hint)
                    .at(loaded.document())
            };
            match Skill::read(workflow_dir, path) {
                Ok(skill) => {
                    if let Some(first) = known.iter().find(|first| first.has_a_name_of(&skill)) {
                        let message = format!(
                            "the skills {} and {} have the same name",
                            first.folder.display(),
                            skill.folder.display()
                        );
                        let hint = "a skill has the name of its folder and the `name` in its front matter; both differ from \
                                    those of all others: rename one";
                        findings.push(error(message, hint));
                    }
                    known.push(skill);
                }
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
        assert!(matches!(read(), Err(SkillError::Manifest { .. })));
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
        assert_eq!(found.declared_name, "review");
        let by_path = Skill::read(Path::new("/"), skill.to_str().unwrap()).unwrap();
        assert_eq!(
            (by_path.name.as_str(), by_path.description.as_str()),
            ("review", "Reviews.")
        );
        std::os::unix::fs::symlink("/etc/passwd", skill.join("link")).unwrap();
        assert!(matches!(read(), Err(SkillError::NotFile(_))));
    }
}
