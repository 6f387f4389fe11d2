//! The environment, streams and descriptors of the agent, and agents that cannot be started.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

#[cfg(target_os = "linux")]
use nix::sys::signal::{Signal, kill};
#[cfg(target_os = "linux")]
use nix::sys::wait::{Id, WaitPidFlag, waitid};
#[cfg(target_os = "linux")]
use nix::unistd::{Pid, getsid};
#[cfg(target_os = "linux")]
use vik_proc::ProcessId;
use vik_proc::{Cause, FileLock, Output, Proof, ShimSpec, SpawnFailureKind as Kind, Stdin, StdoutMode};

use crate::support::*;

#[tokio::test]
async fn agent_gets_exactly_the_spec() {
    gets_exactly_the_spec(&Scene::new()).await;
}

pub(crate) async fn gets_exactly_the_spec(scene: &Scene) {
    write(&scene.path("prompt"), &vec![b'p'; 3_000_000]);
    let mut spec = scene.spec("env fds limit count-stdin");
    spec.open_files = Some(123);
    spec.env.push(("NAME".into(), "a value = with signs".into()));
    spec.stdin = Stdin::File(scene.path("prompt"));
    let lock = FileLock::try_acquire(&scene.path("lock")).unwrap().unwrap();
    let supervised = within(scene.supervisor.spawn(&spec, Some(&lock), StdoutMode::Null))
        .await
        .unwrap();
    let record = scene.end(&supervised).await;
    assert_eq!(
        (record.code, record.signal, record.cause),
        (Some(0), None, Cause::Exited),
        "{record:?}"
    );
    assert_eq!((&record.proof, record.leftovers_killed), (&Proof::Subreaper, 0));
    assert_eq!(record.boot_id, vik_proc::identity::boot_id());
    assert!(record.is_clean() && record.peak_rss_kb.is_some() && record.ended_at_ms >= record.started_at_ms);
    assert_eq!(record.agent, supervised.agent());
    let path = format!("PATH={}", std::env::var("PATH").unwrap());
    let mark = format!("{}={}", scene.mark.name, scene.mark.value);
    assert_eq!(
        scene.out(),
        format!("{path}\nNAME=a value = with signs\n{mark}\n3\n123\n3000000\n")
    );
    for file in ["out", "err", "exit.json"] {
        let mode = std::fs::metadata(scene.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[tokio::test]
async fn lock_is_held_until_the_tree_has_ended() {
    let scene = Scene::new();
    let lock = FileLock::try_acquire(&scene.path("lock")).unwrap().unwrap();
    let supervised = within(scene.supervisor.spawn(
        &scene.spec("ready @up hang"),
        Some(&lock),
        StdoutMode::Null,
    ))
    .await
    .unwrap();
    drop(lock);
    scene.ready("up").await;
    assert!(FileLock::try_acquire(&scene.path("lock")).unwrap().is_none());
    assert!(FileLock::is_locked(&scene.path("lock")).unwrap());
    supervised.stop();
    scene.end(&supervised).await;
    assert!(FileLock::try_acquire(&scene.path("lock")).unwrap().is_some());
}

#[tokio::test]
async fn output_is_appended_and_stderr_can_follow_stdout() {
    let scene = Scene::new();
    write(&scene.path("out"), b"before\n");
    let mut spec = ShimSpec {
        program: "sh".into(),
        ..scene.spec("")
    };
    spec.args = ["-c", "echo one; echo two >&2; echo three"]
        .map(Into::into)
        .to_vec();
    spec.stderr = Output::Stdout;
    scene.end(&scene.start(&spec).await).await;
    assert_eq!(scene.out(), "before\none\ntwo\nthree\n");
}

/// Returns an agent that prints its input as it arrives.
fn echoing(scene: &Scene, mut spec: ShimSpec) -> ShimSpec {
    write(&scene.path("input"), b"first\n");
    spec.program = "cat".into();
    spec.args = Vec::new();
    spec.stdin = Stdin::Follow(scene.path("input"));
    spec
}

fn append_input(scene: &Scene, bytes: &[u8]) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(scene.path("input"))
        .unwrap();
    file.write_all(bytes).unwrap();
}

async fn wait_for_output(scene: &Scene, all: &str) {
    until(all, || scene.out() == all).await;
}

#[tokio::test]
async fn followed_stdin_passes_additions_until_its_end() {
    let scene = Scene::new();
    let supervised = scene.start(&echoing(&scene, scene.spec(""))).await;
    wait_for_output(&scene, "first\n").await;
    append_input(&scene, b"sec");
    wait_for_output(&scene, "first\nsec").await;
    let long = "x".repeat(300_000);
    append_input(&scene, format!("ond\n{long}").as_bytes());
    wait_for_output(&scene, &format!("first\nsecond\n{long}")).await;
    append_input(&scene, b"last\n\0unheard\n");
    let record = scene.end(&supervised).await;
    assert!(record.is_clean(), "{record:?}");
    assert_eq!(scene.out(), format!("first\nsecond\n{long}last\n"));
}

#[tokio::test]
async fn followed_stdin_works_without_a_daemon() {
    let scene = Scene::new();
    let spec = echoing(&scene, scene.spec_with_grace("", LONG));
    let mut first = scene.daemon("daemon", &spec).await;
    first.die();
    append_input(&scene, b"alone\n");
    wait_for_output(&scene, "first\nalone\n").await;
    let _second = scene.daemon("adopt", &spec).await;
    append_input(&scene, b"again\n\0");
    assert!(scene.record().await.is_clean());
    assert_eq!(scene.out(), "first\nalone\nagain\n");
}

#[tokio::test]
async fn followed_stdin_may_be_closed_by_the_agent() {
    let scene = Scene::new();
    let mut spec = echoing(&scene, scene.spec(""));
    spec.program = "sh".into();
    let script = format!("exec <&-; echo > {}; sleep 1000", scene.path("up").display());
    spec.args = vec!["-c".into(), script.into()];
    let supervised = scene.start(&spec).await;
    until("up", || scene.path("up").exists()).await;
    append_input(&scene, b"unread\n");
    supervised.kill();
    assert_eq!(scene.end(&supervised).await.cause, Cause::Killed);
}

#[tokio::test]
async fn agent_may_leave_its_stdin_unread() {
    let scene = Scene::new();
    write(&scene.path("prompt"), &vec![b'p'; 1_000_000]);
    let mut spec = scene.spec("exit 7");
    spec.stdin = Stdin::File(scene.path("prompt"));
    let record = scene.end(&scene.start(&spec).await).await;
    assert_eq!((record.code, record.cause), (Some(7), Cause::Exited));
}

#[tokio::test]
async fn line_of_a_megabyte_reaches_the_file() {
    let scene = Scene::new();
    scene
        .end(&scene.start(&scene.spec("bytes 1048576 say end")).await)
        .await;
    let out = scene.out();
    assert_eq!(out.lines().map(str::len).collect::<Vec<_>>(), [1_048_576, 3]);
}

#[tokio::test]
async fn exit_code_and_signal_are_distinguished() {
    codes_and_signals_are_distinguished(&Scene::new()).await;
}

pub(crate) async fn codes_and_signals_are_distinguished(scene: &Scene) {
    for (args, expected) in [
        ("exit 42", (Some(42), None)),
        // `bwrap` would report SIGKILL with this exit code.
        ("exit 137", (Some(137), None)),
        ("raise SIGUSR1", (None, Some(10))),
        ("raise SIGKILL", (None, Some(9))),
    ] {
        let record = scene.end(&scene.start(&scene.spec(args)).await).await;
        assert_eq!((record.code, record.signal), expected, "{args}: {record:?}");
        assert_eq!(record.cause, Cause::Exited);
    }
}

fn with_program(scene: &Scene, program: impl Into<OsString>) -> ShimSpec {
    ShimSpec {
        program: program.into(),
        ..scene.spec("")
    }
}

/// Writes a file and returns its path.
fn script(scene: &Scene, name: &str, content: &str, mode: u32) -> PathBuf {
    let path = scene.path(name);
    write(&path, content.as_bytes());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

async fn fails_to_start(scene: &Scene, spec: &ShimSpec, kind: Kind) {
    let supervised = scene.start(spec).await;
    assert_eq!(supervised.agent(), None, "{kind:?}");
    let record = scene.end(&supervised).await;
    assert_eq!(
        (record.cause, record.code, record.signal),
        (Cause::SpawnFailed, None, None),
        "{kind:?}"
    );
    let failure = record.spawn_error.unwrap();
    assert_eq!(failure.kind, kind, "{}", failure.message);
}

/// Checks the failures that also an agent in namespaces can have.
pub(crate) async fn start_failures_give_their_reason(scene: &Scene) {
    let script = |name: &str, content: &str, mode: u32| script(scene, name, content, mode).into_os_string();
    for (program, kind) in [
        ("no-such-program-on-path".into(), Kind::NotFound),
        (scene.path("no-such-program").into_os_string(), Kind::NotFound),
        (script("plain", "#!/bin/sh\n", 0o644), Kind::PermissionDenied),
        (
            script("lost", "#!/no/such/interpreter\n", 0o755),
            Kind::InterpreterNotFound,
        ),
        (script("data", "no program\n", 0o755), Kind::NotExecutable),
    ] {
        fails_to_start(scene, &with_program(scene, program), kind).await;
    }
    let mut bad_cwd = scene.spec("exit 0");
    bad_cwd.cwd = scene.path("no/such");
    fails_to_start(scene, &bad_cwd, Kind::BadCwd).await;
}

#[tokio::test]
async fn start_failure_gives_its_reason() {
    let scene = Scene::new();
    start_failures_give_their_reason(&scene).await;
    let mut bad_stdin = scene.spec("exit 0");
    bad_stdin.stdin = Stdin::File(scene.path("no-prompt"));
    let mut bad_output = scene.spec("exit 0");
    bad_output.stdout = Output::Append(scene.path("no/such/out"));
    let mut too_big = scene.spec("exit 0");
    too_big.args.push("x".repeat(3_000_000).into());
    let mut hostile_path = with_program(&scene, "tool");
    script(&scene, "tool", "#!/bin/sh\n", 0o755);
    hostile_path.env = vec![("PATH".into(), ".::bin:/nonexistent".into())];
    for (spec, kind) in [
        (hostile_path, Kind::NotFound),
        (with_program(&scene, scene.folder.path()), Kind::PermissionDenied),
        (bad_stdin, Kind::BadStdin),
        (bad_output, Kind::BadOutput),
        (too_big, Kind::TooBig),
    ] {
        fails_to_start(&scene, &spec, kind).await;
    }
}

/// Returns the template of the scene's supervisor.
#[cfg(target_os = "linux")]
fn template_of(scene: &Scene) -> Option<ProcessId> {
    let marked = vik_proc::sweep(&scene.shim_mark().name, &scene.shim_mark().value, &[]);
    let is_template = |shim: &ProcessId| {
        let arguments = std::fs::read(format!("/proc/{}/cmdline", shim.pid)).unwrap_or_default();
        let is_template = arguments.windows(8).any(|part| part == b"template");
        is_template && getsid(Some(Pid::from_raw(shim.pid))) == getsid(None)
    };
    marked.into_iter().find(is_template)
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn template_forks_children_of_the_daemon_in_sessions_of_their_own() {
    let mut scene = Scene::new();
    scene.supervisor = scene.supervisor.clone().mark_shims(&scene.shim_mark());
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(scene.start(&scene.spec("hang")).await);
    }
    let template = template_of(&scene).unwrap();
    let me = i32::try_from(std::process::id()).unwrap();
    for supervised in &running {
        let shim = supervised.shim().pid;
        let stat = std::fs::read_to_string(format!("/proc/{shim}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        assert_eq!((fields[1], fields[3]), (&*me.to_string(), &*shim.to_string()));
        let name = std::fs::read_to_string(format!("/proc/{shim}/comm")).unwrap();
        assert_eq!(name, "vik-shim\n");
        // Beside the standard streams: the status pipe, signals, the load and what it opened itself.
        let open = std::fs::read_dir(format!("/proc/{shim}/fd")).unwrap().flatten();
        let sockets = open.filter(|fd| {
            std::fs::read_link(fd.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket"))
        });
        assert_eq!(sockets.count(), 0, "a shim has no connection of the template");
    }
    for supervised in &running {
        supervised.stop();
        assert_eq!(within(supervised.wait()).await.unwrap().cause, Cause::Stopped);
    }
    assert!(template.is_alive());
    scene.supervisor = Scene::new().supervisor.clone();
    assert!(!template.is_alive());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn killed_template_is_replaced() {
    let mut scene = Scene::new();
    scene.supervisor = scene.supervisor.clone().mark_shims(&scene.shim_mark());
    let mut templates = Vec::new();
    for _ in 0..3 {
        // The first start has no template, and the one after a kill notices that it is gone.
        for _ in 0..3 {
            let supervised = scene.start(&scene.spec("exit 3")).await;
            assert_eq!(scene.end(&supervised).await.code, Some(3));
        }
        let template = template_of(&scene).unwrap();
        assert!(!templates.contains(&template));
        templates.push(template);
        kill(Pid::from_raw(template.pid), Signal::SIGKILL).unwrap();
        let zombie = Id::Pid(Pid::from_raw(template.pid));
        waitid(zombie, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
    }
}

#[tokio::test]
async fn missing_shim_is_a_spawn_error() {
    let supervisor = vik_proc::Supervisor::new("/no/such/shim", []).unwrap();
    let error = supervisor
        .spawn(&ShimSpec::new("true", "/"), None, Default::default())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "cannot start the shim /no/such/shim");
}

#[tokio::test]
async fn unwritable_exit_record_does_not_lose_the_result() {
    let scene = Scene::new();
    let mut spec = scene.spec("exit 3");
    spec.exit_record = Some(scene.path("no/such/folder/exit.json"));
    let record = within(scene.start(&spec).await.wait()).await.unwrap();
    assert_eq!(record.code, Some(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_agents_start_at_once() {
    let scene = std::sync::Arc::new(Scene::new());
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let scene = scene.clone();
        tasks.spawn(async move {
            let mut spec = scene.spec(&format!("exit {number}"));
            spec.exit_record = Some(scene.path(&format!("exit-{number}.json")));
            spec.census = None;
            let record = within(scene.start(&spec).await.wait()).await.unwrap();
            assert_eq!((record.code, record.proof), (Some(number), Proof::Subreaper));
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    scene.assert_nothing_left();
}
