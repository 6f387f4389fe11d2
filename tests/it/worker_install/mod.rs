//! `vik worker install`, with a real sshd and a stand-in for systemd on the host.

mod remote;

use std::fs;

use serde_json::Value;

use self::remote::{Remote, done};
use crate::support::*;

const PROGRAM: &str = ".local/share/vik-worker/bin/vik";
const PREVIOUS: &str = ".local/share/vik-worker/bin/vik.previous";
const UNIT: &str = ".config/systemd/user/vik-worker.service";
const ENVIRONMENT: &str = ".config/vik/vik-worker.env";
const WORKFLOW: &str = ".local/share/vik-worker/workflow/workflow.yml";
const PROMPT: &str = ".local/share/vik-worker/workflow/prompts/work.md";
const SKILL: &str = ".local/share/vik-worker/workflow/skills/review/run.sh";

const SECRET: &str = "correct-horse-battery-staple";

#[test]
fn worker_install_copies_starts_and_waits() {
    let Some(remote) = Remote::new() else { return };
    let args = ["--labels", "gpu,linux", "--capacity", "4", "--name", "b1"];
    let done = remote.install(&args).expect(0);
    assert!(remote.file(PROGRAM).contains("echo vik 1"));
    assert_eq!((remote.mode(PROGRAM), remote.mode(UNIT)), (0o755, 0o644));
    assert_eq!(remote.file(WORKFLOW), remote.env.read("work/workflow.yml"));
    assert_eq!(remote.file(PROMPT), "Work on {{ issue.title }}.\n");
    assert_eq!(remote.mode(SKILL), 0o755);
    let start = "ExecStart=%h/.local/share/vik-worker/bin/vik worker \"--name\" \"b1\" \"--labels\" \"gpu,linux\" \
                 \"--capacity\" \"4\" \"workflow.yml\"\n";
    assert!(remote.file(UNIT).contains(start), "{}", remote.file(UNIT));
    assert!(!remote.env.path("remote/home").join(ENVIRONMENT).exists());
    let calls = remote.take_calls();
    let calls: Vec<_> = calls
        .iter()
        .filter(|call| call.starts_with("systemctl") || call.starts_with("loginctl"))
        .collect();
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert!(calls[0].contains("enable-linger") && calls[1].ends_with("daemon-reload"));
    assert!(calls[2].contains("enable vik-worker") && calls[3].contains("start vik-worker"));
    for line in [
        "host         Linux ",
        "program      copied (1 MiB) to ~/.local/share/vik-worker/bin/vik",
        "workflow     5 files copied to ~/.local/share/vik-worker/workflow/",
        "unit         copied to ~/.config/systemd/user/vik-worker.service",
        "lingering    enabled now",
        "service      vik-worker started",
        "connection   connected to temporal:7233, queue q",
    ] {
        assert_contains(&done.out, line);
    }
    assert_eq!(remote.mode(".local/share/vik-worker"), 0o700);
}

#[test]
fn worker_install_changes_only_differences() {
    let Some(remote) = Remote::new() else { return };
    remote.env.write("work/env", format!("KEY={SECRET}\n"));
    let args = ["--env-file", "env"];
    remote.install(&args).expect(0);
    let tree = remote.tree();
    remote.take_calls();
    let second = remote.install(&args).expect(0);
    assert_eq!(remote.tree(), tree);
    for line in [
        "program      unchanged",
        "environment  unchanged",
        "workflow     unchanged",
        "unit         unchanged",
        "service      vik-worker runs already",
        "connection   connected",
    ] {
        assert_contains(&second.out, line);
    }
    let calls = remote.take_calls();
    let starts = |calls: &[String]| calls.iter().any(|call| call.contains("start vik-worker"));
    assert!(!starts(&calls), "{calls:?}");
    // Without --env-file, the file stays.
    remote.install(&[]).expect(0);
    assert_eq!(remote.file(ENVIRONMENT), format!("KEY={SECRET}\n"));
    assert!(!starts(&remote.take_calls()));
    // A file that others could read is replaced.
    let path = remote.env.path("remote/home").join(ENVIRONMENT);
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(path, everybody).unwrap();
    let third = remote.install(&args).expect(0);
    assert_contains(&third.out, "environment  copied");
    assert_eq!(remote.mode(ENVIRONMENT), 0o600);
    assert!(starts(&remote.take_calls()));
    // A worker that has ended is started.
    remote.systemd("ActiveState", "failed");
    assert_contains(
        &remote.install(&[]).expect(0).out,
        "service      vik-worker started",
    );
}

