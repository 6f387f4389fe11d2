//! The files that `init` writes: templates whose parts depend on the tracker, the agent and the
//! repository.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::origin::PullRequests;
use super::{AgentKind, TrackerKind};

/// The title of the first issue of the embedded tracker.
pub(super) const SAMPLE_TITLE: &str = "Describe in the README how to run the tests";
/// The description of the first issue.
pub(super) const SAMPLE_BODY: &str = "A newcomer should find in README.md how to run the tests of this project, in one \
    short section. Try the command before you write it down.\n";

/// The variable with the key of the provider in `templates/agent-vex.yml`.
pub(super) const VEX_KEY: &str = "ANTHROPIC_API_KEY";

/// Which kind of git repository contains the workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repository {
    None,
    /// A repository without a remote `origin`.
    Local,
    /// A repository with a remote `origin`.
    Remote(PullRequests),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) tracker: TrackerKind,
    pub(super) agent: AgentKind,
    pub(super) repository: Repository,
}

#[derive(Clone, Debug)]
pub(super) struct NewFile {
    /// The path, relative to the workflow's folder.
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) is_script: bool,
}

/// Returns the name of a tracker or an agent, as on the command line.
pub(super) fn name(kind: &impl ValueEnum) -> String {
    let value = kind.to_possible_value();
    value.map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Returns the states of an issue: those of the first and the second stage, and the state in which
/// it waits for a person.
pub(super) fn states(tracker: TrackerKind) -> [&'static str; 3] {
    match tracker {
        TrackerKind::Files | TrackerKind::Github | TrackerKind::Gitlab | TrackerKind::Gitea => {
            ["todo", "review", "ready"]
        }
        TrackerKind::Redmine => ["New", "In Progress", "Resolved"],
        TrackerKind::Linear => ["Todo", "In Progress", "In Review"],
        TrackerKind::Jira => ["To Do", "In Progress", "In Review"],
    }
}

/// Returns the state for an issue that the agent cannot do without a person. It is one that a new
/// project of the tracker has, or that [`states`] requires anyway; labels are created.
pub(super) fn needs_person(tracker: TrackerKind) -> &'static str {
    match tracker {
        TrackerKind::Files | TrackerKind::Github | TrackerKind::Gitlab | TrackerKind::Gitea => "needs-person",
        TrackerKind::Redmine => "Feedback",
        TrackerKind::Linear => "Backlog",
        TrackerKind::Jira => "In Review",
    }
}

/// Returns the terminal states.
pub(super) fn terminal(tracker: TrackerKind) -> &'static str {
    match tracker {
        TrackerKind::Files => "done",
        TrackerKind::Github | TrackerKind::Gitlab | TrackerKind::Gitea => "closed",
        TrackerKind::Redmine => "Closed, Rejected",
        TrackerKind::Linear => "Done, Canceled, Duplicate",
        TrackerKind::Jira => "Done",
    }
}

/// Returns what `when` requires beside the state. At Redmine each issue begins in a state.
pub(super) fn required_labels(tracker: TrackerKind) -> &'static str {
    match tracker {
        TrackerKind::Redmine => ", labels: [vik]",
        _ => "",
    }
}

/// Returns the program of a tracker that is not built in: its name, and its text.
fn program(tracker: TrackerKind) -> Option<(&'static str, &'static str)> {
    match tracker {
        TrackerKind::Gitea => Some(("gitea.py", include_str!("../../../examples/trackers/gitea.py"))),
        TrackerKind::Linear => Some(("linear.py", include_str!("../../../examples/trackers/linear.py"))),
        TrackerKind::Jira => Some(("jira.py", include_str!("../../../examples/trackers/jira.py"))),
        TrackerKind::Files | TrackerKind::Github | TrackerKind::Gitlab | TrackerKind::Redmine => None,
    }
}

