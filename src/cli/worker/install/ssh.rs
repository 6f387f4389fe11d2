//! Runs scripts on a host with the `ssh` of the system, and its configuration.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};

use vik_base::report::Failure;

use super::destination::Destination;
use super::failure;
use super::files::RemoteFile;

/// The options that no configuration may change: nothing is asked for, nothing is forwarded, and a
/// dead connection ends within a minute.
const OPTIONS: &[&str] = &[
    "-T",
    "-a",
    "-x",
    "-oBatchMode=yes",
    "-oClearAllForwardings=yes",
    "-oRemoteCommand=none",
    "-oConnectTimeout=20",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=4",
];

/// The maximum size of what a script prints, in bytes.
const MAX_OUTPUT: u64 = 16 << 20;
/// The maximum size of its error output that is kept, in bytes.
const MAX_ERRORS: u64 = 64 << 10;

/// What a script printed: a key and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub key: String,
    pub value: String,
}

/// Runs a script with a shell of the host, and passes each report on as it comes. The script, and the
/// archive with `files` after it, are the standard input of the command, so that neither is in the
/// list of processes. The files have their index as their name.
///
/// # Errors
/// When the host cannot be reached, verified or logged in to, or the script fails.
pub fn run(
    host: &Destination,
    script: &str,
    files: &[&RemoteFile],
    on_report: &mut dyn FnMut(&Report),
) -> Result<(), Failure> {
    let mut child = Command::new("ssh")
        .args(OPTIONS)
        .args(["--", host.as_str(), &remote_command(script.len())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failure::not_started(&error))?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let mut reason = None;
    let mut has_ended = false;
    let mut journal = Vec::new();
    let errors = std::thread::scope(|threads| {
        // The reader finds out why a writer failed.
        threads.spawn(|| stdin.map(|stdin| send(stdin, script, files)));
        let errors = threads.spawn(|| stderr.map(read_errors).unwrap_or_default());
        for report in reports(&mut child) {
            match &*report.key {
                "failed" => reason = Some(report.value),
                "journal" => journal.push(report.value),
                "end" => has_ended = true,
                _ => on_report(&report),
            }
        }
        errors.join().unwrap_or_default()
    });
    let status = child.wait().map_err(|error| failure::not_started(&error))?;
    match reason {
        Some(reason) => Err(failure::of_script(host, &reason, &journal, &errors)),
        None if has_ended && status.success() => Ok(()),
        None => Err(failure::of_ssh(host, status, &errors)),
    }
}

/// Returns the command that runs a script of this length from standard input, and leaves what follows
/// it to the script. Shells may read more of their script than they need, so `dd` reads it. The text
/// means the same in each login shell.
fn remote_command(length: usize) -> String {
    format!("exec sh -c 'eval \"$(dd bs=1 count={length} 2>/dev/null)\"'")
}

fn send(mut stdin: ChildStdin, script: &str, files: &[&RemoteFile]) -> io::Result<()> {
    stdin.write_all(script.as_bytes())?;
    let mut archive = tar::Builder::new(stdin);
    for (index, file) in files.iter().enumerate() {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o600);
        header.set_size(u64::try_from(file.content.len()).unwrap_or(u64::MAX));
        archive.append_data(&mut header, index.to_string(), &*file.content)?;
    }
    archive.into_inner()?.flush()
}

fn reports(child: &mut Child) -> impl Iterator<Item = Report> {
    let stdout = child.stdout.take();
    let mut lines = stdout.map(|stdout| BufReader::new(stdout.take(MAX_OUTPUT)));
    std::iter::from_fn(move || {
        let lines = lines.as_mut()?;
        loop {
            let mut line = Vec::new();
            // A profile may print other lines.
            match lines.read_until(b'\n', &mut line) {
                Ok(length) if length > 0 => {
                    if let Some(report) = Report::read(&line) {
                        return Some(report);
                    }
                }
                _ => return None,
            }
        }
    })
}

impl Report {
    fn read(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\n")?);
        let (key, value) = line.strip_prefix("vik-install: ")?.split_once(' ')?;
        Some(Self {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }
}

fn read_errors(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = stderr.by_ref().take(MAX_ERRORS).read_to_end(&mut bytes);
    // Otherwise the writer would wait.
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_lines_with_a_key() {
        let report = |key: &str, value: &str| {
            Some(Report {
                key: key.to_owned(),
                value: value.to_owned(),
            })
        };
        assert_eq!(Report::read(b"vik-install: file 0 - \n"), report("file", "0 - "));
        assert_eq!(Report::read(b"vik-install: linger \n"), report("linger", ""));
        assert_eq!(Report::read(b"Welcome!\n"), None);
        // A line without an end may lack its end.
        assert_eq!(Report::read(b"vik-install: end pla"), None);
    }

    #[test]
    fn remote_command_means_the_same_in_each_shell() {
        let command = remote_command(4321);
        assert!(command.contains("count=4321"));
        let quoted = command.split('\'').nth(1).unwrap();
        assert!(!quoted.contains(['\\', '!', '\n']), "{quoted}");
    }
}
