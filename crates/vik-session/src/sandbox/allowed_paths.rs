//! The places outside of the workspace that a workflow opens to an agent: `write` and `read` of its
//! sandbox.

use std::path::{Path, PathBuf};

use vik_core::workflow::SandboxPolicy;

use super::paths::{below, follow, resolve};
use super::{ConfineError, Homes, SandboxSubject};
use crate::host::Host;

/// Resolves the places that one sandbox opens.
#[derive(Debug)]
pub(super) struct AllowedPaths<'a> {
    policy: &'a SandboxPolicy,
    workdir: &'a Path,
    home: &'a Path,
    /// The paths that agents of the workflow may write.
    writable: Vec<PathBuf>,
}

impl<'a> AllowedPaths<'a> {
    /// # Errors
    /// When no home directory is known.
    pub(super) fn new(
        host: &Host,
        policy: &'a SandboxPolicy,
        subject: SandboxSubject<'a>,
        homes: &'a Homes,
    ) -> Result<Self, ConfineError> {
        Ok(Self {
            policy,
            workdir: subject.workdir,
            home: homes.first().ok_or(ConfineError::NoHome)?,
            writable: writable_by_agents(host, subject),
        })
    }

    /// Returns the home directory for `~`.
    pub(super) fn home(&self) -> Option<&Path> {
        Some(self.home)
    }

    /// Resolves the links in a path.
    ///
    /// # Errors
    /// When an agent may have created a link in the path.
    pub(super) fn follow(&self, path: &Path) -> Result<PathBuf, ConfineError> {
        follow(path, self.workdir, &self.writable)
    }

    /// Returns the places under `read`.
    ///
    /// # Errors
    /// The same as [`Self::follow`].
    pub(super) fn read(&self) -> Result<Vec<PathBuf>, ConfineError> {
        let places = self.policy.read.iter();
        places
            .map(|path| self.follow(&resolve(self.workdir, self.home(), path)))
            .collect()
    }

    /// Returns the places under `write`, without the hidden parts of them: these are opened only if
    /// `read` names them too.
    ///
    /// # Errors
    /// The same as [`Self::follow`], and when a place is itself hidden.
    pub(super) fn write(&self, read: &[PathBuf], hidden: &[PathBuf]) -> Result<Vec<PathBuf>, ConfineError> {
        if self.policy.write.is_empty() {
            return Ok(Vec::new());
        }
        let hidden = vik_proc::hidden_places(hidden);
        let mut open = Vec::new();
        for path in &self.policy.write {
            let place = resolve(self.workdir, self.home(), path);
            if place.starts_with(self.workdir) {
                open.extend(below(self.workdir, self.home(), path));
                continue;
            }
            let place = self.follow(&place)?;
            let shown = |hidden: &Path| {
                let names_it = |read: &&PathBuf| hidden.starts_with(read);
                let names_part = |read: &&PathBuf| read.starts_with(hidden) && place.starts_with(read);
                read.iter().any(|read| names_it(&read) || names_part(&read))
            };
            // Devices are hidden because programs rarely need them, and each is opened only by its
            // own name.
            let is_device = |hidden: &Path| hidden == Path::new("/dev") && place.starts_with("/dev");
            let hidden = hidden.iter().filter(|path| !shown(path) && !is_device(path));
            let hidden: Vec<PathBuf> = hidden.cloned().collect();
            if let Some(hidden) = hidden.iter().find(|hidden| place.starts_with(hidden)) {
                let hidden = hidden.clone();
                return Err(ConfineError::Hidden { path: place, hidden });
            }
            open.extend(vik_proc::without_hidden(&place, &hidden));
        }
        Ok(open)
    }
}

/// Returns the places where agents of the workflow may have created links.
fn writable_by_agents(host: &Host, subject: SandboxSubject<'_>) -> Vec<PathBuf> {
    let mut places = vec![
        host.layout.root().to_owned(),
        subject.workdir.to_owned(),
        "/dev/shm".into(),
    ];
    let workflow = subject.workflow;
    for (name, profile) in &workflow.agents {
        let mut env = host.environment.shared();
        env.extend(profile.env.clone());
        let homes = Homes::of_process(&host.environment, &env, Path::new("/"));
        for home in homes.all() {
            env.insert("HOME".to_owned(), home.to_string_lossy().into_owned());
            places.extend(vik_agents::driver(profile.runtime).state_paths(profile, &env));
        }
        let stages = workflow.issue.stages.iter().filter(|stage| stage.agent == *name);
        for policy in stages.filter_map(|stage| SandboxPolicy::of(profile, stage)) {
            // A relative path is in a workspace.
            let outside = |path: &&String| path.starts_with(['~', '/']);
            for path in policy.write.iter().filter(outside) {
                places.extend(
                    homes
                        .all()
                        .iter()
                        .map(|home| resolve(Path::new("/"), Some(home), path)),
                );
            }
        }
    }
    let resolved: Vec<PathBuf> = places
        .iter()
        .filter_map(|place| place.canonicalize().ok())
        .collect();
    places.extend(resolved);
    places
}
