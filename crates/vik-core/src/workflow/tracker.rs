//! `issues.tracker`: a program that speaks the tracker protocol.

use serde::{Deserialize, Serialize};

/// `start_state`: a state of the stage that shows that an agent works on the issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartState {
    pub state: String,
    /// The shell command that moves an issue of the stage to this state.
    pub command: String,
    /// Names of the secrets that are passed to the command.
    pub secrets: Vec<String>,
}

/// Returns an argument of a shell command, quoted if a shell would change it.
///
/// # Examples
///
/// ```
/// use vik_core::workflow::shell_quoted;
///
/// assert_eq!(shell_quoted("--from=todo"), "'--from=todo'");
/// assert_eq!(shell_quoted("./tracker.sh"), "./tracker.sh");
/// assert_eq!(shell_quoted("it's $HOME"), r"'it'\''s $HOME'");
/// ```
pub fn shell_quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@%+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