#[test]
fn worker_install_upgrades_after_a_drain() {
    let Some(remote) = Remote::new() else { return };
    remote.install(&[]).expect(0);
    // The files of the worker itself stay, and so do those of agents.
    remote
        .env
        .write("remote/home/.local/share/vik-worker/workflow/.vik/kept", "kept");
    remote.take_calls();
    remote.program("2");
    fs::remove_file(remote.env.path("work/skills/review/run.sh")).unwrap();
    remote.systemd("draining", "3");
    let upgrade = remote.install(&[]).expect(0);
    for line in [
        "program      copied",
        "workflow     1 file copied",
        "unit         unchanged",
        "service      vik-worker ends the attempts of the previous worker first",
        "connection   connected",
    ] {
        assert_contains(&upgrade.out, line);
    }
    assert!(remote.file(PROGRAM).contains("echo vik 2"));
    assert!(remote.file(PREVIOUS).contains("echo vik 1"));
    assert_eq!(remote.file(SKILL), "");
    assert_eq!(remote.file(".local/share/vik-worker/workflow/.vik/kept"), "kept");
    let calls = remote.take_calls();
    let restarts = calls.iter().filter(|call| call.contains("restart vik-worker"));
    assert_eq!(restarts.count(), 1, "{calls:?}");
    assert!(remote.file(UNIT).contains("ExecStop="), "it drains");

    // A drain that takes longer than the user waits.
    remote.program("3");
    remote.systemd("draining", "1000");
    let waiting = remote.install(&["--timeout", "2"]).expect(6);
    assert_contains(&waiting.err, "the previous worker on build-1 still has attempts");
    assert_contains(&waiting.err, "run the command again");
    let again = remote.install(&["--timeout", "2"]).expect(6);
    assert_contains(&again.out, "program      unchanged");
    remote.systemd("draining", "1");
    assert_contains(&remote.install(&[]).expect(0).out, "connection   connected");
    // The present one is not restarted again.
    remote.take_calls();
    assert_contains(
        &remote.install(&[]).expect(0).out,
        "service      vik-worker runs already",
    );
}

#[test]
fn worker_install_explains_refusals_of_ssh() {
    let Some(remote) = Remote::new() else { return };
    let refused = |message: &str, hint: &str| {
        let done = remote.install(&[]).expect(1);
        assert_contains(&done.err, message);
        assert_contains(&done.err, hint);
        assert_eq!(remote.tree(), []);
    };
    remote.authorize("other");
    refused("build-1 refused the login", "load the key with `ssh-add`");
    remote.trust("other");
    refused("the host key of build-1 has changed", "find out why it changed");
    remote.env.write("ssh/known_hosts", "");
    refused("the host key of build-1 is not known", "compare the fingerprint");
    assert_eq!(remote.env.read("ssh/known_hosts"), "", "it accepts no key");
    let closed = done(&mut remote.command(&["closed"])).expect(1);
    assert_contains(&closed.err, "cannot connect to closed");
    let mut command = remote.command(&["build-1"]);
    let without_ssh = done(command.env("PATH", "/nowhere")).expect(1);
    assert_contains(&without_ssh.err, "cannot run ssh");
    assert_contains(&without_ssh.err, "install the OpenSSH client");
}

