//! What commands may do and which processes they leave: the real `vex` with real processes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use vik_testkit::alive;

struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "home", "tmp"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// vex with these commands, one in each turn, with their expected exit codes.
    fn vex(&self, commands: &[(&str, Option<i32>)], args: &[&str]) -> Command {
        let mut text =
            "{\"kind\":\"recording\",\"version\":1}\n{\"kind\":\"conversation\",\"name\":\"only\"}\n"
                .to_owned();
        for (line, code) in commands {
            let expect = code.map_or_else(|| json!({}), |code| json!({"exit_code": code}));
            let input = match line.strip_prefix("bg: ") {
                Some(line) => json!({"command": line, "background": true}),
                None => json!({"command": line}),
            };
            let call = json!({"tool": "run_command", "input": input, "expect": expect});
            text += &format!("{}\n", json!({"kind": "turn", "tool_calls": [call]}));
        }
        text += "{\"kind\":\"turn\",\"text\":\"All of it is done now, as far as it went.\"}\n";
        std::fs::write(self.path("model.jsonl"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vex"));
        command
            .args(["exec", "--json", "--replay", "../model.jsonl"])
            .args(args)
            .arg("go")
            .current_dir(self.path("work"))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("VEX_REPLAY_DIR")
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("VEX_HOME")
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }

    #[track_caller]
    fn ok(&self, commands: &[(&str, Option<i32>)], args: &[&str]) -> Output {
        let output = self.vex(commands, args).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        output
    }

    fn pid(&self, name: &str) -> i32 {
        let text = std::fs::read_to_string(self.path("work").join(name)).unwrap();
        text.trim().parse().unwrap()
    }
}

/// Whether this system confines commands; prints a note if it does not.
fn confines() -> bool {
    let sandbox = vik_proc::Sandbox {
        write: vec!["/".into()],
        ..vik_proc::Sandbox::default()
    };
    match sandbox.fence() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// Leaves its session, group, parent and environment, and ignores signals; writes its pid to
/// `name`.
fn hide(name: &str) -> String {
    format!(
        "(env -i setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > {name}; while :; do sleep 1000; done' &) ; \
         while ! test -s {name}; do sleep 0.01; done"
    )
}

#[test]
fn command_writes_only_in_the_workspace() {
    if !confines() {
        return;
    }
    let fixture = Fixture::new();
    std::fs::write(fixture.path("there"), "kept").unwrap();
    std::os::unix::fs::symlink("..", fixture.path("work").join("up")).unwrap();
    let good = [
        "echo x > a && mkdir -p d && mv a d/a && rm -r d",
        "echo x > \"$TMPDIR/t\" && f=$(mktemp) && rm \"$f\"",
        "echo x > /dev/null; cat ../there; ls \"$HOME\" /etc > list",
        "git init -q && git config user.name n && git config user.email e@e && git add . && git commit -qm x",
    ];
    let bad = [
        "echo x > \"$HOME/x\"",
        "echo x > ../x",
        "echo x > ../there",
        "echo x > up/x",
        "rm ../there",
        "mkdir ../d",
        "sh -c 'setsid sh -c \"echo x > ../late\"'",
        "cd .. && git init -q",
    ];
    let mut commands: Vec<(&str, Option<i32>)> = good.iter().map(|line| (*line, Some(0))).collect();
    let failing: Vec<String> = bad
        .iter()
        .map(|line| format!("if ( {line} ); then exit 0; else exit 9; fi"))
        .collect();
    commands.extend(failing.iter().map(|line| (line.as_str(), Some(9))));
    fixture.ok(&commands, &["--permission", "workspace-write"]);
    assert_eq!(std::fs::read_to_string(fixture.path("there")).unwrap(), "kept");
    // vex itself keeps its log there, but no command wrote there.
    assert!(!fixture.path("home/x").exists());
    for name in ["x", "d", "late", ".git"] {
        assert!(!fixture.path(name).exists(), "{name}");
    }
    // With full permission nothing is confined.
    fixture.ok(
        &[("echo x > ../x && echo x > \"$HOME/x\"", Some(0))],
        &["--permission", "full"],
    );
    assert!(fixture.path("x").exists());
}

#[test]
fn commands_cannot_change_the_files_that_are_kept_for_a_further_try() {
    if !confines() {
        return;
    }
    let fixture = Fixture::new();
    std::fs::write(fixture.path("work/kept.txt"), "kept").unwrap();
    let write = "copy=$(find \"$HOME\" -path '*/snapshots/*/kept.txt'); test -f \"$copy\" || exit 1; \
                 if ( echo x >> \"$copy\" ) || rm \"$copy\"; then exit 2; else exit 9; fi";
    let check = format!("( {write} ); test $? = 9");
    let args = [
        "--permission",
        "workspace-write",
        "--tries",
        "2",
        "--verify",
        &check,
    ];
    fixture.ok(&[(write, Some(9))], &args);
}

#[test]
fn linked_work_tree_can_commit_and_its_neighbour_is_safe() {
    if !confines() {
        return;
    }
    let fixture = Fixture::new();
    let setup = "git init -q main && cd main && git config user.name n && git config user.email e@e && \
                 git commit -q --allow-empty -m first && git worktree add -q ../work/tree";
    let done = Command::new("sh")
        .args(["-ec", setup])
        .current_dir(fixture.path(""))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let tree = fixture.path("work/tree");
    fixture.ok(
        &[
            ("echo x > f && git add f && git commit -qm second", Some(0)),
            ("if echo x > ../../main/x; then exit 0; else exit 9; fi", Some(9)),
            ("if echo x > ../x; then exit 0; else exit 9; fi", Some(9)),
        ],
        &["-C", tree.to_str().unwrap()],
    );
}

#[test]
fn cargo_build_works_in_the_workspace() {
    if !confines() {
        return;
    }
    let fixture = Fixture::new();
    let home =
        std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap()));
    let rustup = std::env::var("RUSTUP_HOME")
        .unwrap_or_else(|_| format!("{}/.rustup", std::env::var("HOME").unwrap()));
    let write = "mkdir src && echo 'fn main() {}' > src/main.rs && \
                 printf '[package]\\nname = \"x\"\\nversion = \"0.1.0\"\\nedition = \"2024\"\\n' > Cargo.toml";
    let output = fixture
        .vex(
            &[
                (write, Some(0)),
                ("cargo build --offline -q && target/debug/x", Some(0)),
            ],
            &[],
        )
        .env("CARGO_HOME", home)
        .env("RUSTUP_HOME", rustup)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn processes_of_a_command_end_before_the_next_command() {
    let fixture = Fixture::new();
    let line = format!("{}; setsid sleep 1000 & echo $! > other", hide("hidden"));
    let check = "for f in hidden other; do kill -0 $(cat $f) 2>/dev/null && exit 1; done; exit 0";
    fixture.ok(&[(&line, Some(0)), (check, Some(0))], &[]);
}

#[test]
fn processes_never_outlive_vex() {
    let fixture = Fixture::new();
    let line = format!(
        "bg: {}; trap '' TERM; while :; do sleep 1000; done",
        hide("hidden")
    );
    fixture.ok(
        &[
            (&line, None),
            ("while ! test -s hidden; do sleep 0.01; done", Some(0)),
        ],
        &[],
    );
    assert!(!alive(fixture.pid("hidden")));
}

#[test]
fn signals_end_background_commands() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let fixture = Fixture::new();
        let line = format!(
            "bg: trap '' TERM; {}; while :; do sleep 1000; done",
            hide("hidden")
        );
        let deaf = "trap '' INT TERM; while ! test -s hidden; do sleep 0.01; done; echo $$ > pid; \
                    while :; do sleep 1000; done";
        let child = fixture
            .vex(&[(&line, None), (deaf, Some(0))], &[])
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !std::fs::read_to_string(fixture.path("work/pid")).is_ok_and(|text| text.ends_with('\n')) {
            assert!(Instant::now() < deadline, "it never ran");
            std::thread::sleep(Duration::from_millis(2));
        }
        let sent = Instant::now();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(sent.elapsed() < Duration::from_secs(2), "{:?}", sent.elapsed());
        assert_eq!(output.status.code(), Some(130));
        for name in ["pid", "hidden"] {
            assert!(!alive(fixture.pid(name)), "{name}");
        }
    }
}

#[test]
fn keys_and_stdin_do_not_reach_commands() {
    let fixture = Fixture::new();
    let check = "test -z \"$ANTHROPIC_API_KEY$OPENAI_API_KEY$OPENROUTER_API_KEY\" && test \"$OTHER\" = seen && \
                test -z \"$(cat)\"";
    let output = fixture
        .vex(&[(check, Some(0))], &[])
        .env("ANTHROPIC_API_KEY", "sk-ant-not-a-real-key-0123456789")
        .env("OPENAI_API_KEY", "sk-not-a-real-key-0123456789")
        .env("OPENROUTER_API_KEY", "sk-or-not-a-real-key-0123456789")
        .env("OTHER", "seen")
        .stdin(Stdio::piped())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