/// Returns the keys of `issues`.
fn issues(tracker: TrackerKind) -> String {
    let (about, seconds) = match tracker {
        TrackerKind::Files => (
            "Markdown files in issues/. Create one with `vik issue new TITLE`, move it with `vik issue move ID STATE`.",
            5,
        ),
        TrackerKind::Github => (
            "Issues of this repository, with the GitHub CLI and its login. GitHub has only the states open and closed,\n\
             so labels are the states: `vik:todo` becomes `todo`, and issues without such a label are ignored.",
            30,
        ),
        TrackerKind::Gitlab => (
            "Issues of the project GITLAB_PROJECT at GITLAB_URL (default: gitlab.com), with the token in GITLAB_TOKEN;\n\
             agents do not get it. GitLab has only the states opened and closed, so labels are the states: `vik:todo`\n\
             becomes `todo`, and issues without such a label are ignored.",
            30,
        ),
        TrackerKind::Gitea => (
            "Issues of the repository GITEA_REPO at GITEA_URL, with the token in GITEA_TOKEN, through gitea.py next to\n\
             this file (Python 3); agents do not get the token. Gitea has only the states open and closed, so labels are\n\
             the states: `vik:todo` becomes `todo`, and issues without such a label are ignored.",
            30,
        ),
        TrackerKind::Redmine => (
            "Issues of the project REDMINE_PROJECT at REDMINE_URL, with the key in REDMINE_API_KEY; agents do not get it.\n\
             Only issues of the category `vik` are taken.",
            30,
        ),
        TrackerKind::Linear => (
            "Issues of the team LINEAR_TEAM that have the label `vik`, with the key in LINEAR_API_KEY, through linear.py\n\
             next to this file (Python 3); agents do not get the key.",
            30,
        ),
        TrackerKind::Jira => (
            "Issues of the project JIRA_PROJECT at JIRA_URL that have the label `vik`, with JIRA_EMAIL and JIRA_API_TOKEN,\n\
             through jira.py next to this file (Python 3); agents do not get the token. Jira's search can lag behind a\n\
             move by some seconds: do not pull too often.",
            60,
        ),
    };
    let tracker = match program(tracker) {
        Some((name, _)) => format!("{{ command: [./{name}] }}"),
        None => name(&tracker),
    };
    let about: String = about.lines().map(|line| format!("# {line}\n")).collect();
    format!("{about}tracker: {tracker}\npull: {{ idle_sec: {seconds} }}\n")
}

/// Returns the files for a choice, the workflow first.
pub(super) fn plan(workflow: &Path, choice: &Choice) -> Vec<NewFile> {
    let file = |path: &str, text: &str| NewFile {
        path: path.into(),
        text: text.to_owned(),
        is_script: false,
    };
    let name = workflow
        .file_name()
        .map_or_else(|| "workflow.yml".into(), PathBuf::from);
    let implement = include_str!("templates/implement.md").replace("@PERSON@", needs_person(choice.tracker));
    let mut files = vec![
        NewFile {
            path: name,
            text: workflow_text(choice),
            is_script: false,
        },
        file("prompts/implement.md", &implement),
        file("prompts/review.md", include_str!("templates/review.md")),
    ];
    if choice.agent == AgentKind::Command {
        files.push(NewFile {
            is_script: true,
            ..file("agent.sh", include_str!("templates/agent.sh"))
        });
    }
    files.extend(program(choice.tracker).map(|(name, text)| NewFile {
        is_script: true,
        ..file(name, text)
    }));
    files
}

fn workflow_text(choice: &Choice) -> String {
    let agents = match choice.agent {
        AgentKind::Codex => include_str!("templates/agent-codex.yml"),
        AgentKind::Claude => include_str!("templates/agent-claude.yml"),
        AgentKind::Vex => include_str!("templates/agent-vex.yml"),
        AgentKind::Command => include_str!("templates/agent-command.yml"),
    };
    let [todo, review, ready] = states(choice.tracker);
    let push = match choice.repository {
        Repository::None => "",
        Repository::Local | Repository::Remote(_) => {
            "# Not plain git: the agent controls this folder, including its git settings.\n\
             vik git push --quiet --force-with-lease\n"
        }
    };
    let text = include_str!("templates/workflow.yml");
    [
        ("@TRACKER@", name(&choice.tracker)),
        ("@AGENT@", name(&choice.agent)),
        ("@AGENTS@", agents.to_owned()),
        ("@ISSUES@", indented(2, &issues(choice.tracker))),
        ("@WHEN_LABELS@", required_labels(choice.tracker).to_owned()),
        ("@TERMINAL@", terminal(choice.tracker).to_owned()),
        ("@AFTER_CREATE@", indented(6, after_create(choice.repository))),
        ("@PUSH@", indented(10, push)),
        (
            "@MOVE_REVIEW@",
            indented(10, &move_script(todo, review)).trim_end().to_owned(),
        ),
        (
            "@MOVE_READY@",
            indented(
                10,
                &format!("{}{}", pull_request(choice), move_script(review, ready)),
            )
            .trim_end()
            .to_owned(),
        ),
        ("@TODO_YAML@", quoted(todo)),
        ("@REVIEW_YAML@", quoted(review)),
        ("@TODO@", todo.to_owned()),
        ("@REVIEW@", review.to_owned()),
        ("@READY@", ready.to_owned()),
        ("@PERSON_YAML@", quoted(needs_person(choice.tracker))),
        ("@PERSON@", needs_person(choice.tracker).to_owned()),
    ]
    .iter()
    .fold(text.to_owned(), |text, (placeholder, value)| {
        text.replace(placeholder, value)
    })
}

/// Returns a state as a value in YAML and as an argument for a shell.
fn quoted(state: &str) -> String {
    if state.contains(' ') {
        format!("\"{state}\"")
    } else {
        state.to_owned()
    }
}

