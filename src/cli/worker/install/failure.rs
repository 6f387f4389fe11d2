//! Why an installation failed, and how to solve it.

use std::io;
use std::process::ExitStatus;

use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_core::workflow::shell_quoted;

use super::destination::Destination;

/// The maximum number of lines of an error output that are shown.
const MAX_LINES: usize = 4;

/// Returns the error for an `ssh` that could not be started.
pub fn not_started(error: &io::Error) -> Failure {
    let failure = Failure::failed(ErrorCode::Ssh, "cannot run ssh", error);
    match error.kind() {
        io::ErrorKind::NotFound => {
            failure.hint("install the OpenSSH client: the package openssh-client or openssh")
        }
        _ => failure,
    }
}

/// Returns the error of a host that does not have what a worker needs.
pub fn of_host(host: &Destination, reason: &str, hint: impl Into<String>) -> Failure {
    let text = format!("a worker cannot run on {host}: {reason}");
    Failure::new(Exit::Failed, ErrorCode::WorkerHost, text).hint(hint)
}

/// Returns the error for the end of `ssh` before the script had ended.
pub fn of_ssh(host: &Destination, status: ExitStatus, errors: &str) -> Failure {
    let has = |text: &str| errors.contains(text);
    let failure = |text: String| Failure::new(Exit::Failed, ErrorCode::Ssh, text);
    let (failure, hint) = if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        let hint = "find out why it changed: somebody may be impersonating the host; after a new installation of the \
                    host, remove the old key with `ssh-keygen -R HOST`";
        (
            failure(format!("the host key of {host} has changed")),
            hint.to_owned(),
        )
    } else if has("Host key verification failed") {
        let hint =
            format!("connect once with `ssh {host}`, and compare the fingerprint before you accept it");
        (failure(format!("the host key of {host} is not known")), hint)
    } else if has("Permission denied (") {
        let hint = format!(
            "nothing is asked for: `ssh -o BatchMode=yes {host}` must work; load the key with `ssh-add`, or name it in \
             ~/.ssh/config"
        );
        (failure(format!("{host} refused the login")), hint)
    } else if has("Could not resolve hostname") {
        let hint = "check the name; it can be one of ~/.ssh/config".to_owned();
        (failure(format!("the host {host} is unknown")), hint)
    } else if errors.contains("connect to host") {
        let hint = "check the address, and whether an SSH server runs there".to_owned();
        (failure(format!("cannot connect to {host}")), hint)
    } else {
        let text = match status.code() {
            Some(255) | None => format!("the connection to {host} ended before the work was done"),
            Some(code) => format!("the script on {host} failed with exit code {code}"),
        };
        let hint = "run the command again: it does what is missing".to_owned();
        (failure(text), hint)
    };
    with_lines(failure, errors.lines()).hint(hint)
}

/// Returns the error for a reason that a script reported: a code and details.
pub fn of_script(host: &Destination, reason: &str, journal: &[String], errors: &str) -> Failure {
    let (code, detail) = reason.split_once(' ').unwrap_or((reason, ""));
    let detail = one_line(detail, 300);
    let install = |text: String| Failure::new(Exit::Failed, ErrorCode::WorkerInstall, text);
    let errors = errors.lines();
    match code {
        "busy" => install(format!("another installation of this worker runs on {host}"))
            .hint("wait for its end, and run the command again"),
        "transfer" if errors.clone().any(|line| line.contains("No space left")) => of_host(
            host,
            "the disk is full",
            "free some space, and run the command again",
        ),
        "transfer" => with_lines(
            install(format!("the files did not arrive on {host} as they were sent")),
            errors,
        )
        .hint("run the command again"),
        "program" => of_host(
            host,
            "the program does not start there",
            "name one that was built for that host with --program FILE, such as a static one",
        )
        .cause(detail),
        "no_worker" => of_host(
            host,
            &format!("the program has no workers: {detail}"),
            "name a program that was built with `--features temporal`, with --program FILE",
        ),
        "session" => with_lines(no_session(host, &detail), errors),
        "systemd" => with_lines(
            install(format!("`systemctl --user {detail}` failed on {host}")),
            errors,
        )
        .hint("solve the problem there, and run the command again"),
        "ended" => with_lines(
            install(format!("the worker on {host} started, and ended at once")),
            journal.iter().map(String::as_str),
        )
        .hint("solve the problem, and run the command again; systemd may also try again by itself"),
        "timeout" if detail == "deactivating" => {
            let text = format!("the previous worker on {host} still has attempts");
            Failure::new(Exit::TimedOut, ErrorCode::WorkerNotConnected, text)
                .hint("the new one starts when they have ended; run the command again to see whether it is connected")
        }
        "timeout" => {
            let text = format!("the worker on {host} did not report in time that it is connected");
            let failure = Failure::new(Exit::TimedOut, ErrorCode::WorkerNotConnected, text);
            with_lines(failure, journal.iter().map(String::as_str)).hint(
                "check the address and the credentials of the Temporal server; `--timeout` waits longer",
            )
        }
        _ => with_lines(install(format!("cannot change {detail} on {host}")), errors)
            .hint("solve the problem there, and run the command again"),
    }
}

/// Returns the error for a host without a systemd session for the user.
pub fn no_session(host: &Destination, user: &str) -> Failure {
    of_host(
        host,
        "there is no systemd session for the user",
        format!(
            "run `{}` on {host}; a container without systemd cannot be used",
            enable_linger(user)
        ),
    )
}

/// Returns the command that lets the services of a user run without a login. The name comes from the
/// host, so it is quoted.
pub fn enable_linger(user: &str) -> String {
    format!(
        "sudo loginctl enable-linger {}",
        shell_quoted(&one_line(user, 60))
    )
}

/// Adds the last lines that are not empty as causes.
fn with_lines<'a>(failure: Failure, lines: impl Iterator<Item = &'a str>) -> Failure {
    let lines: Vec<_> = lines.filter(|line| !line.trim().is_empty()).collect();
    let skipped = lines.len().saturating_sub(MAX_LINES);
    let last = lines.into_iter().skip(skipped);
    last.fold(failure, |failure, line| failure.cause(one_line(line, 300)))
}
