use super::*;
use crate::tools::Permission;

struct Place {
    dir: tempfile::TempDir,
    runner: Runner,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), false).unwrap();
        let runner = Runner::new(&root, &Policy::from(Permission::WorkspaceWrite));
        Self { dir, runner }
    }

    fn run(&self, line: &str, timeout_ms: u64, terminal: bool, interrupt: &Interrupt) -> Ran {
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

    fn pid(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }
}

fn sh(line: &str, timeout_ms: u64) -> Ran {
    Place::new().run(line, timeout_ms, false, &Interrupt::new())
}

fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
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
fn a_flood_keeps_both_ends() {
    let ran = sh("echo start; yes | head -c 30000000; echo end", 60_000);
    assert!(ran.text.starts_with("start\n") && ran.text.ends_with("end\n"));
    assert!(ran.text.len() < 3 * kept::KEEP_BYTES, "{}", ran.text.len());
    assert!(ran.text.contains("bytes left out"));
}

#[test]
fn the_time_limit_ends_the_whole_tree_even_when_it_ignores_term() {
    let place = Place::new();
    let line = "trap '' TERM; setsid sleep 1000 & echo $! > pid; wait; sleep 1000";
    let ran = place.run(line, 300, false, &Interrupt::new());
    assert!(ran.is_error && ran.exit_code.is_none());
    assert!(ran.text.ends_with("[stopped after 300 ms]\n"), "{}", ran.text);
    assert!(!alive(&place.pid("pid")));
}

#[test]
fn whatever_a_command_leaves_is_ended_with_it() {
    let place = Place::new();
    // In its group; in a session of its own; a grandchild without its parent, and deaf. What also clears its environment
    // is looked for where nothing else runs: in the tests of the program.
    let line = "sleep 1000 & echo $! > a; setsid sleep 1000 & echo $! > b; \
                (setsid sh -c 'echo $$ > c; trap \"\" TERM HUP; sleep 1000; sleep 1000' &) ; \
                while ! test -s c; do sleep 0.01; done; echo done";
    let ran = place.run(line, 60_000, false, &Interrupt::new());
    assert_eq!((ran.text.as_str(), ran.exit_code), ("done\n", Some(0)));
    for name in ["a", "b", "c"] {
        assert!(!alive(&place.pid(name)), "{name}");
    }
}

#[test]
fn what_ends_by_itself_soon_after_its_command_is_heard_out() {
    let ran = sh("(sleep 0.02; echo late) & echo early", 60_000);
    assert_eq!(ran.text, "early\nlate\n");
}

#[test]
fn an_interrupt_ends_it() {
    let place = Place::new();
    let interrupt = Interrupt::new();
    let (other, mark) = (interrupt.clone(), place.dir.path().join("started"));
    let setter = std::thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !mark.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        other.set();
    });
    // A shell that outlives its `sleep` says of what it died.
    let ran = place.run("touch started; exec sleep 1000", 600_000, false, &interrupt);
    setter.join().unwrap();
    assert_eq!(ran.text, "[stopped: interrupted]\n");
}

#[test]
fn a_terminal_when_asked_for_and_its_text_is_plain() {
    let place = Place::new();
    let line = "test -t 0 && test -t 1 && stty size; printf '\\033[31mred\\033[0m\\r\\n'; cat; echo end";
    let ran = place.run(line, 60_000, true, &Interrupt::new());
    assert_eq!(ran.text.replace("^D", ""), "24 80\nred\nend\n");
    assert_eq!(ran.exit_code, Some(0));
    assert_eq!(
        place.run("test -t 1", 60_000, false, &Interrupt::new()).exit_code,
        Some(1)
    );
}

#[test]
fn output_that_is_no_text_is_counted() {
    let ran = sh("head -c 5000 /dev/zero", 60_000);
    assert_eq!(ran.text, "[5000 bytes that are no text]\n");
}

#[test]
fn what_it_reads_is_given_whole_or_left() {
    let place = Place::new();
    let run = |line: &str| {
        let run = Run {
            line,
            cwd: place.dir.path(),
            timeout: Duration::from_secs(60),
            stdin: Some(vec![b'x'; 1_000_000]),
            terminal: false,
            trusted: true,
        };
        place
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
fn a_list_of_words_is_the_line_that_it_means() {
    let mend = |words: Value| {
        let mut arguments = Map::new();
        arguments.insert("command".to_owned(), words);
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