#[test]
fn worker_install_explains_what_a_host_lacks() {
    let Some(remote) = Remote::new() else { return };
    let refused = |message: &str, hint: &str| {
        let done = remote.install(&["--json"]).expect(1);
        assert_contains(&done.err, message);
        assert_contains(&done.err, hint);
        assert_eq!(done.json()["error"]["code"], "worker_host", "{}", done.out);
        assert_eq!(remote.file(PROGRAM), "", "{message}");
    };
    remote.fake("uname", "Darwin");
    refused("its system is Darwin", "start `vik worker` yourself");
    fs::remove_file(remote.env.path("remote/bin/uname")).unwrap();
    let df = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 9 9 2048 99% /";
    remote.fake("df", df);
    refused(
        "needs 65 MiB of disk space, and 2 MiB are free",
        "free some space",
    );
    fs::remove_file(remote.env.path("remote/bin/df")).unwrap();
    remote.systemd("no_session", "");
    remote.systemd("Linger", "yes");
    refused("no systemd session", "enable-linger");
    fs::remove_file(remote.env.path("remote/systemd/no_session")).unwrap();
    remote.script(
        "work/program",
        "#!/bin/sh\necho \"libc.so.6: version GLIBC_9 not found\" >&2\nexit 1\n",
    );
    refused("the program does not start there", "GLIBC_9 not found");
    remote.script("work/program", "#!/bin/sh\n[ $1 != worker ]\n");
    refused("the program has no workers", "--features temporal");
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(64, 0);
    elf[18] = if cfg!(target_arch = "x86_64") { 0xb7 } else { 0x3e };
    remote.env.write("work/program", elf);
    refused("and the program is for", "--program FILE");
}

#[test]
fn worker_install_checks_the_sandbox_before_the_start() {
    let Some(remote) = Remote::new() else { return };
    let check = |check: &str, message: &str| {
        format!(
            r#"{{"checks": [{{"check": "{check}", "status": "error", "message": "{message}", "hint": "a hint"}}]}}"#
        )
    };
    remote
        .env
        .write("remote/doctor.json", check("sandbox", "no Landlock") + "\n");
    let refused = remote.install(&[]).expect(1);
    assert_contains(&refused.err, "a worker cannot run on build-1: no Landlock");
    assert!(!remote.take_calls().iter().any(|call| call.contains("start vik")));
    remote
        .env
        .write("remote/doctor.json", check("agent.a", "not found") + "\n");
    let done = remote.install(&[]).expect(0);
    assert_contains(&done.out, "check        agent.a: not found");
    assert_contains(&done.out, "connection   connected");
}

#[test]
fn worker_install_reports_a_worker_that_is_not_connected() {
    let Some(remote) = Remote::new() else { return };
    remote.systemd("next_state", "failed");
    let ended = remote.install(&[]).expect(1);
    assert_contains(&ended.err, "the worker on build-1 started, and ended at once");
    assert_contains(&ended.err, "cannot reach the server");
    remote.systemd("next_state", "active");
    remote.systemd("next_status", "waits for the server");
    let silent = remote.install(&["--timeout", "1", "--json"]).expect(6);
    assert_eq!(silent.json()["error"]["code"], "worker_not_connected");
    assert_contains(&silent.err, "cannot reach the server");
    remote.systemd("refuses_linger", "");
    remote.systemd("Linger", "no");
    remote.systemd("StatusText", "connected to temporal:7233, queue q");
    let done = remote.install(&[]).expect(0);
    assert_contains(&done.out, "lingering    not allowed");
    assert_contains(&done.out, "sudo loginctl enable-linger");
}

