//! The requests: one run of a tracker program each.

use serde::Serialize;

use super::error::CallError;
use super::messages::{IssueDraft, MessageBody, PullRequestDraft};

/// The longest argument, in bytes.
const MAX_ARGUMENT: usize = 1024;
/// The longest key, in bytes.
const MAX_KEY: usize = 128;

/// One request to a tracker: a verb with its arguments.
///
/// # Examples
///
/// ```
/// use vik_tracker::protocol::Request;
///
/// let request = Request::Move {
///     id: "7".to_owned(),
///     from: "todo".to_owned(),
///     to: "review".to_owned(),
/// };
/// assert_eq!(request.args(), ["move", "7", "--from", "todo", "--to", "review"]);
/// assert!(request.check().is_ok());
/// assert!(Request::Show { id: "--help".to_owned() }.check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Capabilities,
    States {
        /// States to create, unless they exist.
        create: Vec<String>,
    },
    List {
        /// Also lists issues that were closed long ago.
        all: bool,
    },
    Show {
        id: String,
    },
    Move {
        id: String,
        from: String,
        to: String,
    },
    Comment {
        id: String,
        key: String,
        input: MessageBody,
    },
    Comments {
        id: String,
    },
    Label {
        id: String,
        add: Vec<String>,
        remove: Vec<String>,
    },
    Create {
        key: String,
        input: IssueDraft,
    },
    OpenPullRequest {
        head: String,
        input: PullRequestDraft,
    },
    PullRequestStatus {
        head: String,
    },
    PullRequestComments {
        head: String,
    },
}

impl Request {
    /// Returns the verb, as `capabilities` lists it.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Capabilities => "capabilities",
            Self::States { .. } => "states",
            Self::List { .. } => "list",
            Self::Show { .. } => "show",
            Self::Move { .. } => "move",
            Self::Comment { .. } => "comment",
            Self::Comments { .. } => "comments",
            Self::Label { .. } => "label",
            Self::Create { .. } => "create",
            Self::OpenPullRequest { .. }
            | Self::PullRequestStatus { .. }
            | Self::PullRequestComments { .. } => "pull_request",
        }
    }

    /// Returns the verb, with its action if it has one.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OpenPullRequest { .. } => "pull_request open",
            Self::PullRequestStatus { .. } => "pull_request status",
            Self::PullRequestComments { .. } => "pull_request comments",
            other => other.verb(),
        }
    }

    /// Returns the arguments of the program, in the order that the protocol defines.
    pub fn args(&self) -> Vec<&str> {
        let mut args: Vec<&str> = self.name().split(' ').collect();
        match self {
            Self::Capabilities => {}
            Self::States { create } => args.extend(create.iter().flat_map(|state| ["--create", state])),
            Self::List { all } => args.extend(all.then_some("--all")),
            Self::Show { id } | Self::Comments { id } => args.push(id),
            Self::Move { id, from, to } => args.extend([id, "--from", from, "--to", to]),
            Self::Comment { id, key, .. } => args.extend([id, "--key", key]),
            Self::Create { key, .. } => args.extend(["--key", key]),
            Self::Label { id, add, remove } => {
                args.push(id);
                args.extend(add.iter().flat_map(|label| ["--add", label]));
                args.extend(remove.iter().flat_map(|label| ["--remove", label]));
            }
            Self::OpenPullRequest { head, .. }
            | Self::PullRequestStatus { head }
            | Self::PullRequestComments { head } => args.push(head),
        }
        args
    }

    /// Returns the JSON for standard input; empty if the verb reads none.
    pub fn input(&self) -> String {
        fn json(input: &impl Serialize) -> String {
            serde_json::to_string(input).unwrap_or_default()
        }
        match self {
            Self::Comment { input, .. } => json(input),
            Self::Create { input, .. } => json(input),
            Self::OpenPullRequest { input, .. } => json(input),
            _ => String::new(),
        }
    }

    /// Checks all arguments. Texts of an issue become arguments of programs, which must not take
    /// them for options.
    ///
    /// # Errors
    /// Returns [`CallError::Usage`] for the first invalid argument.
    pub fn check(&self) -> Result<(), CallError> {
        match self {
            Self::Capabilities | Self::List { .. } => Ok(()),
            Self::States { create } => {
                let mut states = create.iter();
                states.try_for_each(|state| check_argument("--create", state))
            }
            Self::Show { id } | Self::Comments { id } => check_argument("id", id),
            Self::Move { id, from, to } => {
                check_argument("id", id)?;
                check_argument("--from", from)?;
                check_argument("--to", to)
            }
            Self::Comment { id, key, input } => {
                check_argument("id", id)?;
                check_key(key)?;
                if input.body.trim().is_empty() {
                    return Err(CallError::Usage("the comment is empty".to_owned()));
                }
                Ok(())
            }
            Self::Label { id, add, remove } => {
                check_argument("id", id)?;
                if let Some(label) = add.iter().find(|label| remove.contains(label)) {
                    return Err(CallError::Usage(format!(
                        "the label {label:?} is both added and removed"
                    )));
                }
                add.iter()
                    .chain(remove)
                    .try_for_each(|label| check_argument("label", label))
            }
            Self::Create { key, input } => {
                check_key(key)?;
                check_title(&input.title)?;
                let state = input.state.as_deref().map(|state| check_argument("state", state));
                state.transpose()?;
                let mut labels = input.labels.iter();
                labels.try_for_each(|label| check_argument("label", label))
            }
            Self::OpenPullRequest { head, input } => {
                check_argument("head", head)?;
                check_title(&input.title)?;
                let base = input.base.as_deref().map(|base| check_argument("base", base));
                base.transpose().map(drop)
            }
            Self::PullRequestStatus { head } | Self::PullRequestComments { head } => {
                check_argument("head", head)
            }
        }
    }
}

/// Checks an id, a state, a label or a branch: one line of 1 to 1,024 bytes that does not begin
/// with `-` and has no control characters.
///
/// # Errors
/// Returns [`CallError::Usage`] with the name of the argument.
pub fn check_argument(name: &str, value: &str) -> Result<(), CallError> {
    let problem = if value.trim().is_empty() {
        "is empty"
    } else if value.starts_with('-') {
        "begins with `-`"
    } else if value.len() > MAX_ARGUMENT {
        "is longer than 1,024 bytes"
    } else if value.contains(char::is_control) {
        "contains control characters"
    } else {
        return Ok(());
    };
    Err(CallError::Usage(format!("the argument `{name}` {problem}")))
}

/// Checks a key: 1 to 128 letters, digits, `.`, `_` and `-` of ASCII, the first of them a letter or
/// a digit. So it can be part of a comment in HTML.
///
/// # Errors
/// Returns [`CallError::Usage`] for any other text.
pub fn check_key(key: &str) -> Result<(), CallError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let first = key.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if first && key.len() <= MAX_KEY && key.bytes().all(plain) {
        Ok(())
    } else {
        Err(CallError::Usage(format!(
            "the key {key:?} does not consist of 1 to 128 letters, digits, `.`, `_` and `-`"
        )))
    }
}

fn check_title(title: &str) -> Result<(), CallError> {
    if title.trim().is_empty() || title.contains(char::is_control) {
        Err(CallError::Usage("the title is not one line".to_owned()))
    } else {
        Ok(())
    }
}
