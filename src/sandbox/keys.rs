//! What is hidden from agents where nothing else is said: what opens doors.

use std::path::{Path, PathBuf};

use crate::host::{API_TOKEN_FILE, Host};

/// Below the home directory.
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
    // Logins of agents: each sees its own.
    ".codex",
    ".claude",
    ".claude.json",
    ".gemini",
    ".copilot",
    ".local/share/opencode",
    ".vik",
];

/// Of the machine.
const OF_THE_MACHINE: &[&str] = &[
    // Terminals that somebody types at, keyboards, disks: what programs need of it may be written to.
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

/// All of it, but for what is the agent's own.
pub(super) fn hidden(host: &Host, home: Option<&Path>, own: &[PathBuf]) -> Vec<PathBuf> {
    let state = host.environment.get("XDG_STATE_HOME");
    let state = state
        .filter(|state| !state.is_empty())
        .map(PathBuf::from)
        .or_else(|| home.map(|home| home.join(".local/state")));
    let user = OF_THE_USER
        .iter()
        .filter_map(|path| home.map(|home| home.join(path)));
    let machine = OF_THE_MACHINE.iter().map(PathBuf::from);
    let ssh = std::fs::read_dir("/etc/ssh").into_iter().flatten().flatten();
    let ssh = ssh
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("_key"));
    let tokens = host.environment.get(API_TOKEN_FILE).map(PathBuf::from);
    user.chain(machine)
        .chain(ssh)
        .chain(tokens)
        .filter(|path| !own.contains(path))
        .chain(state.map(|state| state.join("vik")))
        .collect()
}
