//! Where a command may write, and how that is enforced.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use vik_proc::{DEVICES, Fence, Sandbox, repository_of};

use crate::tools::{CACHE, OUTPUTS, Permission, QUESTIONS, SERVERS};

/// The confinement of all commands of a run; created when it is first needed.
#[derive(Debug)]
pub(crate) struct Confinement {
    permission: Permission,
    writable: Vec<PathBuf>,
    fence: OnceLock<Result<Fence, String>>,
}

/// Returns the folder of a file of Vik for outputs or questions, which is not part of the workspace.
fn folder_of(variable: &str) -> Option<PathBuf> {
    let file = PathBuf::from(std::env::var_os(variable)?);
    let folder = file.parent().filter(|folder| folder.is_absolute())?;
    // A path that is not a file is ignored.
    file.is_file().then(|| folder.to_owned())
}

/// Returns the folder that a variable of Vik names, if it exists.
fn folder(variable: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(variable)?);
    (folder.is_absolute() && folder.is_dir()).then_some(folder)
}

impl Confinement {
    /// Inspects the workspace before any command has run in it.
    pub(crate) fn new(permission: Permission, root: &Path, more: &[PathBuf]) -> Self {
        let mut writable: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
        writable.push(std::env::temp_dir());
        // A client of a server writes to a pipe and to nothing else, whatever the permission is.
        writable.extend(folder(SERVERS));
        if permission == Permission::WorkspaceWrite {
            writable.push(root.to_owned());
            writable.extend(repository_of(root));
            writable.extend(more.iter().map(|path| root.join(path)));
            writable.extend(folder(CACHE));
            writable.extend([OUTPUTS, QUESTIONS].into_iter().filter_map(folder_of));
        }
        Self {
            permission,
            writable,
            fence: OnceLock::new(),
        }
    }

    /// Returns the sandbox of each command: `Ok(None)` if none is wanted; the error explains why
    /// none is available.
    pub(crate) fn fence(&self) -> Result<Option<&Fence>, &str> {
        if self.permission == Permission::Full {
            return Ok(None);
        }
        let made = self.fence.get_or_init(|| {
            let mut sandbox = Sandbox {
                write: self.writable.clone(),
                ..Sandbox::default()
            };
            sandbox.resolve_links();
            sandbox
                .fence()
                .map_err(|error| match std::error::Error::source(&error) {
                    Some(source) => format!("{error}: {source}"),
                    None => error.to_string(),
                })
        });
        made.as_ref().map(Some).map_err(String::as_str)
    }

    /// Returns a short description for `session_start` and the doctor.
    pub(crate) fn description(&self) -> String {
        match self.fence() {
            Ok(Some(fence)) => format!("landlock {}", fence.abi()),
            Ok(None) => "none: the permission is full".to_owned(),
            Err(why) => format!("none: {why}"),
        }
    }
}
