//! A world whose daemon can be stopped at a named point, whose processes can be killed by kind, and
//! whose trace files show afterwards whether anything was lost, doubled or left behind.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vik_testkit::wait_for;

use crate::support::{LONG, World, alive, eventually, list, stat_fields};

/// Which processes a kill hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Daemon,
    Shims,
    Agents,
    DaemonAndShims,
    All,
}

impl Target {
    pub const ALL: [Self; 5] = [
        Self::Daemon,
        Self::Shims,
        Self::Agents,
        Self::DaemonAndShims,
        Self::All,
    ];

    pub fn hits_daemon(self) -> bool {
        matches!(self, Self::Daemon | Self::DaemonAndShims | Self::All)
    }

    fn hits(self, kind: Kind) -> bool {
        match self {
            Self::Daemon => kind == Kind::Daemon,
            Self::Shims => kind == Kind::Shim,
            Self::Agents => kind == Kind::Agent,
            Self::DaemonAndShims => kind != Kind::Agent,
            Self::All => true,
        }
    }
}

/// The kind of a process of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Daemon,
    Shim,
    /// An agent, a hook, or a process that they have started.
    Agent,
}

/// The script of the agent. It records when another agent lives beside it, leaves a child in a
/// session of its own, and prints numbered lines. A pid can be reused, so it is compared with its
/// start time.
const AGENT: &str = r#"
echo "$VIK_ATTEMPT_ID" >> "$TRACES/starts"
echo "$VIK_ATTEMPT_ID" >> work
since() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f1,20; }
read -r other began 2>/dev/null < pid
case "$(since "$other")" in
  [ZXx]*) ;;
  *" $began") echo "$VIK_ATTEMPT_ID beside $other" >> "$TRACES/two-at-once" ;;
esac
now=$(since $$)
echo "$$ ${now#* }" > pid
setsid sleep 300 &
i=0
while [ $i -lt "${LINES_TO_PRINT:-20}" ]; do i=$((i+1)); echo "n$i"; sleep 0.01; done
rm -f pid
"#;

/// Returns the processes of a world that a kill of the target hits.
fn processes(world: &World, target: Target) -> Vec<i32> {
    let kind = |pid: i32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let args: Vec<_> = command.split(|&byte| byte == 0).collect();
        if comm.trim() == "vik-shim" || args.get(1) == Some(&&b"__shim"[..]) {
            Kind::Shim
        } else if args.get(1) == Some(&&b"run"[..]) {
            Kind::Daemon
        } else {
            Kind::Agent
        }
    };
    let left = world.env.leftovers().into_iter().map(|left| left.pid);
    left.filter(|&pid| target.hits(kind(pid))).collect()
}

