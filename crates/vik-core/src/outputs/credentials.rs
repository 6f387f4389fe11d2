//! Usual places of credentials for trackers and git remotes, which agents with outputs must not
//! have.

/// Variables that hold a token or a password.
pub const TOKENS: &[&str] = &[
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_API_TOKEN",
    "GITHUB_ACCESS_TOKEN",
    "GITHUB_PAT",
    "GH_PAT",
    "HOMEBREW_GITHUB_API_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "GITLAB_TOKEN",
    "GITLAB_ACCESS_TOKEN",
    "GITLAB_API_TOKEN",
    "GITLAB_PRIVATE_TOKEN",
    "GL_TOKEN",
    "CI_JOB_TOKEN",
    "GITEA_TOKEN",
    "GITEA_SERVER_TOKEN",
    "FORGEJO_TOKEN",
    "CODEBERG_TOKEN",
    "SOURCEHUT_TOKEN",
    "AZURE_DEVOPS_EXT_PAT",
    "SYSTEM_ACCESSTOKEN",
    "LINEAR_API_KEY",
    "LINEAR_API_TOKEN",
    "LINEAR_TOKEN",
    "ASANA_ACCESS_TOKEN",
    "ASANA_TOKEN",
    "SHORTCUT_API_TOKEN",
    "CLICKUP_API_TOKEN",
    "CLICKUP_TOKEN",
    "NOTION_API_KEY",
    "NOTION_TOKEN",
    "YOUTRACK_TOKEN",
    "PLANE_API_KEY",
    "REDMINE_API_KEY",
    "MONDAY_API_TOKEN",
];

/// Variables that lead git and ssh to a credential.
const LOCATORS: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "GIT_ASKPASS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_PROXY_COMMAND",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GH_CONFIG_DIR",
    "GLAB_CONFIG_DIR",
];

/// Prefixes of such variables.
const PREFIXES: &[&str] = &["BITBUCKET_", "JIRA_", "ATLASSIAN_", "TRELLO_", "REDMINE_"];

/// Returns whether a variable usually holds, or leads to, a credential of a tracker or a git
/// remote.
pub fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    TOKENS.contains(&&*name)
        || LOCATORS.contains(&&*name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the line, from 1, of a credential in the settings of a git repository: in the address of
/// a remote, or in a header of requests.
pub fn in_git_config(text: &str) -> Option<usize> {
    let holds = |line: &str| {
        let line = line.trim();
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let key = key.trim().to_ascii_lowercase();
        // A key can follow its section on the same line.
        let key = key.rsplit(']').next().unwrap_or("").trim();
        (key.ends_with("extraheader") && !value.trim().is_empty())
            || line.contains("://") && has_password(line)
    };
    text.lines().position(holds).map(|at| at + 1)
}

/// Returns whether an address contains a password, or only a user that may be a token.
fn has_password(text: &str) -> bool {
    text.split("://").skip(1).any(|after_scheme| {
        let end = after_scheme
            .find(['/', '"', ' ', '\t'])
            .unwrap_or(after_scheme.len());
        let Some((user, _)) = after_scheme[..end].rsplit_once('@') else {
            return false;
        };
        user.contains(':') || user.len() >= 20
    })
}
