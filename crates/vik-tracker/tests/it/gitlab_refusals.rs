//! What GitLab refuses, and settings that are refused before.

use std::time::Duration;

use serde_json::{Value, json};
use vik_tracker::protocol::{CallError, Protocol, Request};

use crate::calls::show;
use crate::gitlab::{tracker, world};
use crate::gitlab_api::issue;
use crate::web::{Fault, WebResponse};

#[test]
fn answers_that_are_no_success_have_the_exit_codes_of_the_protocol() {
    let world = world((1..=5).map(|number| issue(number, &[])));
    let list = Request::List { all: true };
    let refused = |status: u16, message: &str| WebResponse::json(status, &json!({"message": message}));
    let limited = refused(429, "Retry later").with_header("Retry-After", "17");
    let reset = (jiff::Timestamp::now().as_second() + 1000).to_string();
    let used_up = refused(403, "Forbidden")
        .with_header("RateLimit-Remaining", "0")
        .with_header("RateLimit-Reset", &reset);
    let redirect = WebResponse::json(301, &Value::Null).with_header("Location", "https://gitlab.example/new");
    let redirected = "it redirects to https://gitlab.example/new";
    for (answered, response, code, wait, text) in [
        (2, limited, 75, 17..=17, "429: Retry later"),
        (0, used_up, 75, 900..=1000, "Forbidden"),
        (1, refused(500, "500 Internal Server Error"), 75, 0..=0, "500"),
        (0, refused(401, "Unauthorized"), 1, 0..=0, "GITLAB_TOKEN must"),
        (0, refused(403, "Forbidden"), 1, 0..=0, "GITLAB_TOKEN lacks"),
        (0, redirect, 1, 0..=0, redirected),
        (1, refused(200, "no"), 1, 0..=0, "no list"),
    ] {
        world.api.server.fail_after(answered, Fault::Respond(response));
        let error = world.error(&list);
        assert_eq!(error.exit_code(), code, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        if let CallError::Later { wait: found, .. } = error {
            assert!(wait.contains(&found.as_secs()), "{text}: {found:?}");
        }
    }
    world.api.server.recover();
    // An issue of a project that cannot be read may exist.
    let other = tracker(&world.api.server.url(), "group/other").unwrap();
    let error = other.call(&show("1")).unwrap_err();
    assert_eq!(
        error,
        CallError::Failed(
            "cannot find the project: GitLab answered with status 404: 404 Project Not Found".to_owned()
        )
    );
    let url = world.api.server.url();
    drop(world);
    let error = tracker(&url, "group/shop").unwrap().call(&list).unwrap_err();
    assert!(matches!(error, CallError::Later { wait, .. } if wait == Duration::ZERO));
}

#[test]
fn projects_are_checked() {
    for project in [
        "", "a", "a/", "/a", "a/..", "./a", "a/-b", "a b/c", "a/b?c", "a%2Fb",
    ] {
        let error = tracker("http://127.0.0.1:1", project).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{project}");
    }
    for project in ["a/b", "a/b/c.d", "42", "_a/.github"] {
        assert!(tracker("http://127.0.0.1:1", project).is_ok(), "{project}");
    }
}
