//! The files that an installation copies.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};
use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_proc::untrusted;
use vik_workflow::{LoadedWorkflow, Skill};
use vik_workspace::fs::list_folder;

use super::unit::Layout;

/// The maximum size of a file other than the program, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The maximum number of files of the workflow.
const MAX_FILES: usize = 2000;
const MAX_DEPTH: usize = 16;

/// The part of an installation to which a file belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Program,
    Environment,
    Workflow,
    Unit,
}

/// A file as it will be on the remote host.
pub struct RemoteFile {
    pub part: Part,
    /// The path relative to the home directory.
    pub path: String,
    pub mode: u32,
    pub content: Vec<u8>,
    /// The SHA-256 of the content, in hexadecimal.
    pub digest: String,
}

impl RemoteFile {
    pub fn new(part: Part, path: String, mode: u32, content: Vec<u8>) -> Self {
        let digest = Sha256::digest(&content);
        let digest = digest.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Self {
            part,
            path,
            mode,
            content,
            digest,
        }
    }
}

/// Reads the program: the given one, or that of this process.
pub fn program(layout: Layout<'_>, given: Option<&Path>) -> Result<RemoteFile, Failure> {
    let unreadable = |path: &Path, error: &std::io::Error| {
        local(format!("cannot read the program {}", path.display()), error)
    };
    let path = match given {
        Some(path) => path.to_owned(),
        // After an upgrade of this machine, its path could be that of another program.
        None if cfg!(target_os = "linux") => PathBuf::from("/proc/self/exe"),
        None => std::env::current_exe().map_err(|error| unreadable(Path::new("vik"), &error))?,
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "a person named this file, or it is the link of the kernel to the own program"
    )]
    let content = std::fs::read(&path).map_err(|error| unreadable(&path, &error))?;
    Ok(RemoteFile::new(Part::Program, layout.program(), 0o755, content))
}

/// Reads the file with secrets, and masks its values in all output from now on.
pub fn environment(layout: Layout<'_>, path: &Path) -> Result<RemoteFile, Failure> {
    let content = path
        .canonicalize()
        .and_then(|target| untrusted::read(&target, MAX_FILE_BYTES));
    let content = content.map_err(|error| local(format!("cannot read {}", path.display()), &error))?;
    vik_mask::learn(secrets(&String::from_utf8_lossy(&content)));
    Ok(RemoteFile::new(
        Part::Environment,
        layout.env_file(),
        0o600,
        content,
    ))
}

/// Returns the values of an environment file of systemd, with and without quotes.
fn secrets(text: &str) -> Vec<(vik_mask::Label, String)> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with(['#', ';']));
    let values = lines.filter_map(|line| line.split_once('='));
    values
        .flat_map(|(_, value)| [value.trim(), value.trim().trim_matches(['"', '\''])])
        .map(|value| (vik_mask::Label::Key, value.to_owned()))
        .collect()
}

/// Returns the files of the workflow: what it contains, the skills that it names, and the paths that
/// the user adds.
///
/// # Errors
/// When a file is not in the folder of the workflow file, or cannot be read.
pub fn workflow(
    layout: Layout<'_>,
    loaded: &LoadedWorkflow,
    included: &[PathBuf],
) -> Result<Vec<RemoteFile>, Failure> {
    let folder = loaded.path.parent().unwrap_or(Path::new("/"));
    let mut files = WorkflowFiles {
        folder,
        files: BTreeMap::new(),
    };
    for (path, text) in loaded.texts() {
        files.add(path, 0o644, text.as_bytes().to_vec())?;
    }
    let of_agents = loaded.workflow.agents.values().map(|profile| &profile.skills);
    let stages = loaded.workflow.issue.stages.iter();
    let of_stages = stages.filter_map(|stage| stage.skills.as_ref());
    for name in of_agents.chain(of_stages).flatten() {
        let heading = |error: &dyn std::error::Error| local("cannot read a skill".to_owned(), error);
        let skill = Skill::read(folder, name).map_err(|error| heading(&error))?;
        for file in &skill.files {
            let mode = if file.is_executable { 0o755 } else { 0o644 };
            let content = skill.content(file).map_err(|error| heading(&error))?;
            files.add(&skill.folder.join(&file.path), mode, content)?;
        }
    }
    for path in included {
        files.add_tree(&folder.join(path), 0)?;
    }
    let list: String = files.files.keys().map(|name| format!("{name}\n")).collect();
    let list = RemoteFile::new(Part::Workflow, layout.workflow_list(), 0o644, list.into_bytes());
    let copied = files.files.into_iter().map(|(name, (mode, content))| {
        RemoteFile::new(Part::Workflow, layout.workflow_file(&name), mode, content)
    });
    Ok(copied.chain([list]).collect())
}

