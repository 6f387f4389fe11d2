use std::path::Path;
use std::time::Duration;

use vik_tracker::conformance::{Options, Report, Status, Subject, test};
use vik_tracker::protocol::{FilesTracker, ProgramTracker};
use vik_tracker::{NewIssue, Tracker};

use crate::{alone, script};

/// A tracker in a folder, with one fault. `FAULT` and `FOLDER` stand before it.
const FAKE: &str = r#"
cd "$FOLDER"
fault() { [ "$FAULT" = "$1" ]; }
issue() {
  [ -d "$1" ] || { fault show.missing && { echo null; exit 0; }; exit 66; }
  labels=$(sed 's/.*/"&"/' "$1/labels" | paste -sd, -)
  printf '{"id": "%s", "title": "%s", "state": "%s", "labels": [%s]}' \
    "$1" "${2-A title}" "$(cat "$1/state")" "$labels"
}
new() { mkdir "$1"; echo todo >"$1/state"; : >"$1/labels"; : >"$1/comments"; }
[ -d 1 ] || { new 1; new 2; }
verb=$1 id=${2-}
case $verb in
  capabilities)
    protocol=1; fault capabilities && protocol=2
    pull=', "pull_request"'; fault no-pull-request && pull=
    echo '{"protocol": '$protocol', "name": "fake", "verbs": ["capabilities", "list", "show", "move",
      "comment", "comments", "label", "create"'"$pull"']}' ;;
  list)
    fault list && { echo '[{"id": 1}]'; exit 0; }
    all=; fault list.all && all=$id
    printf '['; gap=
    for known in *; do
      [ -n "$all" ] && [ "$known" = 1 ] && continue
      printf '%s' "$gap"; issue "$known"; gap=,
    done
    printf ']' ;;
  show)
    fault rate && { echo . >>../shows; [ "$(wc -l <../shows)" -gt 12 ] && exit 1; }
    fault limit && { echo . >>../shows; [ "$(wc -l <../shows)" -gt 12 ] && { echo retry-after: 7 >&2; exit 75; }; }
    if fault show; then issue "$id" "Another title"; else issue "$id"; fi ;;
  move)
    from=$4 to=$6 state=$(cat "$id/state")
    if [ "$state" = "$from" ] || fault move.wrong_from; then
      { fault move && [ "$to" = todo ]; } || echo "$to" >"$id/state"
      echo '{"moved": true, "state": "'"$to"'"}'
    else
      echo '{"moved": false, "state": "'"$state"'"}'
    fi ;;
  comment)
    key=$4 input=$(cat)
    found=false; grep -q "^$key " "$id/comments" && found=true
    { $found && ! fault comment; } || printf '%s %s\n' "$key" "$input" >>"$id/comments"
    created=true; $found && created=false
    echo '{"created": '$created'}' ;;
  comments)
    printf '['; gap=
    while read -r key input; do
      printf '%s{"author": "a", "created_at": "2026-01-01T00:00:00Z", %s' "$gap" "${input#\{}"; gap=,
    done <"$id/comments"
    printf ']' ;;
  label)
    label=$4 found=false; grep -qx "$label" "$id/labels" && found=true
    changed=false
    case $3 in
      --add) { $found && ! fault label; } || { echo "$label" >>"$id/labels"; changed=true; } ;;
      --remove) $found && { : >"$id/labels"; changed=true; } ;;
    esac
    echo '{"changed": '$changed'}' ;;
  create)
    cat >/dev/null; key=$3 created=false
    if [ ! -f "../$key" ] || fault create; then
      id=$(($(ls | wc -l) + 1)) created=true; new "$id"; echo "$id" >"../$key"
    fi
    echo '{"id": "'"$(cat "../$key")"'", "created": '$created'}' ;;
  pull_request)
    fault pull_request.missing && exit 1
    exit 66 ;;
  *) exit 2 ;;
esac
"#;

fn fake(folder: &Path, fault: &str) -> ProgramTracker {
    let issues = folder.join("issues");
    std::fs::create_dir(&issues).unwrap();
    let text = format!("FAULT='{fault}' FOLDER='{}'\n{FAKE}", issues.display());
    script(&text, Duration::from_secs(60))
}

fn options(subject: Subject) -> Options {
    Options {
        subject,
        state: None,
        count: None,
        unique: "u1".to_owned(),
    }
}

fn lines(report: &Report) -> String {
    let line = |check: &vik_tracker::conformance::Check| {
        format!("{:?} {}: {}\n", check.status, check.name, check.detail)
    };
    report.checks.iter().map(line).collect()
}

fn failed(report: &Report) -> Vec<&str> {
    let failed = report
        .checks
        .iter()
        .filter(|check| check.status == Status::Failed);
    failed.map(|check| check.name).collect()
}

