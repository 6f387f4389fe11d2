//! The files that `init` writes: templates whose parts depend on the tracker, the agent and the
//! repository.

use std::path::{Path, PathBuf};

use super::{AgentKind, TrackerKind};

/// The title of the first issue of the embedded tracker.
pub(super) const SAMPLE_TITLE: &str = "Describe in the README how to run the tests";
/// The description of the first issue.
pub(super) const SAMPLE_BODY: &str = "A newcomer should find in README.md how to run the tests of this project, in one \
    short section. Try the command before you write it down.\n";

/// Which kind of git repository contains the workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repository {
    None,
    /// A repository without a remote `origin`.
    Local,
    /// A repository with a remote `origin`.
    Remote,
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

pub(super) fn tracker_name(tracker: TrackerKind) -> &'static str {
    match tracker {
        TrackerKind::Files => "files",
        TrackerKind::Github => "github",
        TrackerKind::Gitlab => "gitlab",
        TrackerKind::Linear => "linear",
        TrackerKind::Jira => "jira",
    }
}

pub(super) fn agent_name(agent: AgentKind) -> &'static str {
    match agent {
        AgentKind::Codex => "codex",
        AgentKind::Claude => "claude",
        AgentKind::Vex => "vex",
    }
}

/// Returns the states of an issue: those of the first and the second stage, and the state in which
/// it waits for a person.
fn states(tracker: TrackerKind) -> [&'static str; 3] {
    match tracker {
        TrackerKind::Files | TrackerKind::Github | TrackerKind::Gitlab => ["todo", "review", "ready"],
        TrackerKind::Linear => ["Todo", "In Progress", "In Review"],
        TrackerKind::Jira => ["To Do", "In Progress", "In Review"],
    }
}

/// Returns the terminal states.
fn terminal(tracker: TrackerKind) -> &'static str {
    match tracker {
        TrackerKind::Files => "done",
        TrackerKind::Github | TrackerKind::Gitlab => "closed",
        TrackerKind::Linear => "Done, Canceled, Duplicate",
        TrackerKind::Jira => "Done",
    }
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
    let mut files = vec![
        NewFile {
            path: name,
            text: workflow_text(choice),
            is_script: false,
        },
        file("prompts/implement.md", include_str!("templates/implement.md")),
        file("prompts/review.md", include_str!("templates/review.md")),
    ];
    let script = match choice.tracker {
        TrackerKind::Linear => Some(include_str!("templates/linear.sh")),
        TrackerKind::Jira => Some(include_str!("templates/jira.sh")),
        TrackerKind::Files | TrackerKind::Github | TrackerKind::Gitlab => None,
    };
    files.extend(script.map(|text| NewFile {
        is_script: true,
        ..file("tracker.sh", text)
    }));
    files
}

fn workflow_text(choice: &Choice) -> String {
    let agents = match choice.agent {
        AgentKind::Codex => include_str!("templates/agent-codex.yml"),
        AgentKind::Claude => include_str!("templates/agent-claude.yml"),
        AgentKind::Vex => include_str!("templates/agent-vex.yml"),
    };
    let pull = match choice.tracker {
        TrackerKind::Files => include_str!("templates/pull-files.yml"),
        TrackerKind::Github => include_str!("templates/pull-github.yml"),
        TrackerKind::Gitlab => include_str!("templates/pull-gitlab.yml"),
        TrackerKind::Linear => include_str!("templates/pull-linear.yml"),
        TrackerKind::Jira => include_str!("templates/pull-jira.yml"),
    };
    let [todo, review, ready] = states(choice.tracker);
    let push = match choice.repository {
        Repository::None => "",
        Repository::Local | Repository::Remote => {
            "# Not plain git: the agent controls this folder, including its git settings.\n\
             vik git push --quiet --force-with-lease\n"
        }
    };
    let text = include_str!("templates/workflow.yml");
    [
        ("@TRACKER@", tracker_name(choice.tracker).to_owned()),
        ("@AGENT@", agent_name(choice.agent).to_owned()),
        ("@AGENTS@", agents.to_owned()),
        ("@PULL@", pull.to_owned()),
        ("@TERMINAL@", terminal(choice.tracker).to_owned()),
        ("@AFTER_CREATE@", indented(6, after_create(choice.repository))),
        ("@PUSH@", indented(10, push)),
        (
            "@MOVE_REVIEW@",
            indented(10, &move_script(choice.tracker, todo, review, ""))
                .trim_end()
                .to_owned(),
        ),
        (
            "@MOVE_READY@",
            indented(
                10,
                &move_script(choice.tracker, review, ready, pull_request(choice)),
            )
            .trim_end()
            .to_owned(),
        ),
        ("@TODO_YAML@", yaml(todo)),
        ("@REVIEW_YAML@", yaml(review)),
        ("@TODO@", todo.to_owned()),
        ("@REVIEW@", review.to_owned()),
        ("@READY@", ready.to_owned()),
    ]
    .iter()
    .fold(text.to_owned(), |text, (placeholder, value)| {
        text.replace(placeholder, value)
    })
}

