//! The instance folder of a workflow, with the lock, the data of the running daemon and the socket.
//! It depends only on the path of the workflow file, so that a broken or missing file does not hide
//! a running daemon.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use vik_core::worker::WorkerName;

use super::WorkspaceError;
use super::home::{absolute_workflow_path, user_home};
use super::name::short_hash;

/// The longest path that every Unix socket supports, in bytes (Linux allows 107, macOS 103).
const MAX_SOCKET_BYTES: usize = 100;

/// The most links of a chain that are followed.
const MAX_LINKS: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceDir {
    path: PathBuf,
    socket_dir: PathBuf,
}

/// The environment that determines the folder of the instances.
#[derive(Clone, Debug, Default)]
pub(super) struct InstanceEnv {
    pub(super) state_home: Option<PathBuf>,
    pub(super) runtime_dir: Option<PathBuf>,
    pub(super) home: Option<PathBuf>,
}

impl InstanceEnv {
    fn of_process() -> Self {
        let absolute = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        Self {
            state_home: absolute("XDG_STATE_HOME"),
            runtime_dir: absolute("XDG_RUNTIME_DIR"),
            home: user_home().ok(),
        }
    }

    fn instances(&self) -> Result<PathBuf, WorkspaceError> {
        let state_home = match (&self.state_home, &self.home) {
            (Some(path), _) => path.clone(),
            (None, Some(home)) => home.join(".local/state"),
            (None, None) => return Err(WorkspaceError::NoHomeDirectory),
        };
        Ok(state_home.join("vik/instances"))
    }
}

impl InstanceDir {
    /// Returns the instance folder of a workflow file, which may be broken or missing.
    ///
    /// # Errors
    /// When the path names no file, or the state folder cannot be determined.
    pub fn of(workflow_path: &Path) -> Result<Self, WorkspaceError> {
        Self::at(workflow_path, None, &InstanceEnv::of_process())
    }

    /// Returns the instance folder of a worker for a workflow file.
    ///
    /// # Errors
    /// As [`InstanceDir::of`].
    pub fn of_worker(workflow_path: &Path, name: &WorkerName) -> Result<Self, WorkspaceError> {
        Self::at(workflow_path, Some(name), &InstanceEnv::of_process())
    }

    pub(super) fn at(
        workflow_path: &Path,
        worker: Option<&WorkerName>,
        surroundings: &InstanceEnv,
    ) -> Result<Self, WorkspaceError> {
        let workflow_path = resolve_links(absolute_workflow_path(workflow_path)?)?;
        let mut key = workflow_path.into_os_string().into_encoded_bytes();
        // No path contains a NUL byte.
        key.extend(
            worker
                .into_iter()
                .flat_map(|name| [b"\0", name.as_str().as_bytes()])
                .flatten(),
        );
        let name = short_hash(&key);
        Ok(Self::named(&surroundings.instances()?, &name, surroundings))
    }

    /// Returns the instance folders of all workflows of this user, sorted by name.
    pub fn all() -> Vec<Self> {
        Self::all_at(&InstanceEnv::of_process())
    }

    pub(super) fn all_at(surroundings: &InstanceEnv) -> Vec<Self> {
        let Ok(instances) = surroundings.instances() else {
            return Vec::new();
        };
        let Ok(entries) = super::fs::list_folder(&instances) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.len() == 16 && name.bytes().all(|c| c.is_ascii_hexdigit()))
            .collect();
        names.sort();
        names
            .iter()
            .map(|name| Self::named(&instances, name, surroundings))
            .collect()
    }

    fn named(instances: &Path, name: &str, surroundings: &InstanceEnv) -> Self {
        let path = instances.join(name);
        let fits = |folder: &Path| folder.as_os_str().len() + "/vik.sock".len() < MAX_SOCKET_BYTES;
        let uid = nix::unistd::getuid();
        let socket_dir = [
            Some(path.clone()),
            surroundings
                .runtime_dir
                .as_ref()
                .map(|runtime| runtime.join("vik").join(name)),
        ]
        .into_iter()
        .flatten()
        .find(|folder| fits(folder))
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/vik-{uid}")).join(name));
        Self { path, socket_dir }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that a daemon locks while it runs.
    pub fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// The file with the paths, pid and start time of the daemon.
    pub fn info(&self) -> PathBuf {
        self.path.join("instance.json")
    }

    /// The file with the token of the HTTP API.
    pub fn api_token(&self) -> PathBuf {
        self.path.join("api.token")
    }

    /// The control socket. It is in the instance folder unless that path is too long for a socket.
    pub fn socket(&self) -> PathBuf {
        self.socket_dir.join("vik.sock")
    }

    /// Removes the folder of the socket, if it is not the instance folder.
    pub fn remove_socket_dir(&self) {
        if self.socket_dir != self.path {
            // Files that remain in a folder for temporary files do no harm.
            let _ = std::fs::remove_dir_all(&self.socket_dir);
        }
    }

    /// Creates the folder, and the folder of the socket if that is another one.
    ///
    /// # Errors
    /// When a folder cannot be created, or the folder of the socket belongs to another user.
    pub fn create(&self) -> Result<(), WorkspaceError> {
        let create = |path: &Path| {
            super::fs::create_private_dir_all(path).map_err(WorkspaceError::io("create the folder", path))
        };
        create(&self.path)?;
        if self.socket_dir != self.path {
            // In /tmp another user may have created it first: the folder above must be private to
            // this user.
            if let Some(above) = self.socket_dir.parent() {
                own_folder(above)?;
            }
            create(&self.socket_dir)?;
        }
        Ok(())
    }
}

/// Resolves the links of a workflow file, which may be missing: one workflow has one instance.
fn resolve_links(mut path: PathBuf) -> Result<PathBuf, WorkspaceError> {
    for _ in 0..MAX_LINKS {
        let Ok(target) = std::fs::read_link(&path) else {
            break;
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        path = absolute_workflow_path(&folder.join(target))?;
    }
    Ok(path)
}

/// Creates a folder in a place that others can write to, or checks that the existing one is private
/// to this user.
fn own_folder(path: &Path) -> Result<(), WorkspaceError> {
    match std::fs::DirBuilder::new()
        .mode(super::fs::FOLDER_MODE)
        .create(path)
    {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(WorkspaceError::io("create the folder", path)(error)),
    }
    let metadata = std::fs::symlink_metadata(path).map_err(WorkspaceError::io("open the folder", path))?;
    let ours =
        metadata.is_dir() && metadata.uid() == nix::unistd::getuid().as_raw() && metadata.mode() & 0o077 == 0;
    if ours {
        Ok(())
    } else {
        Err(WorkspaceError::NotPrivate {
            path: path.to_owned(),
        })
    }
}
