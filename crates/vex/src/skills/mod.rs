//! Skills after the open specification of agentskills.io: folders with a SKILL.md, of which the
//! model sees names and descriptions ([`Catalogue`]) and loads the instructions when a task needs
//! them.
//!
//! Skills come from the command line, from folders of the project, and from the home of the user;
//! the first one of a name wins. A project's skills are text of whoever wrote the code there, so
//! they are used only in projects that the user trusts.

mod catalogue;
mod places;
#[cfg(test)]
mod tests;
pub(crate) mod text;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

pub use catalogue::Catalogue;
use places::{Place, Search};
use text::shown;
use vik_yaml::skill::{self, MAX_BYTES, Manifest};

/// The maximum number of skills of one run.
const MAX_SKILLS: usize = 200;

/// The maximum number of warnings.
const MAX_WARNINGS: usize = 20;

/// The maximum depth and number of the other files of a skill that are listed.
const MAX_FILE_DEPTH: usize = 4;
const MAX_FILES: usize = 1000;

/// Who chose a skill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillOrigin {
    /// The workflow or the person who started the run, with `--skill`.
    Workflow,
    /// A trusted project.
    Project,
    /// The user.
    #[default]
    User,
}

impl SkillOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// A skill. Its texts are one line each, without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skill {
    pub name: String,
    pub description: String,
    pub origin: SkillOrigin,
    /// Its folder, without links.
    pub path: PathBuf,
    /// The SHA-256 of its SKILL.md, in hex.
    pub sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// The tools that the author expects. They widen nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<String>,
}

/// Why the skills of a run cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--skill {path}: {reason}", path = shown(path))]
pub struct SkillError {
    /// The folder, as given.
    path: PathBuf,
    reason: String,
}

/// Where skills are searched.
#[derive(Clone, Copy, Debug)]
pub struct SkillSources<'a> {
    /// Folders of single skills, in order of precedence.
    pub folders: &'a [PathBuf],
    /// Whether those of the project and of the user are searched.
    pub search: bool,
    /// The workspace, without links.
    pub cwd: &'a Path,
    pub home: Option<&'a Path>,
    /// Folders of the projects whose skills are used: absolute, or starting with `~/`.
    pub trusted: &'a [PathBuf],
}

/// The skills of a run, in the order of their origin and name.
#[derive(Clone, Debug, Default)]
pub struct Skills {
    found: Vec<Skill>,
    /// What was skipped or deviates from the specification.
    pub warnings: Vec<String>,
    /// Skills that another one of the same name replaces.
    pub hidden: Vec<String>,
    /// The project that is not trusted, with the number of its skills.
    pub untrusted: Option<(PathBuf, usize)>,
}

impl Skills {
    /// Finds all skills.
    ///
    /// # Errors
    /// When a skill that was chosen with `--skill` cannot be used, or has the name of another one.
    pub fn load(sources: &SkillSources<'_>) -> Result<Self, SkillError> {
        let mut skills = Self::default();
        for path in sources.folders {
            let failed = |reason: String| SkillError {
                path: path.clone(),
                reason,
            };
            let folder = path.canonicalize().map_err(|error| failed(error.to_string()))?;
            skills.add(&folder, SkillOrigin::Workflow).map_err(failed)?;
        }
        if sources.search {
            skills.search(sources);
        }
        skills
            .found
            .sort_by(|a, b| (a.origin, &a.name).cmp(&(b.origin, &b.name)));
        let more = skills.warnings.len().saturating_sub(MAX_WARNINGS);
        if more > 0 {
            skills.warnings.truncate(MAX_WARNINGS);
            skills
                .warnings
                .push(format!("… and {more} more warnings about skills"));
        }
        Ok(skills)
    }

    fn search(&mut self, sources: &SkillSources<'_>) {
        let home = sources.home.and_then(|home| home.canonicalize().ok());
        let home = home.as_deref();
        let project = places::project_of(sources.cwd);
        // Each origin has bounds of its own: a project cannot use up those of the user.
        let places_of_user = places::of_user(home);
        let of_user = self.find_all(&places_of_user, SkillOrigin::User);
        let places = places::of_project(project, sources.cwd, &places_of_user);
        let mut found = self.find_all(&places, SkillOrigin::Project);
        found.retain(|(folder, _)| self.found.iter().all(|known| known.path != *folder));
        if !found.is_empty() && !self.trusts(project, sources.trusted, home) {
            found.sort_unstable();
            found.dedup();
            self.untrusted = Some((project.to_owned(), found.len()));
            found.clear();
        }
        found.extend(of_user);
        for (folder, origin) in found {
            if let Err(reason) = self.add(&folder, origin) {
                self.warnings
                    .push(format!("the skill in {} is skipped: {reason}", shown(&folder)));
            }
        }
    }

    /// Returns the folders of skills in the places of one origin.
    fn find_all(&mut self, places: &[Place], origin: SkillOrigin) -> Vec<(PathBuf, SkillOrigin)> {
        let mut search = Search::default();
        let folders = places.iter().flat_map(|place| search.folders(place));
        let found = folders.map(|folder| (folder, origin)).collect();
        self.warnings.append(&mut search.warnings);
        found
    }

