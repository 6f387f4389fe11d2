//! Withholds the credentials of trackers and git remotes from the agent of a stage with outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use vik_core::outputs::credentials::{TOKENS, in_git_config, is_credential};
use vik_mask::MIN_BYTES;
use vik_proc::{Reads, Sandbox, untrusted};

use crate::host::Host;
use crate::sandbox::Homes;

/// The paths of the credentials of trackers and git remotes, below the home directory.
const OF_THE_USER: &[&str] = &[
    ".ssh",
    ".netrc",
    ".git-credentials",
    ".gitcookies",
    ".jira.d",
    ".config/git/credentials",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/tea",
    ".config/.jira",
    ".config/acli",
    ".config/linear",
];

/// The maximum size of a file of git settings. With a larger one, no agent that must not have a
/// credential is started.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// A way in which the agent would get a credential. It is then not started.
#[derive(Debug, thiserror::Error)]
pub enum Leak {
    /// A variable of the profile contains a credential.
    #[error("the variable {variable} of its profile contains the value of {credential}, a credential")]
    Variable { variable: String, credential: String },
    /// Settings of git contain a credential.
    #[error("line {line} of {path} contains a credential of a git remote")]
    GitConfig {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// Settings of git cannot be read, so they may contain a credential.
    #[error("{path} cannot be read and may contain a credential")]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The agent could write the issues, which are files.
    #[error("its sandbox gives it write access to the issues in {path}")]
    Tracker { path: PathBuf },
    /// The sandbox shows a credential.
    #[error("its sandbox gives it access to {path}, which contains credentials")]
    Shown { path: PathBuf },
}

/// The facts at the start of an agent of such a stage, or of a script that runs its code.
#[derive(Clone, Copy, Debug)]
pub struct CredentialGuard<'a> {
    pub host: &'a Host,
    pub workdir: &'a Path,
    /// The names of the secrets that give access to the tracker.
    pub names: &'a [&'a str],
    /// The names and values of the secrets that are known.
    pub secrets: &'a [(String, String)],
    /// Files with secrets that the agent does not list.
    pub files: &'a [PathBuf],
}

