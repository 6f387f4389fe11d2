//! How the limit on open files is divided: between the daemon itself, clients of the HTTP API, and
//! sessions.

use vik_core::workflow::Workflow;

/// The files that a session has open: its log, its journal, the output of its agent, the lock and
/// the folder of its workspace, and two pipes to its shim; and one that a step opens for a moment.
const FILES_OF_A_SESSION: u64 = 8;

/// The files that the daemon needs without sessions: about 40 when it is idle, 64 each for clients
/// of the control socket and for webhooks, and the rest for pulls, lookups, notifications and
/// removals, and for the four shims that start at the same time.
const RESERVE: u64 = 256;

/// The share of the limit that clients of the HTTP API may use.
const CLIENTS_SHARE: u64 = 8;

/// More clients than the HTTP API admits.
const MOST_CLIENTS: u64 = 2048;

/// How to raise the limit.
const RAISE: &str =
    "raise the hard limit (`LimitNOFILE=` of a systemd unit, `ulimit -Hn`) and restart the daemon";

/// The limit on open files of the daemon.
#[derive(Clone, Copy, Debug)]
pub struct OpenFiles {
    limit: u64,
}

impl OpenFiles {
    /// Returns the division of this limit; `None` if there is no limit.
    pub fn new(limit: Option<u64>) -> Self {
        Self {
            limit: limit.unwrap_or(u64::MAX),
        }
    }

    /// Returns the division for a daemon that this process would start or become.
    pub fn of_daemon() -> Self {
        Self::new(vik_proc::highest_file_limit())
    }

    /// Returns the limit; `None` if there is none.
    pub fn limit(self) -> Option<u64> {
        (self.limit != u64::MAX).then_some(self.limit)
    }

    /// Returns how many clients of the HTTP API may be connected.
    pub fn max_clients(self) -> usize {
        let clients = (self.limit / CLIENTS_SHARE).min(MOST_CLIENTS);
        usize::try_from(clients).unwrap_or(usize::MAX)
    }

    /// Returns how many sessions may be alive: at least one.
    pub fn max_sessions(self) -> u32 {
        let others = RESERVE + self.max_clients() as u64;
        let sessions = self.limit.saturating_sub(others) / FILES_OF_A_SESSION;
        u32::try_from(sessions).unwrap_or(u32::MAX).max(1)
    }

    /// Returns what is wrong and what to do if the workflow allows more sessions.
    pub fn problem(self, workflow: &Workflow) -> Option<(String, &'static str)> {
        let (wanted, most) = (workflow.max_issue_concurrency, self.max_sessions());
        let limit = self.limit;
        (wanted > most).then(|| {
            let sessions = if most == 1 { "session" } else { "sessions" };
            let message = format!(
                "`loop.max_issue_concurrency` is {wanted}, but the limit on open files ({limit}) allows only {most} {sessions} at once"
            );
            (message, RAISE)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(limit: u64) -> u32 {
        OpenFiles::new(Some(limit)).max_sessions()
    }

    #[test]
    fn sessions_fit_beside_the_daemon_and_its_clients() {
        assert_eq!([1024, 20_000, 524_288].map(sessions), [80, 2212, 65_248]);
        for limit in (600..100_000).step_by(7) {
            let files = OpenFiles::new(Some(limit));
            let used = u64::from(files.max_sessions()) * FILES_OF_A_SESSION + files.max_clients() as u64;
            assert!(used + RESERVE <= limit, "{limit}");
        }
    }

    #[test]
    fn one_session_is_always_allowed() {
        assert_eq!([0, 64, 256].map(sessions), [1; 3]);
        assert_eq!(OpenFiles::new(None).max_sessions(), u32::MAX);
        assert_eq!(sessions(u64::MAX), u32::MAX);
    }

    #[test]
    fn problem_names_both_limits() {
        let text = "loop: { max_issue_concurrency: 500 }
issues: { pull: { command: list } }
agents: { a: { runtime: command, command: [agent] } }
issue: { stages: { work: { when: { state: todo }, agent: a, prompt: p } } }
";
        let workflow = vik_workflow_reader::load(text).workflow.unwrap();
        let (problem, hint) = OpenFiles::new(Some(1024)).problem(&workflow).unwrap();
        assert_eq!(
            format!("{problem}; {hint}"),
            "`loop.max_issue_concurrency` is 500, but the limit on open files (1024) allows only 80 sessions at \
             once; raise the hard limit (`LimitNOFILE=` of a systemd unit, `ulimit -Hn`) and restart the daemon"
        );
        assert_eq!(OpenFiles::new(Some(20_000)).problem(&workflow), None);
    }
}