#[test]
fn worker_install_refuses_hostile_arguments() {
    let Some(remote) = Remote::new() else { return };
    let refused: &[&[&str]] = &[
        &["--", "-oProxyCommand=touch hacked"],
        &["root@-oProxyCommand=x"],
        &["build-1;touch hacked"],
        &["$(touch hacked)"],
        &["build-1", "--labels", "a b"],
        &["build-1", "--labels", "$(touch hacked)"],
        &["build-1", "--name", "-x"],
        &["build-1", "--unit", "../x"],
        &["build-1", "--capacity", "0"],
    ];
    for args in refused {
        let output = done(&mut remote.command(args));
        assert_eq!(output.code, 2, "{args:?}: {}", output.err);
    }
    assert_eq!(remote.env.read("ssh/calls"), "");
}

#[test]
fn worker_install_passes_hostile_paths_as_data() {
    let Some(remote) = Remote::new() else { return };
    let names = [
        "it's $(touch hacked)`touch hacked` \"%h\" \\.yml",
        "-rf ;touch hacked;",
        "tab and # ü",
    ];
    fs::rename(
        remote.env.path("work/workflow.yml"),
        remote.env.path("work").join(names[0]),
    )
    .unwrap();
    let mut args = vec!["--workflow", names[0]];
    for name in &names[1..] {
        remote.env.write(format!("work/extra/{name}"), *name);
    }
    args.extend(["--include", "extra"]);
    remote.install(&args).expect(0);
    let copied = |name: &str| remote.file(&format!(".local/share/vik-worker/workflow/{name}"));
    assert!(copied(names[0]).contains("prompts/work.md"));
    for name in &names[1..] {
        assert_eq!(copied(&format!("extra/{name}")), *name);
    }
    let unit = remote.file(UNIT);
    let argument = r#" worker "it's $$(touch hacked)`touch hacked` \"%%h\" \\.yml""#;
    assert_contains(&unit, argument);
    let all = remote.tree();
    assert!(!all.iter().any(|(path, _)| path.ends_with("hacked")), "{all:?}");
    assert!(!remote.env.path("work/hacked").exists());
    // Removed by name, too.
    fs::remove_dir_all(remote.env.path("work/extra")).unwrap();
    remote.install(&args[..2]).expect(0);
    assert_eq!(copied(&format!("extra/{}", names[1])), "");
    // Files outside of the folder are not copied.
    let outside = remote.env.write("outside", "x");
    let outside = remote.install(&["--include", outside.to_str().unwrap(), args[0], args[1]]);
    assert_contains(&outside.expect(3).err, "not in the folder of the workflow file");
}

#[test]
fn worker_install_shows_no_secret() {
    let Some(remote) = Remote::new() else { return };
    remote
        .env
        .write("work/env", format!("TEMPORAL_API_KEY=\"{SECRET}\"\n"));
    // The journal of a worker that prints its key.
    remote.fake("journalctl", &format!("key {SECRET} is refused"));
    remote.systemd("next_state", "failed");
    let args = ["--env-file", "env"];
    let failed = remote.install(&args).expect(1);
    assert_contains(&failed.err, "is refused");
    remote.systemd("next_state", "active");
    let output = remote.install(&args).expect(0);
    let dry = remote
        .install(&["--env-file", "env", "--dry-run", "--json"])
        .expect(0);
    assert_eq!(remote.file(ENVIRONMENT), remote.env.read("work/env"));
    assert_eq!(remote.mode(ENVIRONMENT), 0o600);
    let places = [
        failed.out,
        failed.err,
        output.out,
        output.err,
        dry.out,
        dry.err,
        remote.env.read("ssh/calls"),
        remote.env.read("ssh/log"),
        remote.env.read("remote/commands"),
        remote.take_calls().join("\n"),
        remote.file(UNIT),
    ];
    for place in places {
        assert!(!place.contains(SECRET), "{place}");
    }
    let with_secret: Vec<_> = remote
        .tree()
        .into_iter()
        .filter(|(_, text)| text.contains(SECRET))
        .collect();
    assert_eq!(with_secret.len(), 1, "{with_secret:?}");
}

