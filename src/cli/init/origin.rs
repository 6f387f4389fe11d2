//! Where pull requests for the code of a project are: at the host of its remote `origin`.

use super::TrackerKind;

/// Where the last stage opens a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PullRequests {
    /// Nowhere: Vik cannot open one at this host.
    None,
    /// At the tracker, which has the code too.
    Tracker,
    /// At GitHub, while the issues are elsewhere.
    Github,
}

/// The parts of host names by which a host is known, and what runs there; `None` for something that
/// no built-in tracker supports.
const HOSTS: [(&str, Option<TrackerKind>); 8] = [
    ("github.", Some(TrackerKind::Github)),
    ("gitlab", Some(TrackerKind::Gitlab)),
    ("gitea", Some(TrackerKind::Gitea)),
    ("forgejo", Some(TrackerKind::Gitea)),
    ("codeberg.org", Some(TrackerKind::Gitea)),
    ("bitbucket", None),
    ("dev.azure.com", None),
    ("git.sr.ht", None),
];

/// Returns where to open pull requests for the code at the URL `origin`. `variable` returns the value
/// of an environment variable, which may name the tracker's server.
pub(super) fn pull_requests(
    tracker: TrackerKind,
    origin: &str,
    has_gh: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> PullRequests {
    let host = host(origin).to_lowercase();
    let server = match tracker {
        TrackerKind::Gitlab => variable("GITLAB_URL"),
        TrackerKind::Gitea => variable("GITEA_URL"),
        _ => None,
    };
    let found = HOSTS.iter().find(|(part, _)| host.contains(part));
    let is_at_tracker = match (server, found) {
        (Some(server), _) => self::host(&server).eq_ignore_ascii_case(&host),
        (None, Some((_, kind))) => *kind == Some(tracker),
        // A server of the user's own.
        (None, None) => true,
    };
    let has_code = [TrackerKind::Github, TrackerKind::Gitlab, TrackerKind::Gitea].contains(&tracker);
    if has_code && is_at_tracker {
        PullRequests::Tracker
    } else if host == "github.com" && has_gh && tracker != TrackerKind::Github {
        PullRequests::Github
    } else {
        PullRequests::None
    }
}

/// Returns the host of a URL or of an address such as `git@example.com:path`; "" for a path.
fn host(url: &str) -> &str {
    let (authority, is_url) = match url.split_once("://") {
        Some((_, tail)) => (tail.split('/').next().unwrap_or_default(), true),
        // A path such as `./a:b` has a slash before the colon.
        None => match url.split_once(':') {
            Some((authority, _)) if !authority.contains('/') => (authority, false),
            _ => return "",
        },
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match is_url {
        true => host.split(':').next().unwrap_or_default(),
        false => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_found_in_all_forms_of_an_address() {
        for (url, expected) in [
            ("git@github.com:o/r.git", "github.com"),
            ("ssh://git@github.com:22/o/r", "github.com"),
            ("https://user:secret@github.com/o/r", "github.com"),
            ("work:o/r", "work"),
            ("/srv/git/r.git", ""),
            ("./a:b", ""),
            ("file:///srv/git/r.git", ""),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }

    #[test]
    fn pull_requests_are_opened_where_the_code_is() {
        use PullRequests::{Github, None, Tracker};
        let at = |tracker, origin: &str, has_gh| pull_requests(tracker, origin, has_gh, |_| Option::None);
        let (github, gitlab) = ("https://user@github.com/o/r", "git@gitlab.com:g/p.git");
        let (gitea, own) = ("https://codeberg.org/o/r", "ssh://git@git.example.com/o/r");
        let bitbucket = "git@bitbucket.org:o/r";
        for (tracker, expected) in [
            (TrackerKind::Github, [Tracker, None, None, Tracker, None]),
            (TrackerKind::Gitlab, [Github, Tracker, None, Tracker, None]),
            (TrackerKind::Gitea, [Github, None, Tracker, Tracker, None]),
            (TrackerKind::Redmine, [Github, None, None, None, None]),
            (TrackerKind::Linear, [Github, None, None, None, None]),
            (TrackerKind::Jira, [Github, None, None, None, None]),
            (TrackerKind::Files, [Github, None, None, None, None]),
        ] {
            let found = [github, gitlab, gitea, own, bitbucket].map(|origin| at(tracker, origin, true));
            assert_eq!(found, expected, "{tracker:?}");
        }
        // Without `gh`, no pull request is opened at GitHub.
        assert_eq!(at(TrackerKind::Gitlab, github, false), None);
        assert_eq!(
            at(TrackerKind::Github, "https://github.company.example/o/r", false),
            Tracker
        );
        // The configured server decides.
        let configured = |origin| {
            let server = |name: &str| (name == "GITLAB_URL").then(|| "https://git.example.com".to_owned());
            pull_requests(TrackerKind::Gitlab, origin, false, server)
        };
        assert_eq!([own, gitlab, github].map(configured), [Tracker, None, None]);
    }
}
