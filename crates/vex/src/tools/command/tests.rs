use vik_testkit::alive;

use super::*;
use crate::interrupt::Interrupt;
use crate::tools::{Permission, Policy, Root};

struct Fixture {
    dir: tempfile::TempDir,
    runner: Runner,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), false).unwrap();
        let runner = Runner::new(&root, &Policy::from(Permission::WorkspaceWrite));
        Self { dir, runner }
    }

    fn run(&self, line: &str, timeout_ms: u64, terminal: bool, interrupt: &Interrupt) -> RunOutcome {
        let timeout = Duration::from_millis(timeout_ms);
        let run = Run {
            line,
            cwd: self.dir.path(),
            timeout,
            stdin: None,
            terminal,
            trusted: false,
        };
        let (kept, ended) = self.runner.run(run, interrupt).unwrap();
        report(line.to_owned(), kept.into_text(terminal), &ended, timeout)
    }

    fn pid(&self, name: &str) -> i32 {
        let text = std::fs::read_to_string(self.dir.path().join(name)).unwrap();
        text.trim().parse().unwrap()
    }
}

fn sh(line: &str, timeout_ms: u64) -> RunOutcome {
    Fixture::new().run(line, timeout_ms, false, &Interrupt::new())
}

#[test]
fn exit_codes_and_both_streams() {
    let ran = sh("echo out; echo err >&2; exit 3", 60_000);
    assert_eq!(
        (ran.text.as_str(), ran.exit_code, ran.is_error),
        ("out\nerr\n", Some(3), true)
    );
    assert_eq!(sh("cat; kill -9 $$", 60_000).exit_code, Some(137));
}

#[test]
fn output_flood_keeps_both_ends() {
    let ran = sh("echo start; yes | head -c 30000000; echo end", 60_000);
    assert!(ran.text.starts_with("start\n") && ran.text.ends_with("end\n"));
    assert!(
        ran.text.len() < 3 * bounded_output::KEEP_BYTES,
        "{}",
        ran.text.len()
    );
    assert!(ran.text.contains("bytes left out"));
}

#[test]
fn time_limit_ends_a_whole_tree_that_ignores_term() {
    let fixture = Fixture::new();
    let line = "trap '' TERM; setsid sleep 1000 & echo $! > pid; wait; sleep 1000";
    let ran = fixture.run(line, 300, false, &Interrupt::new());
    assert!(ran.is_error && ran.exit_code.is_none());
    assert!(ran.text.ends_with("[stopped after 300 ms]\n"), "{}", ran.text);
    assert!(!alive(fixture.pid("pid")));
}

#[test]
fn processes_left_by_a_command_are_killed() {
    let fixture = Fixture::new();
    // In its group; in a session of its own; a grandchild without its parent that ignores signals.
    // Processes with a cleared environment are tested where nothing else runs: in the tests of the
    // program. Its shell may report on standard error that its own child was killed first.
    let line = "sleep 1000 & echo $! > a; setsid sleep 1000 & echo $! > b; \
                (setsid sh -c 'echo $$ > c; trap \"\" TERM HUP; sleep 1000; sleep 1000' 2> /dev/null &) ; \
                while ! test -s c; do sleep 0.01; done; echo done";
    let ran = fixture.run(line, 60_000, false, &Interrupt::new());
    assert_eq!((ran.text.as_str(), ran.exit_code), ("done\n", Some(0)));
    for name in ["a", "b", "c"] {
        assert!(!alive(fixture.pid(name)), "{name}");
    }
}

#[test]
fn process_that_outlives_its_command_briefly_may_finish() {
    let ran = sh("(sleep 0.02; echo late) & echo early", 60_000);
    assert_eq!(ran.text, "early\nlate\n");
}

#[test]
fn interrupt_ends_the_command() {
    let fixture = Fixture::new();
    let interrupt = Interrupt::new();
    let (other, mark) = (interrupt.clone(), fixture.dir.path().join("started"));
    let setter = std::thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !mark.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        other.set();
    });
    // A shell that outlives its `sleep` prints how it died.
    let ran = fixture.run("touch started; exec sleep 1000", 600_000, false, &interrupt);
    setter.join().unwrap();
    assert_eq!(ran.text, "[stopped: interrupted]\n");
}

#[test]
fn pty_output_is_plain_text() {
    let fixture = Fixture::new();
    let line = "test -t 0 && test -t 1 && stty size; printf '\\033[31mred\\033[0m\\r\\n'; cat; echo end";
    let ran = fixture.run(line, 60_000, true, &Interrupt::new());
    assert_eq!(ran.text.replace("^D", ""), "24 80\nred\nend\n");
    assert_eq!(ran.exit_code, Some(0));
    assert_eq!(
        fixture
            .run("test -t 1", 60_000, false, &Interrupt::new())
            .exit_code,
        Some(1)
    );
}

#[test]
fn output_that_is_no_text_is_counted() {
    let ran = sh("head -c 5000 /dev/zero", 60_000);
    assert_eq!(ran.text, "[5000 bytes that are no text]\n");
}

#[test]
fn stdin_is_written_whole_or_dropped() {
    let fixture = Fixture::new();
    let run = |line: &str| {
        let run = Run {
            line,
            cwd: fixture.dir.path(),
            timeout: Duration::from_secs(60),
            stdin: Some(vec![b'x'; 1_000_000]),
            terminal: false,
            trusted: true,
        };
        fixture
            .runner
            .run(run, &Interrupt::new())
            .unwrap()
            .0
            .into_text(false)
    };
    assert_eq!(run("wc -c").trim(), "1000000");
    assert_eq!(run("echo unread").trim(), "unread");
}

#[test]
fn command_as_a_list_becomes_a_quoted_line() {
    let mend = |args: Value| {
        let mut arguments = Map::new();
        arguments.insert("command".to_owned(), args);
        RunCommand::mend(&mut arguments);
        arguments["command"].clone()
    };
    assert_eq!(mend(json!(["bash", "-lc", "ls | wc"])), json!("ls | wc"));
    assert_eq!(
        mend(json!(["echo", "a b", "it's"])),
        json!(r"echo 'a b' 'it'\''s'")
    );
    assert_eq!(mend(json!([1])), json!([1]));
}
