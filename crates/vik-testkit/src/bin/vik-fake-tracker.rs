//! A tracker in one JSON file: `vik-fake-tracker FILE list | show ID | move ID STATE | set ID FIELD
//! JSON | add ID TITLE STATE`.

use std::io::Write;
use std::process::ExitCode;

use vik_testkit::FakeTracker;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [file, args @ ..] = args.as_slice() else {
        return fail("which file?");
    };
    let tracker = FakeTracker::open(*file);
    match args {
        ["list"] => print(&tracker.list()),
        ["show", id] => {
            let issue = tracker.issues().into_iter().find(|issue| issue.id == *id);
            print(&serde_json::to_string(&issue).unwrap_or_else(|_| "null".to_owned()))
        }
        ["move", id, state] => exit_if_found(tracker.move_to(id, state), id),
        ["set", id, field, json] => match serde_json::from_str(json) {
            Ok(value) => exit_if_found(tracker.set(id, field, value), id),
            Err(_) => exit_if_found(tracker.set(id, field, (*json).into()), id),
        },
        ["add", id, title, state] => {
            tracker.add(id, title, state);
            ExitCode::SUCCESS
        }
        _ => fail("list, show ID, move ID STATE, set ID FIELD JSON or add ID TITLE STATE"),
    }
}

fn exit_if_found(found: bool, id: &str) -> ExitCode {
    if found {
        ExitCode::SUCCESS
    } else {
        fail(&format!("unknown issue {id}"))
    }
}

fn print(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn fail(reason: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "vik-fake-tracker: {reason}");
    ExitCode::FAILURE
}
