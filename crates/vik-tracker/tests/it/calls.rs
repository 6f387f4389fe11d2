//! Requests with short names, and a tracker that answers them.

use std::sync::MutexGuard;

use serde_json::Value;
use vik_tracker::Access;
use vik_tracker::conformance::{Options, Report, Subject, test};
use vik_tracker::protocol::{CallError, IssueDraft, MessageBody, Protocol, PullRequestDraft, Request};

use crate::alone;

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

pub fn show(id: &str) -> Request {
    Request::Show { id: id.to_owned() }
}

pub fn moving(id: &str, from: &str, to: &str) -> Request {
    Request::Move {
        id: id.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
    }
}

pub fn comment(id: &str, key: &str, body: &str) -> Request {
    Request::Comment {
        id: id.to_owned(),
        key: key.to_owned(),
        input: MessageBody {
            body: body.to_owned(),
        },
    }
}

pub fn comments(id: &str) -> Request {
    Request::Comments { id: id.to_owned() }
}

pub fn label(id: &str, add: &[&str], remove: &[&str]) -> Request {
    Request::Label {
        id: id.to_owned(),
        add: owned(add),
        remove: owned(remove),
    }
}

pub fn create(key: &str, title: &str, body: &str, state: Option<&str>, labels: &[&str]) -> Request {
    Request::Create {
        key: key.to_owned(),
        input: IssueDraft {
            title: title.to_owned(),
            body: body.to_owned(),
            state: state.map(str::to_owned),
            labels: owned(labels),
        },
    }
}

pub fn open(head: &str, body: &str, base: Option<&str>) -> Request {
    Request::OpenPullRequest {
        head: head.to_owned(),
        input: PullRequestDraft {
            title: "Show the total".to_owned(),
            body: body.to_owned(),
            base: base.map(str::to_owned),
        },
    }
}

pub fn status_of(head: &str) -> Request {
    Request::PullRequestStatus {
        head: head.to_owned(),
    }
}

pub fn comments_on(head: &str) -> Request {
    Request::PullRequestComments {
        head: head.to_owned(),
    }
}

/// Returns the access to a fake.
pub fn access(url: &str, token: &str) -> Access {
    Access {
        url: url.to_owned(),
        token: token.to_owned(),
        insecure_http: false,
    }
}

/// Returns a field of each item of a list.
pub fn each<'a>(list: &'a Value, name: &str) -> Vec<&'a Value> {
    list.as_array().unwrap().iter().map(|item| &item[name]).collect()
}

/// The result of [`World::move_issue`].
pub fn moved(moved: bool, state: &str) -> (bool, String) {
    (moved, state.to_owned())
}

/// A tracker, and the fake of the API that it uses. The tests that have one take turns.
pub struct World<A, T> {
    pub api: A,
    pub tracker: T,
    /// What no message may contain.
    pub secrets: Vec<String>,
    _alone: MutexGuard<'static, ()>,
}

impl<A, T: Protocol> World<A, T> {
    pub fn new(api: A, tracker: T, secrets: &[&str]) -> Self {
        Self {
            api,
            tracker,
            secrets: owned(secrets),
            _alone: alone(),
        }
    }

    /// Tests the tracker with an issue that it creates.
    pub fn conformance(&self, count: usize) -> Report {
        let options = Options {
            subject: Subject::Create,
            state: None,
            count: Some(count),
            unique: "u1".to_owned(),
        };
        let report = test(&self.tracker, &options);
        assert!(report.passed, "{:#?}", report.checks);
        report
    }

    /// Calls the tracker, which must succeed.
    #[track_caller]
    pub fn call(&self, request: &Request) -> Value {
        let answer = self.tracker.call(request);
        answer.unwrap_or_else(|error| panic!("{request:?}: {error}"))
    }

    /// Calls the tracker, which must fail without printing a secret.
    #[track_caller]
    pub fn error(&self, request: &Request) -> CallError {
        let error = self.tracker.call(request).unwrap_err();
        for secret in &self.secrets {
            assert!(!error.to_string().contains(secret), "{error}");
        }
        error
    }

    /// Calls the tracker, which must fail with this exit code. Returns the message.
    #[track_caller]
    pub fn fails(&self, request: &Request, code: u8) -> String {
        let error = self.error(request);
        assert_eq!(error.exit_code(), code, "{request:?}: {error}");
        error.to_string()
    }

    /// Calls the tracker, which must be tried later. Returns the seconds to wait.
    #[track_caller]
    pub fn wait(&self, request: &Request) -> u64 {
        match self.error(request) {
            CallError::Later { wait, .. } => wait.as_secs(),
            error => panic!("{request:?}: {error:?}"),
        }
    }

    #[track_caller]
    pub fn list(&self, all: bool) -> Value {
        self.call(&Request::List { all })
    }

    /// Returns the ids of a list.
    #[track_caller]
    pub fn ids(&self, all: bool) -> Vec<String> {
        let list = self.list(all);
        let ids = each(&list, "id").into_iter();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    pub fn move_issue(&self, id: &str, from: &str, to: &str) -> (bool, String) {
        let answer = self.call(&moving(id, from, to));
        moved(
            answer["moved"].as_bool().unwrap(),
            answer["state"].as_str().unwrap(),
        )
    }

    /// Adds a comment. Returns whether it was created.
    #[track_caller]
    pub fn comment(&self, id: &str, key: &str, body: &str) -> bool {
        self.call(&comment(id, key, body))["created"].as_bool().unwrap()
    }

    /// Changes labels. Returns whether they have changed.
    #[track_caller]
    pub fn label(&self, id: &str, add: &[&str], remove: &[&str]) -> bool {
        self.call(&label(id, add, remove))["changed"].as_bool().unwrap()
    }

    /// Creates states, and returns all states and those that were created.
    #[track_caller]
    pub fn states(&self, create: &[&str]) -> Value {
        self.call(&Request::States {
            create: owned(create),
        })
    }
}