#[test]
fn worker_install_can_be_repeated_after_each_step() {
    let Some(remote) = Remote::new() else { return };
    remote.env.write("work/env", "KEY=value\n");
    let args = ["--env-file", "env"];
    remote.install(&args).expect(0);
    let mut version = 1;
    let mut last_tree = Vec::new();
    for call in 1.. {
        version += 1;
        assert!(version < 100, "it does not end");
        remote.program(&version.to_string());
        remote
            .env
            .write("work/prompts/work.md", format!("Prompt {version}.\n"));
        remote.env.write("work/env", format!("KEY=value {version}\n"));
        remote.break_off_at(Some(call));
        let broken = remote.install(&args);
        // Whatever happened, the program is one of the two, and complete.
        let program = remote.file(PROGRAM);
        let is_one = program == remote.env.read("work/program")
            || program.contains(&format!("echo vik {} ;;", version - 1));
        assert!(is_one, "after call {call}: {program}");
        remote.break_off_at(None);
        if broken.code == 0 {
            // There were fewer calls.
            assert!(call > 20, "{call}");
            break;
        }
        assert_contains(&broken.err, "run the command again");
        let again = remote.install(&args).expect(0);
        assert_contains(&again.out, "connection   connected");
        assert_eq!(
            remote.file(PROGRAM),
            remote.env.read("work/program"),
            "after call {call}"
        );
        assert_eq!(remote.file(PROMPT), format!("Prompt {version}.\n"));
        assert_eq!(remote.file(ENVIRONMENT), format!("KEY=value {version}\n"));
        assert!(
            remote
                .file(PREVIOUS)
                .contains(&format!("echo vik {} ;;", version - 1)),
            "after call {call}"
        );
        // The worker that runs has these files, and no other file remains.
        assert_eq!(
            remote.env.read("remote/systemd/running"),
            remote.env.read("work/program"),
            "after call {call}"
        );
        assert!(
            !remote
                .env
                .path("remote/home/.local/share/vik-worker/pending")
                .exists()
        );
        let tree: Vec<_> = remote.tree().into_iter().map(|(path, _)| path).collect();
        assert!(
            last_tree.is_empty() || tree == last_tree,
            "after call {call}: {tree:?}"
        );
        last_tree = tree;
    }
}

#[test]
fn worker_install_dry_run_changes_nothing() {
    let Some(remote) = Remote::new() else { return };
    let text = remote.install(&["--dry-run"]).expect(0);
    assert_contains(&text.out, "program      to be copied (1 MiB)");
    assert_contains(&text.out, "service      to be started");
    assert_contains(&text.out, "\n[Service]\nType=exec\n");
    assert_eq!(remote.tree(), []);
    assert_eq!(remote.take_calls(), [""; 0]);
    let json = remote.install(&["--dry-run", "--json"]).expect(0).json();
    let result = |json: &Value, name: &str| {
        let steps = json["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["step"] == name).unwrap();
        step["result"].as_str().unwrap().to_owned()
    };
    assert_eq!(result(&json, "program"), "planned");
    crate::takeover::validate("worker-install", &json);
    remote.install(&[]).expect(0);
    let json = remote.install(&["--json"]).expect(0).json();
    assert_eq!(result(&json, "program"), "unchanged");
    assert_eq!(json["dry_run"], false);
    crate::takeover::validate("worker-install", &json);
}

#[test]
fn worker_install_copies_the_running_program() {
    let Some(remote) = Remote::new() else { return };
    let output = done(&mut remote.env.vik(["worker", "install", "build-1"])).expect(0);
    assert_contains(&output.out, "program      copied");
    let installed = fs::read(remote.env.path("remote/home").join(PROGRAM)).unwrap();
    let own = fs::read(env!("CARGO_BIN_EXE_vik")).unwrap();
    assert!(installed == own, "the programs differ");
}