fn yaml(state: &str) -> String {
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
        Repository::Remote => {
            "set -eu\n\
             # Clone from the origin of the repository that contains this file.\n\
             remote=$(git -C {{ workflow_dir }} remote get-url origin)\n\
             git clone --quiet -- \"$remote\" .\n\
             branch=\"vik/$VIK_ISSUE_ID\"\n\
             git switch --quiet \"$branch\" 2>/dev/null || git switch --quiet --create \"$branch\""
        }
    }
}

/// Returns the commands that open a pull request for the pushed branch, unless there is one.
fn pull_request(choice: &Choice) -> &'static str {
    match (choice.tracker, choice.repository) {
        (TrackerKind::Github, Repository::Remote) => {
            "branch=\"vik/$VIK_ISSUE_ID\"\n\
             gh pr view \"$branch\" >/dev/null 2>&1 ||\n  \
             gh pr create --head \"$branch\" --title \"$VIK_ISSUE_TITLE\" --body \"Closes #$VIK_ISSUE_ID\"\n"
        }
        (TrackerKind::Gitlab, Repository::Remote) => {
            "branch=\"vik/$VIK_ISSUE_ID\"\n\
             glab mr view \"$branch\" >/dev/null 2>&1 ||\n  \
             glab mr create --yes --source-branch \"$branch\" --title \"$VIK_ISSUE_TITLE\" \\\n    \
             --description \"Closes #$VIK_ISSUE_ID\"\n"
        }
        _ => "",
    }
}

/// Returns the commands that move an issue. `before` runs first, in the folder of the workflow.
fn move_script(tracker: TrackerKind, from: &str, to: &str, before: &str) -> String {
    match tracker {
        TrackerKind::Files => format!("vik issue move --from {from} -- {{{{ issue.id }}}} {to}"),
        TrackerKind::Github => format!(
            "cd {{{{ workflow_dir }}}}\n\
             {before}\
             # An issue that a person has closed or moved meanwhile stays as it is.\n\
             label=$(gh issue view {{{{ issue.id }}}} --json state,labels --jq \\\n  \
             'select(.state == \"OPEN\") | .labels[].name | select(. == \"vik:{from}\")')\n\
             if [ -n \"$label\" ]; then\n  \
             # The new label first: an issue without a label is in no state.\n  \
             gh issue edit {{{{ issue.id }}}} --add-label vik:{to}\n  \
             gh issue edit {{{{ issue.id }}}} --remove-label vik:{from}\n\
             fi"
        ),
        TrackerKind::Gitlab => format!(
            "cd {{{{ workflow_dir }}}}\n\
             {before}\
             # An issue that a person has closed or moved meanwhile stays as it is.\n\
             issue=$(glab issue view {{{{ issue.id }}}} --output json)\n\
             if printf '%s' \"$issue\" | jq -e '.state == \"opened\" and any(.labels[]; . == \"vik:{from}\")' >/dev/null; then\n  \
             glab issue update {{{{ issue.id }}}} --unlabel vik:{from} --label vik:{to}\n\
             fi"
        ),
        TrackerKind::Linear | TrackerKind::Jira => {
            format!("sh {{{{ workflow_dir }}}}/tracker.sh move {{{{ issue.id }}}} \"{from}\" \"{to}\"")
        }
    }
}

/// Returns the steps that a tracker needs before the first run, each with a command and its
/// purpose.
pub(super) fn first_steps(tracker: TrackerKind) -> &'static [(&'static str, &'static str)] {
    match tracker {
        TrackerKind::Files => &[("vik issue new \"TITLE\" --body \"TEXT\"", "create an issue")],
        TrackerKind::Github => &[
            (
                "for state in todo review ready; do gh label create --force \"vik:$state\"; done",
                "create the labels for the states",
            ),
            ("gh issue edit NUMBER --add-label vik:todo", "hand over an issue"),
        ],
        TrackerKind::Gitlab => &[
            (
                "for state in todo review ready; do glab label create --name \"vik:$state\"; done",
                "create the labels for the states",
            ),
            ("glab issue update NUMBER --label vik:todo", "hand over an issue"),
        ],
        TrackerKind::Linear => &[
            (
                "export LINEAR_API_KEY=… LINEAR_TEAM=…",
                "a personal API key, and the key of the team, such as ENG",
            ),
            ("label an issue `vik`, in the state `Todo`", "hand it over"),
        ],
        TrackerKind::Jira => &[
            (
                "export JIRA_BASE_URL=… JIRA_EMAIL=… JIRA_API_TOKEN=… JIRA_PROJECT=…",
                "the address, your account, and the key of the project, such as ENG",
            ),
            ("label an issue `vik`, in the status `To Do`", "hand it over"),
        ],
    }
}
