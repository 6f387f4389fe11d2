//! Tests whether a tracker follows the [`protocol`](crate::protocol). The test changes an issue, and
//! changes it back as far as it can.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use vik_core::issue::Pull;

use crate::protocol::{
    CallError, Capabilities, Changed, Comment, Created, CreatedIssue, IssueDraft, MessageBody, Moved,
    Protocol, Request, VERSION, call,
};

/// The state and the label that the test uses. No stage takes this state.
const TEST_NAME: &str = "vik-test";
/// How many requests are sent in a row to see how the tracker limits them.
const BURST: usize = 10;
/// Usual sizes of one page. A list of exactly that length may be cut off.
const PAGE_SIZES: &[usize] = &[20, 25, 30, 50, 100, 200, 250, 500, 1000];

/// The issue that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Issue(String),
    /// The tracker creates it.
    Create,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub subject: Subject,
    /// The state to move the issue to; without it, the test chooses one.
    pub state: Option<String>,
    /// How many issues `list --all` must print, if that is known.
    pub count: Option<usize>,
    /// A text that no other test uses. It becomes a part of keys and comments.
    pub unique: String,
}

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The tracker follows the protocol.
    Passed,
    /// It does not.
    Failed,
    /// It may not; a person must decide.
    Unsure,
    /// The tracker does not support it, or an earlier check failed.
    Skipped,
}

/// A check, and what it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// A stable name, such as `move.wrong_from`.
    pub name: &'static str,
    /// Whether the tracker passed it.
    pub status: Status,
    /// What was found, for people.
    pub detail: String,
}

/// `vik tracker test --json`: the results of all checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// The version of this layout.
    pub schema: u32,
    /// Whether no check failed.
    pub passed: bool,
    /// The name of the tracker; empty if it did not answer.
    pub tracker: String,
    /// The id of the issue that was changed; empty if there was none.
    pub issue: String,
    /// The checks, in their order.
    pub checks: Vec<Check>,
}

impl Report {
    /// Returns the number of checks with this status.
    pub fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }
}

/// Tests a tracker. This changes an issue.
pub fn test(tracker: &dyn Protocol, options: &Options) -> Report {
    let mut test = Test {
        tracker,
        options,
        capabilities: None,
        checks: Vec::new(),
    };
    let id = test.run();
    Report {
        schema: vik_api::SCHEMA,
        passed: test.checks.iter().all(|check| check.status != Status::Failed),
        tracker: test.capabilities.map_or_else(String::new, |found| found.name),
        issue: id.unwrap_or_default(),
        checks: test.checks,
    }
}

/// What a check found, or why it failed.
type Outcome = Result<String, String>;

struct Test<'a> {
    tracker: &'a dyn Protocol,
    options: &'a Options,
    capabilities: Option<Capabilities>,
    checks: Vec<Check>,
}