    /// Returns whether a project is one of these folders, or below one.
    fn trusts(&mut self, project: &Path, trusted: &[PathBuf], home: Option<&Path>) -> bool {
        trusted.iter().any(|folder| {
            let folder = match (folder.strip_prefix("~"), home) {
                (Ok(below), Some(home)) => home.join(below),
                _ => folder.clone(),
            };
            if !folder.is_absolute() {
                self.warnings.push(format!(
                    "trusted_projects: {} is neither absolute nor below ~/, and is ignored",
                    shown(&folder)
                ));
                return false;
            }
            folder
                .canonicalize()
                .is_ok_and(|folder| project.starts_with(folder))
        })
    }

    /// Adds the skill of a folder, unless there is one of its name.
    ///
    /// # Errors
    /// When it cannot be used, or it is the second one of its name that was chosen with `--skill`.
    fn add(&mut self, folder: &Path, origin: SkillOrigin) -> Result<(), String> {
        if self.found.iter().any(|known| known.path == folder) {
            return Ok(());
        }
        if self.found.len() == MAX_SKILLS {
            return Err(format!("there are more than {MAX_SKILLS} skills"));
        }
        let bytes = read(&folder.join(places::FILE)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("there is no {}", places::FILE),
            _ => format!("cannot read {}: {error}", places::FILE),
        })?;
        let text = String::from_utf8_lossy(&bytes);
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let (manifest, warnings) = Manifest::read(skill::split(&text).front, &name)?;
        let skill = Skill {
            name: manifest.name,
            description: manifest.description,
            origin,
            path: folder.to_owned(),
            sha256: sha256(&bytes),
            license: manifest.license,
            compatibility: manifest.compatibility,
            allowed_tools: manifest.allowed_tools,
        };
        if let Some(first) = self.found.iter().find(|known| known.name == skill.name) {
            if origin == SkillOrigin::Workflow {
                return Err(format!(
                    "its name is {}, as that of --skill {}; give one of them another name, or leave it out",
                    skill.name,
                    shown(&first.path)
                ));
            }
            // Agents often have copies of a skill in several places.
            if first.sha256 != skill.sha256 {
                self.hidden.push(format!(
                    "the skill {} in {} is hidden by {}",
                    skill.name,
                    shown(folder),
                    shown(&first.path)
                ));
            }
            return Ok(());
        }
        let warn = |warning: String| format!("the skill in {}: {warning}", shown(folder));
        self.warnings.extend(warnings.into_iter().map(warn));
        self.found.push(skill);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Skill> {
        self.found.iter()
    }

    /// Returns the skill of exactly this name: rules are matched against the name that is given.
    pub(crate) fn find(&self, name: &str) -> Option<&Skill> {
        self.found.iter().find(|skill| skill.name == name)
    }

    /// Returns the catalogue for the system prompt of a model with this context window, in tokens,
    /// of the skills that it may load.
    pub fn catalogue(&self, window: Option<u64>, may_load: impl Fn(&Skill) -> bool) -> Catalogue {
        let skills: Vec<&Skill> = self.found.iter().filter(|skill| may_load(skill)).collect();
        Catalogue::new(&skills, window)
    }

    /// Returns how the user can trust the project whose skills were left out.
    pub fn untrusted_hint(&self) -> Option<String> {
        let (project, count) = self.untrusted.as_ref()?;
        let skills = if *count == 1 { "skill" } else { "skills" };
        let project = shown(project);
        Some(format!(
            "{count} {skills} of the project left out, since {project} is not trusted: to use them, add \
             `trusted_projects = [{project:?}]` to your own config.toml"
        ))
    }
}

/// The instructions of a skill.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) text: String,
    /// The number of its first line in SKILL.md, from 1.
    pub(crate) first_line: usize,
}

impl Skill {
    /// Returns the path of its SKILL.md.
    pub(crate) fn file(&self) -> PathBuf {
        self.path.join(places::FILE)
    }

    /// Reads the instructions.
    ///
    /// # Errors
    /// When the file cannot be read, or is no longer the one that was recorded at the start.
    pub(crate) fn body(&self) -> Result<Body, String> {
        let file = self.file();
        let bytes = read(&file).map_err(|error| format!("cannot read {}: {error}", shown(&file)))?;
        if sha256(&bytes) != self.sha256 {
            return Err(format!(
                "{} changed after the start of the run, so it is not loaded; read_file shows it",
                shown(&file)
            ));
        }
        let text = String::from_utf8_lossy(&bytes);
        let parts = skill::split(&text);
        let blank = parts.body.len() - parts.body.trim_start_matches(['\r', '\n']).len();
        Ok(Body {
            text: parts.body[blank..].trim_end().to_owned(),
            first_line: parts.body_line + parts.body[..blank].matches('\n').count(),
        })
    }

    /// Returns its other files, relative to its folder and ordered, and whether there are more.
    /// Links are not followed.
    pub(crate) fn files(&self) -> (Vec<String>, bool) {
        let mut files = Vec::new();
        let mut left = MAX_FILES;
        list(&self.path, &self.path, MAX_FILE_DEPTH, &mut left, &mut files);
        files.retain(|file| file != places::FILE);
        files.sort_unstable();
        (files, left == 0)
    }
}

fn list(base: &Path, folder: &Path, depth: usize, left: &mut usize, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_file() => files.push(shown(path.strip_prefix(base).unwrap_or(&path))),
            Ok(kind) if kind.is_dir() && depth > 1 && !places::is_ignored(&entry.file_name()) => {
                list(base, &path, depth - 1, left, files);
            }
            _ => {}
        }
    }
}

/// Reads a SKILL.md. Links are not followed, and nothing but a regular file is opened.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file: File = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!(
            "it is larger than {} KiB",
            MAX_BYTES / 1024
        )));
    }
    Ok(bytes)
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hex = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a String does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