#[test]
fn good_tracker_passes_and_its_issue_stays_as_it_was() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let tracker = fake(folder.path(), "");
    let report = test(&tracker, &options(Subject::Create));
    insta::assert_snapshot!(lines(&report), @r"
    Passed capabilities: capabilities, list, show, move, comment, comments, label, create, pull_request
    Passed create: issue 3, once for two calls with one key
    Passed list: 3 issues
    Passed list.all: 3 issues
    Passed list.pages: all 3 issues
    Passed show.missing: exit code 66
    Passed pull_request.missing: exit code 66
    Passed show: as in the list
    Passed move.wrong_from: stays in `todo`
    Passed move: to `vik-test` and back to `todo`
    Passed comment: one comment for two calls with one key
    Passed label: `vik-test` added twice and removed twice
    Passed rate_limit: 10 requests in a row
    ");
    assert_eq!((report.tracker.as_str(), report.issue.as_str()), ("fake", "3"));
    let read = |name: &str| std::fs::read_to_string(folder.path().join("issues/3").join(name)).unwrap();
    assert_eq!(
        (read("state"), read("labels")),
        ("todo\n".to_owned(), String::new())
    );
}

#[test]
fn each_check_fails_for_a_tracker_with_its_fault() {
    let _alone = alone();
    for fault in [
        "capabilities",
        "list",
        "list.all",
        "show",
        "show.missing",
        "move.wrong_from",
        "move",
        "comment",
        "label",
        "create",
        "pull_request.missing",
        "rate",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let subject = if fault == "create" {
            Subject::Create
        } else {
            Subject::Issue("1".to_owned())
        };
        let report = test(&fake(folder.path(), fault), &options(subject));
        let expected: &[&str] = match fault {
            // `list` is checked twice, and `show` cannot equal an issue that is not listed.
            "list" => &["list", "list.all", "show"],
            "rate" => &["rate_limit"],
            fault => &[fault],
        };
        assert_eq!(failed(&report), expected, "{fault}:\n{}", lines(&report));
        assert!(!report.passed);
    }
}

#[test]
fn number_of_issues_shows_missing_pages() {
    let _alone = alone();
    let status = |count: Option<usize>, issues: usize| {
        let folder = tempfile::tempdir().unwrap();
        let files = Tracker::new(folder.path());
        for _ in 0..issues {
            let issue = NewIssue {
                title: "t".to_owned(),
                state: "todo".to_owned(),
                ..NewIssue::default()
            };
            files.create(&issue, jiff::Timestamp::UNIX_EPOCH).unwrap();
        }
        let options = Options {
            count,
            ..options(Subject::Issue("1".to_owned()))
        };
        let report = test(&FilesTracker::new(files, "ann", |_| {}), &options);
        let check = report
            .checks
            .iter()
            .find(|check| check.name == "list.pages")
            .unwrap();
        check.status
    };
    assert_eq!(status(None, 3), Status::Passed);
    assert_eq!(status(None, 20), Status::Unsure);
    assert_eq!(status(Some(20), 20), Status::Passed);
    assert_eq!(status(Some(21), 20), Status::Failed);
}

#[test]
fn limit_with_exit_code_75_is_no_failure() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let report = test(
        &fake(folder.path(), "limit"),
        &options(Subject::Issue("1".to_owned())),
    );
    let check = report.checks.last().unwrap();
    assert_eq!(
        (check.name, check.status),
        ("rate_limit", Status::Passed),
        "{}",
        lines(&report)
    );
    assert!(check.detail.ends_with("for 7 s"), "{}", check.detail);
}

#[test]
fn unsupported_verbs_are_skipped() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let report = test(
        &fake(folder.path(), "no-pull-request"),
        &options(Subject::Issue("1".to_owned())),
    );
    assert!(
        report.passed && report.count(Status::Skipped) == 1,
        "{}",
        lines(&report)
    );
}

#[test]
fn embedded_tracker_passes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("issues")).unwrap();
    let files = FilesTracker::new(Tracker::new(folder.path().join("issues")), "ann", |_| {});
    let report = test(&files, &options(Subject::Create));
    assert!(report.passed, "{}", lines(&report));
    assert_eq!(report.count(Status::Skipped), 1, "{}", lines(&report));
}

/// The example of the reference needs `jq`; without it, this passes without a check.
#[test]
fn example_of_the_reference_passes() {
    let _alone = alone();
    let page = include_str!("../../../../docs/reference/tracker-protocol.md");
    let example = page.split("```sh\n#!/bin/sh\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let has_jq = std::process::Command::new("jq").arg("--version").output();
    if !has_jq.is_ok_and(|output| output.status.success()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("todos")).unwrap();
    std::fs::write(folder.path().join("todos/a"), "todo\nFirst\n").unwrap();
    let tracker = script(
        &format!("cd '{}'\n{example}", folder.path().display()),
        Duration::from_secs(60),
    );
    let report = test(&tracker, &options(Subject::Issue("a".to_owned())));
    assert!(report.passed, "{}", lines(&report));
    // `comment`, `label` and `pull_request` are not supported.
    assert_eq!(report.count(Status::Skipped), 3, "{}", lines(&report));
}