impl Test<'_> {
    /// Runs all checks. Returns the id of the issue.
    fn run(&mut self) -> Option<String> {
        match capabilities(self.tracker) {
            Ok(found) => {
                self.add("capabilities", Status::Passed, found.verbs.join(", "));
                self.capabilities = Some(found);
            }
            Err(reason) => {
                self.add("capabilities", Status::Failed, reason);
                return None;
            }
        }
        let id = match &self.options.subject {
            Subject::Issue(id) => Some(id.clone()),
            Subject::Create => self.create(),
        };
        let listed = self.list(id.as_deref());
        self.check("show.missing", "show", |test| test.show_missing(id.as_deref()));
        self.check("pull_request.missing", "pull_request", Self::pull_request_missing);
        let id = id?;
        let shown = self.check("show", "show", |test| test.show_equals(&id, listed.as_ref()));
        if shown {
            self.check("move.wrong_from", "move", |test| test.move_wrong_from(&id));
            self.check("move", "move", |test| test.move_and_back(&id));
            self.check("comment", "comment", |test| test.comment_twice(&id));
            self.check("label", "label", |test| test.label_twice(&id));
            self.check("rate_limit", "show", |test| test.burst(&id));
        }
        Some(id)
    }

    fn add(&mut self, name: &'static str, status: Status, detail: impl Into<String>) {
        let detail = detail.into();
        self.checks.push(Check { name, status, detail });
    }

    /// Runs a check if the tracker supports the verb. Returns whether it passed.
    fn check(&mut self, name: &'static str, verb: &str, check: impl FnOnce(&Self) -> Outcome) -> bool {
        if !self.supports(verb) {
            self.add(name, Status::Skipped, format!("`{verb}` is not supported"));
            return false;
        }
        match check(self) {
            Ok(detail) => self.add(name, Status::Passed, detail),
            Err(reason) => {
                self.add(name, Status::Failed, reason);
                return false;
            }
        }
        true
    }

    fn create(&mut self) -> Option<String> {
        let mut id = None;
        self.check("create", "create", |test| {
            let request = Request::Create {
                key: test.key("issue"),
                input: IssueDraft {
                    title: format!("Test of the tracker protocol {}", test.options.unique),
                    body: "Vik created this issue to test a tracker. You can close it.".to_owned(),
                    state: Some(TEST_NAME.to_owned()).filter(|state| test.permits(state)),
                    labels: Vec::new(),
                },
            };
            let first: CreatedIssue = test.call(&request)?;
            id = Some(first.id.clone());
            let second: CreatedIssue = test.call(&request)?;
            expect("`created` of the first call", true, first.created)?;
            expect(
                "the id of the second call with the same key",
                &first.id,
                &second.id,
            )?;
            expect(
                "`created` of the second call with the same key",
                false,
                second.created,
            )?;
            Ok(format!("issue {}, once for two calls with one key", first.id))
        });
        id
    }

    /// Checks both lists. Returns the issue as it is listed.
    fn list(&mut self, id: Option<&str>) -> Option<Map<String, Value>> {
        let mut listed = Vec::new();
        self.check("list", "list", |test| {
            listed = test.issues(false)?;
            Ok(format!("{} issues", listed.len()))
        });
        let mut all = None;
        self.check("list.all", "list", |test| {
            let found = test.issues(true)?;
            let ids = |issues: &[Map<String, Value>]| -> BTreeSet<String> {
                issues.iter().map(|issue| text(issue, "id")).collect()
            };
            let missing: Vec<String> = ids(&listed).difference(&ids(&found)).cloned().collect();
            if let Some(id) = missing.first() {
                return Err(format!("`list` has the issue {id}, and `list --all` has not"));
            }
            if let Some(id) = id
                && !ids(&found).contains(id)
            {
                return Err(format!("the issue {id} is not listed"));
            }
            all = Some(found.len());
            Ok(format!("{} issues", found.len()))
        });
        match (all, self.options.count) {
            (None, _) => self.add("list.pages", Status::Skipped, "there is no list"),
            (Some(found), Some(known)) if found != known => {
                let detail = format!("`list --all` has {found} issues, expected {known}");
                self.add("list.pages", Status::Failed, detail);
            }
            (Some(found), None) if PAGE_SIZES.contains(&found) => {
                let detail = format!("exactly {found} issues: is this only the first page? Set --count");
                self.add("list.pages", Status::Unsure, detail);
            }
            (Some(found), _) => self.add("list.pages", Status::Passed, format!("all {found} issues")),
        }
        listed.into_iter().find(|issue| Some(&*text(issue, "id")) == id)
    }

    /// Returns the listed issues, if all of them are valid.
    fn issues(&self, all: bool) -> Result<Vec<Map<String, Value>>, String> {
        let answer = self.tracker.call(&Request::List { all }).map_err(reason)?;
        let pull = Pull::parse(answer.to_string().as_bytes()).map_err(|_| "it is no array".to_owned())?;
        if let Some(skipped) = pull.skipped.first() {
            return Err(format!(
                "the entry {} is no issue: {}",
                skipped.index, skipped.reason
            ));
        }
        if let Some(warning) = pull.warnings.first() {
            return Err(warning.to_string());
        }
        Ok(pull.issues.iter().map(vik_core::issue::Issue::fields).collect())
    }

    fn show_missing(&self, id: Option<&str>) -> Outcome {
        // Some trackers have numbers as ids.
        let is_number = id.is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
        let missing = if is_number {
            "999999999".to_owned()
        } else {
            self.key("missing")
        };
        is_not_found(&self.tracker.call(&Request::Show { id: missing }))
    }

    fn pull_request_missing(&self) -> Outcome {
        let head = self.key("missing");
        is_not_found(&self.tracker.call(&Request::PullRequestStatus { head }))
    }

    fn show_equals(&self, id: &str, listed: Option<&Map<String, Value>>) -> Outcome {
        let mut shown = self.show(id)?;
        expect("`id`", id, &*text(&shown, "id"))?;
        let Some(listed) = listed else {
            return Err(format!("`list` does not have the issue {id}"));
        };
        let mut listed = listed.clone();
        for issue in [&mut shown, &mut listed] {
            issue.remove("updated_at");
        }
        let names: BTreeSet<&String> = shown.keys().chain(listed.keys()).collect();
        let differs = names
            .into_iter()
            .find(|name| shown.get(*name) != listed.get(*name));
        match differs {
            Some(name) => Err(format!("`{name}` differs between `show` and `list`")),
            None => Ok("as in the list".to_owned()),
        }
    }

    fn move_wrong_from(&self, id: &str) -> Outcome {
        let before = self.state(id)?;
        let moved = self.move_issue(id, &self.key("no-state"), &self.target(&before))?;
        if moved.moved {
            // The issue must stay as it was.
            let _ = self.move_issue(id, &moved.state, &before);
        }
        expect("`moved`", false, moved.moved)?;
        expect("`state`", &before, &moved.state)?;
        expect("the state in `show`", &before, &self.state(id)?)?;
        Ok(format!("stays in `{before}`"))
    }

    fn move_and_back(&self, id: &str) -> Outcome {
        let before = self.state(id)?;
        let target = self.target(&before);
        let there = self.move_issue(id, &before, &target)?;
        let found = self.state(id);
        // Back first, so that the issue stays as it was, whatever the checks find.
        let back = self.move_issue(id, &target, &before);
        expect("`moved`", true, there.moved)?;
        expect("`state`", &target, &there.state)?;
        expect("the state in `show`", &target, &found?)?;
        let back = back?;
        expect("`moved` on the way back", true, back.moved)?;
        expect("the state in `show` afterwards", &before, &self.state(id)?)?;
        Ok(format!("to `{target}` and back to `{before}`"))
    }

    fn comment_twice(&self, id: &str) -> Outcome {
        let body = format!("A test of the tracker protocol: {}.", self.options.unique);
        let request = Request::Comment {
            id: id.to_owned(),
            key: self.key("comment"),
            input: MessageBody { body: body.clone() },
        };
        let first: Created = self.call(&request)?;
        let second: Created = self.call(&request)?;
        expect("`created` of the first call", true, first.created)?;
        expect(
            "`created` of the second call with the same key",
            false,
            second.created,
        )?;
        if !self.supports("comments") {
            return Ok("`comments` is not supported, so the answers alone were checked".to_owned());
        }
        let comments: Vec<Comment> = self.call(&Request::Comments { id: id.to_owned() })?;
        let found = comments.iter().filter(|comment| comment.body.contains(&body));
        expect(
            "the number of comments after two calls with one key",
            1,
            found.count(),
        )?;
        Ok("one comment for two calls with one key".to_owned())
    }

    fn label_twice(&self, id: &str) -> Outcome {
        let label = || vec![TEST_NAME.to_owned()];
        let change = |add: Vec<String>, remove: Vec<String>| {
            let id = id.to_owned();
            self.call::<Changed>(&Request::Label { id, add, remove })
        };
        let count = || -> Result<usize, String> {
            let shown = self.show(id)?;
            let labels = shown.get("labels").and_then(Value::as_array);
            Ok(labels.map_or(0, |labels| {
                labels.iter().filter(|label| *label == TEST_NAME).count()
            }))
        };
        let added = [change(label(), Vec::new())?, change(label(), Vec::new())?];
        let present = count()?;
        let removed = [change(Vec::new(), label())?, change(Vec::new(), label())?];
        expect("`changed` when the label is added", true, added[0].changed)?;
        expect("`changed` when it is added again", false, added[1].changed)?;
        expect("how often `show` has the label", 1, present)?;
        expect("`changed` when the label is removed", true, removed[0].changed)?;
        expect("`changed` when it is removed again", false, removed[1].changed)?;
        expect("how often `show` has the label afterwards", 0, count()?)?;
        Ok(format!("`{TEST_NAME}` added twice and removed twice"))
    }

    fn burst(&self, id: &str) -> Outcome {
        for sent in 0..BURST {
            match self.tracker.call(&Request::Show { id: id.to_owned() }) {
                Ok(_) => {}
                Err(CallError::Later { wait, .. }) if wait.is_zero() => {
                    return Ok(format!("refused after {sent} requests, without a time to wait"));
                }
                Err(CallError::Later { wait, .. }) => {
                    return Ok(format!("refused after {sent} requests for {} s", wait.as_secs()));
                }
                Err(error) => {
                    return Err(format!(
                        "the request {} in a row must succeed or end with exit code 75: {error}",
                        sent + 1
                    ));
                }
            }
        }
        Ok(format!("{BURST} requests in a row"))
    }

    fn call<T: serde::de::DeserializeOwned>(&self, request: &Request) -> Result<T, String> {
        call(self.tracker, request).map_err(reason)
    }

    fn show(&self, id: &str) -> Result<Map<String, Value>, String> {
        let answer = self
            .tracker
            .call(&Request::Show { id: id.to_owned() })
            .map_err(reason)?;
        let issue = vik_core::issue::Issue::parse(&answer.to_string());
        Ok(issue
            .map_err(|(_, reason)| format!("it is no issue: {reason}"))?
            .fields())
    }

    fn state(&self, id: &str) -> Result<String, String> {
        Ok(text(&self.show(id)?, "state"))
    }

    fn move_issue(&self, id: &str, from: &str, to: &str) -> Result<Moved, String> {
        self.call(&Request::Move {
            id: id.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
        })
    }

    /// Returns the state to move an issue to.
    fn target(&self, state: &str) -> String {
        let other = self
            .only_states()
            .and_then(|states| states.iter().find(|other| **other != state));
        let free = || {
            if state == TEST_NAME {
                "vik-test-2"
            } else {
                TEST_NAME
            }
            .to_owned()
        };
        let chosen = self.options.state.clone().or_else(|| other.cloned());
        chosen.unwrap_or_else(free)
    }

    fn supports(&self, verb: &str) -> bool {
        self.capabilities.as_ref().is_some_and(|found| found.has(verb))
    }

    /// Returns the states of issues, if the tracker has no others.
    fn only_states(&self) -> Option<&[String]> {
        self.capabilities.as_ref()?.states.as_deref()
    }

    /// Returns whether issues can be in this state.
    fn permits(&self, state: &str) -> bool {
        let limited = self.only_states();
        limited.is_none_or(|states| states.iter().any(|known| known == state))
    }

    fn key(&self, purpose: &str) -> String {
        format!("{TEST_NAME}-{purpose}-{}", self.options.unique)
    }
}

fn capabilities(tracker: &dyn Protocol) -> Result<Capabilities, String> {
    let found: Capabilities = call(tracker, &Request::Capabilities).map_err(reason)?;
    expect("`protocol`", VERSION, found.protocol)?;
    if found.name.trim().is_empty() {
        return Err("`name` is empty".to_owned());
    }
    match ["list", "show"].iter().find(|verb| !found.has(verb)) {
        Some(verb) => Err(format!("`verbs` does not list `{verb}`")),
        None => Ok(found),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn reason(error: CallError) -> String {
    error.to_string()
}

fn text(issue: &Map<String, Value>, name: &str) -> String {
    let value = issue.get(name).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

fn is_not_found(answer: &Result<Value, CallError>) -> Outcome {
    match answer {
        Err(CallError::NotFound(_)) => Ok("exit code 66".to_owned()),
        Ok(_) => Err("expected exit code 66, got an answer".to_owned()),
        Err(error) => Err(format!("expected exit code 66: {error}")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "callers have values")]
fn expect<T: PartialEq + std::fmt::Debug>(subject: &str, expected: T, found: T) -> Result<(), String> {
    if expected == found {
        Ok(())
    } else {
        Err(format!("{subject}: expected {expected:?}, found {found:?}"))
    }
}
