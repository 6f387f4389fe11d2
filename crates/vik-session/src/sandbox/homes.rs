//! The folders below which programs look for the user's settings and keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nix::unistd::{User, getuid};

use crate::host::Environment;

/// Base folders of the XDG specification, and their default paths below the home directory.
const XDG: [(&str, &str); 3] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
];

/// All home directories of an agent: its own, the daemon's, and the one in the user database. A
/// program finds the user's keys below any of them, whatever the value of `HOME` is.
#[derive(Clone, Debug, Default)]
pub struct Homes {
    homes: Vec<PathBuf>,
    /// Folders that replace one below the home directory.
    bases: Vec<(&'static str, PathBuf)>,
}

impl Homes {
    /// Returns the homes of the daemon and of its user.
    pub fn of_daemon(daemon: &Environment) -> Self {
        let user = User::from_uid(getuid()).ok().flatten().map(|user| user.dir);
        let mut homes = Self::default();
        homes.add(
            |name| daemon.get(name),
            &std::env::current_dir().unwrap_or_default(),
        );
        homes.add_home(user.filter(|home| home.is_absolute()));
        homes
    }

    /// Returns the home that a process finds with `env` in the folder `cwd`, followed by those of
    /// the daemon.
    pub fn of_process(daemon: &Environment, env: &BTreeMap<String, String>, cwd: &Path) -> Self {
        let mut homes = Self::default();
        homes.add(|name| env.get(name).map(String::as_str), cwd);
        let others = Self::of_daemon(daemon);
        others
            .homes
            .into_iter()
            .for_each(|home| homes.add_home(Some(home)));
        homes.bases.extend(others.bases);
        homes
    }

    fn add<'e>(&mut self, get: impl Fn(&str) -> Option<&'e str>, cwd: &Path) {
        let folder = |name: &str| {
            get(name)
                .filter(|value| !value.is_empty())
                .map(|value| cwd.join(value))
        };
        self.add_home(folder("HOME").filter(|home| home.is_absolute()));
        let bases = XDG
            .iter()
            .filter_map(|&(name, below)| Some((below, folder(name)?)));
        self.bases.extend(bases.filter(|(_, base)| base.is_absolute()));
    }

    fn add_home(&mut self, home: Option<PathBuf>) {
        self.homes.extend(home.filter(|home| !self.homes.contains(home)));
    }

    /// Returns the home for `~`; `None` if no home is known.
    pub fn first(&self) -> Option<&Path> {
        self.homes.first().map(PathBuf::as_path)
    }

    pub fn all(&self) -> &[PathBuf] {
        &self.homes
    }

    /// Returns every place at which a path below the home directory may be.
    pub fn places(&self, path: &str) -> Vec<PathBuf> {
        let below_home = self.homes.iter().map(|home| home.join(path));
        let below_base = self
            .bases
            .iter()
            .filter_map(|(below, base)| Some(base.join(Path::new(path).strip_prefix(below).ok()?)));
        below_home.chain(below_base).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect()
    }

    #[test]
    fn places_cover_homes_of_agent_daemon_and_user() {
        let user = User::from_uid(getuid()).unwrap().unwrap().dir.join(".ssh");
        for (daemon, agent, expected) in [
            (
                &[("HOME", "/d")][..],
                &[("HOME", "/a")][..],
                &["/a/.ssh", "/d/.ssh"][..],
            ),
            (&[], &[], &[]),
            (&[("HOME", "")], &[("HOME", "")], &[]),
            (&[], &[("HOME", "rel")], &["/w/rel/.ssh"]),
            (&[("HOME", "/does/not/exist")], &[], &["/does/not/exist/.ssh"]),
        ] {
            let daemon = Environment::from(environment(daemon));
            let homes = Homes::of_process(&daemon, &environment(agent), Path::new("/w"));
            let places = homes.places(".ssh");
            assert!(places.contains(&user), "{places:?}");
            assert_eq!(
                places[..expected.len()],
                expected.iter().map(PathBuf::from).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn places_include_the_xdg_base_folders() {
        let daemon = Environment::from(environment(&[("HOME", "/d"), ("XDG_CONFIG_HOME", "/dc")]));
        let agent = environment(&[
            ("HOME", "/a"),
            ("XDG_CONFIG_HOME", "/ac"),
            ("XDG_DATA_HOME", "/ad"),
        ]);
        let homes = Homes::of_process(&daemon, &agent, Path::new("/w"));
        let (config, data) = (homes.places(".config/gh"), homes.places(".local/share/keyrings"));
        for path in ["/a/.config/gh", "/d/.config/gh", "/ac/gh", "/dc/gh"] {
            assert!(config.contains(&path.into()), "{path}: {config:?}");
        }
        assert!(data.contains(&"/ad/keyrings".into()), "{data:?}");
    }
}
