//! Resuming an earlier conversation: which ids an agent accepts, and how it reports a failure.

use std::borrow::Cow;

use vik_core::workflow::Runtime;

use crate::Conclusion;

/// The maximum length of an id.
const MAX_ID_BYTES: usize = 128;

/// Returns whether a text can be a conversation id of an agent of this runtime. It comes from the
/// agent's output and goes on a command line: with garbage, Codex would silently start a new
/// conversation and exit with 0.
///
/// # Examples
///
/// ```
/// use vik_agents::is_valid_session_id;
/// use vik_core::workflow::Runtime;
///
/// let id = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";
/// assert!(is_valid_session_id(Runtime::Codex, id));
/// assert!(!is_valid_session_id(Runtime::Codex, "--last"));
/// ```
pub fn is_valid_session_id(runtime: Runtime, id: &str) -> bool {
    match runtime {
        Runtime::Codex | Runtime::ClaudeCode => uuid::Uuid::try_parse(id).is_ok_and(|uuid| {
            // Agents do not use the other forms of a UUID (in braces, as a URN).
            uuid.hyphenated().to_string().eq_ignore_ascii_case(id)
        }),
        Runtime::Vex => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            !id.is_empty() && id.len() <= MAX_ID_BYTES && !id.starts_with(['-', '.']) && id.bytes().all(plain)
        }
        Runtime::Command => false,
    }
}

/// Returns why the conversation `requested_id` was not resumed; `None` if it was.
pub fn resume_failure<'a>(
    runtime: Runtime,
    requested_id: &str,
    conclusion: &'a Conclusion,
) -> Option<Cow<'a, str>> {
    let phrases: &[&str] = match runtime {
        Runtime::Codex => &["no rollout found", "thread/resume failed"],
        Runtime::ClaudeCode => &["No conversation found", "requires a valid session ID"],
        Runtime::Vex => &["no session", "no such session"],
        Runtime::Command => &[],
    };
    let reason = conclusion.reason.as_deref().filter(|_| !conclusion.ok);
    if let Some(reason) = reason.filter(|reason| phrases.iter().any(|phrase| reason.contains(phrase))) {
        return Some(Cow::Borrowed(reason));
    }
    let got = conclusion.provider_session_id.as_deref()?;
    (!got.eq_ignore_ascii_case(requested_id))
        .then(|| Cow::Owned(format!("the agent started another conversation, {got}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";

    #[test]
    fn valid_session_id_accepts_only_ids_of_the_runtime() {
        for runtime in [Runtime::Codex, Runtime::ClaudeCode, Runtime::Vex] {
            assert!(is_valid_session_id(runtime, ID), "{runtime:?}");
            for bad in ["", "-x", "--last", "a b", "a\n", "$(x)", "../a"] {
                assert!(!is_valid_session_id(runtime, bad), "{runtime:?} {bad:?}");
            }
        }
        for bad in [
            "thread-1",
            "{01a1ffcd-34e9-78d1-bc6d-b647a491f028}",
            "01a1ffcd34e978d1bc6db647a491f028",
        ] {
            assert!(!is_valid_session_id(Runtime::Codex, bad), "{bad}");
        }
        assert!(!is_valid_session_id(Runtime::Command, ID));
    }

    #[test]
    fn resume_failure_reports_a_missing_or_other_conversation() {
        let failed = |reason: &str| Conclusion {
            reason: Some(reason.to_owned()),
            ..Conclusion::default()
        };
        let codex = failed(
            "Error: thread/resume: thread/resume failed: no rollout found for thread id x (code -32600)",
        );
        assert!(resume_failure(Runtime::Codex, ID, &codex).is_some());
        let claude = failed("No conversation found with session ID: x");
        assert!(resume_failure(Runtime::ClaudeCode, ID, &claude).is_some());
        assert!(resume_failure(Runtime::ClaudeCode, ID, &failed("the model is overloaded")).is_none());
        let with = |id: &str| Conclusion {
            ok: true,
            provider_session_id: Some(id.to_owned()),
            ..Conclusion::default()
        };
        assert!(resume_failure(Runtime::Codex, ID, &with(ID)).is_none());
        let other = with("01a1ffcd-0000-78d1-bc6d-b647a491f028");
        let why = resume_failure(Runtime::Codex, ID, &other);
        assert!(why.is_some_and(|why| why.contains("another conversation")));
    }
}
