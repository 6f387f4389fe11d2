//! The files and folders that are hidden from agents by default because they give access to
//! something.

use std::path::{Path, PathBuf};

use super::homes::Homes;
use crate::host::{API_TOKEN_FILE, Host};

/// Paths below the home directory.
const OF_THE_USER: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/op",
    ".config/sops",
    ".config/rclone",
    ".config/doctl",
    ".config/git/credentials",
    ".config/containers/auth.json",
    ".docker",
    ".kube",
    ".helm",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".terraform.d",
    ".terraformrc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".password-store",
    ".age",
    ".local/share/keyrings",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".node_repl_history",
    ".config/systemd",
    ".local/share/fish/fish_history",
    // Logins of agents: each agent sees only its own.
    ".codex",
    ".claude",
    ".claude.json",
    ".gemini",
    ".copilot",
    ".local/share/opencode",
    ".vik",
];

/// Paths of the machine.
const OF_THE_MACHINE: &[&str] = &[
    // Terminals, keyboards and disks. The devices that programs need are opened for writing
    // separately.
    "/dev",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/kubernetes",
    "/etc/rancher",
    "/var/run/secrets",
    "/run/secrets",
    "/run/docker.sock",
    "/run/containerd",
    "/run/podman",
    "/run/user",
    "/var/lib/docker",
];

/// Variables that move one of these places; their value may be a list of paths.
const MOVED_BY: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CONFIG_DIR",
    "CLAUDE_CONFIG_DIR",
    "CLOUDSDK_CONFIG",
    "CODEX_HOME",
    "DOCKER_CONFIG",
    "GH_CONFIG_DIR",
    "GLAB_CONFIG_DIR",
    "GNUPGHOME",
    "HISTFILE",
    "KUBECONFIG",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "PASSWORD_STORE_DIR",
    "PGPASSFILE",
];

/// Returns all hidden paths except `own`, the agent's own.
pub(super) fn hidden(host: &Host, homes: &Homes, own: &[PathBuf]) -> Vec<PathBuf> {
    let variable = |name: &str| host.environment.get(name).unwrap_or_default();
    let user = OF_THE_USER.iter().flat_map(|path| homes.places(path));
    let moved = MOVED_BY
        .iter()
        .flat_map(|name| std::env::split_paths(variable(name)).collect::<Vec<_>>());
    let cargo = ["credentials", "credentials.toml"].map(|file| Path::new(variable("CARGO_HOME")).join(file));
    let moved = moved
        .chain(cargo)
        .filter(|path| path.is_absolute() && path.parent().is_some());
    let machine = OF_THE_MACHINE.iter().map(PathBuf::from);
    #[expect(clippy::disallowed_methods, reason = "a folder of the machine")]
    let ssh = std::fs::read_dir("/etc/ssh").into_iter().flatten().flatten();
    let ssh = ssh
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("_key"));
    let tokens = host.environment.get(API_TOKEN_FILE).map(PathBuf::from);
    user.chain(moved)
        .chain(machine)
        .chain(ssh)
        .chain(tokens)
        .filter(|path| !own.contains(path))
        .chain(homes.places(".local/state/vik"))
        .collect()
}