impl CredentialGuard<'_> {
    /// Removes variables that lead to a credential from the agent's environment, and configures git
    /// without credentials.
    ///
    /// # Errors
    /// When another variable contains a credential.
    pub fn environment(&self, env: &mut BTreeMap<String, String>) -> Result<(), Leak> {
        self.remove_credentials(env);
        for (credential, value) in self.known() {
            if let Some((variable, _)) = env.iter().find(|(_, text)| text.contains(&value)) {
                return Err(Leak::Variable {
                    variable: variable.clone(),
                    credential,
                });
            }
        }
        disable_git_credentials(env);
        Ok(())
    }

    /// Does the same for a script of the workflow that runs the agent's code; variables that
    /// contain a credential are removed.
    pub fn environment_of_script(&self, env: &mut BTreeMap<String, String>) {
        self.remove_credentials(env);
        for (_, value) in self.known() {
            env.retain(|_, text| !text.contains(&value));
        }
        disable_git_credentials(env);
    }

    fn remove_credentials(&self, env: &mut BTreeMap<String, String>) {
        env.retain(|name, _| !is_credential(name) && !self.names.contains(&name.as_str()));
    }

    /// Returns the credentials whose values are known, and long enough to be distinguished from
    /// ordinary text.
    fn known(&self) -> Vec<(String, String)> {
        let own = |name: &&str| Some(((*name).to_owned(), self.host.environment.get(name)?.to_owned()));
        let known = TOKENS.iter().filter_map(own).chain(self.secrets.iter().cloned());
        known.filter(|(_, value)| value.len() >= MIN_BYTES).collect()
    }

    /// Checks the settings of git that apply in the workspace. Settings that an agent writes later
    /// contain only what the agent knows.
    ///
    /// # Errors
    /// When the settings contain a credential.
    pub fn git(&self, env: &BTreeMap<String, String>) -> Result<(), Leak> {
        for path in self.git_settings(&self.homes(env)) {
            let text = match read_settings(&path) {
                Ok(text) => text,
                // The agent cannot read it either.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                    continue;
                }
                Err(source) => return Err(Leak::Unreadable { path, source }),
            };
            if let Some(line) = in_git_config(&String::from_utf8_lossy(&text)) {
                return Err(Leak::GitConfig { path, line });
            }
        }
        Ok(())
    }

    /// Hides files and folders with credentials in a sandbox.
    ///
    /// # Errors
    /// When the workflow opens the sandbox for one of them.
    pub fn sandbox(&self, sandbox: &mut Sandbox, env: &BTreeMap<String, String>) -> Result<(), Leak> {
        let places: Vec<_> = self
            .places(&self.homes(env))
            .into_iter()
            .chain(self.files.iter().cloned())
            .collect();
        let covers = |open: &Path, place: &Path| place.starts_with(open) || open.starts_with(place);
        let issues = env.get("VIK_ISSUES_DIR").map(PathBuf::from);
        if let Some(path) = issues.filter(|path| path.is_dir())
            && sandbox.write.iter().any(|open| covers(open, &path))
        {
            return Err(Leak::Tracker { path });
        }
        let Reads::AllBut { hidden, shown } = &mut sandbox.read else {
            return Ok(());
        };
        let open = shown.iter().chain(&sandbox.write);
        for open in open {
            let existing = places.iter().filter(|place| place.symlink_metadata().is_ok());
            for place in existing {
                if covers(open, place) {
                    return Err(Leak::Shown { path: place.clone() });
                }
            }
        }
        hidden.extend(places);
        Ok(())
    }

    fn homes(&self, env: &BTreeMap<String, String>) -> Homes {
        Homes::of_process(&self.host.environment, env, self.workdir)
    }

    /// Returns the places where credentials may be, whether or not they exist.
    fn places(&self, homes: &Homes) -> Vec<PathBuf> {
        let get = |name: &str| self.host.environment.get(name).filter(|value| !value.is_empty());
        let below_homes = OF_THE_USER.iter().flat_map(|path| homes.places(path));
        let named = ["GH_CONFIG_DIR", "GLAB_CONFIG_DIR"]
            .into_iter()
            .filter_map(|name| get(name).map(PathBuf::from));
        below_homes.chain(named).collect()
    }

    /// Returns the files of settings that git reads in the workspace.
    fn git_settings(&self, homes: &Homes) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::from_iter(homes.places(".gitconfig"));
        files.extend(homes.places(".config/git/config"));
        files.insert("/etc/gitconfig".into());
        let mut folders = vec![self.workdir.join(".git")];
        for part in vik_proc::repository_of(self.workdir) {
            // In a linked work tree `part` is below `worktrees` of the repository.
            folders.extend(part.ancestors().nth(2).map(Path::to_owned));
            folders.extend(part.parent().map(Path::to_owned));
            folders.push(part);
        }
        for folder in folders {
            files.extend(["config", "config.worktree"].map(|name| folder.join(name)));
        }
        files.retain(|file| file.metadata().is_ok_and(|facts| facts.is_file()));
        files
    }
}

/// Reads settings of git. A person's file may be a link, and the agent may have created one: only a
/// regular file is read.
pub fn read_settings(path: &Path) -> std::io::Result<Vec<u8>> {
    untrusted::read(&path.canonicalize()?, MAX_CONFIG_BYTES)
}

/// Disables credential helpers, questions and ssh: git must find no credential by these, and must
/// not wait.
fn disable_git_credentials(env: &mut BTreeMap<String, String>) {
    let count = env.get("GIT_CONFIG_COUNT").and_then(|count| count.parse().ok());
    let mut count: u32 = count.unwrap_or(0);
    for (key, value) in [("credential.helper", ""), ("core.askPass", "false")] {
        env.insert(format!("GIT_CONFIG_KEY_{count}"), key.to_owned());
        env.insert(format!("GIT_CONFIG_VALUE_{count}"), value.to_owned());
        count += 1;
    }
    for (name, value) in [
        ("GIT_CONFIG_COUNT", count.to_string().as_str()),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "false"),
        ("SSH_ASKPASS", "false"),
        ("GIT_SSH_COMMAND", "false"),
    ] {
        env.insert(name.to_owned(), value.to_owned());
    }
}
