use clap::Parser;
use vik_tracker::protocol::{IssueDraft, MessageBody, PullRequestDraft, Request};

use super::*;

#[derive(Parser)]
struct TestCli {
    #[command(flatten)]
    tracker: TrackerArgs,
}

/// Returns the verb of a command line.
fn parse(args: &[&str]) -> Result<ProtocolVerb, clap::Error> {
    let args = ["vik-tracker", "files"].iter().chain(args);
    match TestCli::try_parse_from(args)?.tracker.command {
        TrackerCommand::Files(files) => Ok(files.verb),
        _ => unreachable!(),
    }
}

#[test]
fn command_lines_of_the_protocol_are_parsed_as_the_same_requests() {
    let (id, head) = ("7".to_owned(), "vik/7".to_owned());
    let text = |text: &str| text.to_owned();
    for request in [
        Request::Capabilities,
        Request::States { create: Vec::new() },
        Request::States {
            create: vec![text("to do"), text("review")],
        },
        Request::List { all: false },
        Request::List { all: true },
        Request::Show { id: id.clone() },
        Request::Move {
            id: id.clone(),
            from: text("to do"),
            to: text("in -progress"),
        },
        Request::Comment {
            id: id.clone(),
            key: text("k-1"),
            input: MessageBody {
                body: text("--all\n\"quoted\""),
            },
        },
        Request::Comments { id: id.clone() },
        Request::Label {
            id,
            add: vec![text("a"), text("b c")],
            remove: vec![text("d")],
        },
        Request::Create {
            key: text("k"),
            input: IssueDraft {
                title: text("t"),
                body: text(""),
                state: Some(text("triage")),
                labels: vec![text("l")],
            },
        },
        Request::OpenPullRequest {
            head: head.clone(),
            input: PullRequestDraft {
                title: text("t"),
                body: text("b"),
                base: None,
            },
        },
        Request::PullRequestStatus { head: head.clone() },
        Request::PullRequestComments { head },
    ] {
        let verb = parse(&request.args()).unwrap();
        assert_eq!(
            verb.request(&mut request.input().as_bytes()),
            Ok(request.clone()),
            "{request:?}"
        );
    }
}

#[test]
fn invalid_input_is_a_usage_error() {
    let verb = parse(&["comment", "7", "--key", "k"]).unwrap();
    let long = format!("{{\"body\": \"{}\"}}", "x".repeat(1024 * 1024));
    for input in [
        "",
        "text",
        "{\"body\": 1}",
        "{\"body\": \"a\", \"to\": \"b\"}",
        &long,
    ] {
        let error = verb.request(&mut input.as_bytes()).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
    }
    assert!(parse(&["move", "7", "--to", "review"]).is_err());
}

#[test]
fn errors_have_the_exit_codes_of_the_protocol() {
    let wait = Duration::ZERO;
    for error in [
        CallError::Failed(String::new()),
        CallError::Usage(String::new()),
        CallError::NotFound(String::new()),
        CallError::Later {
            reason: String::new(),
            wait,
        },
    ] {
        let code = error.exit_code();
        assert_eq!(failure(&error).exit.code(), code);
    }
}
