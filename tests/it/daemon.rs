//! The life of a daemon: start, one instance, its status, signals, the control socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getsid};
use serde_json::{Value, json};

use crate::support::*;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn pid_of(world: &World) -> i32 {
    i32::try_from(world.status().expect("a daemon runs")["pid"].as_i64().unwrap()).unwrap()
}

#[test]
fn detached_daemon_is_ready_and_has_its_own_session() {
    let world = World::new(&[]);
    let done = world.vik(&["run", "-d"]).expect(0);
    // A daemon that is ready answers at once.
    let pid = pid_of(&world);
    assert_contains(&done.out, pid.to_string());
    assert_eq!(
        getsid(Some(Pid::from_raw(pid))).unwrap().as_raw(),
        pid,
        "a session of its own"
    );
    let stdin = std::fs::read_link(format!("/proc/{pid}/fd/0")).unwrap();
    assert_eq!(stdin, Path::new("/dev/null"));
    assert_eq!(stat_fields(pid)[4], "0", "no terminal");
    world.vik(&["stop"]).expect(0);
}

#[test]
fn detach_works_under_its_old_name() {
    let world = World::new(&[]);
    world.vik(&["run", "--detached"]).expect(0);
    world.vik(&["stop"]).expect(0);
}

#[test]
fn detached_daemon_reports_why_it_cannot_start() {
    let world = World::new(&[]);
    world.env.write("work/home", "in the way");
    let done = world.vik(&["run", "-d"]);
    assert_ne!(done.code, 0);
    assert_contains(&done.err, "home");
    world.env.assert_nothing_left();
    std::fs::remove_file(world.env.work().join("home")).unwrap();

    let good = world.env.read("work/workflow.yml");
    world
        .env
        .workflow(&good.replace("\"agent\": \"a\"", "\"agent\": \"b\""));
    let done = world.vik(&["run", "-d"]).expect(3);
    assert_contains(&done.err, "workflow.yml:");
    assert!(done.err.contains('b'), "{}", done.err);
    world.vik(&["status"]).expect(4);
    std::fs::remove_file(world.env.work().join("workflow.yml")).unwrap();
    world.vik(&["run", "-d"]).expect(3);
    world.env.assert_nothing_left();
}

#[test]
fn second_instance_is_refused_and_the_first_is_unaffected() {
    let world = World::new(&[]);
    world.vik(&["run", "-d"]).expect(0);
    let pid = pid_of(&world);
    for args in [&["run", "-d"][..], &["run"], &["run", "--once"]] {
        let done = world.vik(args).expect(5);
        assert!(done.err.contains(&pid.to_string()), "it says who: {}", done.err);
    }
    // The workflow is the same by whatever path the file is named.
    let mut elsewhere = world.env.vik(["run", "--once", "-w", "../work/./workflow.yml"]);
    elsewhere.current_dir(world.env.home());
    world.start_command(elsewhere).done().expect(5);
    assert_eq!(pid_of(&world), pid);
    world.vik(&["stop"]).expect(0);
    world.once().expect(0);
}

