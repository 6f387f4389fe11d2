//! The control socket: one request line, one response line.

use serde::{Deserialize, Serialize};

use vik_core::approval::Answer;
use vik_core::ids::{IssueId, StageName};

use crate::{ErrorBody, Explanation, IssuesPage, SignInsPage, Status};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`PROTOCOL`].
    pub v: u32,
    /// What is asked.
    #[serde(flatten)]
    pub verb: Verb,
}

/// What can be asked of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Verb {
    /// What it does now.
    Status,
    /// Look at the workflow file and at the issues now.
    Refresh,
    /// Stop gracefully; the response comes at once, the end of the daemon is seen by its lock.
    Stop {
        /// Leave the agents to their shims, for the next daemon to take up.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keep_sessions: bool,
    },
    /// Start nothing more for this issue, or at all; what runs goes on.
    Pause {
        /// The issue; all where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issue: Option<IssueId>,
    },
    /// Take `pause` back.
    Continue {
        /// The issue; all where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issue: Option<IssueId>,
    },
    /// Stop what runs for the issue, and park it.
    Cancel {
        /// The issue.
        issue: IssueId,
    },
    /// Free what is parked for the issue.
    Unpark {
        /// The issue.
        issue: IssueId,
        /// Allow at least so many attempts more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts: Option<u32>,
    },
    /// Answer what waits for a person.
    Answer {
        /// The issue.
        issue: IssueId,
        /// The stage; the only one that waits where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stage: Option<StageName>,
        /// The request that the person has seen; whichever waits where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
        /// What is said.
        #[serde(flatten)]
        answer: Answer,
    },
    /// Start nothing more, and end when nothing runs.
    Drain,
    /// Where issues stand, in the order of their ids.
    Issues {
        /// Go on after this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<IssueId>,
        /// Only those with this in their id, title or state, in any case.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        /// How many at most.
        limit: u32,
    },
    /// A link that opens the dashboard once.
    Link,
    /// List the browsers that are signed in to the dashboard.
    SignIns,
    /// End a sign-in.
    RevokeSignIn {
        /// Its id; all of them where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// Why this issue runs, why not, and when next.
    Explain {
        /// The issue.
        issue: IssueId,
    },
}

/// One response.
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
        /// It works once.
        url: String,
    },
    /// The answer to `sign_ins`.
    SignIns(SignInsPage),
    /// It will be done.
    Accepted,
    /// It is done, and on disk.
    Done {
        /// How many attempts, runs or issues it touched.
        count: usize,
    },
    /// No such issue is known.
    NotFound,
    /// There was nothing to do.
    Nothing {
        /// Why.
        why: String,
    },
    /// It was refused.
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
        let unpark = Verb::Unpark {
            issue: "7".into(),
            attempts: Some(2),
        };
        assert_eq!(
            verb(r#"{"v":1,"verb":"unpark","issue":"7","attempts":2}"#),
            unpark
        );
        // What an older daemon is asked looks as it always did.
        let request = |verb| serde_json::to_string(&Request { v: PROTOCOL, verb }).unwrap();
        assert_eq!(
            request(Verb::Stop { keep_sessions: false }),
            r#"{"v":1,"verb":"stop"}"#
        );
    }
}