/// Kills the processes of a target, and returns their number.
pub fn kill_processes(world: &World, target: Target) -> usize {
    let pids = processes(world, target);
    for &pid in &pids {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    if target.hits_daemon() {
        eventually("the daemon is dead", || {
            processes(world, Target::Daemon).iter().all(|&pid| !alive(pid))
        });
    }
    pids.len()
}

/// A world and its trace files.
pub struct Rig {
    pub world: World,
    traces: PathBuf,
}

impl Rig {
    /// Creates a rig around a world that has its own agents.
    pub fn around(world: World) -> Self {
        let traces = world.env.path("traces");
        std::fs::create_dir(&traces).unwrap();
        Self { world, traces }
    }

    pub fn new(issues: &[(&str, &str)], lines: u32) -> Self {
        let Self { world, traces } = Self::around(World::new(issues));
        world.env.write("work/agent.sh", AGENT);
        let script = world.env.work().join("agent.sh");
        let env = json!({
            "TRACES": traces.to_str().unwrap(),
            "LINES_TO_PRINT": lines.to_string(),
        });
        let agent = json!({"runtime": "command", "command": ["sh", script.to_str().unwrap()], "env": env});
        let trace = |hook: &str, between: &str| {
            let file = traces.join(hook);
            let file = file.to_str().unwrap();
            format!(
                "echo \"$VIK_ATTEMPT_ID start\" >> {file}\n{between}\necho \"$VIK_ATTEMPT_ID end\" >> {file}"
            )
        };
        let moves = world.on_success("done");
        let world = world
            .set("/agents/a", agent)
            .work(
                "hooks",
                json!({"before_run": trace("before_run", ""), "after_run": trace("after_run", &moves)}),
            )
            .work("verify", json!(trace("verify", "")))
            .work(
                "approve",
                json!({"after": true, "timeout": "1ms", "on_timeout": "approve"}),
            )
            .work(
                "retry",
                json!({"max_attempts": 1000, "initial_backoff": "50ms", "max_backoff": "50ms"}),
            )
            .work(
                "hand_over",
                json!({"max_tries": 1000, "initial_backoff": "50ms", "max_backoff": "50ms"}),
            )
            .set("/issue/limits", json!({"attempts": 10000}));
        Self { world, traces }
    }

    /// Starts a detached daemon.
    #[track_caller]
    pub fn up(&self) {
        let done = self.world.start_command(self.command(&["run", "-d"])).done();
        assert_eq!(done.code, 0, "{done:?}\n{}", self.diagnostics(&[]));
    }

    /// Returns what a person would inspect when something is wrong.
    fn diagnostics(&self, issues: &[&String]) -> String {
        let mut text = String::from("--- processes\n");
        for left in self.world.env.leftovers() {
            text.push_str(&format!("{left}\n"));
        }
        let explained = issues.iter().map(|issue| vec!["explain", issue]);
        for args in [vec!["status"]].into_iter().chain(explained) {
            let done = self.world.vik(&args);
            text.push_str(&format!("--- vik {}\n{}{}", args.join(" "), done.out, done.err));
        }
        text.push_str("--- the end of the log\n");
        let mut logs = list(&self.world.home().join("logs"));
        logs.retain(|path| path.to_string_lossy().contains("vik.log"));
        let log = logs.last().map(std::fs::read_to_string);
        let log = log.and_then(Result::ok).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        text.push_str(&lines[lines.len().saturating_sub(40)..].join("\n"));
        text
    }

    /// Returns a command of `vik` that stops at the armed points.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.env.vik(args);
        command.env("VIK_CRASH_DIR", self.world.crash_dir());
        command
    }

    /// Waits until the daemon has stopped at this point, kills the processes of a target there, and
    /// resumes a daemon that is none of them.
    #[track_caller]
    pub fn kill_at(&self, point: &str, target: Target) {
        self.world.wait_for_point(point);
        eventually("the daemon is stopped", || self.is_stopped());
        self.kill(target);
        self.world.leave_point(point);
        for pid in self.of(Target::Daemon) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
    }

    fn is_stopped(&self) -> bool {
        let daemon = self.of(Target::Daemon);
        daemon
            .iter()
            .any(|&pid| stat_fields(pid).first().is_some_and(|state| state == "T"))
    }

    /// Returns the processes of this world that a kill of the target hits.
    pub fn of(&self, target: Target) -> Vec<i32> {
        processes(&self.world, target)
    }

    /// Kills the processes of a target, and returns their number.
    pub fn kill(&self, target: Target) -> usize {
        kill_processes(&self.world, target)
    }

    pub fn is_up(&self) -> bool {
        !self.of(Target::Daemon).is_empty()
    }

    /// Retries what a kill of a hook has parked, as a person would.
    #[track_caller]
    pub fn unpark_all(&self) {
        for entry in self.listed("parked") {
            let (reason, issue) = (entry["reason"].as_str().unwrap(), entry["issue_id"].as_str());
            let issue = issue.unwrap().to_owned();
            assert!(
                matches!(reason, "hook" | "lost"),
                "{entry}\n{}",
                self.diagnostics(&[&issue])
            );
            self.world.vik(&["retry", &issue]);
        }
    }

    /// Waits until all issues are done, and stops the daemon.
    #[track_caller]
    pub fn settle(&self, issues: &[String]) {
        let is_done = |issue: &String| self.world.tracker.state(issue).as_deref() == Some("done");
        let done = wait_for(LONG, || {
            self.unpark_all();
            issues.iter().all(is_done) && self.listed("sessions").is_empty()
        });
        if !done {
            let open: Vec<_> = issues.iter().filter(|issue| !is_done(issue)).collect();
            panic!("not all is done: {open:?}\n{}", self.diagnostics(&open));
        }
        self.world.vik(&["stop"]).expect(0);
        self.world.env.assert_nothing_left();
    }

    /// Returns a list of `vik status --json`; it is empty while no daemon answers.
    fn listed(&self, name: &str) -> Vec<Value> {
        let status = self.world.status().unwrap_or_default();
        status[name].as_array().cloned().unwrap_or_default()
    }

    fn trace(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.traces.join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns how many agents were started.
    pub fn starts(&self) -> usize {
        self.trace("starts").len()
    }

    /// Returns how often a hook was started, by attempt.
    pub fn hook_starts(&self, hook: &str) -> BTreeMap<String, usize> {
        let mut count = BTreeMap::new();
        for line in self.trace(hook) {
            if let Some(attempt) = line.strip_suffix(" start") {
                *count.entry(attempt.to_owned()).or_default() += 1;
            }
        }
        count
    }

    /// Checks what must hold whatever was killed.
    #[track_caller]
    pub fn check(&self, issues: &[String]) {
        assert_eq!(
            self.trace("two-at-once"),
            Vec::<String>::new(),
            "two agents at once"
        );
        let mut starts = self.trace("starts");
        let all = starts.len();
        starts.sort();
        starts.dedup();
        assert_eq!(starts.len(), all, "an attempt's agent was started twice");
        let sessions: Vec<_> = issues
            .iter()
            .flat_map(|issue| self.world.sessions(issue))
            .collect();
        for hook in ["before_run", "verify", "after_run"] {
            for (attempt, count) in self.hook_starts(hook) {
                let session = sessions.iter().find(|session| session.id() == attempt);
                let journal = session.unwrap_or_else(|| panic!("no session {attempt}")).steps();
                check_hook(hook, count, &journal);
            }
        }
        self.world.vik(&["trace", "verify"]).expect(0);
        let traced = self.world.vik(&["trace", "log", "--json"]).expect(0).json();
        let records = |id: &str| {
            let records = traced.as_array().unwrap().iter();
            records.filter(|record| record["session_id"] == id).count()
        };
        for issue in issues {
            for session in self.world.sessions(issue) {
                let ended = session.ended();
                let recorded = records(session.id());
                let min_records = usize::from(ended["outcome"] == "succeeded");
                assert!(
                    (min_records..=1).contains(&recorded),
                    "{recorded} records of {}",
                    session.id()
                );
                let raw =
                    String::from_utf8(std::fs::read(session.file(".raw.jsonl")).unwrap_or_default()).unwrap();
                let printed: Vec<_> = raw.lines().map(str::to_owned).collect();
                assert_eq!(
                    session.messages(),
                    printed,
                    "the log holds what was printed, once: {ended}"
                );
                for (at, line) in printed.iter().enumerate() {
                    assert_eq!(*line, format!("n{}", at + 1), "no line of the agent is lost");
                }
            }
        }
        self.check_ledger(issues);
    }

    /// Checks that nothing is open, and that the ledger has every attempt once, with its outcome.
    #[track_caller]
    fn check_ledger(&self, issues: &[String]) {
        let runs = self.world.runs();
        let mut known: Vec<&Value> = Vec::new();
        for run in &runs {
            known.extend(run["attempts"].as_array().unwrap());
        }
        for attempt in &known {
            assert!(
                attempt["outcome"].is_string(),
                "an attempt without an end: {attempt}"
            );
        }
        let sessions: usize = issues.iter().map(|issue| self.world.sessions(issue).len()).sum();
        assert_eq!(known.len(), sessions, "attempts and sessions agree");
        for issue in issues {
            let last = runs.iter().rfind(|run| run["issue_id"] == issue.as_str());
            assert_eq!(
                last.unwrap_or_else(|| panic!("no run of {issue}"))["outcome"],
                "succeeded"
            );
        }
        let doctor = self.world.vik(&["doctor", "--json", "--offline"]);
        assert!(!doctor.out.contains("corrupt"), "{}", doctor.out);
        assert!(
            list(&self.world.home().join("service"))
                .iter()
                .any(|path| path.ends_with("vik.db"))
        );
    }
}

/// Checks that a script was started again only where a death fell between its start and its end, or
/// prevented the start of `after_run`, whose failure is repeated; and that each start is recorded.
fn check_hook(hook: &str, count: usize, journal: &[Value]) {
    let of = |line: &Value, step: &str| line["step"] == step && line["script"] == hook;
    let is_end = |line: &Value| of(line, "finished") && (hook != "after_run" || line["trouble"].is_null());
    let started = journal.iter().filter(|line| of(line, "started")).count();
    assert!(count <= started, "{hook} ran {count} times: {journal:#?}");
    let mut after = journal.iter().skip_while(|line| !is_end(line)).skip(1);
    assert!(
        !after.any(|line| line["script"] == hook),
        "{hook} ran again after its end: {journal:#?}"
    );
}