#[test]
fn workflows_have_separate_daemons() {
    let world = World::new(&[]);
    let yaml = world.env.read("work/workflow.yml");
    world.env.write("work/other.yml", yaml);
    world.vik(&["run", "-d"]).expect(0);
    world.vik(&["run", "-d", "other.yml"]).expect(0);
    let all = world.vik(&["status", "--all", "--json"]).expect(0).json();
    let states: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["state"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(states, ["running", "running"]);
    world.vik(&["stop", "other.yml"]).expect(0);
    world.vik(&["status", "--workflow", "other.yml"]).expect(4);
    world.vik(&["status"]).expect(0);
    world.vik(&["stop"]).expect(0);
}

#[test]
fn uninstall_needs_no_workflow_file_and_keeps_history() {
    for file in ["agents: [", ""] {
        let world = World::new(&[("1", "todo")]);
        world.vik(&["run", "-d"]).expect(0);
        world.wait_for_state("1", "done");
        if file.is_empty() {
            std::fs::remove_file(world.env.work().join("workflow.yml")).unwrap();
        } else {
            world.env.workflow(file);
        }
        world.vik(&["uninstall"]).expect(0);
        world.env.assert_nothing_left();
        assert!(list(&world.env.state().join("vik/instances")).is_empty());
        assert_eq!(world.sessions("1").len(), 1);
        assert!(world.workspace("1").exists());
        world.vik(&["uninstall"]).expect(0);
        world.vik(&["status"]).expect(4);
    }
}

#[test]
fn restart_replaces_the_daemon() {
    let world = World::new(&[("1", "todo")]).script("ignore TERM; hang");
    world.vik(&["restart"]).expect(0);
    let first = pid_of(&world);
    world.wait_for_status("the agent runs", |status| {
        status["sessions"][0]["phase"] == "running"
    });
    world.vik(&["restart"]).expect(0);
    assert_ne!(pid_of(&world), first);
    assert!(!alive(first));
    world.sessions("1")[0].expect("cancelled", None);
    world.vik(&["stop"]).expect(0);
}

#[test]
fn restart_keeps_a_selected_port() {
    let world = World::new(&[]);
    world.vik(&["run", "-d", "--port", "0"]).expect(0);
    let address = || world.status().unwrap()["api"]["address"].clone();
    let first = address();
    world.vik(&["restart"]).expect(0);
    assert_eq!(address(), first);
    world.vik(&["restart", "--keep-sessions"]).expect(0);
    assert_eq!(address(), first);
    world.vik(&["stop"]).expect(0);
}

#[test]
fn restart_with_a_broken_workflow_fails_and_stops_nothing() {
    let world = World::new(&[]);
    world.vik(&["run", "-d"]).expect(0);
    let pid = pid_of(&world);
    world.env.workflow("agents: [");
    world.vik(&["restart"]).expect(3);
    std::fs::remove_file(world.env.work().join("workflow.yml")).unwrap();
    world.vik(&["restart"]).expect(3);
    assert_eq!(pid_of(&world), pid, "a bad edit never stops work");
    world.vik(&["stop"]).expect(0);
}

#[test]
fn hangup_triggers_a_pull_and_stops_nothing() {
    let world = World::new(&[]).set("/issues/pull/idle_sec", json!("1h"));
    let daemon = world.daemon();
    let pulls = world.tracker.pulls();
    daemon.signal(Signal::SIGHUP);
    eventually("it pulled", || world.tracker.pulls() > pulls);
    world.vik(&["refresh"]).expect(0);
    eventually("it pulled", || world.tracker.pulls() > pulls + 1);
    assert_eq!(pid_of(&world), daemon.pid());
    daemon.stop().expect(0);
}

#[test]
fn state_json_names_the_running_daemon() {
    let world = World::new(&[]);
    let state = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(world.home().join("service/state.json")).unwrap())
            .unwrap()
    };
    let daemon = world.daemon();
    assert_eq!(state()["state"], "running");
    assert_eq!(state()["pid"], json!(daemon.pid()));
    assert_eq!(
        state()["workflow_path"],
        json!(world.env.work().join("workflow.yml").canonicalize().unwrap())
    );
    assert!(state()["started_at"].as_str().unwrap().ends_with('Z'));
    daemon.stop().expect(0);
    assert_eq!(state()["state"], "stopped");
    let names: Vec<_> = list(&world.home().join("service"))
        .into_iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "daemon.lock",
            "issues",
            "pull.stderr.log",
            "state.json",
            "vik.db",
            "vik.db.lock",
            "vik.db.reserve"
        ],
        "nothing half written is left"
    );
}

