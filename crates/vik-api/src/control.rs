//! The control socket: one request line, one response line.

use serde::{Deserialize, Serialize};
use vik_core::approval::Answer;
use vik_core::ids::{IssueId, StageName};

use crate::{ErrorBody, Explanation, IssuesPage, SignInsPage, Status};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub v: u32,
    #[serde(flatten)]
    pub verb: Verb,
}

/// A request to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Verb {
    Status,
    /// Check the workflow file and the issues now.
    Refresh,
    /// Stop gracefully. The response is sent at once; the daemon releases its lock when it has
    /// ended.
    Stop {
        /// Leave the agents to their shims, for the next daemon.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keep_sessions: bool,
    },
    /// Start no more work, for one issue or at all; running work continues.
    Pause {
        /// The issue; all if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issue: Option<IssueId>,
    },
    /// Resume after a pause.
    #[serde(rename = "continue")]
    Resume {
        /// The issue; all if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issue: Option<IssueId>,
    },
    /// Stop the work on the issue, and park it.
    Cancel {
        issue: IssueId,
    },
    /// Free the parked stages of the issue.
    #[serde(rename = "unpark")]
    Retry {
        issue: IssueId,
        /// The only stage to free; every parked one if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stage: Option<StageName>,
        /// Allow at least this many more attempts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts: Option<u32>,
    },
    /// Answer a request for approval.
    Answer {
        issue: IssueId,
        /// The stage; if absent, the only one with a request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stage: Option<StageName>,
        /// The request that the person has seen; if absent, the current one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
        #[serde(flatten)]
        answer: Answer,
    },
    /// Start no more work, and end when nothing is running.
    Drain,
    /// List the issues by id.
    Issues {
        /// Only issues after this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<IssueId>,
        /// Only issues with this text in their id, title or state, ignoring case.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        /// The maximum number of issues.
        limit: u32,
    },
    /// Create a link that opens the dashboard once.
    Link,
    /// List the browsers that are signed in to the dashboard.
    SignIns,
    RevokeSignIn {
        /// The id; all if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// Explain the status of an issue, and when it starts next.
    Explain {
        issue: IssueId,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The answer to `status`.
    Status(Box<Status>),
    /// The answer to `explain`.
    Explanation(Box<Explanation>),
    /// The answer to `issues`.
    Issues(Box<IssuesPage>),
    /// The answer to `link`.
    Link {
        url: String,
    },
    /// The answer to `sign_ins`.
    SignIns(SignInsPage),
    /// The request will be carried out.
    Accepted,
    /// The request is carried out, and on disk.
    Done {
        /// The number of affected attempts, runs or issues.
        count: usize,
    },
    /// There is no such issue.
    NotFound,
    /// There was nothing to do.
    Nothing {
        why: String,
    },
    Error(ErrorBody),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_every_version_are_read() {
        let verb = |text: &str| serde_json::from_str::<Request>(text).unwrap().verb;
        assert_eq!(
            verb(r#"{"v":1,"verb":"stop"}"#),
            Verb::Stop { keep_sessions: false }
        );
        assert_eq!(
            verb(r#"{"v":1,"verb":"stop","keep_sessions":true}"#),
            Verb::Stop { keep_sessions: true }
        );
        assert_eq!(verb(r#"{"v":1,"verb":"pause"}"#), Verb::Pause { issue: None });
        let retry = Verb::Retry {
            issue: "7".into(),
            stage: None,
            attempts: Some(2),
        };
        assert_eq!(verb(r#"{"v":1,"verb":"unpark","issue":"7","attempts":2}"#), retry);
        // A request to an older daemon keeps its form.
        let request = |verb| serde_json::to_string(&Request { v: PROTOCOL, verb }).unwrap();
        assert_eq!(
            request(Verb::Stop { keep_sessions: false }),
            r#"{"v":1,"verb":"stop"}"#
        );
    }
}