fn indented(by: usize, text: &str) -> String {
    text.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

fn after_create(repository: Repository) -> &'static str {
    match repository {
        Repository::None => {
            "set -eu\n\
             # This file is not in a git repository. Clone your repository here, and push in after_run:\n\
             #   git clone --quiet -- https://example.com/you/project.git .\n\
             git init --quiet ."
        }
        Repository::Local => {
            "set -eu\n\
             # Clone the repository that contains this file (committed files only).\n\
             repository=$(git -C {{ workflow_dir }} rev-parse --show-toplevel)\n\
             git clone --quiet --no-hardlinks -- \"$repository\" .\n\
             branch=\"vik/$VIK_ISSUE_ID\"\n\
             git switch --quiet \"$branch\" 2>/dev/null || git switch --quiet --create \"$branch\""
        }
        Repository::Remote(_) => {
            "set -eu\n\
             # Clone from the origin of the repository that contains this file.\n\
             remote=$(git -C {{ workflow_dir }} remote get-url origin)\n\
             git clone --quiet -- \"$remote\" .\n\
             branch=\"vik/$VIK_ISSUE_ID\"\n\
             git switch --quiet \"$branch\" 2>/dev/null || git switch --quiet --create \"$branch\""
        }
    }
}

/// Returns the command that opens a pull request for the pushed branch, unless there is one.
pub(super) fn pull_request(choice: &Choice) -> &'static str {
    let Repository::Remote(pull_requests) = choice.repository else {
        return "";
    };
    match pull_requests {
        PullRequests::Tracker => {
            "vik tracker workflow pull_request open \"vik/$VIK_ISSUE_ID\" \\\n  \
             --title=\"${VIK_ISSUE_TITLE:-Issue $VIK_ISSUE_ID}\" --body=\"Closes #$VIK_ISSUE_ID\"\n"
        }
        // `gh` must not read the workspace.
        PullRequests::Github => {
            "cd {{ workflow_dir }}\n\
             vik tracker github pull_request open \"vik/$VIK_ISSUE_ID\" \\\n  \
             --title=\"${VIK_ISSUE_TITLE:-Issue $VIK_ISSUE_ID}\" --body=\"Issue $VIK_ISSUE_ID\"\n"
        }
        PullRequests::None => "",
    }
}

/// Returns the commands that move the issue of a hook.
fn move_script(from: &str, to: &str) -> String {
    format!(
        "# An issue that a person has closed or moved meanwhile stays as it is.\n\
         vik tracker workflow move --from {} --to {}",
        quoted(from),
        quoted(to)
    )
}

/// Returns the steps that a tracker needs before the first run, each with a command and its
/// purpose.
pub(super) fn first_steps(tracker: TrackerKind) -> &'static [(&'static str, &'static str)] {
    match tracker {
        TrackerKind::Files => &[("vik issue new \"TITLE\" --body \"TEXT\"", "create an issue")],
        TrackerKind::Github => &[("gh issue edit NUMBER --add-label vik:todo", "hand over an issue")],
        TrackerKind::Gitlab => &[
            (
                "export GITLAB_TOKEN=… GITLAB_PROJECT=…",
                "a token with the scope `api`, and the path of the project, such as GROUP/NAME",
            ),
            ("add the label `vik:todo` to an issue", "hand it over"),
        ],
        TrackerKind::Gitea => &[
            (
                "export GITEA_URL=… GITEA_TOKEN=… GITEA_REPO=…",
                "the address, a token that can write issues and repositories, and OWNER/NAME",
            ),
            ("add the label `vik:todo` to an issue", "hand it over"),
        ],
        TrackerKind::Redmine => &[
            (
                "export REDMINE_URL=… REDMINE_API_KEY=… REDMINE_PROJECT=…",
                "the address, the key of a user who can change issues, and the identifier of the project",
            ),
            (
                "give an issue the category `vik`, in the state `New`",
                "hand it over",
            ),
        ],
        TrackerKind::Linear => &[
            (
                "export LINEAR_API_KEY=… LINEAR_TEAM=…",
                "a personal API key, and the key of the team, such as ENG",
            ),
            (
                "add the state `In Review` to the team, if it has none",
                "work waits there for you; another name can be written in after_run",
            ),
            ("label an issue `vik`, in the state `Todo`", "hand it over"),
        ],
        TrackerKind::Jira => &[
            (
                "export JIRA_URL=… JIRA_EMAIL=… JIRA_API_TOKEN=… JIRA_PROJECT=…",
                "the address, your account, and the key of the project, such as ENG",
            ),
            (
                "add the status `In Review` to the project, if it has none",
                "work waits there for you; another name can be written in after_run",
            ),
            ("label an issue `vik`, in the status `To Do`", "hand it over"),
        ],
    }
}