#[test]
fn logs_are_json_when_the_workflow_sets_it() {
    let world = World::new(&[("1", "todo")])
        .set("/logging", json!({"format": "json"}))
        .work("hooks", json!({"after_run": "exit 1"}))
        .work("hand_over", json!({"max_tries": 1}));
    world.once().expect(1);
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let lines = |file: &str| -> Vec<Value> {
        let file = world.home().join(format!("logs/{file}.{today}"));
        let text = std::fs::read_to_string(file).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let id = world.session("1").id().to_owned();
    let all = lines("vik.log");
    // The first and the last are of the daemon's loop, the others of the attempt's own task.
    for message in ["attempt started", "after_run failed", "attempt ended"] {
        let line = all.iter().find(|line| line["message"] == message);
        let line = line.unwrap_or_else(|| panic!("{message}: {all:?}"));
        let attempt = json!([line["issue"], line["stage"], line["attempt"], line["session"]]);
        assert_eq!(attempt, json!(["1", "work", 1, id]), "{line}");
    }
    let errors = lines("vik-error.log");
    assert_eq!(errors[0]["issue"], "1", "{errors:?}");
    assert_eq!(errors[0]["attempt"], 1, "{errors:?}");
}

#[test]
fn logs_are_daily_with_separate_errors_and_retention() {
    let world = World::new(&[("1", "todo")]).set("/logging", json!({"retention_days": 3}));
    world.once().expect(0);
    let logs = world.home().join("logs");
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let all = std::fs::read_to_string(logs.join(format!("vik.log.{today}"))).unwrap();
    assert_contains(&all, "attempt started");
    assert_contains(&all, "attempt ended");
    assert!(!all.contains('\x1b'));
    let errors = logs.join(format!("vik-error.log.{today}"));
    assert_eq!(std::fs::read_to_string(&errors).unwrap(), "");
    for (name, days) in [
        ("vik.log.2020-01-01", 4),
        ("vik-error.log.2020-01-01", 4),
        ("vik.log.2020-01-02", 2),
    ] {
        let file = std::fs::File::create(logs.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(days * 86_400))
            .unwrap();
    }
    let world = world.set("/issues/pull/command", json!("exit 3"));
    let daemon = world.daemon();
    eventually("old logs are gone", || {
        !logs.join("vik.log.2020-01-01").exists() && !logs.join("vik-error.log.2020-01-01").exists()
    });
    assert!(logs.join("vik.log.2020-01-02").exists());
    eventually("the failed pull is in the error log", || {
        std::fs::read_to_string(&errors)
            .unwrap_or_default()
            .contains("exited with 3")
    });
    daemon.stop();
}

#[test]
fn reused_pid_is_not_mistaken_for_the_daemon() {
    let world = World::new(&[]);
    world.vik(&["run", "-d"]).expect(0);
    let pid = pid_of(&world);
    nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    eventually("it is dead", || !alive(pid));
    // Another process now has the pid of the record.
    let mut bystander = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let info = world.instance().join("instance.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&info).unwrap()).unwrap();
    record["process"]["pid"] = json!(bystander.id());
    std::fs::write(&info, record.to_string()).unwrap();
    let status = world.vik(&["status", "--json"]).expect(4).json();
    assert_eq!(status["state"], "dead");
    world.vik(&["stop"]).expect(4);
    assert!(
        bystander.try_wait().unwrap().is_none(),
        "nothing was done to the bystander"
    );
    world.vik(&["run", "-d"]).expect(0);
    assert_eq!(world.status().unwrap()["state"], "running");
    world.vik(&["stop"]).expect(0);
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn control_socket_is_private() {
    let world = World::new(&[]);
    let daemon = world.daemon();
    let folder = world.instance();
    assert_eq!((mode(&folder), mode(&folder.join("vik.sock"))), (0o700, 0o600));
    assert_eq!(
        (mode(&folder.join("lock")), mode(&folder.join("instance.json"))),
        (0o600, 0o600)
    );
    daemon.stop().expect(0);
    assert!(!folder.join("vik.sock").exists());
}

#[test]
fn control_socket_works_below_a_long_path() {
    let world = World::new(&[]);
    let long = world.env.path("state").join("x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    let vik = |args: &[&str]| {
        let mut command = world.env.vik(args);
        command.env("XDG_STATE_HOME", &long);
        command.env("XDG_RUNTIME_DIR", world.env.path("tmp"));
        world.start_command(command).done()
    };
    vik(&["run", "-d"]).expect(0);
    assert_eq!(vik(&["status", "--json"]).expect(0).json()["state"], "running");
    let folder = list(&world.env.path("tmp/vik")).remove(0);
    assert_eq!((mode(&folder), mode(&folder.join("vik.sock"))), (0o700, 0o600));
    vik(&["stop"]).expect(0);
}

fn ask(world: &World, request: &[u8]) -> String {
    let mut stream = UnixStream::connect(world.instance().join("vik.sock")).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    let _ = BufReader::new(stream).read_line(&mut answer);
    answer
}

#[test]
fn control_socket_refuses_malformed_requests() {
    let world = World::new(&[]);
    let daemon = world.daemon();
    // Clients that send nothing block no other client.
    let _silent: Vec<_> = (0..10)
        .map(|_| UnixStream::connect(world.instance().join("vik.sock")).unwrap())
        .collect();
    let code = |request: &[u8]| -> Value {
        let answer: Value = serde_json::from_str(&ask(&world, request)).unwrap();
        answer["error"]["code"].clone()
    };
    assert_eq!(code(b"nonsense\n"), "bad_request");
    assert_eq!(code(b"{\"v\":1,\"verb\":\"explode\"}\n"), "bad_request");
    assert_eq!(code(b"{\"v\":999,\"verb\":\"stop\"}\n"), "protocol");
    // A request that is not text gets no answer, and does no harm.
    let _ = ask(&world, b"\xff\xfe\n");
    let answer: Value = serde_json::from_str(&ask(&world, b"{\"v\":1,\"verb\":\"status\"}\n")).unwrap();
    assert_eq!(answer["status"]["pid"], daemon.pid());
    daemon.stop().expect(0);
}

#[test]
fn previous_version_shows_the_status_and_stops_the_daemon() {
    let world = World::new(&[("1", "todo")]).script("hang");
    let daemon = world.daemon();
    world.wait_for_status("the agent runs", |status| {
        status["sessions"][0]["phase"] == "running"
    });
    let status: Value = serde_json::from_str(&ask(&world, b"{\"v\":1,\"verb\":\"status\"}\n")).unwrap();
    assert_eq!(status["status"]["sessions"][0]["issue_id"], "1");
    assert_eq!(ask(&world, b"{\"v\":1,\"verb\":\"stop\"}\n"), "\"accepted\"\n");
    daemon.done().expect(0);
    world.env.assert_nothing_left();
}

#[test]
fn agent_may_not_steer_its_own_daemon() {
    let world = World::new(&[("1", "todo")]).script(
        "try vik -w $VIK_WORKFLOW status > status.txt 2>&1
        try vik -w $VIK_WORKFLOW refresh > refresh.txt 2>&1
        try vik -w $VIK_WORKFLOW stop --timeout 1 > stop.txt 2>&1
        try vik -w $VIK_WORKFLOW uninstall --timeout 1 > uninstall.txt 2>&1
        spawn double \"try vik -w $VIK_WORKFLOW stop --timeout 1 > stop2.txt 2>&1; touch asked\"
        wait-file asked; touch all; wait-file go; ok",
    );
    let daemon = world.daemon();
    eventually("the agent asked", || {
        world.sessions("1").len() == 1 && world.workspace("1").join("all").exists()
    });
    let status = world.status().expect("the daemon lives");
    assert_eq!(status["state"], "running");
    for name in ["status", "refresh", "stop", "uninstall", "stop2"] {
        let output = world.workspace_file("1", &format!("{name}.txt"));
        assert!(output.contains("agents must not"), "{name}: {output}");
    }
    assert!(world.instance().join("vik.sock").exists());
    world.go();
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
}

#[test]
fn agent_that_exits_after_its_request_is_refused() {
    // The process that connects exits before its request is read.
    let world = World::new(&[("1", "todo")])
        .script("run sh connect.sh; touch asked; wait-file go; ok")
        .work(
            "hooks/before_run",
            json!("cp \"{{ workflow_dir }}/connect.sh\" \"{{ workflow_dir }}/ask.py\" ."),
        );
    world.env.write(
        "work/connect.sh",
        "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do python3 ask.py; done\n",
    );
    world.env.write(
        "work/ask.py",
        "import glob, os, socket\nos_exit = os._exit\ns = socket.socket(socket.AF_UNIX)\n\
         s.connect(glob.glob(os.environ['XDG_STATE_HOME'] + '/vik/instances/*/vik.sock')[0])\n\
         s.send(b'{\"v\":1,\"verb\":\"stop\"}\\n')\nos_exit(0)\n",
    );
    let daemon = world.daemon();
    eventually("the agent asked", || {
        world.sessions("1").len() == 1 && world.workspace("1").join("asked").exists()
    });
    for _ in 0..3 {
        assert_eq!(world.status().expect("the daemon lives")["state"], "running");
    }
    world.go();
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
}

#[test]
fn agent_that_connects_at_its_start_is_refused() {
    let ids: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    let issues: Vec<_> = ids.iter().map(|id| (id.as_str(), "todo")).collect();
    let ask = "import glob, os, socket\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect(glob.glob(os.environ['XDG_STATE_HOME'] + '/vik/instances/*/vik.sock')[0])\n\
        s.send(b'{\"v\":1,\"verb\":\"status\"}\\n')\n\
        print(s.recv(100000).decode()[:60])\n";
    let world = World::new(&issues).set("/loop", json!({"max_issue_concurrency": 30}));
    world.env.write("work/ask.py", ask);
    let command = json!(["python3", "-SsE", world.env.work().join("ask.py")]);
    let world = world.set("/agents/a/command", command);
    world.once().expect(0);
    for id in &ids {
        let messages = world.session(id).messages();
        assert!(messages[0].contains("agents must not"), "{id}: {messages:?}");
    }
}

#[test]
fn hook_may_query_the_daemon() {
    let world = World::new(&[("1", "todo")]).work(
        "hooks/before_run",
        json!("vik status --workflow {{ workflow_path }} --json > status.json && vik refresh --workflow {{ workflow_path }}"),
    );
    world.once().expect(0);
    let status: Value = serde_json::from_str(&world.workspace_file("1", "status.json")).unwrap();
    assert_eq!(status["sessions"][0]["phase"], "preparing");
}

#[test]
fn status_with_a_closed_pipe_is_no_error() {
    let world = World::new(&[]);
    let daemon = world.daemon();
    let mut child = world
        .env
        .vik(["status", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut text = String::new();
    std::fs::File::open(world.home().join("service/state.json"))
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("running"));
    daemon.stop().expect(0);
}

#[test]
fn home_has_one_daemon_for_any_state_folder() {
    let world = World::new(&[]);
    let daemon = world.daemon();
    let mut command = world.env.vik(["run", "--once"]);
    command.env("XDG_STATE_HOME", world.env.path("another-state"));
    let second = command.output().unwrap();
    assert_eq!(second.status.code(), Some(5), "{second:?}");
    daemon.stop().expect(0);
}