/// Files by their paths relative to the folder of the workflow file, with their modes.
struct WorkflowFiles<'a> {
    folder: &'a Path,
    files: BTreeMap<String, (u32, Vec<u8>)>,
}

impl WorkflowFiles<'_> {
    fn add(&mut self, path: &Path, mode: u32, content: Vec<u8>) -> Result<(), Failure> {
        let name = self.name(path)?;
        self.files.insert(name, (mode, content));
        if self.files.len() > MAX_FILES {
            return Err(Failure::new(
                Exit::Failed,
                ErrorCode::WorkerInstall,
                format!("the workflow has more than {MAX_FILES} files"),
            )
            .hint("name fewer files with --include"));
        }
        Ok(())
    }

    /// Adds a file, or all files of a folder.
    fn add_tree(&mut self, path: &Path, depth: usize) -> Result<(), Failure> {
        let unreadable = |error: &std::io::Error| local(format!("cannot read {}", path.display()), error);
        let metadata = path.symlink_metadata().map_err(|error| unreadable(&error))?;
        if metadata.is_dir() && depth < MAX_DEPTH {
            for entry in list_folder(path).map_err(|error| unreadable(&error))? {
                let entry = entry.map_err(|error| unreadable(&error))?;
                self.add_tree(&entry.path(), depth + 1)?;
            }
            return Ok(());
        }
        if !metadata.is_file() {
            let text = format!("{} is neither a file nor a folder", path.display());
            return Err(Failure::new(Exit::Failed, ErrorCode::WorkerInstall, text)
                .hint("name the target of a link instead of the link"));
        }
        let content = untrusted::read(path, MAX_FILE_BYTES).map_err(|error| unreadable(&error))?;
        self.add(path, metadata.permissions().mode() & 0o777, content)
    }

    /// Returns the path of a file relative to the folder.
    fn name(&self, path: &Path) -> Result<String, Failure> {
        let below = path.strip_prefix(self.folder).ok();
        let is_inside = |below: &&Path| {
            let mut components = below.components();
            components.all(|component| matches!(component, Component::Normal(_)))
        };
        let refused = |reason: &str, hint: &str| {
            let path = one_line(&path.to_string_lossy(), 200);
            let text = format!("cannot copy {path}: {reason}");
            Failure::new(Exit::Workflow, ErrorCode::WorkerInstall, text).hint(hint)
        };
        let below = below.filter(is_inside).ok_or_else(|| {
            refused(
                "it is not in the folder of the workflow file",
                "move it there, and name it by a path without `..`",
            )
        })?;
        let name = below.to_str().filter(|name| !name.contains(char::is_control));
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            refused(
                "its name is not text, or contains control characters",
                "rename it",
            )
        })?;
        Ok(name.to_owned())
    }
}

fn local(heading: String, error: &dyn std::error::Error) -> Failure {
    Failure::failed(ErrorCode::WorkerInstall, heading, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str) -> Result<String, Failure> {
        let folder = Path::new("/srv/project");
        let files = BTreeMap::new();
        WorkflowFiles { folder, files }.name(Path::new(path))
    }

    #[test]
    fn files_are_in_the_folder_of_the_workflow() {
        assert_eq!(
            name("/srv/project/prompts/it's $HOME.md").unwrap(),
            "prompts/it's $HOME.md"
        );
        assert_eq!(name("/srv/project/./a").unwrap(), "a");
        for path in [
            "/srv/project",
            "/other/a",
            "/srv/project/../a",
            "/srv/project/a/../../b",
            "/srv/project/a\nb",
        ] {
            assert_eq!(name(path).unwrap_err().code(), "worker_install", "{path:?}");
        }
    }

    #[test]
    fn environment_values_are_masked() {
        let values = secrets("# A=comment\nKEY=abcdefgh\nQUOTED=\"two parts\"\n\nnone\n");
        let values: Vec<_> = values.into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["abcdefgh", "abcdefgh", "\"two parts\"", "two parts"]);
    }
}
