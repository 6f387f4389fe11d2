//! What is kept from the agent of a stage with outputs: the credentials of trackers and git remotes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use vik_core::outputs::credentials::{TOKENS, in_git_config, is_credential};
use vik_mask::MIN_BYTES;
use vik_proc::{Reads, Sandbox, untrusted};

use crate::host::Host;
use crate::sandbox::Homes;

/// Where tools keep credentials of trackers and git remotes, below the home directory.
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

/// With a larger file of git settings, no agent that must not have a credential is started.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// A way by which a credential would come to the agent: it is not started.
#[derive(Debug, thiserror::Error)]
pub enum Leak {
    /// A variable of its profile holds one.
    #[error("the variable {variable} of its profile holds the value of {credential}, a credential")]
    Variable {
        /// The variable.
        variable: String,
        /// The credential.
        credential: String,
    },
    /// Settings of git hold one.
    #[error("line {line} of {path} holds a credential of a git remote")]
    GitConfig {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// Settings of git cannot be read, so it is not known whether they hold one.
    #[error("{path} may hold a credential, and cannot be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It could write the issues themselves, where those are files.
    #[error("its sandbox lets it write the issues in {path}")]
    Tracker {
        /// Their folder.
        path: PathBuf,
    },
    /// Its sandbox was told to show one.
    #[error("its sandbox shows {path}, where credentials stand")]
    Shown {
        /// The file or folder.
        path: PathBuf,
    },
}

/// What is known when an agent of such a stage, or what runs its code, is about to start.
#[derive(Clone, Copy, Debug)]
pub struct CredentialGuard<'a> {
    /// The daemon's surroundings.
    pub host: &'a Host,
    /// The workspace.
    pub workdir: &'a Path,
    /// Names of the secrets by which the tracker is asked and told.
    pub names: &'a [&'a str],
    /// The values of those that are known.
    pub secrets: &'a [(String, String)],
    /// Files that hold secrets which the agent does not list.
    pub files: &'a [PathBuf],
}

impl CredentialGuard<'_> {
    /// Takes out of its environment what leads to a credential, and tells git that there is none.
    ///
    /// # Errors
    /// When another variable holds one.
    pub fn environment(&self, env: &mut BTreeMap<String, String>) -> Result<(), Leak> {
        self.take_out(env);
        for (credential, value) in self.known() {
            if let Some((variable, _)) = env.iter().find(|(_, held)| held.contains(&value)) {
                return Err(Leak::Variable {
                    variable: variable.clone(),
                    credential,
                });
            }
        }
        disable_git_credentials(env);
        Ok(())
    }

    /// The same for a script of the workflow that runs the agent's code: what holds a credential is left out.
    pub fn environment_of_script(&self, env: &mut BTreeMap<String, String>) {
        self.take_out(env);
        for (_, value) in self.known() {
            env.retain(|_, held| !held.contains(&value));
        }
        disable_git_credentials(env);
    }

    fn take_out(&self, env: &mut BTreeMap<String, String>) {
        env.retain(|name, _| !is_credential(name) && !self.names.contains(&name.as_str()));
    }

    /// Credentials whose values are known, and long enough to be told from words.
    fn known(&self) -> Vec<(String, String)> {
        let own = |name: &&str| Some(((*name).to_owned(), self.host.environment.get(name)?.to_owned()));
        let known = TOKENS.iter().filter_map(own).chain(self.secrets.iter().cloned());
        known.filter(|(_, value)| value.len() >= MIN_BYTES).collect()
    }

    /// Looks at the settings of git that hold in the workspace. What an agent writes into them later is its own.
    ///
    /// # Errors
    /// When they hold a credential.
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

    /// Closes a sandbox around what holds credentials.
    ///
    /// # Errors
    /// When the workflow opens it there.
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
            let there = places.iter().filter(|place| place.symlink_metadata().is_ok());
            for place in there {
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

    /// Where credentials may be, whether or not they are there.
    fn places(&self, homes: &Homes) -> Vec<PathBuf> {
        let get = |name: &str| self.host.environment.get(name).filter(|value| !value.is_empty());
        let below_homes = OF_THE_USER.iter().flat_map(|path| homes.places(path));
        let named = ["GH_CONFIG_DIR", "GLAB_CONFIG_DIR"]
            .into_iter()
            .filter_map(|name| get(name).map(PathBuf::from));
        below_homes.chain(named).collect()
    }

    /// The files of settings that git reads in the workspace.
    fn git_settings(&self, homes: &Homes) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::from_iter(homes.places(".gitconfig"));
        files.extend(homes.places(".config/git/config"));
        files.insert("/etc/gitconfig".into());
        let mut folders = vec![self.workdir.join(".git")];
        for part in vik_proc::repository_of(self.workdir) {
            // Of a linked work tree: its own part, which lies in `worktrees` of the repository.
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

/// Reads settings of git. A person's may be a link, and the agent may have made one: only a regular file is read.
pub(crate) fn read_settings(path: &Path) -> std::io::Result<Vec<u8>> {
    untrusted::read(&path.canonicalize()?, MAX_CONFIG_BYTES)
}

/// No credential helper, no question, no ssh: what git would find by these it must not find, and it must not wait.
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
